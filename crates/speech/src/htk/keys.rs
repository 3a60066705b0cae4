//! Keys of utterances: text numbered by the corpus, or decimal numbers.

use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::sequence::SequenceKey;
use cntk_reader_core::{Error, Result};

/// Appends the numbers of keys. On failure, `numbers` holds those of the keys before the faulty
/// one.
pub fn number_all<'a>(
    corpus: &Corpus,
    mut texts: impl Iterator<Item = &'a [u8]>,
    numbers: &mut Vec<SequenceKey>,
) -> Result<()> {
    if corpus.is_numeric() {
        return texts.try_for_each(|text| room::push(numbers, parse(text)?, room::INDEX));
    }
    let mut asked = 0;
    let before = numbers.len();
    corpus.number_all(texts.by_ref().inspect(|_| asked += 1), numbers)?;
    // The corpus stops at the first key that it has no number for. It may have read ahead several
    // keys.
    if numbers.len() - before < asked {
        let error = Error::data("The corpus has no number for another sequence key.");
        return Err(error.with_detail("There are more keys than it can hold, or the host has rejected one: divide the data among several readers."));
    }
    Ok(())
}

/// Parses the number at the beginning of a key.
fn parse(text: &[u8]) -> Result<SequenceKey> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    let value = digits
        .clone()
        .try_fold(0u64, |value, byte| value.checked_mul(10)?.checked_add(u64::from(byte - b'0')));
    match value {
        Some(value) if digits.count() > 0 => Ok(value),
        _ => {
            let key = quoted(text);
            let error = Error::data(format!("Invalid numeric sequence id '{key}'"));
            let advice = "A decimal number of up to 64 bits was expected. Set ‹numeric_keys = false› ‹in_the_reader›, or \
                          number the utterances.";
            Err(error.with_detail(advice).for_key(key))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(corpus: &Corpus, texts: &[&str]) -> (Vec<SequenceKey>, Option<String>) {
        let mut numbers = Vec::new();
        let numbered = number_all(corpus, texts.iter().map(|text| text.as_bytes()), &mut numbers);
        (numbers, numbered.err().map(|error| error.message().to_owned()))
    }

    #[test]
    fn numeric_keys_are_the_digits_at_their_beginning() {
        assert_eq!(numbers(&Corpus::Numeric, &["10", "7a", "007"]), (vec![10, 7, 7], None));
        for (text, key) in [("u1", "u1"), ("", ""), ("18446744073709551616", "18446744073709551616")] {
            let expected = (vec![3], Some(format!("Invalid numeric sequence id '{key}'")));
            assert_eq!(numbers(&Corpus::Numeric, &["3", text, "4"]), expected);
        }
    }

    #[test]
    fn keys_without_a_number_are_errors() {
        assert_eq!(numbers(&Corpus::symbolic(), &["a", "b", "a"]), (vec![0, 1, 0], None));
        let host = Corpus::Host(Box::new(|text| (text != b"b").then_some(text.len() as u64)));
        let (known, error) = numbers(&host, &["a", "bb", "b", "c"]);
        assert_eq!((known, error.is_some()), (vec![1, 2], true));
    }
}
