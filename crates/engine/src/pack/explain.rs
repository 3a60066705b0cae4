//! Context for errors about a single sequence: its key, the location of its data, its length in
//! each stream, and the configuration key that selected this packing.

use cntk_reader_core::Error;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::AnyDeserializer;
use cntk_reader_core::sequence::{SequenceId, SequenceKey};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_core::written::Written;
use std::fmt::Write as _;
use std::sync::Arc;

/// Completes errors about single sequences. Looks nothing up until there is an error.
#[derive(Clone, Default)]
pub(crate) struct Explain {
    source: Option<(AnyDeserializer, Arc<Corpus>)>,
    /// Location of the configuration key that selected this packing.
    key: Written,
}

impl Explain {
    /// Creates explanations for the sequences of a deserializer. `key` is the location that
    /// selected the packing.
    pub fn new(source: &AnyDeserializer, corpus: &Arc<Corpus>, key: Written) -> Explain {
        Explain { source: Some((source.clone(), Arc::clone(corpus))), key }
    }

    /// Adds the location and key of a sequence in stream `stream` to an error. `key` is known if
    /// fetching the sequence revealed it.
    #[cold]
    pub fn locate(&self, error: Error, id: SequenceId, stream: usize, key: Option<SequenceKey>) -> Error {
        let Some((deserializer, corpus)) = &self.source else { return error };
        let source = deserializer.source();
        let error = error.completed(source.diagnostics().location(id, stream));
        // A user's deserializer may not know the keys of fetched sequences.
        let is_known = key.is_some() || !(source.facts().is_fetched && source.facts().is_foreign);
        let key = key.or_else(|| {
            let mut keys = Vec::with_capacity(1);
            match deserializer {
                AnyDeserializer::Known(deserializer) => deserializer.keys(&[id], &mut keys),
                AnyDeserializer::Listing(deserializer) => {
                    deserializer.reported_keys(&[id], false, &mut keys);
                }
            }
            keys.pop()
        });
        let (Some(key), true) = (key, is_known) else { return error };
        error.for_key(source.diagnostics().key_text(key, corpus))
    }

    /// Adds the place of the configuration key that selected this packing: as the error's location,
    /// or as a detail if the error already has the location of data.
    #[cold]
    pub(super) fn blame(&self, error: Error) -> Error {
        match self.key.describe() {
            Some(place) if error.location().file.is_some() => {
                error.with_detail(format!("This way of packing is set in {place}."))
            }
            _ => self.key.blame(error),
        }
    }
}

/// Formats lengths, such as `The sequence has 3 samples in 'x' and 1 in 'y'.`
#[cold]
pub(super) fn lengths<'a>(of: impl Iterator<Item = (&'a StreamInfo, u32)>) -> String {
    let of: Vec<_> = of.collect();
    let mut text = String::from("The sequence has ");
    for (number, (info, samples)) in of.iter().enumerate() {
        let separator = match number {
            0 => "",
            number if number + 1 == of.len() => " and ",
            _ => ", ",
        };
        let noun = match (number, samples) {
            (0, 1) => " sample",
            (0, _) => " samples",
            _ => "",
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{samples}{noun} in '{}'", info.name);
    }
    text.push('.');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Recorder;
    use cntk_reader_core::error::Location;
    use cntk_reader_core::format::SourceFacts;

    const ID: SequenceId = SequenceId { chunk: 1, index: 0 };

    fn recorder(is_fetched: bool, is_foreign: bool) -> Arc<Recorder> {
        let mut recorder = Recorder::new("a", &[&[(4, 1)], &[(7, 1)]]);
        recorder.facts = SourceFacts { is_fetched, is_foreign, ..SourceFacts::ON_POOL };
        Arc::new(recorder)
    }

    fn explain(source: AnyDeserializer) -> Explain {
        Explain::new(&source, &Arc::new(Corpus::Numeric), Written::default())
    }

    /// Returns the location of the sequence [`ID`] in stream 2.
    fn located(explain: &Explain, key: Option<SequenceKey>) -> Location {
        explain.locate(Error::data("no"), ID, 2, key).location().clone()
    }

    #[test]
    fn sequences_are_located() {
        let place = |key: Option<&str>| {
            let mut place = Location::in_file("a", Some(100), Some(2));
            place.key = key.map(str::to_owned);
            place
        };
        let known =
            |is_fetched, is_foreign| explain(AnyDeserializer::Known(recorder(is_fetched, is_foreign)));
        assert_eq!(located(&Explain::default(), Some(3)), Location::default());
        assert_eq!(located(&known(false, false), None), place(Some("a-7")));
        assert_eq!(located(&known(true, false), None), place(Some("a-7")));
        assert_eq!(located(&known(false, true), None), place(Some("a-7")));
        assert_eq!(located(&known(true, true), None), place(None));
        assert_eq!(located(&known(true, true), Some(3)), place(Some("a-3")));
        let listing = explain(AnyDeserializer::Listing(recorder(false, false)));
        assert_eq!(located(&listing, None), place(Some("a-1007")));
    }

    #[test]
    fn packing_is_blamed_on_its_key() {
        let mut explain = explain(AnyDeserializer::Known(recorder(false, false)));
        assert_eq!(explain.blame(Error::data("no")).location(), &Location::default());
        explain.key = Written::at(Some("c.cntk"), 3, 5, "truncated = true".to_owned());
        let error = explain.blame(Error::data("no"));
        let place = error.location();
        assert_eq!((place.file.as_deref(), place.line, place.column), (Some("c.cntk"), Some(3), Some(5)));
        assert_eq!(error.detail(), "");
        let error = explain.blame(Error::data("no").in_file("a"));
        assert_eq!((error.location().file.as_deref(), error.location().line), (Some("a"), None));
        assert_eq!(error.detail(), "This way of packing is set in line 3 of 'c.cntk'.");
    }

    #[test]
    fn lengths_are_listed() {
        let infos = ["x", "y", "z"].map(|name| StreamInfo::dense(name, &[1]));
        let text = |samples: &[u32]| lengths(infos.iter().zip(samples.iter().copied()));
        assert_eq!(text(&[1]), "The sequence has 1 sample in 'x'.");
        assert_eq!(text(&[0]), "The sequence has 0 samples in 'x'.");
        assert_eq!(text(&[1, 3]), "The sequence has 1 sample in 'x' and 3 in 'y'.");
        assert_eq!(text(&[2, 1, 1]), "The sequence has 2 samples in 'x', 1 in 'y' and 1 in 'z'.");
    }
}
