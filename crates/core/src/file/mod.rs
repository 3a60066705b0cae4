//! Data files: their storage, reads at offsets, and retries.
//!
//! All parts of the library that read data go through [`DataFile`]: the index, the text parser, the
//! binary reader, the readers of speech and images, and the converters. The bytes come from one of
//! four places: the file system; a file system that the program has [mounted]; a compressed file
//! whose frames are unpacked on demand ([`frames`]); a compressed file that was unpacked once
//! ([`unpacked`]). Offsets refer to the unpacked data. Readers are not disturbed by a network that
//! recovers within four seconds, and errors name the path and the offset.

#![allow(unsafe_code, reason = "reads into uninitialized memory")]

pub mod address;
#[cfg(feature = "compression")]
mod cache_folder;
mod confinement;
mod failure;
#[cfg(any(test, feature = "test-support"))]
pub mod faults;
mod first_states;
#[cfg(feature = "compression")]
mod frames;
#[cfg(feature = "compression")]
mod gzip;
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
use crate::{Error, Result, system};
use mounted::MountedFile;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind as IoErrorKind, Read, Seek};
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Reads a whole file into `bytes`, reusing its memory, and returns the file's state, or `None` if
/// the file was written to in the meantime, so that the bytes may mix two versions. Fails with
/// [`io::ErrorKind::FileTooLarge`], before allocating, if the file has more than `most` bytes.
/// Compressed files are not unpacked.
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
        system::open_data(path)
    })?;
    let metadata = with_retry(|| file.metadata())?;
    check_regular(&metadata)?;
    let size = metadata.len();
    if size > most {
        return Err(io::Error::from(IoErrorKind::FileTooLarge));
    }
    with_retry(|| {
        #[cfg(any(test, feature = "test-support"))]
        faults::check(&path.to_string_lossy(), faults::Operation::Read)?;
        bytes.clear();
        // One extra byte of capacity lets `read_to_end` find the end without growing the buffer.
        bytes.try_reserve(size as usize + 1)?;
        let mut file = &file;
        file.rewind()?;
        match file.take(most + 1).read_to_end(bytes)? as u64 {
            read if read > most => Err(io::Error::from(IoErrorKind::FileTooLarge)),
            _ => Ok(()),
        }
    })?;
    let (before, after) =
        (FileState::of(&file, &metadata), FileState::of(&file, &with_retry(|| file.metadata())?));
    Ok((before == after).then_some(before))
}

/// [`read_whole`] of a mounted file. Querying the state may be a request to a server, so it is
/// queried once: objects in stores are replaced, not written to.
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

/// The identity of a file's content. Equal states mean that the file was not written to or
/// replaced, as far as the system can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    /// Size of the file in bytes, once unpacked.
    pub size: u64,
    /// Time of the last change, in seconds and nanoseconds since 1970. For a mounted file, a number
    /// that differs if the file does.
    pub modified: (i64, i64),
    /// Inode number, which differs if another file was renamed to the path. 0 for a mounted file.
    pub inode: u64,
}

impl FileState {
    fn of(file: &File, metadata: &Metadata) -> FileState {
        let modified = system::modified(metadata);
        FileState { size: metadata.len(), modified, inode: system::number(file, metadata) }
    }
}

/// An open file for reads at offsets. Clones share the file; any thread may read at any time.
#[derive(Debug, Clone)]
pub struct DataFile(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    source: FileSource,
    path: String,
    /// State of the file when it was opened; for a mounted file, when the state was first queried.
    first: OnceLock<FileState>,
}

/// The storage behind a data file.
#[derive(Debug)]
enum FileSource {
    /// In the file system.
    Local(File),
    /// In a mounted file system.
    Mounted(MountedFile),
    /// A compressed file whose frames are unpacked on demand.
    #[cfg(feature = "compression")]
    Frames(Box<frames::Frames>),
    /// A compressed file that was unpacked once, and the unpacked file.
    #[cfg(feature = "compression")]
    Unpacked(DataFile, File),
    /// A text file whose text begins at `start`, or whose lines end with CR alone.
    Text { file: DataFile, start: u64, has_returns: bool },
}

impl DataFile {
    /// Opens a file for reading. Fails unless it is a regular file.
    pub fn open(path: &str) -> Result<DataFile> {
        Self::open_or(path, |cause| Error::io("Error opening file", path, cause))
    }

    /// Like [`DataFile::open`]; `refuse` makes the error for a file that cannot be opened.
    pub fn open_or(path: &str, refuse: impl FnOnce(&io::Error) -> Error) -> Result<DataFile> {
        Self::open_shown(OsStr::new(path), path, refuse)
    }

