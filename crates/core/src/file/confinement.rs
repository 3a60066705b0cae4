//! Confinement of the paths that data files name: script files, map files, lists of label files,
//! tables of contents.
//!
//! CNTK users write absolute paths into such files, so paths may lead anywhere unless the
//! configuration confines them (`confinePaths`). Then data files from elsewhere cannot make a
//! reader open files other than those that came with them.

use super::{address, mounted};
use crate::error::ExceptionClass;
use crate::{Error, ErrorKind, Result, system};
use std::path::PathBuf;

/// The folders of `allowedFolders`, or `None` if paths are not confined.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement(Option<Vec<String>>);

impl Confinement {
    /// Confines paths to these folders and to the folder of the file that names them.
    pub fn to(folders: Vec<String>) -> Confinement {
        Confinement(Some(folders))
    }

    /// Returns whether any paths are refused.
    pub fn is_confined(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the bounds for the paths that `file` names.
    pub fn bounds_of<'a>(&self, file: &'a str) -> Result<Bounds<'a>> {
        let Some(allowed) = &self.0 else { return Ok(Bounds { file, folders: None }) };
        let own = match file.rfind(std::path::is_separator) {
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
    /// Canonical: without symbolic links.
    Local(PathBuf),
    /// In a mounted file system; ends with a slash.
    Mounted(String),
}

/// The folders that the paths in one file may lead to.
pub struct Bounds<'a> {
    file: &'a str,
    /// `None`: anywhere.
    folders: Option<Vec<Folder>>,
}

impl Bounds<'_> {
    /// Refuses a path, named in the given line of the file, that leads outside the folders once
    /// symbolic links and `..` are resolved.
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
            let resolved = std::fs::canonicalize(system::path_from_bytes(path))
                .map_err(|cause| place(Error::io("Cannot resolve the path", &shown, &cause)))?;
            let is_inside = folders
                .iter()
                .any(|folder| matches!(folder, Folder::Local(folder) if resolved.starts_with(folder)));
            (is_inside, resolved.display().to_string())
        };
        if is_inside {
            return Ok(());
        }
        let message = format!("The path '{shown}' leads outside the allowed folders.");
        let error = Error::new(ErrorKind::Data, ExceptionClass::Runtime, message).with_detail(format!(
            "It resolves to '{found}'. With ‹confine_paths›, paths lead to the folder of the file that names them, or to one of \
             ‹allowed_folders›. Correct the line, or allow the folder.",
        ));
        Err(place(error))
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn paths_stay_in_own_or_allowed_folders() {
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
            format!("The path '{}' leads outside the allowed folders.", path("own/link"))
        );
        assert_eq!((error.location().file.as_deref(), error.location().line), (Some(list.as_str()), Some(7)));
        assert!(error.detail().contains("other/x'"), "{error}");
        assert_eq!(outcome(&confined, "own/none").expect_err("missing").kind(), ErrorKind::Io);
        assert!(Confinement::to(vec![path("none")]).bounds_of(&list).is_err());
    }
}
