//! Deserializers on their own, for hosts that compose, randomize and pack themselves.

use super::call::{Output, guard, guard_silently, input};
use super::chunk::cntk_reader_chunk;
use super::error::cntk_reader_error;
use super::section::cntk_reader_section;
use super::sized::{self, Sized, SizedOutput};
use super::status::cntk_reader_status;
use super::stream::{Stream, cntk_reader_stream_info};
use super::text;
use crate::config::{self, Section};
use crate::corpus::Corpus;
use crate::deserialize::binary::BinaryDeserializer;
use crate::deserialize::{Deserializer, text::TextDeserializer};
use crate::fork::Process;
use crate::pool::Pool;
use crate::sequence::SequenceId;
use crate::{Error, Result};
use std::ffi::{c_char, c_void};
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// A source of sequences: streams, a table of chunks, and the chunks' data. Open it with
/// cntk_reader_open_text_deserializer or cntk_reader_open_binary_deserializer, destroy it with cntk_reader_deserializer_free.
///
/// Threads: may be shared; any thread may load any chunk. Fork: belongs to the process that opened it.
pub struct cntk_reader_deserializer {
    process: Process,
    pool: Pool,
    streams: Arc<[Stream]>,
    deserializer: ManuallyDrop<Arc<dyn Deserializer>>,
}

/// Numbers a textual sequence key (`length` bytes): writes the number and returns 0, or returns something else if that
/// is impossible. Called while the deserializer is opened, from one thread at a time, in order of first appearance.
pub type cntk_reader_number_key = Option<
    unsafe extern "C" fn(userdata: *mut c_void, text: *const c_char, length: usize, number: *mut u64) -> i32,
>;

/// How sequence keys become numbers. Initialize with CNTK_READER_CORPUS_INIT: keys are numbers.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_corpus {
    /// sizeof(cntk_reader_corpus).
    pub struct_size: usize,
    /// 1 if keys are numbers in the data.
    pub numeric_keys: u32,
    /// 1 if textual keys are numbered by CNTK's hash of them.
    pub hash_keys: u32,
    /// What `number` is called with. It must stay valid as long as the deserializer.
    pub userdata: *mut c_void,
    /// Numbers textual keys; NULL: in order of first appearance.
    pub number: cntk_reader_number_key,
}

// SAFETY: integers, a pointer and a nullable function pointer.
unsafe impl Sized for cntk_reader_corpus {
    const NAME: &'static str = "cntk_reader_corpus";
}

/// Size of a chunk.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_chunk_info {
    /// sizeof(cntk_reader_chunk_info), set by the caller.
    pub struct_size: usize,
    /// Samples of all its sequences.
    pub samples: u64,
    /// Number of its sequences.
    pub sequences: u64,
}

// SAFETY: nothing but integers.
unsafe impl Sized for cntk_reader_chunk_info {
    const NAME: &'static str = "cntk_reader_chunk_info";
}

/// Where a sequence is, how long, and what its key is.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_sequence_info {
    /// Its chunk.
    pub chunk: u32,
    /// Its number within the chunk.
    pub index: u32,
    /// Its length in samples.
    pub samples: u32,
    /// Which sample of its key's sequence it is, where each sample of a sequence stands as a sequence of its own; else 0.
    pub sample: u32,
    /// Its key as a number.
    pub key: u64,
}

struct Userdata {
    pointer: *mut c_void,
    number: unsafe extern "C" fn(*mut c_void, *const c_char, usize, *mut u64) -> i32,
}

// SAFETY: the header promises calls from one thread at a time, and demands userdata that lives as long as this.
unsafe impl Send for Userdata {}
// SAFETY: as above.
unsafe impl Sync for Userdata {}

impl Userdata {
    fn number(&self, key: &[u8]) -> Option<u64> {
        let mut number = 0;
        // SAFETY: the caller registered this function with this userdata for this use.
        let status = unsafe { (self.number)(self.pointer, key.as_ptr().cast(), key.len(), &raw mut number) };
        (status == 0).then_some(number)
    }
}

impl From<cntk_reader_corpus> for Corpus {
    fn from(corpus: cntk_reader_corpus) -> Self {
        match (corpus.numeric_keys != 0, corpus.hash_keys != 0, corpus.number) {
            (true, _, _) => Corpus::Numeric,
            (_, true, _) => Corpus::Hashed,
            (_, _, None) => Corpus::symbolic(),
            (_, _, Some(number)) => {
                let userdata = Userdata { pointer: corpus.userdata, number };
                Corpus::Host(Box::new(move |key| userdata.number(key)))
            }
        }
    }
}