    /// Opens a file that was open before. Fails if its state has changed, because known offsets in
    /// it would lead to other bytes.
    pub fn reopen(path: &str, before: &FileState) -> Result<DataFile> {
        let file = Self::open(path)?;
        match file.first_state()? {
            now if now == *before => Ok(file),
            now => Err(changed(path, Some(before.size), now.size)),
        }
    }

    /// Like [`DataFile::open_or`], for a path that need not be UTF-8; messages show `path` in its
    /// place. URLs are decoded.
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

    /// Like [`DataFile::open_shown`], for the bytes as stored, without decompression.
    fn open_packed(exact: &OsStr, path: &str, refuse: impl FnOnce(&io::Error) -> Error) -> Result<DataFile> {
        let opened = with_retry(|| {
            #[cfg(any(test, feature = "test-support"))]
            faults::check(path, faults::Operation::Open)?;
            if let Some(mounted) = exact.to_str().and_then(MountedFile::open) {
                return mounted.map(FileSource::Mounted);
            }
            system::open_data(exact).map(FileSource::Local)
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
        let FileSource::Local(local) = &file.0.source else { return Ok(file) };
        let metadata = file.metadata_of(local)?;
        check_size(metadata.len()).map_err(|cause| file.error(&cause))?;
        if metadata.is_dir() {
            return Err(file.error(&system::is_a_folder()));
        }
        check_regular(&metadata).map_err(|cause| refuse(&cause))?;
        file.0.first.get_or_init(|| FileState::of(local, &metadata));
        Ok(file)
    }

    fn from_source(source: FileSource, path: &str) -> DataFile {
        DataFile(Arc::new(Opened { source, path: path.to_owned(), first: OnceLock::new() }))
    }

    /// Wraps an open file, for tests.
    #[cfg(any(test, feature = "test-support"))]
    pub fn from_file(file: File, path: &str) -> DataFile {
        Self::from_source(FileSource::Local(file), path)
    }

    /// Returns the underlying file, for tests that change it.
    #[cfg(any(test, feature = "test-support"))]
    pub fn raw(&self) -> &File {
        match &self.0.source {
            FileSource::Local(file) => file,
            FileSource::Text { file, .. } => file.raw(),
            _ => panic!("no file of the file system"),
        }
    }

    /// Returns the path as written in the configuration.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns whether files may be kept next to this one: it is in the file system, compressed or
    /// not.
    pub fn is_local(&self) -> bool {
        match &self.0.source {
            FileSource::Local(_) => true,
            FileSource::Mounted(_) => false,
            #[cfg(feature = "compression")]
            FileSource::Frames(frames) => frames.packed().is_local(),
            #[cfg(feature = "compression")]
            FileSource::Unpacked(packed, _) => packed.is_local(),
            FileSource::Text { file, .. } => file.is_local(),
        }
    }

    /// Returns whether the cost of a read at any offset is roughly proportional to its size: no
    /// server is involved, and nothing is unpacked.
    pub(crate) fn reads_cheaply(&self) -> bool {
        match &self.0.source {
            FileSource::Local(_) => true,
            FileSource::Mounted(_) => false,
            FileSource::Text { file, .. } => file.reads_cheaply(),
            #[cfg(feature = "compression")]
            FileSource::Frames(_) => false,
            #[cfg(feature = "compression")]
            FileSource::Unpacked(..) => true,
        }
    }

    /// Returns the number of bytes of memory held for reading the file.
    pub fn memory(&self) -> u64 {
        match &self.0.source {
            #[cfg(feature = "compression")]
            FileSource::Frames(frames) => frames.memory(),
            FileSource::Text { file, .. } => file.memory(),
            _ => 0,
        }
    }

    /// Returns the current size and time of the last change.
    pub fn state(&self) -> Result<FileState> {
        let state = self.state_now()?;
        self.0.first.get_or_init(|| state);
        Ok(state)
    }

    /// Returns the state of the file when it was opened; for a mounted file, when the state was
    /// first queried.
    pub fn first_state(&self) -> Result<FileState> {
        if let FileSource::Text { file, .. } = &self.0.source {
            return file.first_state();
        }
        self.0.first.get().map_or_else(|| self.state(), |&first| Ok(first))
    }

    fn state_now(&self) -> Result<FileState> {
        match &self.0.source {
            FileSource::Local(file) => Ok(FileState::of(file, &self.metadata_of(file)?)),
            FileSource::Mounted(file) => with_retry(|| {
                #[cfg(any(test, feature = "test-support"))]
                faults::check(self.path(), faults::Operation::State)?;
                file.state()
            })
            .map_err(|cause| self.error(&cause)),
            #[cfg(feature = "compression")]
            FileSource::Frames(frames) => Ok(FileState { size: frames.size(), ..frames.packed().state()? }),
            #[cfg(feature = "compression")]
            FileSource::Unpacked(packed, file) => {
                Ok(FileState { size: self.metadata_of(file)?.len(), ..packed.state()? })
            }
            FileSource::Text { file, .. } => file.state(),
        }
    }

    /// Passes on the result of a read, unless the file was written to after it was opened: an index
    /// made earlier would then lead to bytes of another sequence. The error about the change
    /// replaces any other error.
    ///
    /// A file that was replaced under its name counts as unchanged: the open file is still the old
    /// one.
    pub fn if_unchanged<T>(&self, result: Result<T>) -> Result<T> {
        match &self.0.source {
            #[cfg(feature = "compression")]
            FileSource::Frames(frames) => return frames.packed().if_unchanged(result),
            // The file that is read is this library's own.
            #[cfg(feature = "compression")]
            FileSource::Unpacked(..) => return result,
            FileSource::Text { file, .. } => return file.if_unchanged(result),
            _ => {}
        }
        let Some(&first) = self.0.first.get() else { return result };
        match self.state_now() {
            Ok(now) if now == first => result,
            Ok(now) => Err(changed(self.path(), Some(first.size), now.size)),
            Err(error) => result.and(Err(error)),
        }
    }

    /// Returns the current size of the file in bytes.
    pub fn size(&self) -> Result<u64> {
        match &self.0.source {
            FileSource::Local(file) => self.metadata_of(file).map(|metadata| metadata.len()),
            FileSource::Mounted(file) => with_retry(|| file.size()).map_err(|cause| self.error(&cause)),
            #[cfg(feature = "compression")]
            FileSource::Frames(frames) => Ok(frames.size()),
            #[cfg(feature = "compression")]
            FileSource::Unpacked(_, file) => self.metadata_of(file).map(|metadata| metadata.len()),
            FileSource::Text { file, .. } => file.size(),
        }
    }

    /// Returns whether `path` leads to this file, under any name.
    pub fn is_same_as(&self, path: &str) -> bool {
        let own = match &self.0.source {
            FileSource::Local(file) => system::identity(file),
            FileSource::Mounted(_) => return self.path() == path,
            #[cfg(feature = "compression")]
            FileSource::Frames(frames) => return frames.packed().is_same_as(path),
            #[cfg(feature = "compression")]
            FileSource::Unpacked(packed, _) => return packed.is_same_as(path),
            FileSource::Text { file, .. } => return file.is_same_as(path),
        };
        match (own, system::identity_of(Path::new(&address::exact(path)))) {
            (Ok(own), Ok(other)) => own == other,
            _ => false,
        }
    }

    fn metadata_of(&self, file: &File) -> Result<Metadata> {
        let metadata = with_retry(|| {
            #[cfg(any(test, feature = "test-support"))]
            faults::check(self.path(), faults::Operation::State)?;
            file.metadata()
        });
        metadata.map_err(|cause| self.error(&cause))
    }

    /// Fills `buffer` with the bytes from `offset` on. Returns their number, which is less than
    /// `buffer.len()` only at the end of the file.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.read_into(offset, uninitialized(buffer))
    }

    /// Fills `buffer` with the bytes from `offset` on. Fails if the file ends earlier.
    pub fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let count = self.read_at(offset, buffer)?;
        self.check_count(offset, count, buffer.len())
    }

