//! The cache folder: ownership and permission checks, and safe opening of the files in it.
//!
//! Files in the folder are served as data, so only its owner may write to it. It is created for the
//! user alone; a folder that others may write to is refused. Files are opened without following
//! links, and used only if they belong to the user.

use crate::{Error, ErrorKind, Result, system};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// Attempts to create a file that other processes remove or replace at the same time.
const ATTEMPTS: usize = 8;

/// Creates the folder if necessary, accessible by this user only, and refuses an unsafe one. Errors
/// mention the alternative `remedy`.
pub fn prepare(folder: &Path, remedy: &str) -> Result<()> {
    let failed = |cause: &io::Error| {
        let error = Error::io("Error making folder", &folder.to_string_lossy(), cause);
        error.with_detail(remedy)
    };
    match super::with_retry(|| system::create_private_folder(folder)) {
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
    } else if let Some(owner) = system::other_owner(&metadata).or_else(|| system::other_owner(&link)) {
        format!("It belongs to another user (number {owner}).")
    } else if let Some(mode) = system::open_to_others(&metadata) {
        format!(
            "Other users may write to it and could plant data (its permissions are {mode:o}). Remove that permission: chmod go-w '{shown}'."
        )
    } else {
        return Ok(());
    };
    let message = format!("The folder '{shown}' cannot be the cache folder.");
    let error = Error::new(ErrorKind::Io, crate::error::ExceptionClass::Runtime, message);
    Err(error.with_detail(reason).with_detail(remedy).in_file(&folder.to_string_lossy()))
}

/// Returns whether an open file is a plain file that only this user or root could have written.
fn is_own(file: &File) -> io::Result<bool> {
    let metadata = super::with_retry(|| file.metadata())?;
    let is_safe = system::other_owner(&metadata).is_none() && system::open_to_others(&metadata).is_none();
    Ok(metadata.is_file() && is_safe)
}

/// Opens a file of the folder for reading. Returns `None` if it does not exist or is not the user's
/// own.
pub fn open(path: &Path) -> io::Result<Option<File>> {
    match super::with_retry(|| system::open_no_link(OpenOptions::new().read(true), path)) {
        Ok(Some(file)) => Ok(is_own(&file)?.then_some(file)),
        Ok(None) => Ok(None),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// Opens a file of the folder for writing. An existing file is opened if it is the user's own, and
/// replaced otherwise.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    system::make_private(options.read(true).write(true));
    for _ in 0..ATTEMPTS {
        match super::with_retry(|| system::open_no_link(options.clone().create_new(true), path)) {
            Ok(Some(made)) => return Ok(made),
            Ok(None) => {}
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            Err(cause) => return Err(cause),
        }
        match super::with_retry(|| system::open_no_link(&options, path)) {
            Ok(Some(file)) if is_own(&file)? && !has_other_names(&file)? => return Ok(file),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            // A link, a pipe or another user's file is removed; the target of a link is left alone.
            Ok(_) => {}
            Err(cause) => return Err(cause),
        }
        match super::with_retry(|| fs::remove_file(path)) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
            _ => {}
        }
    }
    Err(io::Error::from(io::ErrorKind::ResourceBusy))
}

fn has_other_names(file: &File) -> io::Result<bool> {
    super::with_retry(|| file.metadata()).map(|metadata| system::has_other_names(&metadata))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

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
