//! What an error about one sequence says besides its message: the sequence's key, where its data lie, how long it is in each
//! stream, and which key of the configuration asked for this way of packing.

use cntk_reader_core::Error;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::AnyDeserializer;
use cntk_reader_core::sequence::{SequenceId, SequenceKey};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_core::written::Written;
use std::fmt::Write as _;
use std::sync::Arc;

/// Completes errors about single sequences. Nothing is looked up before there is an error.
#[derive(Clone, Default)]
pub(crate) struct Explain {
    source: Option<(AnyDeserializer, Arc<Corpus>)>,
    /// Where the key was set that asked for this way of packing.
    key: Written,
}

impl Explain {
    /// For the sequences of a deserializer. `key` is where the way of packing was set.
    pub fn new(source: &AnyDeserializer, corpus: &Arc<Corpus>, key: Written) -> Explain {
        Explain { source: Some((source.clone(), Arc::clone(corpus))), key }
    }

    /// The error with the place and the key of a sequence in stream `stream`. `key` is what fetching the sequence has
    /// revealed.
    #[cold]
    pub fn locate(&self, error: Error, id: SequenceId, stream: usize, key: Option<SequenceKey>) -> Error {
        let Some((deserializer, corpus)) = &self.source else { return error };
        let source = deserializer.source();
        let error = error.completed(source.diagnostics().location(id, stream));
        // A user's deserializer may not know the keys of sequences that are fetched.
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

    /// The error with the place of the key that asked for this way of packing: as its location, unless it has the place of data.
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

/// `The sequence has 3 samples in 'x' and 1 in 'y'.`
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
        // Writing to a string does not fail.
        let _ = write!(text, "{separator}{samples}{noun} in '{}'", info.name);
    }
    text.push('.');
    text
}
