//! Data files: opening them, reading them at given offsets, one rule of retrying, and one place for faults in tests.
//!
//! The index, the text parser, the binary reader and the converters all read through [`DataFile`], so that a network
//! file system that recovers within four seconds disturbs none of them. Its errors name the path and the offset.

use crate::{Error, Result};
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind as IoErrorKind, Read, Seek};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::sync::Arc;
use std::time::Duration;

/// Pauses between attempts. CNTK, too, tries five times and gives up after four seconds.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_millis(1000),
    Duration::from_millis(2500),
];

/// Runs `attempt` until it succeeds, fails for good, or has failed five times in a way that may pass.
///
/// The rule, for every call of the operating system that a data file needs:
/// - `EINTR`: again at once. A signal came in between; it costs no attempt and no pause.
/// - `EIO`, `ESTALE`, `EAGAIN`, `ETIMEDOUT`: again after a pause, at most four times. Networks and disks recover.
/// - anything else is final.
pub fn with_retry<R>(attempt: impl FnMut() -> io::Result<R>) -> io::Result<R> {
    with_pauses(attempt, |duration| {
        // Tests make calls fail on purpose and do not wait for them to recover.
        if !cfg!(test) {
            std::thread::sleep(duration);
        }
    })
}

fn with_pauses<R>(
    mut attempt: impl FnMut() -> io::Result<R>,
    mut pause: impl FnMut(Duration),
) -> io::Result<R> {
    let mut pauses = PAUSES.into_iter();
    loop {
        match attempt() {
            Err(cause) if cause.kind() == IoErrorKind::Interrupted => {}
            Err(cause) if is_transient(&cause) => match pauses.next() {
                Some(duration) => pause(duration),
                None => return Err(cause),
            },
            result => return result,
        }
    }
}

/// Whether the same call may succeed a little later.
fn is_transient(cause: &io::Error) -> bool {
    matches!(cause.kind(), IoErrorKind::WouldBlock | IoErrorKind::TimedOut)
        || matches!(cause.raw_os_error(), Some(libc::EIO | libc::ESTALE))
}

/// Opens a file for reading. A pipe is opened too, at once: without the flag the call would wait for a writer.
fn open(path: &OsStr) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Refuses what cannot be read at offsets, more than once and by several threads: with [`io::ErrorKind::NotSeekable`] a pipe, a
/// socket or a device. Folders pass, reading them fails.
fn check_regular(metadata: &Metadata) -> io::Result<()> {
    let kind = metadata.file_type();
    let what = match () {
        () if kind.is_fifo() => "It is a pipe",
        () if kind.is_socket() => "It is a socket",
        () if kind.is_char_device() || kind.is_block_device() => "It is a device",
        () => return Ok(()),
    };
    Err(io::Error::new(IoErrorKind::NotSeekable, what))
}

/// Reads all of a file into `bytes`, whose memory is used again. Fails with [`io::ErrorKind::FileTooLarge`] if the file has
/// more than `most` bytes, before memory is taken for them.
pub fn read_whole(path: &OsStr, most: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    let file = with_retry(|| {
        #[cfg(test)]
        faults::check(&path.to_string_lossy(), faults::Operation::Open)?;
        open(path)
    })?;
    let metadata = with_retry(|| file.metadata())?;
    check_regular(&metadata)?;
    let size = metadata.len();
    if size > most {
        return Err(io::Error::from(IoErrorKind::FileTooLarge));
    }
    with_retry(|| {
        #[cfg(test)]
        faults::check(&path.to_string_lossy(), faults::Operation::Read)?;
        bytes.clear();
        // One byte more than the file has: reading finds its end without more memory.
        bytes.try_reserve(size as usize + 1)?;
        let mut file = &file;
        file.rewind()?;
        match file.take(most + 1).read_to_end(bytes)? as u64 {
            read if read > most => Err(io::Error::from(IoErrorKind::FileTooLarge)),
            _ => Ok(()),
        }
    })
}

