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
