//! Parsers of numbers on the command line, whose messages say what is expected.

use std::fmt::Display;
use std::str::FromStr;

/// Parses a whole number of at least `LEAST`.
pub fn whole<T, const LEAST: u64>(text: &str) -> Result<T, String>
where
    T: FromStr + PartialOrd + TryFrom<u64>,
{
    let is_large_enough = |number: &T| T::try_from(LEAST).is_ok_and(|least| *number >= least);
    let number = text.parse().ok().filter(is_large_enough);
    number.ok_or_else(|| format!("expected a whole number of at least {LEAST}, found '{text}'"))
}

/// Parses a whole number from `LEAST` to `MOST`.
pub fn between<const LEAST: u32, const MOST: u32>(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (LEAST..=MOST).contains(number));
    number.ok_or_else(|| format!("expected a whole number from {LEAST} to {MOST}, found '{text}'"))
}

/// Parses any number.
pub fn any<T: FromStr + Display>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("expected a number, found '{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_numbers_are_shown_with_what_was_expected() {
        assert_eq!(whole::<u64, 0>("0"), Ok(0));
        assert_eq!(whole::<usize, 1>("18446744073709551615"), Ok(usize::MAX));
        for text in ["0", "-1", "1.5", "x", "", "18446744073709551616"] {
            let expected = format!("expected a whole number of at least 1, found '{text}'");
            assert_eq!(whole::<u64, 1>(text), Err(expected));
        }
        assert_eq!((between::<1, 22>("22"), any::<f64>("-1e3")), (Ok(22), Ok(-1000.0)));
        assert!(between::<1, 22>("23").is_err_and(|message| message.contains("from 1 to 22, found '23'")));
        assert!(any::<f64>("abc").is_err_and(|message| message == "expected a number, found 'abc'"));
    }
}
