//! The cache folder: whose it is, and files in it that nobody else has put there.
//!
//! Files in the folder are served as data, so nobody but its owner may write to it. It is made for
//! the user alone; one that others may write to is refused. Files are opened without following
//! links, and used only if they are the user's own.

#![allow(unsafe_code, reason = "geteuid")]

use super::descriptor;
use crate::{Error, ErrorKind, Result};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Permission bits that let others write to a file or folder.
const OTHERS_WRITE: u32 = 0o022;

/// Attempts to make a file that others remove or replace at the same time.
const ATTEMPTS: usize = 8;

/// Makes the folder if it is not there, for this user alone, and refuses one that is not safe.
/// `remedy` names another way.
pub fn prepare(folder: &Path, remedy: &str) -> Result<()> {
    let failed = |cause: &io::Error| {
        let error = Error::io("Error making folder", &folder.to_string_lossy(), cause);
        error.with_detail(remedy)
    };
    match super::with_retry(|| DirBuilder::new().recursive(true).mode(0o700).create(folder)) {
        // It is there, and could not be looked at for a moment. If it is no folder, that is found
        // below.
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(|cause| failed(&cause))?,
    }
    // A link of somebody else could lead to any folder of this user.
    let link = super::with_retry(|| fs::symlink_metadata(folder)).map_err(|cause| failed(&cause))?;
    let metadata = super::with_retry(|| fs::metadata(folder)).map_err(|cause| failed(&cause))?;
    let shown = folder.display();
    let reason = if !metadata.is_dir() {
        "It is no folder.".to_owned()
    } else if !is_trusted(&metadata) || !is_trusted(&link) {
        format!("It belongs to another user (number {}).", metadata.uid())
    } else if metadata.mode() & OTHERS_WRITE != 0 {
        format!(
            "Others may write to it, and so could plant data (its permissions are {:o}). Take this right away: chmod go-w '{shown}'.",
            metadata.mode() & 0o7777
        )
    } else {
        return Ok(());
    };
    let message = format!("The folder '{shown}' cannot be the cache folder.");
    let error = Error::new(ErrorKind::Io, crate::error::ExceptionClass::Runtime, message);
    Err(error.with_detail(reason).with_detail(remedy).in_file(&folder.to_string_lossy()))
}

/// Whether what the metadata describe belongs to this user, or to the administrator.
fn is_trusted(metadata: &Metadata) -> bool {
    // SAFETY: the call has no arguments, and cannot fail.
    let user = unsafe { libc::geteuid() };
    metadata.uid() == user || metadata.uid() == 0
}

/// Whether an open file is a plain file that only this user could have written.
fn is_own(file: &File) -> io::Result<bool> {
    let metadata = super::with_retry(|| file.metadata())?;
    Ok(metadata.is_file() && is_trusted(&metadata) && metadata.mode() & OTHERS_WRITE == 0)
}

/// Opens a file of the folder for reading. `None` if there is none that is the user's own.
pub fn open(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    match super::with_retry(|| descriptor::open(&options, path)) {
        Ok(file) => Ok(is_own(&file)?.then_some(file)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound || is_link(&cause) => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Opens a file of the folder for writing. One that is there is opened if it is the user's own, and
/// else replaced.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    for _ in 0..ATTEMPTS {
        match super::with_retry(|| descriptor::open(options.clone().create_new(true), path)) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
        match super::with_retry(|| descriptor::open(&options, path)) {
            Ok(file) if is_own(&file)? && super::with_retry(|| file.metadata())?.nlink() <= 1 => {
                return Ok(file);
            }
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            // A link, a pipe, a file of somebody else: it goes, and what it leads to stays as it
            // is.
            Ok(_) => {}
            Err(cause) if is_link(&cause) => {}
            Err(cause) => return Err(cause),
        }
        match super::with_retry(|| fs::remove_file(path)) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
    }
    Err(io::Error::from(io::ErrorKind::ResourceBusy))
}

fn is_link(cause: &io::Error) -> bool {
    cause.raw_os_error() == Some(libc::ELOOP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("a/cache");
        prepare(&folder, "").expect("a new folder");
        assert_eq!(fs::metadata(&folder).expect("a folder").mode() & 0o777, 0o700);
        for mode in [0o777, 0o1777, 0o770, 0o702] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("permissions");
            let error = prepare(&folder, "Or set X.").expect_err("not safe").to_string();
            assert!(error.contains(&format!("chmod go-w '{}'", folder.display())), "{error}");
            assert!(error.contains("Or set X."), "{error}");
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("permissions");
        prepare(&folder, "").expect("others may read it");
        let file = root.path().join("file");
        fs::write(&file, "").expect("a file");
        assert!(prepare(&file, "").is_err());
        symlink(&folder, root.path().join("link")).expect("a link");
        prepare(&root.path().join("link"), "").expect("a link of the user's own");
    }

    #[test]
    fn links_and_files_that_others_may_write_to_are_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("victim"), "keep").expect("a file");
        for name in ["symbolic", "hard", "writable", "pipe"] {
            match name {
                "symbolic" => symlink(path("victim"), path(name)).expect("a link"),
                "hard" => fs::hard_link(path("victim"), path(name)).expect("a link"),
                "writable" => {
                    fs::write(path(name), "planted").expect("a file");
                    fs::set_permissions(path(name), fs::Permissions::from_mode(0o666)).expect("permissions");
                }
                _ => {
                    let made = std::process::Command::new("mkfifo").arg(path(name)).status();
                    assert!(made.expect("mkfifo").success());
                }
            }
            assert!(name == "hard" || open(&path(name)).expect("no failure").is_none(), "{name}");
            let mut file = create(&path(name)).expect("a file");
            file.write_all(b"new").expect("writing");
            assert_eq!(fs::read(path(name)).expect("a file"), b"new", "{name}");
            assert_eq!(fs::read(path("victim")).expect("a file"), b"keep", "{name}");
            assert_eq!(file.metadata().expect("facts").mode() & 0o777, 0o600, "{name}");
            // A file of one's own is opened again.
            assert!(open(&path(name)).expect("no failure").is_some());
            create(&path(name)).expect("the same file").write_all(b"N").expect("writing");
            assert_eq!(fs::read(path(name)).expect("a file"), b"New");
        }
    }
}
