//! Data files: where their bytes come from, reading them at given offsets, and one rule of retrying.
//!
//! The index, the text parser, the binary reader, the readers of speech and of images, and the converters all read through
//! [`DataFile`]. Its bytes come from one of four sources: the file system; a file system that the program has
//! [mounted]; a compressed file whose frames are unpacked as they are needed ([`frames`]); a compressed file that was unpacked
//! once ([`unpacked`]). Offsets are those of the unpacked data. A network that recovers within four seconds disturbs none of
//! the readers, and errors name the path and the offset.

#![allow(unsafe_code, reason = "reads into uninitialized memory")]

pub mod address;
#[cfg(feature = "compression")]
mod cache_folder;
mod confinement;
pub mod descriptor;
mod failure;
#[cfg(any(test, feature = "test-support"))]
pub mod faults;
mod first_states;
#[cfg(feature = "compression")]
mod frames;
#[cfg(feature = "compression")]
mod gzip;
mod local;
pub mod mounted;
mod new_file;
mod packed;
mod retry;
#[cfg(test)]
mod tests;
pub mod text;
#[cfg(feature = "compression")]
mod unpacked;
pub(crate) mod xxh64;
#[cfg(feature = "compression")]
mod zstd;

pub use confinement::{Bounds, Confinement};
pub use first_states::FirstStates;
#[cfg(feature = "compression")]
pub use frames::{FrameTable, pack};
pub use new_file::NewFile;
pub use packed::is_named_as_zstd;
pub use retry::{is_lasting, with_retry};

use crate::limits::LARGEST_FILE;
use crate::memory::room;
use crate::runtime::cancel;
use crate::{Error, Result};
use mounted::MountedFile;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind as IoErrorKind, Read, Seek};
use std::mem::MaybeUninit;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, OnceLock};

/// Reads all of a file into `bytes`, whose memory is used again, and gives the file's state: `None` if it was written to in
/// the meantime, so that the bytes may be of two different files. Fails with [`io::ErrorKind::FileTooLarge`] if the file has
/// more than `most` bytes, before memory is taken for them. Compressed files are not unpacked.
pub fn read_whole(path: &OsStr, most: u64, bytes: &mut Vec<u8>) -> io::Result<Option<FileState>> {
    cancel::check().map_err(io::Error::other)?;
    if let Some(mounted) =
        path.to_str().and_then(|path| with_retry(|| MountedFile::open(path).transpose()).transpose())
    {
        return read_mounted(&mounted?, most, bytes);
    }
    let file = with_retry(|| {
        #[cfg(any(test, feature = "test-support"))]
        faults::check(&path.to_string_lossy(), faults::Operation::Open)?;
        local::open(path)
    })?;
    let metadata = with_retry(|| file.metadata())?;
    local::check_regular(&metadata)?;
    let size = metadata.len();
    if size > most {
        return Err(io::Error::from(IoErrorKind::FileTooLarge));
    }
    with_retry(|| {
        #[cfg(any(test, feature = "test-support"))]
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
    })?;
    let (before, after) = (FileState::of(&metadata), FileState::of(&with_retry(|| file.metadata())?));
    Ok((before == after).then_some(before))
}

/// [`read_whole`] of a mounted file. Asking for its state may be a request to a server, so it is asked for once: objects of
/// stores are replaced, not written to.
fn read_mounted(file: &MountedFile, most: u64, bytes: &mut Vec<u8>) -> io::Result<Option<FileState>> {
    let state = with_retry(|| file.state())?;
    let size = state.size;
    if size > most {
        return Err(io::Error::from(IoErrorKind::FileTooLarge));
    }
    bytes.clear();
    bytes.try_reserve(size as usize)?;
    bytes.resize(size as usize, 0);
    let mut filled = 0;
    while filled < bytes.len() {
        cancel::check().map_err(io::Error::other)?;
        match with_retry(|| file.read_at(filled as u64, &mut bytes[filled..]))? {
            0 => return Err(io::Error::from(IoErrorKind::UnexpectedEof)),
            count => filled += count,
        }
    }
    Ok(Some(state))
}

