//! The reader's handle and its calls.

use super::buffer::cntk_reader_buffer;
use super::call::{Output, guard, guard_silently, input, inputs};
use super::configuration::{cntk_reader_configuration, cntk_reader_epoch};
use super::error::cntk_reader_error;
use super::minibatch::{IdleHandles, cntk_reader_minibatch};
use super::sized::{self, SizedOutput};
use super::status::cntk_reader_status;
use super::stream::{Stream, cntk_reader_stream_info};
use super::text;
use crate::config::{self, options::ReaderSettings};
use crate::corpus::Corpus;
use crate::fork::Process;
use crate::reader::{Others, Reader};
use crate::stream::LateShapes;
use crate::{Error, Result};
use std::ffi::{c_char, c_void};
use std::path::Path;
use std::sync::{Arc, Mutex, TryLockError};

/// A reader of minibatches. Open it with cntk_reader_open_text, cntk_reader_open_file or
/// cntk_reader_open_custom, destroy it with cntk_reader_free.
///
/// Threads: exclusive. It may move from thread to thread, but only one may be inside a call at a time: a second one
/// gets CNTK_READER_STATUS_STATE. Its streams' descriptions may be read at any time.
/// Fork: belongs to the process that opened it; in the child every call gives CNTK_READER_STATUS_STATE.
pub struct cntk_reader {
    process: Process,
    shared: Arc<Shared>,
    // Locked without ever waiting. A panic inside poisons it, which is how the handle refuses further use.
    reader: Mutex<Reader>,
}

/// What a reader's minibatches need of it, even when it is gone.
pub(super) struct Shared {
    pub(super) streams: Vec<Stream>,
    pub(super) shapes: Arc<LateShapes>,
    pub(super) corpus: Arc<Corpus>,
    pub(super) idle: IdleHandles,
}

impl Shared {
    pub(super) fn stream(&self, index: usize) -> Result<&Stream> {
        self.streams.get(index).ok_or_else(|| {
            Error::argument(format!("There is no stream {index}: the reader has {}.", self.streams.len()))
        })
    }
}

impl Shared {
    /// The shape of a stream's samples, as far as it is known.
    pub(super) fn shape(&self, index: usize) -> Result<&[usize]> {
        let stream = self.stream(index)?;
        let late = stream.info.has_late_shape().then(|| self.shapes.get(index)).flatten();
        Ok(late.unwrap_or(&stream.info.shape))
    }

    pub(super) fn sample_size(&self, index: usize) -> Result<usize> {
        Ok(self.shape(index)?.iter().product())
    }
}

impl cntk_reader {
    pub(super) fn open(options: &ReaderSettings, others: &Others<'_>) -> Result<*mut cntk_reader> {
        let reader = Reader::open_with(options, others)?;
        let streams = reader.streams().iter().map(Stream::new).collect();
        let (shapes, corpus) = (Arc::clone(reader.shapes()), Arc::clone(reader.corpus()));
        let shared = Arc::new(Shared { streams, shapes, corpus, idle: IdleHandles::default() });
        let handle = cntk_reader { process: Process::current(), shared, reader: Mutex::new(reader) };
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
}

/// Opens a reader from the text of a configuration (UTF-8, CNTK's configuration language; `length` bytes, or
/// CNTK_READER_NUL_TERMINATED). Opens and indexes the files, which may take a while for large ones, and reads no data
/// yet. Relative paths are taken from the working directory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_open_text(
    text: *const c_char,
    length: usize,
    reader: *mut *mut cntk_reader,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (text, reader) = (text::utf8(text, length, "text")?, Output::new(reader, "reader")?);
            reader.set(cntk_reader::open(&config::from_text(text)?, &Others::default())?);
            Ok(())
        })
    }
}

/// Opens a reader from a configuration file, whose includes are followed; otherwise as cntk_reader_open_text. The path
/// is given as the operating system has it (`length` bytes, or CNTK_READER_NUL_TERMINATED).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_open_file(
    path: *const c_char,
    length: usize,
    reader: *mut *mut cntk_reader,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (path, reader) = (text::bytes(path, length, "path")?, Output::new(reader, "reader")?);
            reader.set(cntk_reader::open(&config::from_file(&to_path(path)?)?, &Others::default())?);
            Ok(())
        })
    }
}

#[cfg(unix)]
fn to_path(bytes: &[u8]) -> Result<std::borrow::Cow<'_, Path>> {
    use std::os::unix::ffi::OsStrExt;
    Ok(Path::new(std::ffi::OsStr::from_bytes(bytes)).into())
}

#[cfg(not(unix))]
fn to_path(bytes: &[u8]) -> Result<std::borrow::Cow<'_, Path>> {
    let text = std::str::from_utf8(bytes).map_err(|_| Error::argument("The path is not UTF-8."))?;
    Ok(Path::new(text).into())
}

