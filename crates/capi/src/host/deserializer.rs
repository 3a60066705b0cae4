//! Single deserializers, for hosts that compose, randomize and pack by themselves.

use crate::call::{call, given, guard_silently, outputs};
use crate::error::cntk_reader_error;
use crate::host::chunk::cntk_reader_chunk;
use crate::host::corpus::{self, cntk_reader_corpus};
use crate::host::section::cntk_reader_section;
use crate::sized::{self, Sized, SizedOutput};
use crate::status::cntk_reader_status;
use crate::stream::{Stream, cntk_reader_stream_info};
use crate::text;
use crate::user_sequence::cntk_reader_sequence_info;
use ::cntk_reader::language::{self, Section};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::check;
use cntk_reader_core::format::loading::Loads;
use cntk_reader_core::format::options::{Context, Format};
use cntk_reader_core::format::{AnyDeserializer, ChunkSource, Deserializer, InFrameMode};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::fork::Process;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::{SequenceId, SequenceInfo};
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::compose::bundle::frame_mode;
use cntk_reader_engine::compose::frames::Frames;
use cntk_reader_images::source;
use cntk_reader_text::cbf;
use cntk_reader_text::ctf;
use std::ffi::c_char;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::sync::Arc;

/// A source of sequences: its streams, its list of chunks, and their data. Open it with
/// cntk_reader_deserializer_open, free it with cntk_reader_deserializer_free.
///
/// Threads: may be shared; any thread may load any chunk. Fork: belongs to the process that opened
/// it.
pub struct cntk_reader_deserializer {
    process: Process,
    pool: Pool,
    streams: Arc<[Stream]>,
    deserializer: ManuallyDrop<Arc<dyn Deserializer>>,
}

/// Description of a deserializer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_deserializer_info {
    /// sizeof(cntk_reader_deserializer_info), set by the caller.
    pub struct_size: usize,
    /// Number of streams.
    pub stream_count: usize,
    /// Number of chunks.
    pub chunk_count: usize,
    /// 1 if each sequence has a single sample, which stands for every sample of the sequence with
    /// the same key in the reader's first stream (`expandToUtterance`).
    pub is_expanded: u32,
    /// Reserved; 0.
    pub reserved: u32,
}

// SAFETY: `repr(C)`, and all members are integers, for which zero is valid; the first is a `usize`.
unsafe impl Sized for cntk_reader_deserializer_info {
    const NAME: &'static str = "cntk_reader_deserializer_info";
}

/// Size of a chunk.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_chunk_info {
    /// sizeof(cntk_reader_chunk_info), set by the caller.
    pub struct_size: usize,
    /// Samples in all its sequences.
    pub samples: u64,
    /// Number of its sequences.
    pub sequences: u64,
}

// SAFETY: `repr(C)`, and all members are integers, for which zero is valid; the first is a `usize`.
unsafe impl Sized for cntk_reader_chunk_info {
    const NAME: &'static str = "cntk_reader_chunk_info";
}

impl cntk_reader_deserializer {
    fn open(name: &str, section: &Section, corpus: &Arc<Corpus>, is_primary: bool) -> Result<Self> {
        let process = Process::current();
        let pool = Pool::shared()?;
        let opened: Arc<dyn Deserializer> =
            pool.install(|| open_by_type(name, section, corpus, is_primary))?;
        let streams = opened.streams().iter().map(Stream::new).collect();
        Ok(cntk_reader_deserializer { process, pool, streams, deserializer: ManuallyDrop::new(opened) })
    }

    fn stream(&self, index: usize) -> Result<cntk_reader_stream_info> {
        let stream = self.streams.get(index).ok_or_else(|| {
            let count = self.streams.len();
            Error::argument(format!("There is no stream {index}: the deserializer has {count}."))
        })?;
        Ok(stream.describe(index, &stream.info.shape))
    }

    fn load(&self, chunk: u32) -> Result<*mut cntk_reader_chunk> {
        let sequences = self.chunk(chunk)?.sequences;
        let source = Arc::clone(self.here()?) as Arc<dyn ChunkSource>;
        let data = Loads::of_this_call(source, self.pool.clone()).load(chunk)?;
        data.errors().commit()?;
        Ok(cntk_reader_chunk::hand_out(data, Arc::clone(&self.streams), sequences))
    }

