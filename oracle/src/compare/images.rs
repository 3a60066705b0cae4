//! Properties of cases for the rules about images.

use crate::generate::container;
use crate::golden::Case;

/// The prefix of a container's path before a member's name.
const CONTAINER: &str = "c.zip@/";

/// Returns the lines of the map file, or of the file with Base64, without line ends.
fn lines(case: &Case) -> Vec<&[u8]> {
    let map = case.files.iter().find(|(name, _)| name == "map.txt");
    let Some((_, content)) = map else { return Vec::new() };
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    content.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).collect()
}

/// Whether `Scale` declares a different number of channels than the images have, so that CNTK mixes
/// channels and pixels.
pub fn mixes_channels(case: &Case) -> bool {
    let has_webp = case.files.iter().any(|(_, content)| content.get(8..12) == Some(b"WEBP"));
    let is_one = case.config.contains("channels = 1 ") && !case.config.contains("grayscale = true");
    has_webp || is_one && !case.config.contains("readerType")
}

/// Whether images of a map may be left out where CNTK fails.
pub fn leaves_out(case: &Case) -> bool {
    case.config.contains("maxErrors") && case.config.contains("\"ImageDeserializer\"")
}

fn is_base64(case: &Case) -> bool {
    case.config.contains("\"Base64ImageDeserializer\"")
}

/// Whether another deserializer comes before one with Base64 whose records are ten sequences each.
pub fn has_secondary_views(case: &Case) -> bool {
    let first = |what: &str| case.config.find(what);
    let text = first("\"CNTKTextFormatDeserializer\"");
    let comes_later =
        text.zip(first("\"Base64ImageDeserializer\"")).is_some_and(|(text, images)| text < images);
    comes_later && case.config.contains("multiViewCrop = true")
}

/// Whether several lines have the same key, and one of them refers to a member of a container.
pub fn has_repeated_members(case: &Case) -> bool {
    let mut members = Vec::new();
    let keys: Vec<String> = lines(case)
        .into_iter()
        .enumerate()
        .map(|(number, line)| {
            let key = key(number, line);
            if String::from_utf8_lossy(line).contains(CONTAINER) {
                members.push(key.clone());
            }
            key
        })
        .collect();
    members.iter().any(|member| keys.iter().filter(|key| *key == member).count() > 1)
}

/// Returns the key of a line, or its number if it has none.
fn key(number: usize, line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    let columns: Vec<&str> = line.split('\t').collect();
    if columns.len() > 2 { columns[0].to_owned() } else { number.to_string() }
}

/// Returns the name of the container member that a map line refers to.
fn member(line: &[u8]) -> Option<String> {
    let line = String::from_utf8_lossy(line);
    let (_, name) = line.split_once(CONTAINER)?;
    name.split('\t').next().map(str::to_owned)
}

/// Returns the members of the case's container; `None` if it has no container.
fn members(case: &Case) -> Option<Vec<container::Member>> {
    let (_, zip) = case.files.iter().find(|(name, _)| name == "c.zip")?;
    Some(container::members(zip))
}

/// Returns a predicate for lines that refer to a member missing from the case's container.
fn missing_members(case: &Case) -> impl Fn(&[u8]) -> bool {
    let members = members(case);
    move |line| {
        let lacks = |name: String| {
            let members = members.as_deref();
            members.is_some_and(|members| members.iter().all(|member| member.name != name))
        };
        member(line).is_some_and(lacks)
    }
}

/// Whether the map refers to an image that the case's container lacks.
pub fn has_missing_members(case: &Case) -> bool {
    let is_missing = missing_members(case);
    lines(case).into_iter().any(is_missing)
}

/// Returns the case without the lines of images that its container lacks. `None` if there are no
/// such lines, or no others.
pub fn without_missing_members(case: &Case) -> Option<Case> {
    without_lines(case, missing_members(case))
}

/// Returns a predicate for lines that refer to a truncated JPEG in a container.
fn cut_images(case: &Case) -> impl Fn(&[u8]) -> bool {
    let members = members(case).unwrap_or_default();
    move |line| {
        let is_cut = |name: String| {
            members.iter().any(|member| member.name == name && container::is_cut_jpeg(&member.content))
        };
        member(line).is_some_and(is_cut)
    }
}

