//! Windows.
//!
//! Files are opened for all to read, write, rename and remove, as Rust's standard library does, so
//! data in use can be replaced as on other systems.

pub use super::plain::{
    advise_huge, allocate_pages, free_pages, grow_pages, is_path_of_open, name_unnamed, open_unnamed,
    path_of_open, populate, power_of_ten, refuse_cancel, stop_unwinding,
};

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::windows::ffi::OsStringExt;
use std::os::windows::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::os::windows::io::AsRawHandle;
use std::path::{Path, PathBuf};
use windows_sys::Win32::Foundation::{
    ERROR_CANT_RESOLVE_FILENAME, ERROR_CRC, ERROR_DEV_NOT_EXIST, ERROR_IO_DEVICE, ERROR_LOCK_VIOLATION,
    ERROR_NETNAME_DELETED, ERROR_SEM_TIMEOUT, ERROR_SHARING_VIOLATION, ERROR_UNEXP_NET_ERR,
};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, FILE_SHARE_DELETE,
    FILE_SHARE_READ, FILE_TYPE_CHAR, FILE_TYPE_PIPE, GetFileInformationByHandle, GetFileType,
};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};

/// 1970 in the system's time, which counts 100 ns since 1601.
const UNIX_EPOCH: i64 = 116_444_736_000_000_000;

/// The system's units of time in a second.
const PER_SECOND: i64 = 10_000_000;

/// Returns the path that these bytes name, as in a file with paths: UTF-8, in which halves of
/// surrogate pairs may stand alone, as in names that are not UTF-16.
pub fn path_from_bytes(bytes: &[u8]) -> Cow<'_, OsStr> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(OsStr::new(text)),
        Err(_) => Cow::Owned(OsString::from_wide(&units(bytes))),
    }
}

/// Decodes UTF-8 with lone surrogates. Other bytes become replacement characters.
fn units(mut bytes: &[u8]) -> Vec<u16> {
    let mut units = Vec::with_capacity(bytes.len());
    while !bytes.is_empty() {
        let valid = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            // The bytes before the place of the error are valid.
            Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
        };
        units.extend(valid.encode_utf16());
        bytes = &bytes[valid.len()..];
        match *bytes {
            [0xed, high @ 0xa0..=0xbf, low @ 0x80..=0xbf, ..] => {
                units.push(0xd000 | u16::from(high & 0x3f) << 6 | u16::from(low & 0x3f));
                bytes = &bytes[3..];
            }
            [_, ..] => {
                units.push(char::REPLACEMENT_CHARACTER as u16);
                bytes = &bytes[1..];
            }
            [] => {}
        }
    }
    units
}

/// Returns the path in a URL, after `file://`: there, a slash precedes the letter of a drive.
pub fn path_of_url(path: &str) -> &str {
    match path.as_bytes() {
        [b'/', drive, b':' | b'|', ..] if drive.is_ascii_alphabetic() => &path[1..],
        _ => path,
    }
}

/// Opens a file.
pub fn open(options: &OpenOptions, path: impl AsRef<Path>) -> io::Result<File> {
    options.open(path)
}

/// Opens a data file for reading. Refuses pipes and devices, whose metadata the system does not
/// have.
pub fn open_data(path: &OsStr) -> io::Result<File> {
    let file = File::open(path).map_err(|cause| {
        // The system says only that a folder cannot be opened so.
        let is_folder = cause.kind() == io::ErrorKind::PermissionDenied && Path::new(path).is_dir();
        if is_folder { is_a_folder() } else { cause }
    })?;
    // SAFETY: `file` keeps its handle open.
    let what = match unsafe { GetFileType(file.as_raw_handle()) } {
        FILE_TYPE_PIPE => "It is a pipe",
        FILE_TYPE_CHAR => "It is a device",
        _ => return Ok(file),
    };
    Err(io::Error::new(io::ErrorKind::NotSeekable, what))
}

/// Opens a file without following a link at its path. Returns `None` if there is a link.
pub fn open_no_link(options: &OpenOptions, path: &Path) -> io::Result<Option<File>> {
    let file = options.clone().custom_flags(FILE_FLAG_OPEN_REPARSE_POINT).open(path);
    let file = file.map_err(|cause| match cause.raw_os_error() {
        // Another writer has the file: see `make_exclusive`.
        Some(code) if code == ERROR_SHARING_VIOLATION.cast_signed() => io::ErrorKind::ResourceBusy.into(),
        _ => cause,
    })?;
    let is_link = file.metadata()?.file_type().is_symlink();
    Ok((!is_link).then_some(file))
}

/// Does nothing: a folder of the user belongs to the user alone.
pub fn make_private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Keeps others from opening a file for writing until it is closed. They may read it; a lock would
/// keep them from that, too.
pub fn make_exclusive(options: &mut OpenOptions) -> &mut OpenOptions {
    options.share_mode(FILE_SHARE_READ | FILE_SHARE_DELETE)
}

/// Returns true: [`make_exclusive`] keeps other writers away.
pub fn try_lock(_: &File) -> bool {
    true
}