impl cntk_reader_deserializer {
    /// The deserializer, if this process may use it.
    fn here(&self) -> Result<&Arc<dyn Deserializer>> {
        if self.process.is_current() {
            return Ok(&self.deserializer);
        }
        Err(Error::state("The deserializer was opened before a fork: open another one in this process."))
    }

    fn chunk(&self, chunk: u32) -> Result<&crate::deserialize::ChunkInfo> {
        let chunks = self.here()?.chunks();
        chunks.get(chunk as usize).ok_or_else(|| {
            Error::argument(format!("There is no chunk {chunk}: the deserializer has {}.", chunks.len()))
        })
    }

    fn sequence(&self, id: SequenceId, keys: &mut Vec<u64>) -> cntk_reader_sequence_info {
        keys.clear();
        self.deserializer.keys(&[id], keys);
        cntk_reader_sequence_info {
            chunk: id.chunk,
            index: id.index,
            samples: self.deserializer.lengths(id.chunk).get(id.index),
            sample: 0,
            key: keys.first().copied().unwrap_or_default(),
        }
    }
}

impl Drop for cntk_reader_deserializer {
    fn drop(&mut self) {
        if self.process.is_current() {
            // SAFETY: not used again; this is the only place that drops it.
            unsafe { ManuallyDrop::drop(&mut self.deserializer) };
        }
    }
}

/// Opens a deserializer of the text module from its section, an element of `deserializers` with the keys that CNTK's
/// composite reader adds to it. `name` is its type ("CNTKTextFormatDeserializer"; `length` bytes, or
/// CNTK_READER_NUL_TERMINATED); `corpus` may be NULL: keys are numbers. Indexes the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_open_text_deserializer(
    name: *const c_char,
    length: usize,
    section: *const cntk_reader_section,
    corpus: *const cntk_reader_corpus,
    deserializer: *mut *mut cntk_reader_deserializer,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            open(name, length, section, corpus, deserializer, |section, name, corpus| {
                let options = config::text_deserializer(section, name)?;
                Ok(Arc::new(TextDeserializer::open(&options, corpus)?))
            })
        })
    }
}

/// Opens a deserializer of the binary module, as cntk_reader_open_text_deserializer does for text. Its type is
/// "CNTKBinaryFormatDeserializer", and keys have to be numbers: those of sequences are their ordinals in the file. Reads
/// the file's tables. Since ABI 2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_open_binary_deserializer(
    name: *const c_char,
    length: usize,
    section: *const cntk_reader_section,
    corpus: *const cntk_reader_corpus,
    deserializer: *mut *mut cntk_reader_deserializer,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            open(name, length, section, corpus, deserializer, |section, name, corpus| {
                let options = config::binary_deserializer(section, name)?;
                Ok(Arc::new(BinaryDeserializer::open(&options, corpus)?))
            })
        })
    }
}

/// What opening has in common: `work` makes the deserializer from section, type and corpus, on the library's pool.
///
/// # Safety
/// As the header states it for the functions that open.
unsafe fn open(
    name: *const c_char,
    length: usize,
    section: *const cntk_reader_section,
    corpus: *const cntk_reader_corpus,
    deserializer: *mut *mut cntk_reader_deserializer,
    work: impl FnOnce(&Section, &str, &Arc<Corpus>) -> Result<Arc<dyn Deserializer>> + Send,
) -> Result<()> {
    // SAFETY: the same contract.
    let (name, section, output, corpus) = unsafe {
        let name = text::utf8(name, length, "name")?;
        let cntk_reader_section(section) = input(section, "section")?;
        let output = Output::new(deserializer, "deserializer")?;
        let corpus = match corpus.is_null() {
            true => Corpus::Numeric,
            false => sized::read(corpus, CORPUS)?.into(),
        };
        (name, section, output, Arc::new(corpus))
    };
    let process = Process::current();
    let pool = Pool::shared()?;
    let opened = pool.install(|| work(section, name, &corpus))?;
    let streams = opened.streams().iter().map(Stream::new).collect();
    let deserializer = ManuallyDrop::new(opened);
    output.set(Box::into_raw(Box::new(cntk_reader_deserializer { process, pool, streams, deserializer })));
    Ok(())
}