    /// Returns the deserializer if this process may use it.
    fn here(&self) -> Result<&Arc<dyn Deserializer>> {
        if self.process.is_current() {
            return Ok(&self.deserializer);
        }
        Err(Error::state("The deserializer was opened before a fork: open another one in this process."))
    }

    fn chunk(&self, chunk: u32) -> Result<&cntk_reader_core::format::ChunkInfo> {
        let chunks = self.here()?.chunks();
        chunks.get(chunk as usize).ok_or_else(|| {
            Error::argument(format!("There is no chunk {chunk}: the deserializer has {}.", chunks.len()))
        })
    }

    /// Lists the sequences of a chunk.
    fn list(&self, chunk: u32) -> Result<Vec<SequenceInfo>> {
        let mut listed = room::with_capacity(self.chunk(chunk)?.sequences as usize, room::INDEX)?;
        self.deserializer.list(chunk, &mut listed)?;
        Ok(listed)
    }

    /// Finds the sequence that belongs to a sequence of another deserializer.
    fn matching(&self, of: &SequenceInfo) -> Result<Option<SequenceInfo>> {
        let deserializer = self.here()?;
        // Reports a lack of memory for the sorted keys, without which nothing would be found.
        deserializer.prepare_to_find()?;
        let found = deserializer.matching(of)?;
        Ok(found.map(|(id, samples)| SequenceInfo { id, samples, ..*of }))
    }
}

impl Drop for cntk_reader_deserializer {
    fn drop(&mut self) {
        if self.process.is_current() {
            // SAFETY: `drop` runs once, nothing else drops the field, and nothing uses it
            // afterwards.
            unsafe { ManuallyDrop::drop(&mut self.deserializer) };
        }
    }
}

/// Opens one of the library's deserializers. [`language::text_deserializer`] refuses unknown types
/// in CNTK's words.
fn open_by_type(
    name: &str,
    section: &Section,
    corpus: &Arc<Corpus>,
    is_primary: bool,
) -> Result<Arc<dyn Deserializer>> {
    Ok(match name {
        "CNTKBinaryFormatDeserializer" => {
            cbf::open_files(&language::binary_deserializer(section, name)?, corpus, false)?
        }
        "HTKFeatureDeserializer"
        | "HTKMLFDeserializer"
        | "HTKMLFBinaryDeserializer"
        | "LatticeDeserializer" => {
            let options = language::speech_deserializer(section, name, is_primary, corpus.is_hashed())?;
            open_speech(&*options, corpus, is_primary)?
        }
        "ImageDeserializer" | "Base64ImageDeserializer" => {
            let images = source::open(&language::image_deserializer(section, name)?, &[], corpus)?;
            check::log_remarks(&*images);
            images
        }
        _ => ctf::open_files(&language::text_deserializer(section, name)?, corpus, false, None)?,
    })
}

/// Opens a speech deserializer. In frame mode it lists frames, unless each frame gets the whole
/// sequence.
fn open_speech(format: &dyn Format, corpus: &Arc<Corpus>, is_primary: bool) -> Result<Arc<dyn Deserializer>> {
    let pool = Pool::shared()?;
    let AnyDeserializer::Known(opened) = format.open(Context::alone(corpus, &pool, is_primary))?.deserializer
    else {
        return Err(Error::internal("A speech deserializer must list its utterances in advance."));
    };
    let takes_frames = format.facts().frame_mode;
    if takes_frames && frame_mode(&*opened) != InFrameMode::Whole {
        return Ok(Arc::new(Frames::new(opened, corpus)?));
    }
    Ok(opened)
}

