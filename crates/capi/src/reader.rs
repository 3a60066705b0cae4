//! The reader's handle and its queries.

use super::call::{call, given, guard_silently};
use super::error::cntk_reader_error;
use super::handle::{self, Handle, Header, Kind, argument, object};
use super::minibatch_handle::ReaderShared;
use super::sized::{Sized, SizedOutput};
use super::status::cntk_reader_status;
use super::stream::cntk_reader_stream_info;
use super::text::nul_terminated;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::runtime::exit;
use cntk_reader_core::runtime::fork::Process;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::reader::settings::ReaderSettings;
use cntk_reader_engine::reader::{Extensions, Member, Reader, Sizes};
use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, TryLockError};

/// A reader of minibatches. Open it with cntk_reader_open, free it with cntk_reader_free.
///
/// Threads: exclusive. It may move between threads, but only one thread may be inside a call at a
/// time; a second one gets CNTK_READER_STATUS_STATE. The descriptions of its streams may be read at
/// any time.
/// Fork: belongs to the process that opened it; in a child, every call returns
/// CNTK_READER_STATUS_STATE.
pub struct cntk_reader(Header);

// SAFETY: no other type has this kind.
unsafe impl Handle for cntk_reader {
    const KIND: Kind = Kind::Reader;
    type Object = OpenReader;

    fn header(&self) -> &Header {
        &self.0
    }
}

/// The object of a cntk_reader.
pub(crate) struct OpenReader {
    process: Process,
    pub(super) shared: Arc<ReaderShared>,
    members: Vec<[CString; 2]>,
    is_in_lockstep: bool,
    /// Whether the reader replaces CNTK's own, whose rules for sizes then apply.
    is_hosted: bool,
    // Only ever locked by `try_lock`. A panic inside a call poisons it, which makes the handle
    // refuse further use.
    reader: Mutex<Reader>,
}

/// Properties of a reader. Numbers that are not known yet are CNTK_READER_UNKNOWN: large text files
/// that are not randomized are indexed while they are read, and some user-defined deserializers
/// list the sequences of a chunk only when it is loaded.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_info {
    /// sizeof(cntk_reader_info), set by the caller.
    pub struct_size: usize,
    /// Number of streams.
    pub stream_count: usize,
    /// Number of deserializers: see cntk_reader_member_describe.
    pub member_count: usize,
    /// Samples in one sweep (a pass over the data), in the unit of minibatch and epoch sizes, or
    /// CNTK_READER_UNKNOWN.
    pub samples: u64,
    /// Sequences in one sweep, or CNTK_READER_UNKNOWN.
    pub sequences: u64,
    /// Chunks, the units of loading and randomization, or CNTK_READER_UNKNOWN.
    pub chunks: u64,
    /// 1 if sequence keys are numbers in the data, which are then the keys of minibatches. 0 if
    /// they are texts, which the keys of minibatches stand for.
    pub numeric_keys: u32,
    /// 1 if workers read in lockstep (`lockstep = true` in the configuration), else 0. In lockstep
    /// all workers read the same number of minibatches in an epoch, some of which may have no data.
    pub lockstep: u32,
}

/// One of the deserializers of a reader, in the configuration's order. The first one determines the
/// order of the data. The strings are valid as long as the reader.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_member_info {
    /// sizeof(cntk_reader_member_info), set by the caller.
    pub struct_size: usize,
    /// Its file, or the name of a user-defined deserializer: UTF-8, NUL-terminated.
    pub name: *const c_char,
    /// Its `type` in the configuration: UTF-8, NUL-terminated.
    pub type_name: *const c_char,
    /// Samples in all its sequences, whether or not other deserializers have them too, or
    /// CNTK_READER_UNKNOWN.
    pub samples: u64,
    /// Number of its sequences, or CNTK_READER_UNKNOWN.
    pub sequences: u64,
    /// Number of its chunks, or CNTK_READER_UNKNOWN.
    pub chunks: u64,
}