/// Says whether a file was written to or replaced: two equal states mean that it was not, as far as the system can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// Bytes of the file, once it is unpacked.
    pub size: u64,
    /// Time of the last change: seconds and nanoseconds since 1970. Of a mounted file a number that is another if the file is.
    pub modified: (i64, i64),
    /// The number that the file system knows the file by: another one if a file was renamed to the path. 0 of a mounted file.
    pub inode: u64,
}

impl FileState {
    fn of(metadata: &std::fs::Metadata) -> FileState {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        FileState { size: metadata.len(), modified, inode: metadata.ino() }
    }
}

/// An open file that is read at given offsets. Clones share the file; any thread may read at any time.
#[derive(Debug, Clone)]
pub struct DataFile(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    source: Source,
    path: String,
    /// What the file was when it was opened; of a mounted file, when its state was asked for first.
    first: OnceLock<FileState>,
}

/// Where the bytes of a file come from.
#[derive(Debug)]
enum Source {
    /// A file of the file system.
    Local(File),
    /// A file of a mounted file system.
    Mounted(MountedFile),
    /// A compressed file whose frames are unpacked as they are needed.
    #[cfg(feature = "compression")]
    Frames(Box<frames::Frames>),
    /// A compressed file that was unpacked once, and the file that this has made.
    #[cfg(feature = "compression")]
    Unpacked(DataFile, File),
    /// A text file whose text begins at `start`, or whose lines end with CR alone.
    Text { file: DataFile, start: u64, has_returns: bool },
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

    /// Opens a file that was open before. It is an error if it is not in the state any more in which it was then: what is known
    /// of the places in it would lead to other bytes.
    pub fn reopen(path: &str, before: &FileState) -> Result<DataFile> {
        let file = Self::open(path)?;
        match file.first_state()? {
            now if now == *before => Ok(file),
            now => Err(changed(path, Some(before.size), now.size)),
        }
    }

    /// [`DataFile::open_or`] for a path that need not be text; messages show `path` in its place. A
    /// URL is taken apart.
    pub fn open_shown(
        exact: &OsStr,
        path: &str,
        refuse: impl FnOnce(&io::Error) -> Error,
    ) -> Result<DataFile> {
        let decoded = exact.to_str().map(address::exact);
        let exact = decoded.as_deref().unwrap_or(exact);
        let file = Self::open_packed(exact, path, refuse)?;
        match packed::Compression::of(&file, exact)? {
            Some(compression) => packed::open(file, compression),
            None => Ok(file),
        }
    }

    /// [`DataFile::open_shown`] for the bytes as they are stored, which may be compressed.
    fn open_packed(exact: &OsStr, path: &str, refuse: impl FnOnce(&io::Error) -> Error) -> Result<DataFile> {
        let opened = with_retry(|| {
            #[cfg(any(test, feature = "test-support"))]
            faults::check(path, faults::Operation::Open)?;
            if let Some(mounted) = exact.to_str().and_then(MountedFile::open) {
                return mounted.map(Source::Mounted);
            }
            local::open(exact).map(Source::Local)
        });
        let file = match opened {
            Ok(source) => Self::from_source(source, path),
            Err(cause) => {
                let scheme = mounted::scheme_of(path).filter(|_| cause.kind() == IoErrorKind::NotFound);
                let hint = scheme.map_or_else(String::new, |scheme| {
                    format!("If '{scheme}://' names a file system of the program's own, mount it first.")
                });
                return Err(refuse(&cause).with_detail(hint));
            }
        };
        let Source::Local(local) = &file.0.source else { return Ok(file) };
        let metadata = file.metadata_of(local)?;
        check_size(metadata.len()).map_err(|cause| file.error(&cause))?;
        if metadata.is_dir() {
            let cause = io::Error::from_raw_os_error(libc::EISDIR);
            return Err(file.error(&cause));
        }
        local::check_regular(&metadata).map_err(|cause| refuse(&cause))?;
        file.0.first.get_or_init(|| FileState::of(&metadata));
        Ok(file)
    }

