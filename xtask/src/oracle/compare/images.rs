//! What the rules for images ask of a case.

use crate::golden::Case;

/// The lines of the map file, or of the file with Base64, without the ends of lines.
fn lines(case: &Case) -> Vec<&[u8]> {
    let map = case.files.iter().find(|(name, _)| name == "map.txt");
    let Some((_, content)) = map else { return Vec::new() };
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    content.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).collect()
}

/// Whether `Scale` declares other channels than the images have, so that CNTK mixes channels and pixels.
pub fn mixes_channels(case: &Case) -> bool {
    let has_webp = case.files.iter().any(|(_, content)| content.get(8..12) == Some(b"WEBP"));
    let is_one = case.config.contains("channels = 1 ") && !case.config.contains("grayscale = true");
    has_webp || is_one && !case.config.contains("readerType")
}

/// Whether images of a map may be left out, where CNTK fails.
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

/// Whether several lines have one key, of which one names a member of a container.
pub fn has_repeated_members(case: &Case) -> bool {
    let mut members = Vec::new();
    let keys: Vec<String> = lines(case)
        .into_iter()
        .enumerate()
        .map(|(number, line)| {
            let line = String::from_utf8_lossy(line);
            let columns: Vec<&str> = line.split('\t').collect();
            // The key of a line without one is its number.
            let key = if columns.len() > 2 { columns[0].to_owned() } else { number.to_string() };
            if line.contains("c.zip@") {
                members.push(key.clone());
            }
            key
        })
        .collect();
    members.iter().any(|member| keys.iter().filter(|key| *key == member).count() > 1)
}

/// Whether consecutive lines of Base64 begin with one key.
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
}
