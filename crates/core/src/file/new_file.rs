//! Files that appear under their names only once they are complete.
//!
//! A new file is written without a name (`O_TMPFILE` of Linux), so that the system removes it
//! whenever the process ends. File systems that do not support this get a file with a temporary name next to the
//! target, which is removed on every exit path except a kill. There is one such name per target,
//! and its writer holds a lock on the file: the leftover of a killed writer has no lock, so the
//! next writer of the target reclaims it, whichever host, container or process left it.
//!
//! Only plain files are replaced. A device, a pipe, a socket or a folder at the target is refused,
//! because renaming over it would destroy it. Links are followed, so the file that a link leads to
//! is replaced and the link stays; a cache that is a link is refused. Temporary names are never
//! followed.

use super::with_retry;
use super::xxh64::Xxh64;
use crate::system;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind as IoErrorKind, Seek};
use std::path::{Path, PathBuf};

/// Attempts to take a name that other writers take at the same time.
const ATTEMPTS: usize = 8;

/// Maximum length of a file name in bytes (Linux).
const LONGEST_NAME: usize = 255;

/// Maximum number of links in a chain (Linux).
const MAX_LINKS: usize = 40;

/// A file being written. If it is dropped before it has its name, no file is left.
pub struct NewFile {
    file: File,
    target: PathBuf,
    temporary: PathBuf,
    /// Whether the file has its temporary name; otherwise it has no name.
    is_named: bool,
}

impl NewFile {
    /// Like [`NewFile::open`], for a file that only this user may read.
    #[cfg(feature = "compression")]
    pub(crate) fn create_private(target: &Path) -> io::Result<NewFile> {
        Self::with_options(target, "", false, system::make_private(&mut OpenOptions::new()))
    }

    /// Like [`NewFile::open`], for a cache. A link in its place is refused.
    pub(crate) fn create_cache(target: &Path) -> io::Result<NewFile> {
        check_replaceable(target)?;
        Self::open(target, "", false)
    }

    /// Begins a file that will get the path `target`, which names a file. `part` distinguishes the
    /// parts of one output. If `is_named`, the file has its temporary name from the start.
    ///
    /// Fails with [`io::ErrorKind::ResourceBusy`] if the file system does not support files without
    /// names, and another process or thread is writing a file for this target.
    pub fn open(target: &Path, part: &str, is_named: bool) -> io::Result<NewFile> {
        Self::with_options(&followed(target)?, part, is_named, &mut OpenOptions::new())
    }

    fn with_options(
        target: &Path,
        part: &str,
        is_named: bool,
        options: &mut OpenOptions,
    ) -> io::Result<NewFile> {
        check_replaceable(target)?;
        let name = target.file_name().ok_or(IoErrorKind::InvalidFilename)?;
        let folder = match target.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let temporary = folder.join(temporary_name(name, part));
        options.read(true).write(true);
        let (file, is_named) = match (!is_named).then(|| system::open_unnamed(options, folder)) {
            Some(Ok(file)) => (file, false),
            _ => (claim(system::make_exclusive(options.create(true)), &temporary)?, true),
        };
        Ok(NewFile { file, target: target.to_owned(), temporary, is_named })
    }

    /// Returns the underlying file.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Returns a path by which this process can read the file. The system's name of the open file
    /// is preferred, because the temporary name does not tell the file's type.
    pub fn readable_path(&self) -> String {
        system::path_of_open(&self.file).unwrap_or_else(|| self.temporary.display().to_string())
    }

    /// Syncs the data and gives the complete file its name, replacing an earlier file atomically.
    /// If the process is killed before the rename, the next file for this target replaces the
    /// leftover.
    pub fn replace(mut self) -> io::Result<()> {
        // Otherwise a system crash could leave the name without the data.
        self.file.sync_data()?;
        if !self.is_named {
            link_over(&self.file, &self.temporary)?;
            self.is_named = true;
        }
        self.rename()
    }

    /// Like [`NewFile::replace`], for a dispensable file such as a cache: an earlier file is
    /// removed first, so a kill leaves one of the two or neither, and several processes may do this
    /// at once.
    pub(crate) fn replace_cache(mut self) -> io::Result<()> {
        check_replaceable(&self.target)?;
        match self.is_named {
            true => self.rename(),
            false => link_over(&self.file, &self.target),
        }
    }

    fn rename(&mut self) -> io::Result<()> {
        check_replaceable(&self.target)?;
        fs::rename(&self.temporary, &self.target)?;
        self.is_named = false;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.is_named {
            // If this fails, the temporary file stays; nothing else can be done.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Refuses to replace anything but a plain file, with [`io::ErrorKind::Unsupported`].
fn check_replaceable(target: &Path) -> io::Result<()> {
    check_plain(with_retry(|| fs::symlink_metadata(target)))
}

/// Refuses an existing file that is not a plain file.
fn check_plain(found: io::Result<Metadata>) -> io::Result<()> {
    let kind = match found {
        Ok(metadata) => metadata.file_type(),
        Err(cause) if cause.kind() == IoErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(cause),
    };
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_dir() => "It is a folder",
        () if kind.is_symlink() => "It is a symbolic link",
        () => system::special(&kind).unwrap_or("It is a device"),
    };
    Err(io::Error::new(IoErrorKind::Unsupported, what))
}

/// Follows the links at `target` and returns the path at their end, where the file is to be created
/// or replaced.
fn followed(target: &Path) -> io::Result<PathBuf> {
    check_plain(with_retry(|| fs::metadata(target)))?;
    let mut path = target.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(link) => path = path.parent().unwrap_or(Path::new("")).join(link),
            // It is not a link, or does not exist.
            Err(_) => return Ok(path),
        }
    }
    Err(system::too_many_links())
}