/// Returns a case in which the memory contains no other image when a truncated JPEG is read: all
/// other images move from the container to files. If there are none, only the first truncated JPEG
/// stays. `None` if it is already alone, or if there is none.
pub fn with_cut_images_alone(case: &Case) -> Option<Case> {
    let is_cut = cut_images(case);
    let members = members(case)?;
    let mut rest = case.clone();
    let (_, map) = rest.files.iter_mut().find(|(name, _)| name == "map.txt")?;
    let (mut lines, mut moved, mut cut) = (Vec::new(), Vec::new(), 0);
    for line in map.split_inclusive(|&byte| byte == b'\n') {
        if is_cut(line.trim_ascii_end()) {
            cut += 1;
            lines.extend(line);
            continue;
        }
        let name = member(line.trim_ascii_end());
        match name.and_then(|name| members.iter().find(|member| member.name == name)) {
            Some(member) => {
                lines.extend(String::from_utf8_lossy(line).replacen(CONTAINER, "", 1).into_bytes());
                moved.push((member.name.clone(), member.content.clone()));
            }
            None => lines.extend(line),
        }
    }
    if cut > 0 && !moved.is_empty() {
        *map = lines;
        rest.files.extend(moved);
        return Some(rest);
    }
    let mut others = 0;
    let is_another = |line: &[u8]| {
        is_cut(line) && {
            others += 1;
            others > 1
        }
    };
    without_lines(case, is_another)
}

/// Returns the keys of truncated JPEGs in a container, as reported by minibatches.
pub fn keys_of_cut_images(case: &Case) -> Vec<String> {
    let is_cut = cut_images(case);
    let is_hashed = case.config.contains("hashSequenceKeys = true");
    let is_numeric = !case.config.contains("useNumericSequenceKeys = false");
    let lines = lines(case).into_iter().enumerate().filter(|(_, line)| is_cut(line));
    lines
        .map(|(number, line)| match key(number, line) {
            key if is_numeric || !is_hashed => key,
            key => format!("<Unknown, hash {}>", hash(&key)),
        })
        .collect()
}

/// Returns the hash of a key.
fn hash(key: &str) -> u64 {
    key.bytes().fold(5381, |hash: u64, byte| hash.wrapping_mul(33) ^ i64::from(byte as i8) as u64)
}

/// Returns the case without some lines of its map. `None` if nothing changes, or nothing is left.
fn without_lines(case: &Case, mut is_dropped: impl FnMut(&[u8]) -> bool) -> Option<Case> {
    let mut rest = case.clone();
    let (_, map) = rest.files.iter_mut().find(|(name, _)| name == "map.txt")?;
    let lines: Vec<&[u8]> = map.split_inclusive(|&byte| byte == b'\n').collect();
    let kept: Vec<&[u8]> = lines.iter().copied().filter(|line| !is_dropped(line.trim_ascii_end())).collect();
    let is_changed = !kept.is_empty() && kept.len() < lines.len();
    *map = kept.concat();
    is_changed.then_some(rest)
}

/// Whether consecutive lines of Base64 begin with the same key.
pub fn has_repeated_lines(case: &Case) -> bool {
    let lines = lines(case);
    let key = |line: &[u8]| {
        let columns: Vec<&[u8]> = line.split(|&byte| byte == b'\t').collect();
        (columns.len() > 2).then(|| columns[0].to_vec())
    };
    is_base64(case) && lines.windows(2).any(|pair| key(pair[0]).is_some() && key(pair[0]) == key(pair[1]))
}

/// Whether a line of Base64 is empty or has fewer columns than the first one.
pub fn has_line_without_columns(case: &Case) -> bool {
    let columns = |line: &[u8]| line.iter().filter(|&&byte| byte == b'\t').count();
    let lines = lines(case);
    let most = lines.iter().map(|line| columns(line)).max().unwrap_or_default();
    is_base64(case) && lines.iter().any(|line| columns(line) < most.max(1))
}