/// Progress of an epoch.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_progress {
    /// sizeof(cntk_reader_progress), set by the caller.
    pub struct_size: usize,
    /// Samples from the start of the epoch to the end of the most recently read minibatch, of all
    /// workers. If each worker has its own order (chunks that list their sequences when they are
    /// loaded), those of this worker.
    pub delivered: u64,
    /// Samples in the whole epoch, counted like `delivered`, or CNTK_READER_UNKNOWN, also if the
    /// epoch has no end. The last sequence of an epoch is delivered whole, so `delivered` may end
    /// slightly above it.
    pub expected: u64,
    /// The sweep of the next sample, from 0.
    pub sweep: u64,
}

/// Memory held by a reader, in bytes. Only the arrays of chunks, minibatches and indexes are
/// counted.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_memory {
    /// sizeof(cntk_reader_memory), set by the caller.
    pub struct_size: usize,
    /// Chunks in the randomization window, prefetched chunks, and memory kept for later ones.
    pub window: u64,
    /// Minibatches that the caller holds, that are ready or in preparation, and memory kept for
    /// later ones.
    pub buffers: u64,
    /// Tables of chunks, sequences and keys.
    pub index: u64,
}

// SAFETY: `repr(C)`, and all members are integers, for which zero is valid; the first is a `usize`.
unsafe impl Sized for cntk_reader_info {
    const NAME: &'static str = "cntk_reader_info";
}

// SAFETY: `repr(C)`, begins with a `usize`, and has only integers and pointers, for which zero is
// valid.
unsafe impl Sized for cntk_reader_member_info {
    const NAME: &'static str = "cntk_reader_member_info";
}

// SAFETY: `repr(C)`, and all members are integers, for which zero is valid; the first is a `usize`.
unsafe impl Sized for cntk_reader_progress {
    const NAME: &'static str = "cntk_reader_progress";
}

// SAFETY: `repr(C)`, and all members are integers, for which zero is valid; the first is a `usize`.
unsafe impl Sized for cntk_reader_memory {
    const NAME: &'static str = "cntk_reader_memory";
}

/// CNTK_READER_UNKNOWN.
const UNKNOWN: u64 = u64::MAX;

impl OpenReader {
    pub(super) fn open(settings: &ReaderSettings, others: &Extensions<'_>) -> Result<Box<OpenReader>> {
        let reader = Reader::open_with(settings, others)?;
        let names = |member: &Member| [member.name(), member.type_name()].map(nul_terminated);
        Ok(Box::new(OpenReader {
            process: Process::current(),
            shared: Arc::new(ReaderShared::new(&reader)),
            members: reader.members().iter().map(names).collect(),
            is_in_lockstep: reader.is_in_lockstep(),
            is_hosted: settings.front_end == FrontEnd::Cntk,
            reader: Mutex::new(reader),
        }))
    }