/// Creates a folder, and those above it.
pub fn create_private_folder(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

/// Returns the folder for caches of all programs of this user.
pub fn user_caches() -> Option<PathBuf> {
    std::env::var_os("LOCALAPPDATA").filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Returns `None`: the folder of a user's caches belongs to that user.
pub fn other_owner(_: &Metadata) -> Option<u32> {
    None
}

/// Returns `None`: the folder of a user's caches is not open to others.
pub fn open_to_others(_: &Metadata) -> Option<u32> {
    None
}

/// Returns false: see [`other_owner`].
pub fn has_other_names(_: &Metadata) -> bool {
    false
}

/// Returns `None`: metadata say nothing about pipes and devices, which [`open_data`] refuses.
pub fn special(_: &FileType) -> Option<&'static str> {
    None
}

/// Returns the numbers of an open file's volume and of the file on it.
pub fn identity(file: &File) -> io::Result<(u64, u64)> {
    let mut found = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: `file` keeps its handle open, and `found` is a live structure that the call fills.
    if unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut found) } == 0 {
        return Err(io::Error::last_os_error());
    }
    let number = u64::from(found.nFileIndexHigh) << 32 | u64::from(found.nFileIndexLow);
    Ok((found.dwVolumeSerialNumber.into(), number))
}

/// Like [`identity`], of the file that a path leads to.
pub fn identity_of(path: &Path) -> io::Result<(u64, u64)> {
    // Folders open only with this flag. Without any access, no sharing is refused.
    identity(&OpenOptions::new().access_mode(0).custom_flags(FILE_FLAG_BACKUP_SEMANTICS).open(path)?)
}

/// Returns the number of an open file on its volume; 0 if the volume has no such numbers.
pub fn number(file: &File, _: &Metadata) -> u64 {
    identity(file).map_or(0, |(_, number)| number)
}

/// Returns the time when a file was last written to, in seconds and nanoseconds since 1970.
pub fn modified(metadata: &Metadata) -> (i64, i64) {
    let time = metadata.last_write_time().cast_signed() - UNIX_EPOCH;
    (time.div_euclid(PER_SECOND), time.rem_euclid(PER_SECOND) * 100)
}

/// Like [`modified`]: there is no other time of a change.
pub fn changed(metadata: &Metadata) -> (i64, i64) {
    modified(metadata)
}

/// Reads bytes from offset `at` in one call, which may be fewer than available, and returns their
/// number. All of `target` is initialized.
pub fn read_at(file: &File, at: u64, target: &mut [MaybeUninit<u8>]) -> io::Result<usize> {
    target.fill(MaybeUninit::new(0));
    // SAFETY: the line above has initialized all bytes, and `MaybeUninit<u8>` has the layout of
    // `u8`.
    let target = unsafe { &mut *(std::ptr::from_mut(target) as *mut [u8]) };
    file.seek_read(target, at)
}

/// The error of reading a folder as a file.
pub fn is_a_folder() -> io::Error {
    io::ErrorKind::IsADirectory.into()
}

/// The error of following too many links.
pub fn too_many_links() -> io::Error {
    io::Error::from_raw_os_error(ERROR_CANT_RESOLVE_FILENAME.cast_signed())
}

/// Returns whether links lead in a cycle.
pub fn is_cycle_of_links(cause: &io::Error) -> bool {
    cause.raw_os_error() == Some(ERROR_CANT_RESOLVE_FILENAME.cast_signed())
}

/// Returns whether a disk, a network, or another program that has the file for itself is the cause
/// of an error, each of which may recover; errors that Rust has a kind for need not be known here.
pub fn may_recover(cause: &io::Error) -> bool {
    let code = cause.raw_os_error().map(i32::cast_unsigned);
    matches!(
        code,
        Some(
            ERROR_SHARING_VIOLATION
                | ERROR_LOCK_VIOLATION
                | ERROR_CRC
                | ERROR_IO_DEVICE
                | ERROR_NETNAME_DELETED
                | ERROR_UNEXP_NET_ERR
                | ERROR_DEV_NOT_EXIST
                | ERROR_SEM_TIMEOUT
        )
    )
}

/// Returns the physical memory of the machine in bytes, if it is known.
pub fn physical_memory() -> Option<u64> {
    let size = u32::try_from(size_of::<MEMORYSTATUSEX>()).ok()?;
    let mut found = MEMORYSTATUSEX { dwLength: size, ..Default::default() };
    // SAFETY: `found` is a live structure that says its size, as the call requires.
    (unsafe { GlobalMemoryStatusEx(&raw mut found) } != 0).then_some(found.ullTotalPhys)
}

/// Does nothing: processes do not fork.
pub fn at_forks(_: extern "C" fn(), _: extern "C" fn(), _: extern "C" fn()) {}

/// Does nothing: when a process exits, the system ends its other threads before it runs handlers
/// and destructors of libraries. A program whose own static objects are used by a reader's
/// callbacks frees the reader first.
pub fn at_exit(_: extern "C" fn()) {}