/// Size and time of the last change of a file: equal states mean an unchanged file, as far as the system can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// Bytes of the file.
    pub size: u64,
    /// Time of the last change: seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
}

/// An open file that is read at given offsets. Clones share the file; any thread may read at any time.
#[derive(Debug, Clone)]
pub struct DataFile(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    file: File,
    path: String,
}

impl DataFile {
    /// Opens a file for reading. Fails for what is no regular file.
    pub fn open(path: &str) -> Result<DataFile> {
        Self::open_or(path, |cause| Error::io("Error opening file", path, cause))
    }

    /// [`DataFile::open`] with an error of the caller's words for a file that cannot be opened.
    pub fn open_or(path: &str, refuse: impl FnOnce(&io::Error) -> Error) -> Result<DataFile> {
        Self::open_shown(OsStr::new(path), path, refuse)
    }

    /// [`DataFile::open_or`] for a path that need not be text; messages show `path` in its place.
    pub fn open_shown(
        exact: &OsStr,
        path: &str,
        refuse: impl FnOnce(&io::Error) -> Error,
    ) -> Result<DataFile> {
        let opened = with_retry(|| {
            #[cfg(test)]
            faults::check(path, faults::Operation::Open)?;
            open(exact)
        });
        let file = match opened {
            Ok(file) => DataFile(Arc::new(Opened { file, path: path.to_owned() })),
            Err(cause) => return Err(refuse(&cause)),
        };
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            let cause = io::Error::from_raw_os_error(libc::EISDIR);
            return Err(file.error(&cause));
        }
        match check_regular(&metadata) {
            Ok(()) => Ok(file),
            Err(cause) => Err(refuse(&cause)),
        }
    }

    /// A file that is open already, for tests.
    #[cfg(test)]
    pub fn from_file(file: File, path: &str) -> DataFile {
        DataFile(Arc::new(Opened { file, path: path.to_owned() }))
    }

    /// The file itself, for tests that change it.
    #[cfg(test)]
    pub fn raw(&self) -> &File {
        &self.0.file
    }

    /// The path as the configuration wrote it.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Size and time of the last change, as they are now.
    pub fn state(&self) -> Result<FileState> {
        let metadata = self.metadata()?;
        Ok(FileState { size: metadata.len(), modified: (metadata.mtime(), metadata.mtime_nsec()) })
    }

    /// Bytes of the file, as it is now.
    pub fn size(&self) -> Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    /// Whether this is the file of that path, by whatever name.
    pub fn is_same_as(&self, path: &str) -> bool {
        let identity = |metadata: &std::fs::Metadata| (metadata.dev(), metadata.ino());
        match (self.metadata(), std::fs::metadata(path)) {
            (Ok(own), Ok(other)) => identity(&own) == identity(&other),
            _ => false,
        }
    }

    fn metadata(&self) -> Result<std::fs::Metadata> {
        let metadata = with_retry(|| {
            #[cfg(test)]
            faults::check(self.path(), faults::Operation::State)?;
            self.0.file.metadata()
        });
        metadata.map_err(|cause| self.error(&cause))
    }

    /// Fills `buffer` with the bytes from `offset` on. Gives how many there are: fewer only where the file ends.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let wanted = buffer.len();
        self.read_all(offset, wanted, |at, filled, most| {
            self.0.file.read_at(&mut buffer[filled..filled + most], at)
        })
    }

    /// Fills `buffer` with the bytes from `offset` on. It is an error if the file ends before.
    pub fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let count = self.read_at(offset, buffer)?;
        self.check_count(offset, count, buffer.len())
    }

    /// [`DataFile::read_exact_at`] into memory that need not be initialized. All of `memory` is, if it succeeds.
    pub fn fill_at(&self, offset: u64, memory: &mut [MaybeUninit<u8>]) -> Result<()> {
        let wanted = memory.len();
        let count = self.read_all(offset, wanted, |at, filled, most| {
            let target = &mut memory[filled..filled + most];
            let at = i64::try_from(at).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
            // SAFETY: `target` is a live exclusive slice, so its `target.len()` bytes may be written, and writing is all
            // that the system does to them: they may hold anything before.
            let count =
                unsafe { libc::pread(self.0.file.as_raw_fd(), target.as_mut_ptr().cast(), target.len(), at) };
            usize::try_from(count).map_err(|_| io::Error::last_os_error())
        })?;
        self.check_count(offset, count, wanted)
    }

    /// Calls `read` with an offset in the file, the bytes that are filled, and the most that it may add, until `wanted`
    /// bytes are filled or the file ends.
    fn read_all(
        &self,
        offset: u64,
        wanted: usize,
        mut read: impl FnMut(u64, usize, usize) -> io::Result<usize>,
    ) -> Result<usize> {
        let mut filled = 0;
        while filled < wanted {
            let at = offset + filled as u64;
            let count = with_retry(|| {
                let most = wanted - filled;
                #[cfg(test)]
                let most = faults::check(self.path(), faults::Operation::Read)?.map_or(most, |n| n.min(most));
                read(at, filled, most)
            });
            match count {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(cause) => return Err(self.error(&cause).at(at, None)),
            }
        }
        Ok(filled)
    }

    fn check_count(&self, offset: u64, count: usize, wanted: usize) -> Result<()> {
        if count == wanted {
            return Ok(());
        }
        let (path, end) = (self.path(), offset + count as u64);
        let message = format!("Error reading file '{path}': it ends at {end}.");
        let detail = format!(
            "{} more bytes were expected: the file is not complete, or was cut while it was in use.",
            wanted - count
        );
        Err(Error::data(message).with_detail(detail).in_file(path).at(end, None))
    }

    fn error(&self, cause: &io::Error) -> Error {
        Error::io("Error reading file", self.path(), cause)
    }

    /// The file from `offset` on to its end.
    pub fn sequential_from(&self, offset: u64) -> Sequential<'_> {
        Sequential { file: self, at: offset }
    }

    /// The number of the line, from 1, that the byte at `offset` is in; `None` if the file cannot be read.
    pub fn line_at(&self, offset: u64) -> Option<u64> {
        let mut buffer = vec![0; 1 << 20];
        let mut line = 1;
        let mut at = 0;
        while at < offset {
            let size = (offset - at).min(buffer.len() as u64) as usize;
            let count = self.read_at(at, &mut buffer[..size]).ok()?;
            line += memchr::memchr_iter(b'\n', &buffer[..count]).count() as u64;
            if count < size {
                break;
            }
            at += count as u64;
        }
        Some(line)
    }
}

