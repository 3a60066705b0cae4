//! Where the paths may lead that data files name: script files, map files, lists of label files, tables of contents.
//!
//! CNTK's users write absolute paths into such files, so paths may lead anywhere unless the configuration confines them
//! (`confinePaths`): data files from elsewhere then cannot make a reader open other files than those that came with them.

use super::{address, mounted};
use crate::error::ExceptionClass;
use crate::{Error, ErrorKind, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The folders of `allowedFolders`, if paths are confined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement(Option<Vec<String>>);

impl Confinement {
    /// Confines paths to these folders and to that of the file that names them.
    pub fn to(folders: Vec<String>) -> Confinement {
        Confinement(Some(folders))
    }

    /// Whether there are paths that are refused.
    pub fn is_confined(&self) -> bool {
        self.0.is_some()
    }

    /// Where the paths may lead that `file` names.
    pub fn bounds_of<'a>(&self, file: &'a str) -> Result<Bounds<'a>> {
        let Some(allowed) = &self.0 else { return Ok(Bounds { file, folders: None }) };
        let own = match file.rfind('/') {
            Some(0) => "/",
            Some(end) => &file[..end],
            None => ".",
        };
        let folders = std::iter::once(own).chain(allowed.iter().map(String::as_str)).map(|folder| {
            if mounted::is_mounted(folder) {
                return Ok(Folder::Mounted(format!("{}/", folder.trim_end_matches('/'))));
            }
            let resolved = std::fs::canonicalize(address::exact(folder));
            resolved
                .map(Folder::Local)
                .map_err(|cause| Error::io("Cannot resolve the folder", folder, &cause))
        });
        Ok(Bounds { file, folders: Some(folders.collect::<Result<_>>()?) })
    }
}

/// A folder that paths may lead to.
enum Folder {
    /// Without symbolic links.
    Local(PathBuf),
    /// Of a mounted file system, with a slash at its end.
    Mounted(String),
}

/// Where the paths may lead that a file names.
pub struct Bounds<'a> {
    file: &'a str,
    /// `None`: anywhere.
    folders: Option<Vec<Folder>>,
}

impl Bounds<'_> {
    /// Refuses a path, which the file names in this line, if it leads elsewhere once symbolic links and `..` are resolved.
    pub fn check(&self, path: &[u8], line: u64) -> Result<()> {
        let Some(folders) = &self.folders else { return Ok(()) };
        let shown = String::from_utf8_lossy(path);
        let place = |error: Error| error.in_file(self.file).in_line(line);
        let (is_inside, found) = if mounted::is_mounted(&shown) {
            let is_below = |folder: &str| {
                shown.strip_prefix(folder).is_some_and(|rest| rest.split('/').all(|part| part != ".."))
            };
            let is_inside =
                folders.iter().any(|folder| matches!(folder, Folder::Mounted(folder) if is_below(folder)));
            (is_inside, shown.to_string())
        } else {
            let resolved = std::fs::canonicalize(Path::new(OsStr::from_bytes(path)))
                .map_err(|cause| place(Error::io("Cannot resolve the path", &shown, &cause)))?;
            let is_inside = folders
                .iter()
                .any(|folder| matches!(folder, Folder::Local(folder) if resolved.starts_with(folder)));
            (is_inside, resolved.display().to_string())
        };
        if is_inside {
            return Ok(());
        }
        let message = format!("The path '{shown}' leads out of the folders that are allowed.");
        let error = Error::new(ErrorKind::Data, ExceptionClass::Runtime, message).with_detail(format!(
            "It is that of '{found}'. With ‹confine_paths›, paths lead to the folder of the file that names them, or to one of \
             ‹allowed_folders›. Correct the line, or allow the folder.",
        ));
        Err(place(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn paths_lead_to_the_folder_of_the_file_or_to_allowed_ones() {
        let root = tempfile::tempdir().expect("a folder");
        let path = |name: &str| root.path().join(name).display().to_string();
        for folder in ["own/sub", "other", "own2"] {
            fs::create_dir_all(path(folder)).expect("a folder");
            fs::write(path(&format!("{folder}/x")), "").expect("a file");
        }
        symlink(path("other/x"), path("own/link")).expect("a link");
        symlink(path("own/sub"), path("other/back")).expect("a link");
        let list = path("own/list");
        let outcome = |confinement: &Confinement, name: &str| {
            let bounds = confinement.bounds_of(&list).expect("folders");
            bounds.check(path(name).as_bytes(), 7)
        };
        let confined = Confinement::to(Vec::new());
        let allowed = Confinement::to(vec![path("other/")]);
        for (name, is_inside, is_allowed) in [
            ("own/sub/x", true, true),
            ("own/./sub/../sub/x", true, true),
            ("other/../own/sub/x", true, true),
            ("other/back/x", true, true),
            ("own/../other/x", false, true),
            ("other/x", false, true),
            ("own/link", false, true),
            ("own2/x", false, false),
        ] {
            assert!(outcome(&Confinement::default(), name).is_ok());
            assert_eq!(outcome(&confined, name).is_ok(), is_inside, "{name}");
            assert_eq!(outcome(&allowed, name).is_ok(), is_allowed, "{name}");
        }
        let error = outcome(&confined, "own/link").expect_err("outside");
        assert_eq!(
            error.message(),
            format!("The path '{}' leads out of the folders that are allowed.", path("own/link"))
        );
        assert_eq!((error.location().file.as_deref(), error.location().line), (Some(list.as_str()), Some(7)));
        assert!(error.detail().contains("other/x'"), "{error}");
        assert_eq!(outcome(&confined, "own/none").expect_err("missing").kind(), ErrorKind::Io);
        assert!(Confinement::to(vec![path("none")]).bounds_of(&list).is_err());
    }
}
