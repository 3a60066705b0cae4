//! The reader's handle, and what can be asked of it.

use super::call::{call, given, guard_silently};
use super::error::cntk_reader_error;
use super::minibatch_handle::Shared;
use super::sized::{Sized, SizedOutput};
use super::status::cntk_reader_status;
use super::stream::cntk_reader_stream_info;
use super::text::nul_terminated;
use cntk_reader_core::runtime::exit;
use cntk_reader_core::runtime::fork::Process;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::reader::settings::ReaderSettings;
use cntk_reader_engine::reader::{Member, Others, Reader, Sizes};
use std::ffi::{CString, c_char};
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, TryLockError};

/// A reader of minibatches. Open it with cntk_reader_open, free it with cntk_reader_free.
///
/// Threads: exclusive. It may move from thread to thread, but only one may be inside a call at a time: a second one
/// gets CNTK_READER_STATUS_STATE. The descriptions of its streams may be read at any time.
/// Fork: belongs to the process that opened it; in the child every call gives CNTK_READER_STATUS_STATE.
pub struct cntk_reader {
    process: Process,
    pub(super) shared: Arc<Shared>,
    members: Vec<[CString; 2]>,
    is_in_lockstep: bool,
    // Locked without ever waiting. A panic inside poisons it, which is how the handle refuses further use.
    reader: Mutex<Reader>,
}

/// What a reader is as a whole. Numbers that are not known yet are CNTK_READER_UNKNOWN: a large text file that is read in
/// its own order is indexed while it is read, and chunks of some users' deserializers list their sequences when they are
/// loaded.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_info {
    /// sizeof(cntk_reader_info), set by the caller.
    pub struct_size: usize,
    /// Number of streams.
    pub stream_count: usize,
    /// Number of deserializers: see cntk_reader_member_describe.
    pub member_count: usize,
    /// Samples of one sweep (a pass over the data), in the unit of minibatch and epoch sizes; or CNTK_READER_UNKNOWN.
    pub samples: u64,
    /// Sequences of one sweep; or CNTK_READER_UNKNOWN.
    pub sequences: u64,
    /// Chunks, the units of loading and randomization; or CNTK_READER_UNKNOWN.
    pub chunks: u64,
    /// 1 if sequence keys are numbers in the data: then the keys of minibatches are those numbers. 0 if they are texts,
    /// for which the keys of minibatches stand.
    pub numeric_keys: u32,
    /// 1 if workers read in lockstep (`lockstep = true` in the configuration): up to the end of the epoch each reads as many
    /// minibatches as the others, some of which may be without data. Else 0.
    pub lockstep: u32,
}

/// One of the deserializers of a reader, in the configuration's order. The first one gives the order of the data. The
/// strings live as long as the reader.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_member_info {
    /// sizeof(cntk_reader_member_info), set by the caller.
    pub struct_size: usize,
    /// Its file, or the name of a user's deserializer: UTF-8, NUL-terminated.
    pub name: *const c_char,
    /// Its `type` in the configuration: UTF-8, NUL-terminated.
    pub type_name: *const c_char,
    /// Samples of all its sequences, whether or not other deserializers have them too; or CNTK_READER_UNKNOWN.
    pub samples: u64,
    /// Its sequences; or CNTK_READER_UNKNOWN.
    pub sequences: u64,
    /// Its chunks; or CNTK_READER_UNKNOWN.
    pub chunks: u64,
}

/// How far an epoch has come.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_progress {
    /// sizeof(cntk_reader_progress), set by the caller.
    pub struct_size: usize,
    /// Samples of the epoch up to the end of the minibatch read last, those of all workers; where every worker has an
    /// order of its own (chunks that list their sequences when they are loaded), those of this worker.
    pub delivered: u64,
    /// Samples that the epoch has, counted as in `delivered`; or CNTK_READER_UNKNOWN, also if the epoch has no end. The
    /// last sequence of an epoch is delivered whole, so `delivered` may end a little above it.
    pub expected: u64,
    /// The sweep, from 0, that the next sample belongs to.
    pub sweep: u64,
}

/// Memory that a reader holds, in bytes. Counted are the arrays of chunks, minibatches and indexes.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_memory {
    /// sizeof(cntk_reader_memory), set by the caller.
    pub struct_size: usize,
    /// Chunks: those of the randomization window, those loaded ahead, and memory kept for the next ones.
    pub window: u64,
    /// Minibatches: those that the caller holds, those that are ready or being made, and memory kept for the next ones.
    pub buffers: u64,
    /// Tables of chunks, sequences and keys.
    pub index: u64,
}

// SAFETY: nothing but integers, which may have all bits zero.
unsafe impl Sized for cntk_reader_info {
    const NAME: &'static str = "cntk_reader_info";
}

// SAFETY: integers and pointers, each of which may have all bits zero.
unsafe impl Sized for cntk_reader_member_info {
    const NAME: &'static str = "cntk_reader_member_info";
}

// SAFETY: nothing but integers, which may have all bits zero.
unsafe impl Sized for cntk_reader_progress {
    const NAME: &'static str = "cntk_reader_progress";
}

// SAFETY: nothing but integers, which may have all bits zero.
unsafe impl Sized for cntk_reader_memory {
    const NAME: &'static str = "cntk_reader_memory";
}

/// CNTK_READER_UNKNOWN.
const UNKNOWN: u64 = u64::MAX;