/// Opens a deserializer of this library, and opens and indexes its file. `section` is an element of
/// `deserializers` with the keys that CNTK's composite reader adds to it. `corpus` may be NULL:
/// keys are numbers.
///
/// `type_name` (`type_length` bytes, or CNTK_READER_NUL_TERMINATED) is one of:
///
/// - "CNTKTextFormatDeserializer";
/// - "CNTKBinaryFormatDeserializer", whose keys are the ordinals of sequences in the file;
/// - for speech "HTKFeatureDeserializer", "HTKMLFDeserializer", "HTKMLFBinaryDeserializer" or
///   "LatticeDeserializer", whose chunks are read with cntk_reader_chunk_decode_sequence;
/// - for images "ImageDeserializer" or "Base64ImageDeserializer", whose chunks are read with
///   cntk_reader_chunk_fetch_sequence.
///
/// If `frameMode` is true, features and labels of speech list each frame as a sequence. Images are
/// not transformed; use cntk_reader_transform_apply.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_deserializer_open(
    type_name: *const c_char,
    type_length: usize,
    section: Option<&cntk_reader_section>,
    corpus: *const cntk_reader_corpus,
    deserializer: Option<&mut MaybeUninit<*mut cntk_reader_deserializer>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (cntk_reader_section(section), place) =
            (given(section, "section")?, given(deserializer, "deserializer")?);
        // SAFETY: `type_name` is NULL, which `utf8` refuses, or has `type_length` bytes or ends
        // with a NUL.
        let name = unsafe { text::utf8(type_name, type_length, "type_name") }?;
        let settings = match corpus.is_null() {
            true => corpus::INITIAL,
            // SAFETY: not NULL by the arm above, hence the caller's struct with its size in the
            // first member.
            false => unsafe { sized::read(corpus, corpus::INITIAL) }?,
        };
        let is_primary = settings.is_primary != 0;
        let opened = cntk_reader_deserializer::open(name, section, &Arc::new(settings.into()), is_primary)?;
        place.write(Box::into_raw(Box::new(opened)));
        Ok(())
    })
}

/// Frees a deserializer. NULL is allowed. Its chunks stay valid. In the child of a fork no memory
/// is freed.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_deserializer_free(deserializer: Option<Box<cntk_reader_deserializer>>) {
    guard_silently(|| drop(deserializer));
}

/// Describes a deserializer. `info->struct_size` must be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_deserializer_describe(
    deserializer: Option<&cntk_reader_deserializer>,
    info: *mut cntk_reader_deserializer_info,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let deserializer = given(deserializer, "deserializer")?;
        // SAFETY: `info` is NULL, which `new` refuses, or the caller's struct with its size in the
        // first member.
        unsafe { SizedOutput::new(info) }?.set(cntk_reader_deserializer_info {
            struct_size: 0,
            stream_count: deserializer.streams.len(),
            chunk_count: deserializer.here()?.chunks().len(),
            is_expanded: deserializer.deserializer.sequence_facts().is_expanded.into(),
            reserved: 0,
        });
        Ok(())
    })
}

/// Describes stream `index`, counted from 0. `info->struct_size` must be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_deserializer_describe_stream(
    deserializer: Option<&cntk_reader_deserializer>,
    index: usize,
    info: *mut cntk_reader_stream_info,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let deserializer = given(deserializer, "deserializer")?;
        // SAFETY: `info` is NULL, which `new` refuses, or the caller's struct with its size in the
        // first member.
        unsafe { SizedOutput::new(info) }?.set(deserializer.stream(index)?);
        Ok(())
    })
}

/// Describes chunk `chunk`, counted from 0. `info->struct_size` must be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_deserializer_describe_chunk(
    deserializer: Option<&cntk_reader_deserializer>,
    chunk: u32,
    info: *mut cntk_reader_chunk_info,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let chunk = given(deserializer, "deserializer")?.chunk(chunk)?;
        // SAFETY: `info` is NULL, which `new` refuses, or the caller's struct with its size in the
        // first member.
        unsafe { SizedOutput::new(info) }?.set(cntk_reader_chunk_info {
            struct_size: 0,
            samples: chunk.samples,
            sequences: chunk.sequences.into(),
        });
        Ok(())
    })
}

/// Lists the sequences of a chunk in the order of the data: writes the first `capacity` of them,
/// and their total number to `count`. `sequences` may be NULL if `capacity` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_deserializer_list_sequences(
    deserializer: Option<&cntk_reader_deserializer>,
    chunk: u32,
    sequences: *mut cntk_reader_sequence_info,
    capacity: usize,
    count: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (deserializer, count) = (given(deserializer, "deserializer")?, given(count, "count")?);
        // SAFETY: `sequences` is NULL, which `outputs` refuses unless `capacity` is 0, or has room
        // for `capacity` elements.
        let places = unsafe { outputs(sequences, capacity, "sequences") }?;
        if places.is_empty() {
            count.write(deserializer.chunk(chunk)?.sequences as usize);
            return Ok(());
        }
        let listed = deserializer.list(chunk)?;
        count.write(listed.len());
        for (place, info) in places.iter_mut().zip(listed) {
            place.write(info.into());
        }
        Ok(())
    })
}