    fn from_source(source: Source, path: &str) -> DataFile {
        DataFile(Arc::new(Opened { source, path: path.to_owned(), first: OnceLock::new() }))
    }

    /// A file that is open already, for tests.
    #[cfg(any(test, feature = "test-support"))]
    pub fn from_file(file: File, path: &str) -> DataFile {
        Self::from_source(Source::Local(file), path)
    }

    /// The file itself, for tests that change it.
    #[cfg(any(test, feature = "test-support"))]
    pub fn raw(&self) -> &File {
        match &self.0.source {
            Source::Local(file) => file,
            Source::Text { file, .. } => file.raw(),
            _ => panic!("no file of the file system"),
        }
    }

    /// The path as the configuration wrote it.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Whether files may be kept beside this one: it is in the file system, perhaps compressed.
    pub fn is_local(&self) -> bool {
        match &self.0.source {
            Source::Local(_) => true,
            Source::Mounted(_) => false,
            #[cfg(feature = "compression")]
            Source::Frames(frames) => frames.packed().is_local(),
            #[cfg(feature = "compression")]
            Source::Unpacked(packed, _) => packed.is_local(),
            Source::Text { file, .. } => file.is_local(),
        }
    }

    /// Whether reads at any offsets cost about what their bytes do: no server is asked, and nothing
    /// is unpacked.
    pub(crate) fn reads_cheaply(&self) -> bool {
        match &self.0.source {
            Source::Local(_) => true,
            Source::Mounted(_) => false,
            Source::Text { file, .. } => file.reads_cheaply(),
            #[cfg(feature = "compression")]
            Source::Frames(_) => false,
            #[cfg(feature = "compression")]
            Source::Unpacked(..) => true,
        }
    }

    /// Bytes of memory that are held for reading the file.
    pub fn memory(&self) -> u64 {
        match &self.0.source {
            #[cfg(feature = "compression")]
            Source::Frames(frames) => frames.memory(),
            Source::Text { file, .. } => file.memory(),
            _ => 0,
        }
    }

    /// Size and time of the last change, as they are now.
    pub fn state(&self) -> Result<FileState> {
        let state = self.state_now()?;
        self.0.first.get_or_init(|| state);
        Ok(state)
    }

    /// The state in which the file was opened; of a mounted file, in which it was when its state was asked for first.
    pub fn first_state(&self) -> Result<FileState> {
        if let Source::Text { file, .. } = &self.0.source {
            return file.first_state();
        }
        self.0.first.get().map_or_else(|| self.state(), |&first| Ok(first))
    }

    fn state_now(&self) -> Result<FileState> {
        match &self.0.source {
            Source::Local(file) => Ok(FileState::of(&self.metadata_of(file)?)),
            Source::Mounted(file) => with_retry(|| {
                #[cfg(any(test, feature = "test-support"))]
                faults::check(self.path(), faults::Operation::State)?;
                file.state()
            })
            .map_err(|cause| self.error(&cause)),
            #[cfg(feature = "compression")]
            Source::Frames(frames) => Ok(FileState { size: frames.size(), ..frames.packed().state()? }),
            #[cfg(feature = "compression")]
            Source::Unpacked(packed, file) => {
                Ok(FileState { size: self.metadata_of(file)?.len(), ..packed.state()? })
            }
            Source::Text { file, .. } => file.state(),
        }
    }

    /// A result of reading the file, unless the file was written to since it was opened: an index of what it was before would
    /// give other bytes than those of the sequence that is meant. The error of such a file replaces any other.
    ///
    /// A file that another one replaced under its name is not changed: an open file goes on to be the old one.
    pub fn if_unchanged<T>(&self, result: Result<T>) -> Result<T> {
        match &self.0.source {
            #[cfg(feature = "compression")]
            Source::Frames(frames) => return frames.packed().if_unchanged(result),
            // What is read is this library's own file.
            #[cfg(feature = "compression")]
            Source::Unpacked(..) => return result,
            Source::Text { file, .. } => return file.if_unchanged(result),
            _ => {}
        }
        let Some(&first) = self.0.first.get() else { return result };
        match self.state_now() {
            Ok(now) if now == first => result,
            Ok(now) => Err(changed(self.path(), Some(first.size), now.size)),
            Err(error) => result.and(Err(error)),
        }
    }