    /// Like [`DataFile::read_exact_at`], for memory that need not be initialized. On success, all
    /// of `memory` is initialized.
    pub fn fill_at(&self, offset: u64, memory: &mut [MaybeUninit<u8>]) -> Result<()> {
        let count = self.read_into(offset, memory)?;
        self.check_count(offset, count, memory.len())
    }

    /// Fills `memory` with the bytes from `offset` on. Returns their number, which is less than
    /// `memory.len()` only at the end of the file. These bytes of `memory` are initialized; no
    /// other byte becomes uninitialized.
    fn read_into(&self, offset: u64, memory: &mut [MaybeUninit<u8>]) -> Result<usize> {
        match &self.0.source {
            FileSource::Local(file) => {
                self.read_all(offset, memory, |at, target| system::read_at(file, at, target))
            }
            FileSource::Mounted(file) => {
                self.read_all(offset, memory, |at, target| file.read_at(at, initialized(target)))
            }
            #[cfg(feature = "compression")]
            FileSource::Frames(frames) => frames.read(offset, memory),
            #[cfg(feature = "compression")]
            FileSource::Unpacked(_, file) => {
                self.read_all(offset, memory, |at, target| system::read_at(file, at, target))
            }
            FileSource::Text { file, has_returns, .. } => {
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

    /// Calls `read` with a file offset and the unfilled memory until the memory is full or the file
    /// ends.
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

    /// Returns a sequential reader from `offset` to the end of the file.
    pub fn sequential_from(&self, offset: u64) -> Sequential<'_> {
        Sequential { file: self, at: offset }
    }

    /// Returns the number of the line, counted from 1, that contains the byte at `offset`; `None`
    /// if the file cannot be read.
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

/// Refuses an impossible size: a sparse file, or a store's answer, can claim any number of bytes.
fn check_size(size: u64) -> io::Result<u64> {
    if size <= LARGEST_FILE {
        return Ok(size);
    }
    let message = format!("it claims to have {size} bytes, and at most {LARGEST_FILE} are supported");
    Err(io::Error::new(IoErrorKind::InvalidData, message))
}

/// Returns the error for a file that had `before` bytes when it was first opened, if known, and has
/// `now` bytes.
pub fn changed(path: &str, before: Option<u64>, now: u64) -> Error {
    let message = format!("The file '{path}' was changed while it was in use.");
    let found = match before {
        Some(before) if before != now => {
            format!("It has {now} bytes, but had {before} when the reader was opened.")
        }
        Some(_) => {
            format!("It was written to or replaced since the reader was opened, and still has {now} bytes.")
        }
        None => format!("It was written to or replaced since it was read first, and has {now} bytes."),
    };
    let advice = "Open the reader again. To replace data in use, write new files next to them and open a reader on those.";
    Error::data(message).with_detail(format!("{found} {advice}")).in_file(path)
}

/// Refuses files that several threads cannot read repeatedly at offsets: pipes, sockets and devices
/// fail with [`io::ErrorKind::NotSeekable`]. Folders pass here; reading them fails.
fn check_regular(metadata: &Metadata) -> io::Result<()> {
    match system::special(&metadata.file_type()) {
        None => Ok(()),
        Some(what) => Err(io::Error::new(IoErrorKind::NotSeekable, what)),
    }
}

/// Views memory as the target of a read, which only ever writes initialized bytes to it.
fn uninitialized(memory: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: `MaybeUninit<u8>` has the layout of `u8`, and the slice is exclusive. It is given only
    // to functions that write initialized bytes, so all of `memory` is still initialized afterwards.
    unsafe { &mut *(std::ptr::from_mut(memory) as *mut [MaybeUninit<u8>]) }
}

/// Fills the memory with zeros.
fn initialized(memory: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    memory.fill(MaybeUninit::new(0));
    // SAFETY: the line above has initialized all bytes, and `MaybeUninit<u8>` has the layout of
    // `u8`.
    unsafe { &mut *(std::ptr::from_mut(memory) as *mut [u8]) }
}

/// Views initialized memory as bytes.
///
/// # Safety
/// All of `memory` must be initialized.
#[cfg(feature = "compression")]
unsafe fn initialized_ref(memory: &[MaybeUninit<u8>]) -> &[u8] {
    // SAFETY: initialized by this function's contract, and `MaybeUninit<u8>` has the layout of
    // `u8`.
    unsafe { &*(std::ptr::from_ref(memory) as *const [u8]) }
}

/// A sequential reader of a [`DataFile`]; see [`DataFile::sequential_from`].
pub struct Sequential<'a> {
    file: &'a DataFile,
    at: u64,
}

impl Sequential<'_> {
    /// Returns the offset of the next byte.
    #[cfg(feature = "compression")]
    fn at(&self) -> u64 {
        self.at
    }
}

impl Read for Sequential<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        cancel::check().map_err(io::Error::other)?;
        let count = match &self.file.0.source {
            FileSource::Local(file) => with_retry(|| {
                #[cfg(any(test, feature = "test-support"))]
                faults::check(self.file.path(), faults::Operation::Read)?;
                system::read_at(file, self.at, uninitialized(buffer))
            })?,
            FileSource::Mounted(file) => with_retry(|| file.read_at(self.at, buffer))?,
            _ => self.file.read_at(self.at, buffer).map_err(io::Error::other)?,
        };
        self.at += count as u64;
        Ok(count)
    }
}