/// Finds the first sequence with a key. Sets `found` to 1 and writes the sequence, or sets `found`
/// to 0.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_deserializer_find_sequence(
    deserializer: Option<&cntk_reader_deserializer>,
    key: u64,
    found: Option<&mut MaybeUninit<u32>>,
    sequence: Option<&mut MaybeUninit<cntk_reader_sequence_info>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let deserializer = given(deserializer, "deserializer")?;
        let (found, sequence) = (given(found, "found")?, given(sequence, "sequence")?);
        let none = SequenceId { chunk: 0, index: 0 };
        let of = SequenceInfo { id: none, samples: 0, key, sample: 0 };
        let info = deserializer.matching(&of)?;
        if let Some(info) = info {
            sequence.write(info.into());
        }
        found.write(info.is_some().into());
        Ok(())
    })
}

/// Finds the sequence that belongs to `of`, a sequence of the reader's first deserializer: the
/// first one with its key or, in frame mode, the frame of that sequence with the same number. Sets
/// `found` to 1 and writes the sequence, or sets `found` to 0. A frame past the end of labels is
/// found, but has an index that no sequence of the chunk has, and is invalid. A frame past the end
/// of features is an error.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_deserializer_match_sequence(
    deserializer: Option<&cntk_reader_deserializer>,
    of: Option<&cntk_reader_sequence_info>,
    found: Option<&mut MaybeUninit<u32>>,
    sequence: Option<&mut MaybeUninit<cntk_reader_sequence_info>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (deserializer, of) = (given(deserializer, "deserializer")?, given(of, "of")?);
        let (found, sequence) = (given(found, "found")?, given(sequence, "sequence")?);
        let info = deserializer.matching(&(*of).into())?;
        if let Some(info) = info {
            sequence.write(info.into());
        }
        found.write(info.is_some().into());
        Ok(())
    })
}