const CORPUS: cntk_reader_corpus = cntk_reader_corpus {
    struct_size: 0,
    numeric_keys: 1,
    hash_keys: 0,
    userdata: std::ptr::null_mut(),
    number: None,
};

/// Destroys a deserializer. NULL is allowed. Chunks that came from it stay valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_deserializer_free(deserializer: *mut cntk_reader_deserializer) {
    if !deserializer.is_null() {
        // SAFETY: the caller gives up its ownership, which was passed out by `Box::into_raw`.
        guard_silently(|| drop(unsafe { Box::from_raw(deserializer) }));
    }
}

/// Gives the numbers of streams and of chunks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_deserializer_describe(
    deserializer: *const cntk_reader_deserializer,
    streams: *mut usize,
    chunks: *mut usize,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let deserializer = input(deserializer, "deserializer")?;
            let (streams, chunks) = (Output::new(streams, "streams")?, Output::new(chunks, "chunks")?);
            chunks.set(deserializer.here()?.chunks().len());
            streams.set(deserializer.streams.len());
            Ok(())
        })
    }
}

/// Describes stream `index`, from 0. `info->struct_size` must be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_deserializer_describe_stream(
    deserializer: *const cntk_reader_deserializer,
    index: usize,
    info: *mut cntk_reader_stream_info,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (deserializer, info) = (input(deserializer, "deserializer")?, SizedOutput::new(info)?);
            let stream = deserializer.streams.get(index);
            let stream = stream.ok_or_else(|| Error::argument(format!("There is no stream {index}.")))?;
            info.set(stream.describe(index, &stream.info.shape));
            Ok(())
        })
    }
}

/// Describes a chunk, from 0. `info->struct_size` must be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_deserializer_describe_chunk(
    deserializer: *const cntk_reader_deserializer,
    chunk: u32,
    info: *mut cntk_reader_chunk_info,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (deserializer, info) = (input(deserializer, "deserializer")?, SizedOutput::new(info)?);
            let chunk = deserializer.chunk(chunk)?;
            info.set(cntk_reader_chunk_info {
                struct_size: 0,
                samples: chunk.samples,
                sequences: chunk.sequences.into(),
            });
            Ok(())
        })
    }
}

/// Gives the sequences of a chunk in the data's order: as many as fit into `capacity`, and their number. `sequences` may
/// be NULL if `capacity` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_deserializer_list_sequences(
    deserializer: *const cntk_reader_deserializer,
    chunk: u32,
    sequences: *mut cntk_reader_sequence_info,
    capacity: usize,
    count: *mut usize,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (deserializer, count) = (input(deserializer, "deserializer")?, Output::new(count, "count")?);
            let number = deserializer.chunk(chunk)?.sequences;
            let mut keys = Vec::with_capacity(1);
            for index in (0..number).take(capacity) {
                let place = sequences.wrapping_add(index as usize);
                let sequence = deserializer.sequence(SequenceId { chunk, index }, &mut keys);
                Output::new(place, "sequences")?.set(sequence);
            }
            count.set(number as usize);
            Ok(())
        })
    }
}

/// Looks for the first sequence with a key. Writes 1 and the sequence, or 0 if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_deserializer_find_sequence(
    deserializer: *const cntk_reader_deserializer,
    key: u64,
    found: *mut u32,
    sequence: *mut cntk_reader_sequence_info,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let deserializer = input(deserializer, "deserializer")?;
            let (found, output) = (Output::new(found, "found")?, Output::new(sequence, "sequence")?);
            let place = deserializer.here()?.find(key);
            if let Some(id) = place {
                output.set(deserializer.sequence(id, &mut Vec::with_capacity(1)));
            }
            found.set(place.is_some().into());
            Ok(())
        })
    }
}