    /// Runs `work` on the reader if this process and thread may use it now.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut Reader) -> Result<R>) -> Result<R> {
        if !self.process.is_current() {
            return Err(Error::state(
                "The reader was opened before a fork, and its threads do not exist in this process. Open a reader here, after the fork.",
            ));
        }
        match self.reader.try_lock() {
            Ok(mut reader) => work(&mut reader),
            Err(TryLockError::WouldBlock) => Err(Error::state(
                "The reader is in use by another thread, or by the call that is running this callback.",
            )),
            Err(TryLockError::Poisoned(_)) => {
                Err(Error::state("The reader failed internally in an earlier call and cannot continue."))
            }
        }
    }

    /// Rejects sizes that only CNTK accepts, unless the reader stands in its place.
    pub(super) fn check_sizes(&self, sizes: &[(&str, u64)]) -> Result<()> {
        match sizes.iter().find(|(_, size)| *size > i64::MAX.unsigned_abs() && !self.is_hosted) {
            None => Ok(()),
            Some((name, size)) => Err(Error::argument(format!("'{name}' is {size}."))
                .with_detail("Expected a number below 2^63; a negative number wraps around to a large one.")),
        }
    }

    pub(super) fn is_hosted(&self) -> bool {
        self.is_hosted
    }

    fn info(&self, Sizes { samples, sequences, chunks, .. }: Sizes) -> cntk_reader_info {
        cntk_reader_info {
            struct_size: 0,
            stream_count: self.shared.streams.len(),
            member_count: self.members.len(),
            samples: samples.unwrap_or(UNKNOWN),
            sequences: sequences.unwrap_or(UNKNOWN),
            chunks: chunks.unwrap_or(UNKNOWN),
            numeric_keys: self.shared.corpus.is_numeric().into(),
            lockstep: self.is_in_lockstep.into(),
        }
    }

    fn member(&self, index: usize) -> Result<cntk_reader_member_info> {
        let [name, type_name] = self.members.get(index).ok_or_else(|| {
            let count = self.members.len();
            Error::argument(format!(
                "There is no deserializer {index}: the reader has {count}, counted from 0."
            ))
        })?;
        let Sizes { samples, sequences, chunks, .. } =
            self.with(|reader| Ok(reader.members()[index].sizes()))?;
        Ok(cntk_reader_member_info {
            struct_size: 0,
            name: name.as_ptr(),
            type_name: type_name.as_ptr(),
            samples: samples.unwrap_or(UNKNOWN),
            sequences: sequences.unwrap_or(UNKNOWN),
            chunks: chunks.unwrap_or(UNKNOWN),
        })
    }
}

/// Frees a reader. NULL is allowed. For a released reader or another handle it does nothing but log
/// the mistake. Its minibatches, errors and buffers stay valid; the descriptions of its streams and
/// deserializers do not. Must not be called during another call on the reader. In the child of a
/// fork it returns at once without freeing memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_free(reader: *mut cntk_reader) {
    // SAFETY: NULL or a handle, which the caller gives up.
    guard_silently(|| match unsafe { handle::release(reader, argument!("reader")) } {
        Some(reader) if !reader.process.is_current() => {
            // Locks may be held by threads that do not exist in this process, and those threads
            // cannot be joined.
            Box::leak(reader);
        }
        Some(reader) if exit::has_lost_threads() => {
            // A parked thread is inside the reader or one of its callbacks and stays there until
            // the process ends.
            Box::leak(reader);
        }
        reader => drop(reader),
    });
}

/// Describes a reader. `info->struct_size` must be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_describe(
    reader: Option<&cntk_reader>,
    info: *mut cntk_reader_info,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `info` is NULL, which `new` refuses, or the caller's struct with its size in the
        // first member.
        let (reader, info) = (object!(reader)?, unsafe { SizedOutput::new(info) }?);
        info.set(reader.info(reader.with(|reader| Ok(reader.sizes()))?));
        Ok(())
    })
}

/// Describes stream `index`, counted from 0. `info->struct_size` must be set. May be called from
/// any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_stream_describe(
    reader: Option<&cntk_reader>,
    index: usize,
    info: *mut cntk_reader_stream_info,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `info` is NULL, which `new` refuses, or the caller's struct with its size in the
        // first member.
        let (reader, info) = (object!(reader)?, unsafe { SizedOutput::new(info) }?);
        info.set(reader.shared.stream(index)?.describe(index, reader.shared.shape(index)?));
        Ok(())
    })
}

/// Describes deserializer `index` of a reader, counted from 0. `info->struct_size` must be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_member_describe(
    reader: Option<&cntk_reader>,
    index: usize,
    info: *mut cntk_reader_member_info,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `info` is NULL, which `new` refuses, or the caller's struct with its size in the
        // first member.
        let (reader, info) = (object!(reader)?, unsafe { SizedOutput::new(info) }?);
        info.set(reader.member(index)?);
        Ok(())
    })
}