/// Whether the data of a line of Base64 begin with a blank.
pub fn has_blank_before_data(case: &Case) -> bool {
    let has_blank =
        |line: &&[u8]| line.rsplit(|&byte| byte == b'\t').next().is_some_and(|data| data.starts_with(b" "));
    is_base64(case) && lines(case).iter().any(has_blank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Rng;
    use serde_json::Value;

    fn case(config: &str, map: &str) -> Case {
        Case {
            name: String::new(),
            create: Value::Null,
            steps: Vec::new(),
            results: Vec::new(),
            config: config.to_owned(),
            files: vec![("map.txt".to_owned(), map.as_bytes().to_vec())],
            rewritten: None,
        }
    }

    #[test]
    fn members_with_one_key_are_found() {
        let of = |map: &str| has_repeated_members(&case("", map));
        assert!(of(".../c.zip@/a.jpg\t4\n0\t.../b.jpg\t2\n"), "the first line has the key 0");
        assert!(of("k\t.../c.zip@/a.jpg\t4\nk\t.../c.zip@/b.jpg\t2\n"));
        assert!(!of("k\t.../a.jpg\t4\nk\t.../b.jpg\t2\n"), "files");
        assert!(!of("1\t.../c.zip@/a.jpg\t4\n0\t.../c.zip@/b.jpg\t2\n"));
    }

    #[test]
    fn consecutive_lines_with_one_key_are_found() {
        let of = |map: &str| has_repeated_lines(&case("\"Base64ImageDeserializer\"", map));
        assert!(of("3\t1\tAAAA\n3\t0\tAAAA\n"));
        assert!(!of("3\t1\tAAAA\n4\t1\tAAAA\n3\t1\tAAAA\n"), "not consecutive");
        assert!(!of("1\tAAAA\n1\tAAAA\n"), "labels, not keys");
    }

    #[test]
    fn blanks_before_data_are_found() {
        let of = |map: &str| has_blank_before_data(&case("\"Base64ImageDeserializer\"", map));
        assert!(of("1\tAAAA\n1\t AAAA\n"));
        assert!(!of(" 1\tAAAA\n1 \tAAAA \n"), "elsewhere");
    }

    #[test]
    fn lines_without_columns_are_found() {
        let of = |map: &str| has_line_without_columns(&case("\"Base64ImageDeserializer\"", map));
        assert!(of("1\tAAAA\n1 AAAA\n") && of("1\tAAAA\n\n1\tAAAA\n") && of("1 AAAA\n"));
        assert!(!of("1\tAAAA\n2\tAAAA\n"));
    }

    /// A case with a container that has these members.
    fn case_of(config: &str, map: &str, members: &[(&str, &[u8])]) -> Case {
        let members: Vec<_> =
            members.iter().map(|&(name, content)| (name.to_owned(), content.to_vec())).collect();
        let mut case = case(config, map);
        case.files.push(("c.zip".to_owned(), container::zip(&mut Rng::new(1), &members)));
        case
    }

    fn map_of(case: Option<Case>) -> Option<String> {
        case.map(|case| String::from_utf8_lossy(&case.files[0].1).into_owned())
    }

    #[test]
    fn only_lines_of_missing_members_are_dropped() {
        let map = "0\t.../c.zip@/a.jpg\t4\r\n1\t.../b.jpg\t2\r\n2\t.../c.zip@/c.jpg\t1";
        let of = |members: &[(&str, &[u8])]| map_of(without_missing_members(&case_of("", map, members)));
        let without_last = "0\t.../c.zip@/a.jpg\t4\r\n1\t.../b.jpg\t2\r\n";
        assert_eq!(of(&[("a.jpg", b"x"), ("b.jpg", b"y")]).as_deref(), Some(without_last));
        assert_eq!(of(&[]).as_deref(), Some("1\t.../b.jpg\t2\r\n"));
        assert_eq!(of(&[("a.jpg", b"x"), ("c.jpg", b"y")]), None, "nothing is missing");
        assert_eq!(map_of(without_missing_members(&case("", map))), None, "there is no container");
        let single = case_of("", ".../c.zip@/a.jpg\t4", &[]);
        assert!(has_missing_members(&single) && without_missing_members(&single).is_none());
        assert!(!has_missing_members(&case("", map)));
    }

    #[test]
    fn cut_jpegs_are_found_in_containers() {
        let (whole, cut) = (&b"\xff\xd8xyz\xff\xd9"[..], &b"\xff\xd8xyz"[..]);
        let map = "k\t.../c.zip@/a.jpg\t4\n.../c.zip@/b.jpg\t2\n";
        let of = |config: &str, first, second| {
            keys_of_cut_images(&case_of(config, map, &[("a.jpg", first), ("b.jpg", second)]))
        };
        assert_eq!(of("", cut, whole), ["k"]);
        assert_eq!(of("", whole, cut), ["1"]);
        assert!(of("", whole, whole).is_empty());
        assert_eq!(of("", cut, cut), ["k", "1"]);
        let hashed = "useNumericSequenceKeys = false\nhashSequenceKeys = true";
        assert_eq!(of(hashed, cut, whole), ["<Unknown, hash 177614>"]);
        assert!(keys_of_cut_images(&case("", "3\t.../cut.jpg\t1\n")).is_empty(), "a file of its own");
    }

    #[test]
    fn cut_jpegs_stay_in_their_container_alone() {
        let (whole, cut) = (&b"\xff\xd8xyz\xff\xd9"[..], &b"\xff\xd8xyz"[..]);
        let map = "k\t.../c.zip@/a.jpg\t4\r\n.../c.zip@/b.jpg\t2\n.../c.zip@/c.jpg\t2";
        let of = |first, second| {
            let case = case_of("", map, &[("a.jpg", first), ("b.jpg", second)]);
            let rest = with_cut_images_alone(&case)?;
            let moved = rest.files[2..].iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
            Some((map_of(Some(rest))?, moved.join(" ")))
        };
        let moved = map.replace("c.zip@/a.jpg", "a.jpg");
        assert_eq!(of(whole, cut), Some((moved, "a.jpg".to_owned())));
        let (first, _) = map.split_once(".../c.zip@/b").unwrap_or_default();
        let last = first.to_owned() + ".../c.zip@/c.jpg\t2";
        assert_eq!(of(cut, cut), Some((last, String::new())), "the first one stays");
        assert_eq!(of(whole, whole), None, "none is cut");
        let alone = case_of("", ".../c.zip@/b.jpg\t2\n.../c.jpg\t2", &[("b.jpg", cut)]);
        assert!(with_cut_images_alone(&alone).is_none(), "it is alone");
    }
}
