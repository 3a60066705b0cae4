//! Recognition of the previous line's id by its text. If sequences have several lines, most lines
//! repeat it, and comparing three words is faster than reading a number or hashing a text.

/// The text of an id, with the byte that ends it.
#[derive(Debug, Default)]
pub(super) struct KnownId {
    /// The text and the bytes after it.
    words: [u64; WORDS],
    /// Length of the id in bytes; 0 if none is known.
    len: usize,
}

/// The largest number has twenty digits. Ids of more than 23 bytes are read in each line.
const WORDS: usize = 3;
const BYTES: usize = 8 * WORDS;

/// For each length of an id, a mask of its bytes and the byte after it.
static MASKS: [[u64; WORDS]; BYTES] = {
    let mut masks = [[0; WORDS]; BYTES];
    let mut len = 0;
    while len < BYTES {
        let mut byte = 0;
        while byte <= len {
            masks[len][byte / 8] |= 0xff << (byte % 8 * 8);
            byte += 1;
        }
        len += 1;
    }
    masks
};

impl KnownId {
    /// Remembers the id in the first `len` bytes of a line.
    #[inline]
    pub fn new(line: &[u8], len: usize) -> KnownId {
        line.first_chunk().map_or_else(KnownId::default, |text| KnownId { words: words(text), len })
    }

    /// Returns the length of the id at the beginning of a line, if it is this one.
    #[inline]
    pub fn find(&self, line: &[u8]) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let (masks, line) = (MASKS.get(self.len)?, words(line.first_chunk()?));
        let differs = |i: usize| (line[i] ^ self.words[i]) & masks[i];
        (differs(0) | differs(1) | differs(2) == 0).then_some(self.len)
    }
}

/// Returns the bytes as words, the first byte lowest.
#[inline]
fn words(bytes: &[u8; BYTES]) -> [u64; WORDS] {
    let (words, _) = bytes.as_chunks::<8>();
    std::array::from_fn(|i| u64::from_le_bytes(words[i]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each byte of the id counts, and so does the byte after it.
    #[test]
    fn other_ids_are_not_found() {
        let line = |id: &str| format!("{id} |a 1 2 3 4 5 6 7 8 9 10 11").into_bytes();
        for len in 1..BYTES {
            let id = "1".repeat(len);
            let known = KnownId::new(&line(&id), len);
            assert_eq!(known.find(format!("{id} |b 12345678901234567890").as_bytes()), Some(len));
            assert_eq!(known.find(&line(&id)[..BYTES - 1]), None, "too short to compare words");
            for place in 0..=len {
                let mut other = line(&id);
                other[place] ^= 3;
                assert_eq!(known.find(&other), None, "{len} bytes, another one at {place}");
            }
        }
        // The first two words differ equally.
        assert_eq!(KnownId::new(&line("1111111111111111"), 16).find(&line("2111111121111111")), None);
        assert_eq!(KnownId::new(&line(&"1".repeat(BYTES)), BYTES).find(&line(&"1".repeat(BYTES))), None);
    }

    proptest! {
        #[test]
        fn known_id_is_found_in_equal_text(
            id in "[0-9]{1,25}", other in "[0-9]{1,25}", end in "[ |\\t]", is_same: bool, rest in "[0-9]{0,30}",
        ) {
            let first = format!("{id}{end}{rest}");
            let known = KnownId::new(first.as_bytes(), id.len());
            let second = format!("{}{end}|a 1 2 3 4 5 6 7 8 9 10 11 12", if is_same { &id } else { &other });
            let is_known = first.len() >= 24 && id.len() < 24;
            let expected = (is_known && second.starts_with(&first[..=id.len()])).then_some(id.len());
            prop_assert_eq!(known.find(second.as_bytes()), expected);
        }
    }
}