/// Loads a chunk; the caller frees it with cntk_reader_chunk_free. Errors in the data are counted against what the
/// deserializer tolerates, in the order of these calls.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_deserializer_load_chunk(
    deserializer: *const cntk_reader_deserializer,
    chunk: u32,
    loaded: *mut *mut cntk_reader_chunk,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (deserializer, output) =
                (input(deserializer, "deserializer")?, Output::new(loaded, "loaded")?);
            let sequences = deserializer.chunk(chunk)?.sequences;
            let data = deserializer.pool.install(|| deserializer.deserializer.load(chunk))?;
            data.admit()?;
            output.set(cntk_reader_chunk::hand_out(data, Arc::clone(&deserializer.streams), sequences));
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunk::*;
    use super::super::section::*;
    use super::*;
    use crate::ErrorKind;
    use std::ptr::{null, null_mut};

    fn section(entries: &[(&str, &str)]) -> Box<cntk_reader_section> {
        let entries: Vec<_> = entries
            .iter()
            .map(|(key, text)| cntk_reader_section_entry {
                key: key.as_ptr().cast(),
                key_length: key.len(),
                text: text.as_ptr().cast(),
                text_length: text.len(),
            })
            .collect();
        let mut section = null_mut();
        // SAFETY: all pointers are those of slices with these lengths, and of a place for the result.
        unsafe {
            let status = cntk_reader_section_create(
                c"unknown".as_ptr(),
                usize::MAX,
                entries.as_ptr(),
                entries.len(),
                null(),
                &raw mut section,
                null_mut(),
            );
            assert_eq!(status, cntk_reader_status::CNTK_READER_STATUS_OK);
            Box::from_raw(section)
        }
    }

    fn open(
        section: &cntk_reader_section,
        corpus: &cntk_reader_corpus,
    ) -> Option<Box<cntk_reader_deserializer>> {
        let mut opened = null_mut();
        // SAFETY: references, a string with its NUL, and a place for the result.
        unsafe {
            let name = c"CNTKTextFormatDeserializer".as_ptr();
            let status = cntk_reader_open_text_deserializer(
                name,
                usize::MAX,
                section,
                corpus,
                &raw mut opened,
                null_mut(),
            );
            (status == cntk_reader_status::CNTK_READER_STATUS_OK).then(|| Box::from_raw(opened))
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

    fn corpus() -> cntk_reader_corpus {
        cntk_reader_corpus { struct_size: size_of::<cntk_reader_corpus>(), ..CORPUS }
    }

    #[test]
    fn sequences_are_found_and_loaded() {
        let (_folder, section) = file("7 |x 1 |y 3:5\n7 |x 2\n9 |x 4 |y 1:1 8:2\n");
        let deserializer = open(&section, &corpus()).expect("a deserializer");
        let id = deserializer.here().expect("here").find(9).expect("a sequence");
        let info = deserializer.sequence(id, &mut Vec::new());
        assert_eq!((info.chunk, info.index, info.samples, info.key), (0, 1, 1, 9));
        let mut loaded = null_mut();
        // SAFETY: a reference and a place for the result.
        let status = unsafe {
            cntk_reader_deserializer_load_chunk(&raw const *deserializer, 0, &raw mut loaded, null_mut())
        };
        assert_eq!(status, cntk_reader_status::CNTK_READER_STATUS_OK);
        drop(deserializer);
        let mut view = std::mem::MaybeUninit::<cntk_reader_sequence>::zeroed();
        // SAFETY: zeros are valid for this struct; the chunk outlives the deserializer, as the header promises.
        unsafe {
            (*view.as_mut_ptr()).struct_size = size_of::<cntk_reader_sequence>();
            let status = cntk_reader_chunk_get_sequence(loaded, 1, 1, view.as_mut_ptr(), null_mut());
            assert_eq!(status, cntk_reader_status::CNTK_READER_STATUS_OK);
            let view = view.assume_init();
            assert_eq!((view.samples, view.value_count), (1, 2));
            assert_eq!(view.values.cast::<f32>().add(1).read_unaligned(), 2.0);
            assert_eq!(view.indices.add(1).read_unaligned(), 8);
            assert_eq!(view.sample_offsets.add(1).read() - view.sample_offsets.read(), 2);
            cntk_reader_chunk_free(loaded);
        }
    }

    unsafe extern "C" fn number(
        userdata: *mut c_void,
        text: *const c_char,
        length: usize,
        out: *mut u64,
    ) -> i32 {
        // SAFETY: the test passes a vector of keys as userdata, and the library the rest.
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
    fn the_host_numbers_textual_keys() {
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
    fn what_is_not_there_is_an_error() {
        let (_folder, section) = file("7 |x 1 |y 3:5\n");
        let deserializer = open(&section, &corpus()).expect("a deserializer");
        let kind = deserializer.chunk(1).map(|_| ()).map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::InvalidArgument));
    }
}