    /// Bytes of the file, as it is now.
    pub fn size(&self) -> Result<u64> {
        match &self.0.source {
            Source::Local(file) => self.metadata_of(file).map(|metadata| metadata.len()),
            Source::Mounted(file) => with_retry(|| file.size()).map_err(|cause| self.error(&cause)),
            #[cfg(feature = "compression")]
            Source::Frames(frames) => Ok(frames.size()),
            #[cfg(feature = "compression")]
            Source::Unpacked(_, file) => self.metadata_of(file).map(|metadata| metadata.len()),
            Source::Text { file, .. } => file.size(),
        }
    }

    /// Whether this is the file of that path, by whatever name.
    pub fn is_same_as(&self, path: &str) -> bool {
        let own = match &self.0.source {
            Source::Local(file) => file.metadata(),
            Source::Mounted(_) => return self.path() == path,
            #[cfg(feature = "compression")]
            Source::Frames(frames) => return frames.packed().is_same_as(path),
            #[cfg(feature = "compression")]
            Source::Unpacked(packed, _) => return packed.is_same_as(path),
            Source::Text { file, .. } => return file.is_same_as(path),
        };
        let identity = |metadata: &std::fs::Metadata| (metadata.dev(), metadata.ino());
        match (own, std::fs::metadata(address::exact(path))) {
            (Ok(own), Ok(other)) => identity(&own) == identity(&other),
            _ => false,
        }
    }

    fn metadata_of(&self, file: &File) -> Result<std::fs::Metadata> {
        let metadata = with_retry(|| {
            #[cfg(any(test, feature = "test-support"))]
            faults::check(self.path(), faults::Operation::State)?;
            file.metadata()
        });
        metadata.map_err(|cause| self.error(&cause))
    }