/// Destroys a reader. NULL is allowed. Minibatches, errors and buffers that came from it stay valid; its streams'
/// descriptions do not. Must not be called while another call on the reader is under way. In the child of a fork it
/// returns at once and leaves the memory alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_free(reader: *mut cntk_reader) {
    guard_silently(|| {
        // SAFETY: the caller's promise. After a fork nothing may be dropped: there are locks that nobody will release
        // and threads that nobody can join.
        unsafe {
            if reader.as_ref().is_some_and(|reader| reader.process.is_current()) {
                drop(Box::from_raw(reader));
            }
        }
    });
}

/// Gives the number of streams. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_stream_count(
    reader: *const cntk_reader,
    count: *mut usize,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let reader = input(reader, "reader")?;
            Output::new(count, "count")?.set(reader.shared.streams.len());
            Ok(())
        })
    }
}

/// Describes stream `index`, from 0. May be called from any thread. `info->struct_size` must be set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_stream_describe(
    reader: *const cntk_reader,
    index: usize,
    info: *mut cntk_reader_stream_info,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (reader, info) = (input(reader, "reader")?, SizedOutput::new(info)?);
            info.set(reader.shared.stream(index)?.describe(index, reader.shared.shape(index)?));
            Ok(())
        })
    }
}

/// Tells whether sequence keys are numbers in the data (1) or texts (0). In the first case the numbers that
/// cntk_reader_minibatch_describe gives are those, in the second they stand for the texts. May be called from any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_has_numeric_keys(
    reader: *const cntk_reader,
    numeric: *mut u32,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let reader = input(reader, "reader")?;
            Output::new(numeric, "numeric")?.set(reader.shared.corpus.is_numeric().into());
            Ok(())
        })
    }
}

/// Starts an epoch: goes to its first sample and takes sizes, workers and flags. Needed before the first minibatch is
/// read, except after cntk_reader_checkpoint_restore. May be called at any time, also in the middle of an epoch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_epoch_start(
    reader: *mut cntk_reader,
    epoch: *const cntk_reader_epoch,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let epoch = sized::read(epoch, cntk_reader_epoch::default())?.into();
            input(reader, "reader")?.with(|reader| reader.start_epoch(&epoch))
        })
    }
}

/// Changes sizes, workers and flags between two minibatches of an epoch. The position stays; sequences that a truncated
/// reader had begun are not continued (CNTK 2.7 does the same).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_configuration_set(
    reader: *mut cntk_reader,
    configuration: *const cntk_reader_configuration,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let configuration = sized::read(configuration, cntk_reader_configuration::default())?.into();
            input(reader, "reader")?.with(|reader| reader.configure(&configuration))
        })
    }
}

/// Gives the sizes, workers and flags in force, those of a restored checkpoint too. `configuration->struct_size` must be
/// set. An epoch must have been started, or a checkpoint restored.
///
/// Since ABI 2.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_configuration_get(
    reader: *const cntk_reader,
    configuration: *mut cntk_reader_configuration,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let configuration = SizedOutput::new(configuration)?;
            configuration.set(input(reader, "reader")?.with(|reader| reader.config())?.into());
            Ok(())
        })
    }
}

/// Reads the next minibatch; the caller owns one reference to it, to be released with cntk_reader_minibatch_release.
/// Behind the end of the epoch: one without streams and with the flag end_of_epoch, again and again. A worker may also
/// get one without streams earlier, when none of the data is its share. After an error in the data the next call goes
/// on behind it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_read(
    reader: *mut cntk_reader,
    minibatch: *mut *const cntk_reader_minibatch,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (reader, output) = (input(reader, "reader")?, Output::new(minibatch, "minibatch")?);
            let minibatch = reader.with(Reader::read)?;
            output.set(cntk_reader_minibatch::hand_out(minibatch, &reader.shared));
            Ok(())
        })
    }
}

/// Saves a checkpoint that continues exactly in every mode: opaque bytes, versioned and checksummed, a few hundred in
/// most modes. It stands for the position behind the minibatch that was read last. The caller owns the buffer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_checkpoint_save(
    reader: *const cntk_reader,
    checkpoint: *mut *mut cntk_reader_buffer,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (reader, output) = (input(reader, "reader")?, Output::new(checkpoint, "checkpoint")?);
            let bytes = reader.with(|reader| reader.checkpoint())?;
            output.set(Box::into_raw(Box::new(cntk_reader_buffer(bytes))));
            Ok(())
        })
    }
}

/// Restores a checkpoint: the next minibatch is the one that followed it. Also starts the epoch that it was taken in,
/// so that a new reader can go on at once. A checkpoint of other data or of another configuration is refused with an
/// error that says what differs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_checkpoint_restore(
    reader: *mut cntk_reader,
    bytes: *const c_void,
    size: usize,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let checkpoint = inputs(bytes.cast::<u8>(), size, "bytes")?;
            input(reader, "reader")?.with(|reader| reader.restore(checkpoint))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
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
        let options = config::from_text(&text).expect("a configuration");
        let reader = cntk_reader::open(&options, &Others::default()).expect("a reader");
        // SAFETY: `open` gives a box's pointer.
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
}