/// Returns whether a path may be one of [`NewFile::readable_path`] with a temporary name.
pub(super) fn is_temporary(path: &[u8]) -> bool {
    let name = path.rsplit(|&byte| std::path::is_separator(byte.into())).next().unwrap_or_default();
    name.starts_with(b".") && name.ends_with(b".tmp")
}

/// Returns the temporary name for a file of this name. Names that would get too long are cut and
/// made distinct by a checksum.
fn temporary_name(name: &OsStr, part: &str) -> OsString {
    let end = format!("{part}.tmp");
    let whole = name.as_encoded_bytes();
    let mut temporary = OsString::from(".");
    if 1 + whole.len() + end.len() <= LONGEST_NAME {
        temporary.push(name);
    } else {
        let kept = (LONGEST_NAME - 1 - end.len()).saturating_sub(17).min(whole.len());
        temporary.push(system::path_from_bytes(&whole[..kept]));
        temporary.push(format!("-{:016x}", Xxh64::of(whole)));
    }
    temporary.push(end);
    temporary
}

/// Opens and locks the file with the temporary name, and empties it: it may be the leftover of a
/// killed process.
fn claim(options: &OpenOptions, temporary: &Path) -> io::Result<File> {
    for _ in 0..ATTEMPTS {
        let Some(mut file) = system::open_no_link(options, temporary)? else {
            // Following a link would write to another file.
            fs::remove_file(temporary)?;
            continue;
        };
        if !system::try_lock(&file) {
            return Err(IoErrorKind::ResourceBusy.into());
        }
        // The previous holder of the lock may have renamed the file to its final name.
        if is_named(&file, temporary)? {
            if let Err(cause) = file.set_len(0) {
                // If this fails, the file stays; nothing else can be done.
                let _ = fs::remove_file(temporary);
                return Err(cause);
            }
            file.rewind()?;
            return Ok(file);
        }
    }
    Err(IoErrorKind::ResourceBusy.into())
}

/// Returns whether an open file still has this name.
pub(super) fn is_named(file: &File, name: &Path) -> io::Result<bool> {
    let own = with_retry(|| system::identity(file))?;
    match with_retry(|| system::identity_of(name)) {
        Ok(named) => Ok(named == own),
        Err(cause) if cause.kind() == IoErrorKind::NotFound => Ok(false),
        // An unknown answer must not lead to an endless retry.
        Err(cause) => Err(cause),
    }
}

/// Gives an unnamed file the name `name`, removing an existing file of that name.
fn link_over(file: &File, name: &Path) -> io::Result<()> {
    let mut linked = system::name_unnamed(file, name);
    for _ in 1..ATTEMPTS {
        match linked {
            Err(cause) if cause.kind() == IoErrorKind::AlreadyExists => match fs::remove_file(name) {
                Err(cause) if cause.kind() != IoErrorKind::NotFound => return Err(cause),
                _ => linked = system::name_unnamed(file, name),
            },
            _ => break,
        }
    }
    linked
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Whether files have their temporary names from the start; only Linux knows others.
    const KINDS: &[bool] = if cfg!(target_os = "linux") { &[false, true] } else { &[true] };

    /// Returns the names of the files in a folder.
    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("an entry").file_name().display().to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn leftovers_of_killed_writers_are_reclaimed() {
        type Commit = fn(NewFile) -> io::Result<()>;
        for commit in [NewFile::replace as Commit, NewFile::replace_cache] {
            for &is_named in KINDS {
                let folder = tempfile::tempdir().expect("a folder");
                let target = folder.path().join("a.cache");
                let (temporary, kept) = (folder.path().join(".a.cache.tmp"), folder.path().join("kept"));
                for content in ["first", "2nd"] {
                    let mut killed = NewFile::open(&target, "", is_named).expect("a file");
                    killed.file().write_all(b"more than the next one writes").expect("writing");
                    assert_eq!(temporary.exists(), is_named);
                    // A killed process removes nothing.
                    if is_named {
                        fs::rename(&temporary, &kept).expect("keeping the file");
                        drop(killed);
                        fs::rename(&kept, &temporary).expect("putting it back");
                    }

                    let mut file = NewFile::open(&target, "", is_named).expect("a file");
                    file.file().write_all(content.as_bytes()).expect("writing");
                    commit(file).expect("a name");
                    assert_eq!(fs::read_to_string(&target).expect("a file"), content);
                    assert_eq!(names(folder.path()), ["a.cache"]);
                }
            }
        }
    }

    #[test]
    fn abandoned_files_leave_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        for &is_named in KINDS {
            drop(NewFile::open(&folder.path().join("a"), "", is_named).expect("a file"));
            assert_eq!(names(folder.path()), [""; 0]);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn concurrent_cache_writers() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = &folder.path().join("a.cache");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    for _ in 0..50 {
                        let mut file = NewFile::open(target, "", false).expect("a file");
                        file.file().write_all(b"whole").expect("writing");
                        // All threads want this name, so all attempts of one of them may fail.
                        let _ = file.replace_cache();
                        match fs::read(target) {
                            Ok(content) => assert_eq!(content, b"whole"),
                            Err(cause) => assert_eq!(cause.kind(), IoErrorKind::NotFound),
                        }
                    }
                });
            }
        });
        assert_eq!(names(folder.path()), ["a.cache"]);
    }
}
