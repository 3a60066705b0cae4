//! Names that must differ.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

/// Finds names that come twice, in time that grows with their number.
#[derive(Default)]
pub(crate) struct Distinct<'n>(HashMap<Name<'n>, usize>);

impl<'n> Distinct<'n> {
    /// Adds the next name. If it came before, gives the number that it had then, counted from 0.
    pub(crate) fn add(&mut self, name: &'n str) -> Option<usize> {
        let number = self.0.len();
        let first = *self.0.entry(Name(name)).or_insert(number);
        (first != number).then_some(first)
    }

    /// The number of a name that was added.
    pub(crate) fn number(&self, name: &'n str) -> Option<usize> {
        self.0.get(&Name(name)).copied()
    }
}

impl<'n> FromIterator<&'n str> for Distinct<'n> {
    fn from_iter<I: IntoIterator<Item = &'n str>>(names: I) -> Self {
        let mut distinct = Distinct::default();
        names.into_iter().for_each(|name| _ = distinct.add(name));
        distinct
    }
}

#[derive(Eq)]
struct Name<'n>(&'n str);

impl PartialEq for Name<'_> {
    fn eq(&self, other: &Self) -> bool {
        #[cfg(test)]
        COMPARISONS.set(COMPARISONS.get() + 1);
        self.0 == other.0
    }
}

impl Hash for Name<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.hash(hasher);
    }
}

#[cfg(test)]
thread_local! {
    /// Names that this thread has compared.
    static COMPARISONS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::from_text;
    use crate::config::options::TextOptions;
    use crate::corpus::Corpus;
    use crate::deserialize::bundle::check_names;
    use crate::deserialize::text::parse::rules::Rules;
    use crate::stream::StreamInfo;
    use std::fmt::Write;
    use std::sync::Arc;

    #[test]
    fn a_name_that_comes_twice_is_found() {
        let mut distinct = Distinct::default();
        assert_eq!(
            ["a", "b", "c", "b", "a"].map(|name| distinct.add(name)),
            [None, None, None, Some(1), Some(0)]
        );
        assert_eq!((distinct.number("c"), distinct.number("d")), (Some(2), None));
    }

    /// Names are compared at most once each where all are different, and hardly more often by accident.
    #[test]
    fn many_streams_are_not_compared_with_each_other() {
        const STREAMS: usize = 20_000;
        let mut text = String::from(
            "deserializers = ([ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; file = \"x\" ; input = [\n",
        );
        (0..STREAMS).for_each(|number| _ = writeln!(text, "s{number} = [ dim = 1 ; format = \"dense\" ]"));
        text += "] ])";
        COMPARISONS.set(0);
        let options = from_text(&text).expect("a configuration");
        let options = options.deserializers[0].of::<TextOptions>().expect("a text file");
        let rules = Rules::new(options, &Arc::new(Corpus::Numeric)).expect("names that differ");
        assert_eq!(rules.streams.len(), STREAMS);
        let streams: Vec<_> =
            options.streams.iter().map(|stream| StreamInfo::dense(&*stream.name, &[1])).collect();
        check_names(&streams).expect("names that differ");
        assert!(COMPARISONS.get() < 3 * STREAMS, "{} comparisons", COMPARISONS.get());
    }
}