/// Loads a chunk; the caller frees it with cntk_reader_chunk_free. Errors in the data count against
/// the deserializer's limit in the order of these calls.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_deserializer_load_chunk(
    deserializer: Option<&cntk_reader_deserializer>,
    chunk: u32,
    loaded: Option<&mut MaybeUninit<*mut cntk_reader_chunk>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (deserializer, loaded) = (given(deserializer, "deserializer")?, given(loaded, "loaded")?);
        loaded.write(deserializer.load(chunk)?);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::chunk::*;
    use crate::host::section::*;
    use cntk_reader_core::ErrorKind;
    use std::ffi::c_void;

    fn section(entries: &[(&str, &str)]) -> Box<cntk_reader_section> {
        let entries: Vec<_> =
            entries.iter().map(|(key, text)| cntk_reader_section_entry::new(key, text, false)).collect();
        let mut section = MaybeUninit::uninit();
        // SAFETY: a NUL-terminated string, and a slice with its length; on success the result is a
        // pointer from `Box::into_raw`.
        unsafe {
            let status = cntk_reader_section_create(
                c"unknown".as_ptr(),
                usize::MAX,
                entries.as_ptr(),
                entries.len(),
                None,
                Some(&mut section),
                None,
            );
            assert_eq!(status, cntk_reader_status::CNTK_READER_STATUS_OK);
            Box::from_raw(section.assume_init())
        }
    }

    fn open(
        section: &cntk_reader_section,
        corpus: &cntk_reader_corpus,
    ) -> Option<Box<cntk_reader_deserializer>> {
        let mut opened = MaybeUninit::uninit();
        let name = c"CNTKTextFormatDeserializer".as_ptr();
        // SAFETY: a NUL-terminated string, and a struct with its size; on success the result is a
        // pointer from `Box::into_raw`.
        unsafe {
            let status = cntk_reader_deserializer_open(
                name,
                usize::MAX,
                Some(section),
                corpus,
                Some(&mut opened),
                None,
            );
            (status == cntk_reader_status::CNTK_READER_STATUS_OK).then(|| Box::from_raw(opened.assume_init()))
        }
    }

    fn file(content: &str) -> (tempfile::TempDir, Box<cntk_reader_section>) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("data.ctf");
        std::fs::write(&file, content).expect("a file");
        let input = "[ x = [ dim = 1 ; format = dense ] ; y = [ dim = 9 ; format = sparse ] ]";
        let section = section(&[("file", file.to_str().expect("UTF-8")), ("input", input)]);
        (folder, section)
    }

    /// The index of the sequence with a key.
    fn find(deserializer: &cntk_reader_deserializer, key: u64) -> Option<u64> {
        let (mut found, mut sequence) = (MaybeUninit::new(2), MaybeUninit::uninit());
        let (place, flag) = (Some(&mut sequence), Some(&mut found));
        let status = cntk_reader_deserializer_find_sequence(Some(deserializer), key, flag, place, None);
        assert_eq!(status, cntk_reader_status::CNTK_READER_STATUS_OK);
        // SAFETY: `found` is initialized above, and the call writes the sequence if it found one.
        unsafe {
            match found.assume_init() {
                0 => None,
                _ => Some(sequence.assume_init().index.into()),
            }
        }
    }

    fn corpus() -> cntk_reader_corpus {
        cntk_reader_corpus { struct_size: size_of::<cntk_reader_corpus>(), ..corpus::INITIAL }
    }

    #[test]
    fn sequences_are_found_and_loaded() {
        let (_folder, section) = file("7 |x 1 |y 3:5\n7 |x 2\n9 |x 4 |y 1:1 8:2\n");
        let deserializer = open(&section, &corpus()).expect("a deserializer");
        let info = deserializer.list(0).expect("a chunk")[1];
        assert_eq!((info.id, info.samples, info.key), (SequenceId { chunk: 0, index: 1 }, 1, 9));
        assert_eq!(deserializer.matching(&info).expect("here").expect("a sequence").id.index, 1);
        assert_eq!([7, 8, 9].map(|key| find(&deserializer, key)), [Some(0), None, Some(1)]);
        let loaded = deserializer.load(0).expect("a chunk");
        // SAFETY: a pointer from `Box::into_raw`, used once.
        let loaded = unsafe { Box::from_raw(loaded) };
        drop(deserializer);
        let mut view = std::mem::MaybeUninit::<cntk_reader_sequence>::zeroed();
        // SAFETY: zeros are valid for this struct; the chunk outlives the deserializer, as the
        // header promises.
        unsafe {
            (*view.as_mut_ptr()).struct_size = size_of::<cntk_reader_sequence>();
            let status = cntk_reader_chunk_get_sequence(Some(&loaded), 1, 1, view.as_mut_ptr(), None);
            assert_eq!(status, cntk_reader_status::CNTK_READER_STATUS_OK);
            let view = view.assume_init();
            assert_eq!((view.samples, view.value_count), (1, 2));
            assert_eq!(view.values.cast::<f32>().add(1).read_unaligned(), 2.0);
            assert_eq!(view.indices.add(1).read_unaligned(), 8);
            assert_eq!(view.sample_offsets.add(1).read() - view.sample_offsets.read(), 2);
        }
        cntk_reader_chunk_free(Some(loaded));
    }

    unsafe extern "C-unwind" fn number(
        userdata: *mut c_void,
        text: *const c_char,
        length: usize,
        out: *mut u64,
    ) -> i32 {
        // SAFETY: the test passes a `Vec` of keys as userdata, and the library valid pointers
        // otherwise.
        unsafe {
            let seen = &mut *userdata.cast::<Vec<Vec<u8>>>();
            let key = std::slice::from_raw_parts(text.cast::<u8>(), length).to_vec();
            if key == b"bad" {
                return 1;
            }
            let place = seen.iter().position(|known| *known == key);
            out.write(100 + place.unwrap_or(seen.len()) as u64);
            if place.is_none() {
                seen.push(key);
            }
            0
        }
    }

    #[test]
    fn host_numbers_textual_keys() {
        let mut seen: Vec<Vec<u8>> = Vec::new();
        let corpus = cntk_reader_corpus {
            numeric_keys: 0,
            userdata: (&raw mut seen).cast(),
            number: Some(number),
            ..corpus()
        };
        let (_folder, section) = file("b |x 1\na |x 2\nc |x 3\n");
        let deserializer = open(&section, &corpus).expect("a deserializer");
        for (key, index) in [(100, 0), (101, 1), (102, 2)] {
            let found = deserializer.here().expect("here").find(key);
            assert_eq!(found, Some(SequenceId { chunk: 0, index }), "{key}");
        }
        assert_eq!(seen, [b"b", b"a", b"c"]);
        let (_folder, section) = file("b |x 1\nbad |x 2\n");
        assert!(open(&section, &corpus).is_none(), "a key that the host refuses");
    }

    #[test]
    fn missing_chunk_is_an_error() {
        let (_folder, section) = file("7 |x 1 |y 3:5\n");
        let deserializer = open(&section, &corpus()).expect("a deserializer");
        let kind = deserializer.chunk(1).map(|_| ()).map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::InvalidArgument));
    }
}