/// See [`DataFile::sequential_from`].
pub struct Sequential<'a> {
    file: &'a DataFile,
    at: u64,
}

impl Read for Sequential<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = with_retry(|| {
            #[cfg(test)]
            faults::check(self.file.path(), faults::Operation::Read)?;
            self.file.0.file.read_at(buffer, self.at)
        })?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Faults that tests inject into the calls for a file, by its path.
#[cfg(test)]
pub mod faults {
    use parking_lot::Mutex;
    use std::io;

    /// A call of the operating system.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Operation {
        /// Opening the file.
        Open,
        /// Asking for its size and times.
        State,
        /// Reading from it.
        Read,
    }

    /// What happens to a call in place of what it would do.
    #[derive(Debug, Clone, Copy)]
    pub enum Fault {
        /// It fails with this `errno`.
        Fails(i32),
        /// It reads at most this many bytes.
        Reads(usize),
    }

    struct Injected {
        path: String,
        operation: Operation,
        fault: Fault,
        /// Calls that are let through before the fault.
        after: usize,
        /// Calls that the fault still happens to.
        times: usize,
    }

    static FAULTS: Mutex<Vec<Injected>> = Mutex::new(Vec::new());

    /// The faults of a path; they end with this object.
    pub struct Faults(String);

    impl Faults {
        /// None yet.
        pub fn of(path: &str) -> Faults {
            Faults(path.to_owned())
        }

        /// The next `times` calls after `after` others have this fault.
        pub fn inject(&self, operation: Operation, fault: Fault, after: usize, times: usize) -> &Faults {
            let path = self.0.clone();
            FAULTS.lock().push(Injected { path, operation, fault, after, times });
            self
        }

        /// Calls that faults are still waiting for.
        pub fn left(&self) -> usize {
            FAULTS.lock().iter().filter(|fault| fault.path == self.0).map(|fault| fault.times).sum()
        }
    }

    impl Drop for Faults {
        fn drop(&mut self) {
            FAULTS.lock().retain(|fault| fault.path != self.0);
        }
    }

    /// What a call of this kind for this path has to do: fail, or read at most this many bytes.
    pub fn check(path: &str, operation: Operation) -> io::Result<Option<usize>> {
        let mut faults = FAULTS.lock();
        let mut of_call = faults
            .iter_mut()
            .filter(|fault| fault.path == path && fault.operation == operation && fault.times > 0);
        let Some(fault) = of_call.next() else { return Ok(None) };
        if let Some(after) = fault.after.checked_sub(1) {
            fault.after = after;
            return Ok(None);
        }
        fault.times -= 1;
        match fault.fault {
            Fault::Fails(errno) => Err(io::Error::from_raw_os_error(errno)),
            Fault::Reads(count) => Ok(Some(count)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::faults::{Fault, Faults, Operation};
    use super::*;
    use std::io::Write;

    /// How often a call is tried that always fails like this, and the pauses between.
    fn attempts(errno: i32) -> (usize, Vec<Duration>) {
        let (mut attempts, mut pauses) = (0, Vec::new());
        let failing = || {
            attempts += 1;
            if attempts > 100 { Ok(()) } else { Err(io::Error::from_raw_os_error(errno)) }
        };
        let result = with_pauses(failing, |duration| pauses.push(duration));
        assert_eq!(result.is_ok(), attempts > 100);
        (attempts, pauses)
    }

    #[test]
    fn what_may_pass_is_tried_five_times_within_cntks_patience() {
        for errno in [libc::EIO, libc::ESTALE, libc::EAGAIN, libc::ETIMEDOUT] {
            let (attempts, pauses) = attempts(errno);
            assert_eq!((attempts, pauses.as_slice()), (5, PAUSES.as_slice()));
        }
        assert!(PAUSES.iter().sum::<Duration>() < Duration::from_secs(4));
        assert!(PAUSES.is_sorted());
    }

    #[test]
    fn an_interrupted_call_is_repeated_at_once() {
        assert_eq!(attempts(libc::EINTR), (101, Vec::new()));
    }

    #[test]
    fn interruptions_take_no_attempt_from_what_may_pass() {
        let errnos = [libc::EINTR, libc::EIO, libc::EINTR, libc::EIO, libc::EIO, libc::EINTR, libc::EIO];
        let mut errnos = errnos.into_iter();
        let mut pauses = 0;
        let attempt = || errnos.next().map_or(Ok(7), |errno| Err(io::Error::from_raw_os_error(errno)));
        assert_eq!(with_pauses(attempt, |_| pauses += 1).ok(), Some(7));
        assert_eq!(pauses, 4);
    }

    #[test]
    fn what_cannot_pass_is_final() {
        for errno in [libc::EACCES, libc::ENOENT, libc::EBADF, libc::EISDIR] {
            assert_eq!(attempts(errno), (1, Vec::new()));
        }
    }

    fn file_of(content: &[u8]) -> (tempfile::NamedTempFile, String) {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(content).expect("writing");
        let path = file.path().to_str().expect("a path").to_owned();
        (file, path)
    }

    #[test]
    fn all_calls_survive_faults_that_pass() {
        let (_file, path) = file_of(b"0123456789");
        let faults = Faults::of(&path);
        faults.inject(Operation::Open, Fault::Fails(libc::ESTALE), 0, 4);
        faults.inject(Operation::State, Fault::Fails(libc::EIO), 0, 4);
        let file = DataFile::open(&path).expect("it opens at the fifth attempt");
        assert_eq!(faults.left(), 0);
        faults.inject(Operation::State, Fault::Fails(libc::EINTR), 0, 50);
        assert_eq!(file.size().expect("a size"), 10);
        faults.inject(Operation::Read, Fault::Fails(libc::EAGAIN), 0, 4);
        faults.inject(Operation::Read, Fault::Reads(3), 0, 2);
        faults.inject(Operation::Read, Fault::Fails(libc::EINTR), 0, 60);
        let mut buffer = [0; 9];
        file.read_exact_at(1, &mut buffer).expect("it reads");
        assert_eq!(&buffer, b"123456789");
        assert_eq!(faults.left(), 0);
        faults.inject(Operation::Read, Fault::Fails(libc::EIO), 0, 3);
        faults.inject(Operation::Read, Fault::Reads(1), 0, 4);
        let mut memory = [MaybeUninit::uninit(); 6];
        file.fill_at(4, &mut memory).expect("it reads");
        // SAFETY: `fill_at` has succeeded, so all six bytes are initialized.
        assert_eq!(memory.map(|byte| unsafe { byte.assume_init() }), *b"456789");
        faults.inject(Operation::Read, Fault::Fails(libc::EIO), 0, 4);
        let mut text = String::new();
        file.sequential_from(0).read_to_string(&mut text).expect("it reads");
        assert_eq!((text.as_str(), faults.left()), ("0123456789", 0));
    }

    #[test]
    fn errors_name_path_offset_and_what_to_do() {
        let (_file, path) = file_of(b"0123456789");
        let file = DataFile::open(&path).expect("a file");
        let faults = Faults::of(&path);
        faults.inject(Operation::Read, Fault::Reads(4), 0, 1);
        faults.inject(Operation::Read, Fault::Fails(libc::EIO), 0, 5);
        let error = file.read_at(2, &mut [0; 8]).expect_err("it fails five times");
        assert_eq!(error.message(), format!("Error reading file '{path}': Input/output error."));
        assert!(error.to_string().contains("five attempts"), "{error}");
        let place = error.location();
        assert_eq!((place.file.as_deref(), place.offset), (Some(path.as_str()), Some(6)));

        let error = file.read_exact_at(7, &mut [0; 8]).expect_err("it is too short");
        assert_eq!((error.location().offset, error.kind()), (Some(10), crate::ErrorKind::Data));
        assert!(error.to_string().contains("5 more bytes were expected"), "{error}");
        let error = file.fill_at(10, &mut [MaybeUninit::uninit()]).expect_err("it is too short");
        assert_eq!(error.location().offset, Some(10));

        let missing = format!("{path}.missing");
        let error = DataFile::open(&missing).expect_err("no file");
        assert_eq!(error.message(), format!("Error opening file '{missing}': No such file or directory."));
        let error = DataFile::open("/").expect_err("a directory");
        assert_eq!(error.message(), "Error reading file '/': Is a directory.");
    }

    #[test]
    fn pipes_and_devices_are_refused_without_waiting_for_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe").display().to_string();
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
        assert!(made.success());
        let error = DataFile::open(&pipe).expect_err("a pipe");
        assert_eq!(error.message(), format!("Error opening file '{pipe}': It is a pipe."));
        assert!(error.detail().contains("write the data to a file first"), "{error}");
        let error = DataFile::open("/dev/null").expect_err("a device");
        assert_eq!(error.message(), "Error opening file '/dev/null': It is a device.");
        let cause = read_whole(OsStr::new(&pipe), 10, &mut Vec::new()).expect_err("a pipe");
        assert_eq!(cause.kind(), IoErrorKind::NotSeekable);
    }

    #[test]
    fn lines_count_from_1() {
        let (_file, path) = file_of(b"a\nb\n\nc");
        let file = DataFile::open(&path).expect("a file");
        assert_eq!([0, 1, 2, 4, 5, 99].map(|offset| file.line_at(offset)), [1, 1, 2, 3, 4, 4].map(Some));
    }
}
