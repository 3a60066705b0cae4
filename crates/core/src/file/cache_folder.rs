//! The cache folder: ownership and permission checks, and safe opening of the files in it.
//!
//! Files in the folder are served as data, so only its owner may write to it. It is created for the
//! user alone; a folder that others may write to is refused. Files are opened without following
//! links, and used only if they belong to the user.

#![allow(unsafe_code, reason = "geteuid")]

use super::descriptor;
use crate::{Error, ErrorKind, Result};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Permission bits that let others write to a file or folder.
const OTHERS_WRITE: u32 = 0o022;

/// Attempts to create a file that other processes remove or replace at the same time.
const ATTEMPTS: usize = 8;

/// Creates the folder if necessary, accessible by this user only, and refuses an unsafe one. Errors
/// mention the alternative `remedy`.
pub fn prepare(folder: &Path, remedy: &str) -> Result<()> {
    let failed = |cause: &io::Error| {
        let error = Error::io("Error making folder", &folder.to_string_lossy(), cause);
        error.with_detail(remedy)
    };
    match super::with_retry(|| DirBuilder::new().recursive(true).mode(0o700).create(folder)) {
        // The folder exists but could not be inspected for a moment. The check below detects
        // whether it is a folder.
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(|cause| failed(&cause))?,
    }
    // Another user's link could lead to any folder of this user.
    let link = super::with_retry(|| fs::symlink_metadata(folder)).map_err(|cause| failed(&cause))?;
    let metadata = super::with_retry(|| fs::metadata(folder)).map_err(|cause| failed(&cause))?;
    let shown = folder.display();
    let reason = if !metadata.is_dir() {
        "It is not a folder.".to_owned()
    } else if !is_trusted(&metadata) || !is_trusted(&link) {
        format!("It belongs to another user (number {}).", metadata.uid())
    } else if metadata.mode() & OTHERS_WRITE != 0 {
        format!(
            "Other users may write to it and could plant data (its permissions are {:o}). Remove that permission: chmod go-w '{shown}'.",
            metadata.mode() & 0o7777
        )
    } else {
        return Ok(());
    };
    let message = format!("The folder '{shown}' cannot be the cache folder.");
    let error = Error::new(ErrorKind::Io, crate::error::ExceptionClass::Runtime, message);
    Err(error.with_detail(reason).with_detail(remedy).in_file(&folder.to_string_lossy()))
}

/// Returns whether a file or folder belongs to this user or to root.
fn is_trusted(metadata: &Metadata) -> bool {
    // SAFETY: the call has no arguments, and cannot fail.
    let user = unsafe { libc::geteuid() };
    metadata.uid() == user || metadata.uid() == 0
}

/// Returns whether an open file is a plain file that only this user or root could have written.
fn is_own(file: &File) -> io::Result<bool> {
    let metadata = super::with_retry(|| file.metadata())?;
    Ok(metadata.is_file() && is_trusted(&metadata) && metadata.mode() & OTHERS_WRITE == 0)
}

/// Opens a file of the folder for reading. Returns `None` if it does not exist or is not the user's
/// own.
pub fn open(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    match super::with_retry(|| descriptor::open(&options, path)) {
        Ok(file) => Ok(is_own(&file)?.then_some(file)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound || is_link(&cause) => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Opens a file of the folder for writing. An existing file is opened if it is the user's own, and
/// replaced otherwise.
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
            // A link, a pipe or another user's file is removed; the target of a link is left alone.
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
    fn folder_writable_by_others_is_refused() {
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
    fn links_and_untrusted_files_are_replaced() {
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
            // The user's own file is opened again.
            assert!(open(&path(name)).expect("no failure").is_some());
            create(&path(name)).expect("the same file").write_all(b"N").expect("writing");
            assert_eq!(fs::read(path(name)).expect("a file"), b"New");
        }
    }
}
