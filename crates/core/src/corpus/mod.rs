//! The keys of a corpus: numbers, or texts that are mapped to numbers for the lifetime of the
//! reader.

mod symbols;

use crate::Result;
use crate::memory::room;
use crate::runtime::lock::RwLock;
use crate::sequence::SequenceKey;
use std::fmt;
pub use symbols::Symbols;

/// A host's function that returns the number of a textual key, or `None` on failure.
pub(crate) type NumberKey = dyn Fn(&[u8]) -> Option<SequenceKey> + Send + Sync;

/// The mapping from sequence keys in the data to [`SequenceKey`]s.
pub enum Corpus {
    /// Keys are decimal numbers in the data, used unchanged.
    Numeric,
    /// Keys are text, numbered 0, 1, 2 ... in order of first appearance.
    Symbolic(RwLock<Symbols>),
    /// Keys are text; the number of a key is CNTK's hash of its text. No text is stored.
    Hashed,
    /// Keys are text, numbered by the host, in order of first appearance in this deserializer's
    /// data.
    Host(Box<NumberKey>),
}

impl fmt::Debug for Corpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Corpus::Numeric => "Numeric",
            Corpus::Symbolic(_) => "Symbolic",
            Corpus::Hashed => "Hashed",
            Corpus::Host(_) => "Host",
        })
    }
}

impl Corpus {
    /// Creates a corpus of textual keys.
    pub fn symbolic() -> Self {
        Corpus::Symbolic(RwLock::default())
    }

    /// Returns whether keys are numbers in the data.
    pub fn is_numeric(&self) -> bool {
        matches!(self, Corpus::Numeric)
    }

    /// Returns whether keys are hashes of their text.
    pub fn is_hashed(&self) -> bool {
        matches!(self, Corpus::Hashed)
    }

    /// Returns the number of a textual key; a symbolic corpus gives a new key the next number.
    /// Returns `None` in a numeric corpus, if the host's function failed, or for a new key if a
    /// symbolic corpus already has 2^32 - 1 keys. Fails if there is no memory for a new key; a
    /// later call gives it the same number.
    pub fn number_of(&self, text: &[u8]) -> Result<Option<SequenceKey>> {
        match self {
            Corpus::Numeric => Ok(None),
            Corpus::Hashed => Ok(Some(hash(text))),
            Corpus::Host(number) => Ok(number(text)),
            Corpus::Symbolic(symbols) => symbols.write().number_of(text),
        }
    }

    /// Appends the numbers of textual keys, in order. Stops at the first key for which
    /// [`Corpus::number_of`] returns `None`. On failure, the keys before the failing one are
    /// numbered.
    pub fn number_all<'a>(
        &self,
        texts: impl Iterator<Item = &'a [u8]>,
        numbers: &mut Vec<SequenceKey>,
    ) -> Result<()> {
        if let Corpus::Symbolic(symbols) = self {
            return symbols.write().number_all(texts, numbers);
        }
        for text in texts {
            let Some(number) = self.number_of(text)? else { break };
            room::push(numbers, number, room::INDEX)?;
        }
        Ok(())
    }

    /// Frees the spare memory for further keys.
    pub fn shrink(&self) {
        if let Corpus::Symbolic(symbols) = self {
            symbols.write().shrink();
        }
    }

    /// Returns a number that identifies the key in every run: symbolic keys are numbered in order
    /// of appearance, so they are represented by a hash of their text.
    pub fn lasting_number(&self, key: SequenceKey) -> u64 {
        const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
        const PRIME: u64 = 0x0100_0000_01b3;
        match self {
            Corpus::Numeric | Corpus::Hashed | Corpus::Host(_) => key,
            Corpus::Symbolic(symbols) => symbols.read().text_of(key).map_or(key, |text| {
                // FNV-1a.
                text.iter().fold(BASIS, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME))
            }),
        }
    }

    /// Returns the text of a key, as CNTK prints it.
    pub fn text_of(&self, key: SequenceKey) -> String {
        match self {
            Corpus::Numeric | Corpus::Host(_) => key.to_string(),
            Corpus::Hashed => format!("<Unknown, hash {key}>"),
            Corpus::Symbolic(symbols) => match symbols.read().text_of(key) {
                Some(text) => String::from_utf8_lossy(text).into_owned(),
                None => format!("<Unknown, number {key}>"),
            },
        }
    }
}

/// CNTK's hash of a key: djb2 with XOR, over sign-extended bytes.
fn hash(text: &[u8]) -> u64 {
    text.iter().fold(5381u64, |h, &byte| h.wrapping_mul(33) ^ (byte as i8 as i64 as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_as_recorded_from_cntk() {
        assert_eq!(hash(b"12"), 5859366);
        assert_eq!(hash(b"a"), 177604);
    }

    #[test]
    fn symbols_are_numbered_in_order_of_appearance() {
        let corpus = Corpus::symbolic();
        let number_of = |text: &[u8]| corpus.number_of(text).expect("memory");
        assert_eq!(number_of(b"b"), Some(0));
        assert_eq!(number_of(b"a"), Some(1));
        assert_eq!(number_of(b"b"), Some(0));
        assert_eq!(corpus.text_of(1), "a");
    }
}
