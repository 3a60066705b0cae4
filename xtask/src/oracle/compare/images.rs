//! What the rules for images ask of a case.

use crate::golden::Case;

/// The lines of the map file, or of the file with Base64, without the ends of lines.
fn lines(case: &Case) -> Vec<&[u8]> {
    let map = case.files.iter().find(|(name, _)| name == "map.txt");
    let Some((_, content)) = map else { return Vec::new() };
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    content.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).collect()
}

fn is_base64(case: &Case) -> bool {
    case.config.contains("\"Base64ImageDeserializer\"")
}

/// Whether a JPEG image without its end is a member of a container, or a record of Base64.
pub fn has_cut_jpeg_in_memory(case: &Case) -> bool {
    lines(case).into_iter().any(|line| match is_base64(case) {
        true => {
            let data = line.rsplit(|&byte| byte == b'\t').next().unwrap_or_default();
            data.starts_with(b"/9j/") && !ends_in_end_of_image(data)
        }
        false => {
            // The generator's name for such images, and that of the tests.
            let line = String::from_utf8_lossy(line);
            line.contains("c.zip@") && (line.contains(".cut.jpg\t") || line.contains(".trunc.jpg\t"))
        }
    })
}

/// Whether Base64 ends in the bytes FF D9.
fn ends_in_end_of_image(data: &[u8]) -> bool {
    let digits = data.iter().take_while(|&&byte| byte != b'=').count();
    // The last digit has bits that belong to no byte.
    bits(&data[digits.saturating_sub(8)..digits]) >> (digits * 6 % 8) & 0xffff == 0xffd9
}

/// The bits of at most ten digits of Base64.
fn bits(digits: &[u8]) -> u64 {
    let value = |digit: u8| match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    digits.iter().fold(0, |bits, &digit| bits << 6 | u64::from(value(digit)))
}

/// Whether images become gray, one of which is a PNG image with colors of 16 bits.
pub fn has_deep_gray_png(case: &Case) -> bool {
    let config = &case.config;
    let is_gray = config.contains("grayscale = true")
        || config.starts_with("readerType") && config.contains("channels = 1 ");
    is_gray
        && lines(case).into_iter().any(|line| match is_base64(case) {
            true => {
                let data = line.rsplit(|&byte| byte == b'\t').next().unwrap_or_default();
                // Bytes 24 and 25 are the depth and the kind of colors: 2 without, 6 with alpha.
                let header = data.get(32..36).filter(|_| data.starts_with(b"iVBORw0KGgo"));
                header.is_some_and(|header| matches!(bits(header) >> 8, 0x1002 | 0x1006))
            }
            // The generator's name for such images.
            false => String::from_utf8_lossy(line).contains(".deep.png\t"),
        })
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

/// Whether a line of Base64 is empty or has fewer columns than the first one.
pub fn has_line_without_columns(case: &Case) -> bool {
    let columns = |line: &[u8]| line.iter().filter(|&&byte| byte == b'\t').count();
    let lines = lines(case);
    let most = lines.iter().map(|line| columns(line)).max().unwrap_or_default();
    is_base64(case) && lines.iter().any(|line| columns(line) < most.max(1))
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
    fn ends_of_images_are_found_in_base64() {
        // One, two and three bytes in the last group.
        for (data, ends) in [("/9j/2Q==", true), ("/9j//9k=", true), ("/9j/AP/Z", true), ("/9j/AP8=", false)]
        {
            assert_eq!(ends_in_end_of_image(data.as_bytes()), ends, "{data}");
            let of = case("type = \"Base64ImageDeserializer\"", &format!("1\t{data}\r\n"));
            assert_eq!(has_cut_jpeg_in_memory(&of), !ends, "{data}");
        }
        assert!(has_cut_jpeg_in_memory(&case("", ".../a.jpg\t1\n.../c.zip@/i1.cut.jpg\t1\n")));
        assert!(!has_cut_jpeg_in_memory(&case("", ".../i1.cut.jpg\t1\n")), "files are read as here");
    }

    #[test]
    fn deep_images_are_found() {
        let header = |depth: &str| format!("iVBORw0KGgoAAAANSUhEUgAAAAkAAAAF{depth}AACyOJm3");
        let of = |config: &str, map: &str| has_deep_gray_png(&case(config, map));
        let gray = "type = \"Base64ImageDeserializer\" ; grayscale = true";
        assert!(of(gray, &format!("1\t{}\n", header("EAIA"))));
        assert!(!of(gray, &format!("1\t{}\n", header("CAIA"))), "8 bits");
        assert!(!of("type = \"Base64ImageDeserializer\"", &format!("1\t{}\n", header("EAIA"))), "colors");
        assert!(of("grayscale = true", ".../i1.deep.png\t1\n"));
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
    fn lines_without_columns_are_found() {
        let of = |map: &str| has_line_without_columns(&case("\"Base64ImageDeserializer\"", map));
        assert!(of("1\tAAAA\n1 AAAA\n") && of("1\tAAAA\n\n1\tAAAA\n") && of("1 AAAA\n"));
        assert!(!of("1\tAAAA\n2\tAAAA\n"));
    }
}