    /// Fills `buffer` with the bytes from `offset` on. Gives how many there are: fewer only where the file ends.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        // SAFETY: `MaybeUninit<u8>` has the layout of `u8`, and the slice is exclusive. `read_into` and what it calls only ever
        // write initialized bytes, so all of `buffer` is initialized afterwards too.
        let memory = unsafe { &mut *(std::ptr::from_mut(buffer) as *mut [MaybeUninit<u8>]) };
        self.read_into(offset, memory)
    }

    /// Fills `buffer` with the bytes from `offset` on. It is an error if the file ends before.
    pub fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let count = self.read_at(offset, buffer)?;
        self.check_count(offset, count, buffer.len())
    }

    /// [`DataFile::read_exact_at`] into memory that need not be initialized. All of `memory` is, if it succeeds.
    pub fn fill_at(&self, offset: u64, memory: &mut [MaybeUninit<u8>]) -> Result<()> {
        let count = self.read_into(offset, memory)?;
        self.check_count(offset, count, memory.len())
    }

    /// Fills `memory` with the bytes from `offset` on, and gives how many there are: fewer than `memory` takes only where the
    /// file ends. Those bytes of `memory` are initialized, and none becomes uninitialized.
    fn read_into(&self, offset: u64, memory: &mut [MaybeUninit<u8>]) -> Result<usize> {
        match &self.0.source {
            Source::Local(file) => {
                self.read_all(offset, memory, |at, target| local::read_at(file, at, target))
            }
            Source::Mounted(file) => {
                self.read_all(offset, memory, |at, target| file.read_at(at, initialized(target)))
            }
            #[cfg(feature = "compression")]
            Source::Frames(frames) => frames.read(offset, memory),
            #[cfg(feature = "compression")]
            Source::Unpacked(_, file) => {
                self.read_all(offset, memory, |at, target| local::read_at(file, at, target))
            }
            Source::Text { file, has_returns, .. } => {
                if !has_returns {
                    return file.read_into(offset, memory);
                }
                let memory = initialized(memory);
                let count = file.read_at(offset, memory)?;
                text::returns_to_line_breaks(&mut memory[..count]);
                Ok(count)
            }
        }
    }

    /// Calls `read` with an offset in the file and the memory that is not filled yet, until all is or the file ends.
    fn read_all(
        &self,
        offset: u64,
        memory: &mut [MaybeUninit<u8>],
        mut read: impl FnMut(u64, &mut [MaybeUninit<u8>]) -> io::Result<usize>,
    ) -> Result<usize> {
        let mut filled = 0;
        while filled < memory.len() {
            cancel::check()?;
            let at = offset + filled as u64;
            let count = with_retry(|| {
                let target = &mut memory[filled..];
                #[cfg(any(test, feature = "test-support"))]
                let target = match faults::check(self.path(), faults::Operation::Read)? {
                    Some(most) if most < target.len() => &mut target[..most],
                    _ => target,
                };
                read(at, target)
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
            "{} more bytes were expected: the file is not complete, or was cut while it was in use. Write or copy it again.",
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
        let mut buffer = room::zeroed(1 << 20, room::FILE).ok()?;
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

/// Refuses a size that no file has: a sparse file, or a store that says it, can claim any number of
/// bytes.
fn check_size(size: u64) -> io::Result<u64> {
    if size <= LARGEST_FILE {
        return Ok(size);
    }
    let message = format!("it says that it has {size} bytes, and at most {LARGEST_FILE} are possible");
    Err(io::Error::new(IoErrorKind::InvalidData, message))
}

/// The error of a file that had `before` bytes when it was opened first, if that is known, and has `now` bytes.
pub fn changed(path: &str, before: Option<u64>, now: u64) -> Error {
    let message = format!("The file '{path}' was changed while it was in use.");
    let found = match before {
        Some(before) if before != now => {
            format!("It has {now} bytes, and had {before} when the reader was opened.")
        }
        Some(_) => {
            format!("It was written to or replaced since the reader was opened, and still has {now} bytes.")
        }
        None => format!("It was written to or replaced since it was read first, and has {now} bytes."),
    };
    let advice = "Open the reader again. To replace data that are in use, write new files beside them, and open a reader of those.";
    Error::data(message).with_detail(format!("{found} {advice}")).in_file(path)
}

/// The memory with zeros in it.
fn initialized(memory: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    memory.fill(MaybeUninit::new(0));
    // SAFETY: the line above has initialized all bytes, and `MaybeUninit<u8>` has the layout of `u8`.
    unsafe { &mut *(std::ptr::from_mut(memory) as *mut [u8]) }
}

/// Memory that is initialized, as its bytes.
///
/// # Safety
/// All of `memory` is initialized.
#[cfg(feature = "compression")]
unsafe fn initialized_ref(memory: &[MaybeUninit<u8>]) -> &[u8] {
    // SAFETY: initialized by this function's contract, and `MaybeUninit<u8>` has the layout of `u8`.
    unsafe { &*(std::ptr::from_ref(memory) as *const [u8]) }
}

/// See [`DataFile::sequential_from`].
pub struct Sequential<'a> {
    file: &'a DataFile,
    at: u64,
}

impl Sequential<'_> {
    /// Offset of the byte that is read next.
    #[cfg(feature = "compression")]
    fn at(&self) -> u64 {
        self.at
    }
}

impl Read for Sequential<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        cancel::check().map_err(io::Error::other)?;
        let count = match &self.file.0.source {
            Source::Local(file) => with_retry(|| {
                #[cfg(any(test, feature = "test-support"))]
                faults::check(self.file.path(), faults::Operation::Read)?;
                file.read_at(buffer, self.at)
            })?,
            Source::Mounted(file) => with_retry(|| file.read_at(self.at, buffer))?,
            _ => self.file.read_at(self.at, buffer).map_err(io::Error::other)?,
        };
        self.at += count as u64;
        Ok(count)
    }
}
