//! Paths of images in map files.

use cntk_reader_core::file::address;
use std::borrow::Cow;

/// Path prefix that stands for the folder of the map file.
const FOLDER: &[u8] = b"...";

/// Returns the folder of a map file: its path up to the last separator, or the whole path if there
/// is none (CNTK 2.7).
pub(super) fn folder(map: &str) -> Vec<u8> {
    let map = address::exact(map);
    let map = map.as_encoded_bytes();
    memchr::memrchr2(b'/', b'\\', map).map_or(map, |end| &map[..end]).to_owned()
}

/// Appends a path, with three leading dots replaced by the map file's folder. They are replaced
/// even if no separator follows (CNTK 2.7).
pub(super) fn expand(path: &[u8], folder: &[u8], expanded: &mut Vec<u8>) {
    match path.strip_prefix(FOLDER) {
        Some(rest) => {
            expanded.extend_from_slice(folder);
            expanded.extend_from_slice(rest);
        }
        None => expanded.extend_from_slice(path),
    }
}

/// Splits the expanded path of an image in a zip file into the path of the zip file and the name of
/// the member. The first `@` separates them, and one character after it is skipped, whatever it is
/// (CNTK 2.7). `None` if the path has no `@`.
pub(super) fn split_member(path: &[u8]) -> Option<(&[u8], Cow<'_, [u8]>)> {
    let at = memchr::memchr(b'@', path)?;
    let name = path.get(at + 2..).unwrap_or_default();
    let name = match memchr::memchr(b'\\', name) {
        Some(_) => name.iter().map(|&byte| if byte == b'\\' { b'/' } else { byte }).collect(),
        None => Cow::Borrowed(name),
    };
    Some((&path[..at], name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(path: &str, map: &str) -> String {
        let mut bytes = Vec::new();
        expand(path.as_bytes(), &folder(map), &mut bytes);
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn three_dots_mean_the_map_folder() {
        for (path, map, result) in [
            (".../sub/a.png", "/d/m.txt", "/d/sub/a.png"),
            ("...sub/a.png", "/d/m.txt", "/dsub/a.png"),
            (".../a.png", "m.txt", "m.txt/a.png"),
            (".../a.png", "./m.txt", "./a.png"),
            (".../a.png", "d\\m.txt", "d/a.png"),
            (".../a.png", "/m.txt", "/a.png"),
            ("a/.../b.png", "/d/m.txt", "a/.../b.png"),
            ("..", "/d/m.txt", ".."),
        ] {
            assert_eq!(expanded(path, map), result);
        }
    }

    #[test]
    fn first_at_sign_ends_the_zip_path() {
        let split = |path: &'static str| {
            let (zip, name) = split_member(path.as_bytes())?;
            Some((String::from_utf8_lossy(zip), String::from_utf8_lossy(&name).into_owned()))
        };
        for (path, zip, name) in [
            ("c.zip@/sub/a.png", "c.zip", "sub/a.png"),
            ("c.zip@\\sub\\a.png", "c.zip", "sub/a.png"),
            ("c.zip@xsub/a.png", "c.zip", "sub/a.png"),
            ("/a@b/x@y.png", "/a", "/x@y.png"),
            ("c.zip@", "c.zip", ""),
            ("@", "", ""),
        ] {
            assert_eq!(split(path), Some((zip.into(), name.to_owned())));
        }
        assert_eq!(split("a.png"), None);
    }
}
