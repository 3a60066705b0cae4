//! Recognition of files that cannot be decoded as images, for messages.

/// Describes a file that may turn up in place of an image. The text continues "the file".
pub fn describe(file: &[u8]) -> Option<&'static str> {
    compressed(file).or_else(|| {
        Some(match file {
            [0xFF, 0x0A, ..] | [0, 0, 0, 12, b'J', b'X', b'L', b' ', ..] => "is a JPEG XL image",
            [_, _, _, _, b'f', b't', b'y', b'p', brand @ ..] => of_brand(brand),
            [b'I', b'I', 43, 0, ..] | [b'M', b'M', 0, 43, ..] => "is a BigTIFF image",
            [b'P', b'7', b'\n', ..] => "is a PAM image",
            [b'P', b'F' | b'f', b'\n', ..] => "is a PFM image",
            [0, 0, 1 | 2, 0, ..] => "is a Windows icon or cursor",
            [b'8', b'B', b'P', b'S', ..] => "is a Photoshop image",
            [b'q', b'o', b'i', b'f', ..] => "is a QOI image",
            [b'D', b'D', b'S', b' ', ..] => "is a DDS image",
            [b'%', b'P', b'D', b'F', ..] => "is a PDF document",
            [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => "is a NumPy array",
            _ if file.get(128..132) == Some(b"DICM") => "is a DICOM image",
            _ if file.starts_with(b"version https://git-lfs") => "is a Git LFS pointer, not the image",
            _ if file.iter().all(|&byte| byte == 0) => "contains only zeros",
            _ => return of_text(file),
        })
    })
}

/// Returns the remedy, if it is not to convert the file.
pub fn remedy(file: &[u8]) -> Option<&'static str> {
    match file {
        [b'P', b'K', 3, 4, ..] => Some("write the path as 'FILE.zip@/MEMBER' to name an image in it"),
        _ if compressed(file).is_some() => Some("unpack it first"),
        _ if file.starts_with(b"version https://git-lfs") => Some("fetch it with 'git lfs pull'"),
        [] => Some("copy it again"),
        _ if file.iter().all(|&byte| byte == 0) => Some("copy it again"),
        _ => None,
    }
}

fn compressed(file: &[u8]) -> Option<&'static str> {
    Some(match file {
        [0x1F, 0x8B, ..] => "is compressed by gzip",
        [0x28, 0xB5, 0x2F, 0xFD, ..] => "is compressed by zstd",
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => "is compressed by bzip2",
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => "is compressed by xz",
        [4, 0x22, 0x4D, 0x18, ..] => "is compressed by lz4",
        [b'P', b'K', 3, 4, ..] => "is a zip file",
        [b'7', b'z', 0xBC, 0xAF, ..] => "is a 7z archive",
        [b'R', b'a', b'r', b'!', ..] => "is a RAR archive",
        _ if file.get(257..262) == Some(b"ustar") => "is a tar archive",
        _ => return None,
    })
}

/// Describes an ISO base media file by its brand.
fn of_brand(brand: &[u8]) -> &'static str {
    match brand {
        [b'a', b'v', b'i', b'f' | b's', ..] => "is an AVIF image",
        [b'h', b'e', b'i' | b'v', ..] | [b'm', b'i' | b's', b'f', b'1', ..] => "is a HEIC image",
        _ => "is a video, or an image in a video container",
    }
}

/// Describes a text file.
fn of_text(file: &[u8]) -> Option<&'static str> {
    let start = file.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(file);
    let start = start[..start.len().min(256)].trim_ascii_start();
    let lower = start.to_ascii_lowercase();
    if lower.starts_with(b"<svg")
        || lower.starts_with(b"<?xml") && lower.windows(4).any(|part| part == b"<svg")
    {
        return Some("is an SVG drawing");
    }
    if lower.starts_with(b"<!doctype html") || lower.starts_with(b"<html") {
        return Some("is an HTML page, perhaps a server's reply in place of the image");
    }
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~');
    if start.iter().all(is_text) { Some("is a text file") } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_described() {
        for (start, what) in [
            (&b"\x1f\x8b\x08\0"[..], "gzip"),
            (b"\x28\xb5\x2f\xfd..", "zstd"),
            (b"BZh91AY", "bzip2"),
            (b"\xfd7zXZ\0", "xz"),
            (b"PK\x03\x04", "zip file"),
            (b"\0\0\0\x20ftypheic", "HEIC"),
            (b"\0\0\0\x20ftypmif1", "HEIC"),
            (b"\0\0\0\x20ftypavif", "AVIF"),
            (b"\0\0\0\x0cJXL \r\n", "JPEG XL"),
            (b"\0\0\x01\0", "icon"),
            (b"\0\0\0\0\0\0", "zeros"),
            (b"<?xml version='1.0'?><svg", "SVG"),
            (b"<!DOCTYPE HTML>", "HTML"),
            (b"hello", "text"),
            (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        ] {
            let found = describe(start).unwrap_or_default();
            assert!(found.contains(what), "{what}: {found}");
        }
        assert_eq!(describe(b"\x81\x82\x83"), None);
    }
}