impl cntk_reader {
    pub(super) fn open(settings: &ReaderSettings, others: &Others<'_>) -> Result<*mut cntk_reader> {
        let reader = Reader::open_with(settings, others)?;
        let names = |member: &Member| [member.name(), member.type_name()].map(nul_terminated);
        let handle = cntk_reader {
            process: Process::current(),
            shared: Arc::new(Shared::new(&reader)),
            members: reader.members().iter().map(names).collect(),
            is_in_lockstep: reader.is_in_lockstep(),
            reader: Mutex::new(reader),
        };
        Ok(Box::into_raw(Box::new(handle)))
    }

    /// Runs `work` on the reader, if this process and thread may use it now.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut Reader) -> Result<R>) -> Result<R> {
        if !self.process.is_current() {
            return Err(Error::state(
                "The reader was opened before a fork. Its threads do not exist in this process: open another one.",
            ));
        }
        match self.reader.try_lock() {
            Ok(mut reader) => work(&mut reader),
            Err(TryLockError::WouldBlock) => Err(Error::state(
                "The reader is in use, by another thread or by the call that this callback came from.",
            )),
            Err(TryLockError::Poisoned(_)) => {
                Err(Error::state("The reader failed internally in an earlier call and cannot go on."))
            }
        }
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

/// Frees a reader. NULL is allowed. Minibatches, errors and buffers that came from it stay valid; the descriptions of its
/// streams and deserializers do not. Must not be called while another call on the reader is under way. In the child of a
/// fork it returns at once and leaves the memory alone.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_free(reader: Option<Box<cntk_reader>>) {
    guard_silently(|| match reader {
        Some(reader) if !reader.process.is_current() => {
            // Locks may be held by threads that do not exist here, and those threads cannot be joined.
            Box::leak(reader);
        }
        Some(reader) if exit::has_lost_threads() => {
            // A thread is in the reader, or in its callbacks, and will not leave before the process ends.
            Box::leak(reader);
        }
        reader => drop(reader),
    });
}

/// Describes a reader as a whole. `info->struct_size` must be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_describe(
    reader: Option<&cntk_reader>,
    info: *mut cntk_reader_info,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `info` is NULL, which `new` refuses, or the caller's struct with its size in the first member.
        let (reader, info) = (given(reader, "reader")?, unsafe { SizedOutput::new(info) }?);
        info.set(reader.info(reader.with(|reader| Ok(reader.sizes()))?));
        Ok(())
    })
}

/// Describes stream `index`, from 0. `info->struct_size` must be set. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_stream_describe(
    reader: Option<&cntk_reader>,
    index: usize,
    info: *mut cntk_reader_stream_info,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `info` is NULL, which `new` refuses, or the caller's struct with its size in the first member.
        let (reader, info) = (given(reader, "reader")?, unsafe { SizedOutput::new(info) }?);
        info.set(reader.shared.stream(index)?.describe(index, reader.shared.shape(index)?));
        Ok(())
    })
}

/// Describes deserializer `index` of a reader, from 0. `info->struct_size` must be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_member_describe(
    reader: Option<&cntk_reader>,
    index: usize,
    info: *mut cntk_reader_member_info,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `info` is NULL, which `new` refuses, or the caller's struct with its size in the first member.
        let (reader, info) = (given(reader, "reader")?, unsafe { SizedOutput::new(info) }?);
        info.set(reader.member(index)?);
        Ok(())
    })
}

/// Gives how far the epoch has come with the minibatch read last, however much is read ahead: for a progress bar.
/// `progress->struct_size` must be set. An epoch must have been started, or a checkpoint restored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_progress_get(
    reader: Option<&cntk_reader>,
    progress: *mut cntk_reader_progress,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `progress` is NULL, which `new` refuses, or the caller's struct with its size in the first member.
        let (reader, place) = (given(reader, "reader")?, unsafe { SizedOutput::new(progress) }?);
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

/// Gives the memory that a reader holds now. `memory->struct_size` must be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_memory_get(
    reader: Option<&cntk_reader>,
    memory: *mut cntk_reader_memory,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `memory` is NULL, which `new` refuses, or the caller's struct with its size in the first member.
        let (reader, place) = (given(reader, "reader")?, unsafe { SizedOutput::new(memory) }?);
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

/// Gives a value for the configuration's `chunkSizeInBytes` with which this many workers share the data evenly.
/// Randomized data are shared out by chunks, so a window needs several chunks for each worker: the value is the bytes of
/// a window divided by 8 for each worker, but at most CNTK's default of 32 MiB. Without a file to measure it is that
/// default.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_chunk_size_suggest(
    reader: Option<&cntk_reader>,
    workers: u64,
    bytes: Option<&mut MaybeUninit<u64>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (reader, bytes) = (given(reader, "reader")?, given(bytes, "bytes")?);
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

    /// A reader of one sample, and the folder of its data.
    fn open() -> (Box<cntk_reader>, tempfile::TempDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("data.ctf");
        std::fs::write(&file, "|x 1\n").expect("a file");
        let text = format!(
            "deserializers = ( [ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\"
             file = \"{}\" ; input = [ x = [ dim = 1 ; format = \"dense\" ] ] ] )",
            file.display()
        );
        let options = language::from_text(&text).expect("a configuration");
        let reader = cntk_reader::open(&options, &Others::default()).expect("a reader");
        // SAFETY: `open` gives a box's pointer, which becomes a box once.
        (unsafe { Box::from_raw(reader) }, folder)
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
    fn a_second_call_at_the_same_time_is_refused() {
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
