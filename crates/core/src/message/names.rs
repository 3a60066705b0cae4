//! Detects duplicate names.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

/// A set of names that detects duplicates in linear time.
#[derive(Default)]
pub struct Distinct<'n>(HashMap<Name<'n>, usize>);

impl<'n> Distinct<'n> {
    /// Adds the next name. If it is a duplicate, returns the number of its first occurrence,
    /// counted from 0.
    pub fn add(&mut self, name: &'n str) -> Option<usize> {
        let number = self.0.len();
        let first = *self.0.entry(Name(name)).or_insert(number);
        (first != number).then_some(first)
    }

    /// Returns the number of a name that was added.
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
        #[cfg(any(test, feature = "test-support"))]
        COMPARISONS.set(COMPARISONS.get() + 1);
        self.0 == other.0
    }
}

impl Hash for Name<'_> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.hash(hasher);
    }
}

#[cfg(any(test, feature = "test-support"))]
thread_local! {
    /// Number of name comparisons on this thread.
    pub static COMPARISONS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_names_are_found() {
        let mut distinct = Distinct::default();
        assert_eq!(
            ["a", "b", "c", "b", "a"].map(|name| distinct.add(name)),
            [None, None, None, Some(1), Some(0)]
        );
        assert_eq!((distinct.number("c"), distinct.number("d")), (Some(2), None));
    }
}