/// Gets the progress of the epoch up to the most recently read minibatch, regardless of
/// prefetching. `progress->struct_size` must be set. An epoch must have been started, or a
/// checkpoint restored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_progress_get(
    reader: Option<&cntk_reader>,
    progress: *mut cntk_reader_progress,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `progress` is NULL, which `new` refuses, or the caller's struct with its size in
        // the first member.
        let (reader, place) = (object!(reader)?, unsafe { SizedOutput::new(progress) }?);
        let progress = reader.with(|reader| reader.progress())?;
        place.set(cntk_reader_progress {
            struct_size: 0,
            delivered: progress.delivered,
            expected: progress.expected.unwrap_or(UNKNOWN),
            sweep: progress.sweep,
        });
        Ok(())
    })
}

/// Gets the memory that a reader holds now. `memory->struct_size` must be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_memory_get(
    reader: Option<&cntk_reader>,
    memory: *mut cntk_reader_memory,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `memory` is NULL, which `new` refuses, or the caller's struct with its size in
        // the first member.
        let (reader, place) = (object!(reader)?, unsafe { SizedOutput::new(memory) }?);
        let memory = reader.with(|reader| Ok(reader.memory()))?;
        place.set(cntk_reader_memory {
            struct_size: 0,
            window: memory.window,
            buffers: memory.buffers,
            index: memory.index,
        });
        Ok(())
    })
}

/// Suggests a value for the configuration's `chunkSizeInBytes` with which `workers` workers share
/// the data evenly. Randomized data are distributed by chunks, so a randomization window needs
/// several chunks per worker: the value is the window's bytes divided by 8 * workers, but at most
/// CNTK's default of 32 MiB. Without a file to measure, it is that default.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_chunk_size_suggest(
    reader: Option<&cntk_reader>,
    workers: u64,
    bytes: Option<&mut MaybeUninit<u64>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (reader, bytes) = (object!(reader)?, given(bytes, "bytes")?);
        bytes.write(reader.with(|reader| Ok(reader.suggest_chunk_size(workers)))?);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::cntk_reader::language;
    use cntk_reader_core::ErrorKind;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Opens a reader of one sample; also returns the folder of its data.
    fn open() -> (Box<OpenReader>, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("data.ctf");
        std::fs::write(&file, "|x 1\n").expect("a file");
        let text = format!(
            "deserializers = ( [ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\"
             file = \"{}\" ; input = [ x = [ dim = 1 ; format = \"dense\" ] ] ] )",
            file.display()
        );
        let options = language::from_text(&text).expect("a configuration");
        let reader = OpenReader::open(&options, &Extensions::default()).expect("a reader");
        (reader, folder)
    }

    fn kind(result: Result<()>) -> Option<ErrorKind> {
        result.err().map(|error| error.kind())
    }

    #[test]
    fn a_panic_poisons_the_handle() {
        let (reader, _folder) = open();
        let panic =
            catch_unwind(AssertUnwindSafe(|| reader.with(|_| -> Result<()> { panic!("on purpose") })));
        assert!(panic.is_err());
        assert_eq!(kind(reader.with(|_| Ok(()))), Some(ErrorKind::State));
    }

    #[test]
    fn concurrent_call_is_refused() {
        let (reader, _folder) = open();
        let inner = reader.with(|_| Ok(kind(reader.with(|_| Ok(())))));
        assert_eq!(inner.ok(), Some(Some(ErrorKind::State)));
        assert_eq!(kind(reader.with(|_| Ok(()))), None);
    }

    #[test]
    fn members_are_counted() {
        let (reader, _folder) = open();
        let member = reader.member(0).expect("a member");
        assert_eq!((member.samples, member.sequences, member.chunks), (1, 1, 1));
        assert_eq!(kind(reader.member(1).map(drop)), Some(ErrorKind::InvalidArgument));
    }
}
