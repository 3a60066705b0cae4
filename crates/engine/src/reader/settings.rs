//! The settings of a reader.

use crate::pack::Packing;
use crate::randomize::{Order, Pace};
use cntk_reader_core::format::options::{Adapter, Format};
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::option::release::Release;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::written::Written;
use std::sync::Arc;

/// The settings from which a reader is built.
#[derive(Debug, Clone, PartialEq)]
pub struct ReaderSettings {
    /// The kind of the configuration.
    pub shape: Shape,
    /// The deserializers in configuration order; the first one is primary.
    pub deserializers: Vec<Box<dyn Format>>,
    /// Adapters for the samples of opened deserializers, in the order of the deserializers.
    pub adapters: Vec<Arc<dyn Adapter>>,
    /// Keys of sequences are numbers (`useNumericSequenceKeys`).
    pub numeric_keys: bool,
    /// Textual keys are numbered by hash (`hashSequenceKeys`).
    pub hash_keys: bool,
    /// Order of sequences.
    pub order: Order,
    /// How minibatches are packed.
    pub packing: Packing,
    /// Sparse streams become dense in truncated minibatches, as in CNTK (`expandSparse`).
    pub expand_sparse: bool,
    /// The numbers of lanes of truncated minibatches, one for each epoch, the last one also for all
    /// later epochs. The epoch's minibatch size then gives the number of steps. If `None`,
    /// `packing` has the length.
    pub lanes_by_epoch: Option<Vec<u64>>,
    /// Each worker's minibatch size is its share of the total (`localTimeline`); otherwise, all
    /// workers walk through the same global minibatch and keep their share.
    pub local_timeline: bool,
    /// All workers read the same number of minibatches, without data if a worker's share is empty
    /// (`lockstep`). Not with a local timeline.
    pub lockstep: bool,
    /// Number of invalid sequences tolerated by the reader. Bad lines of a text file are counted by
    /// its deserializer.
    pub max_errors: u64,
    /// Type of the delivered values.
    pub element: ElementType,
    /// `traceLevel`.
    pub trace_level: u32,
    /// `verbosity`.
    pub verbosity: i32,
    /// The front end whose names for options messages use.
    pub front_end: FrontEnd,
    /// Fetch sequences on several threads, if they are fetched individually
    /// (`multiThreadedDeserialization`).
    pub multithreaded: bool,
    /// Prefetch minibatches (`prefetch`).
    pub prefetch: bool,
    /// The release of CNTK that the reader replaces, if its section came from CNTK, which chose the
    /// module itself. Settings that CNTK silently ignores are then ignored too; otherwise, they are
    /// errors.
    pub in_place_of: Option<Release>,
    /// Location of the key that determines `packing`: `frameMode` or `truncated`.
    pub packing_key: Written,
    /// Location of each of `deserializers` in the configuration; may be shorter than
    /// `deserializers`.
    pub descriptions: Vec<Written>,
}

impl ReaderSettings {
    /// Sets the front end whose terms messages use. Unless that is CNTK's language, drops the lines
    /// of keys, because there is no configuration file.
    pub fn speak(&mut self, front_end: FrontEnd) {
        self.front_end = front_end;
        self.deserializers.iter_mut().for_each(|one| one.speak(front_end));
        if !front_end.has_text() {
            self.packing_key = Written::default();
            self.descriptions.clear();
        }
    }

    /// Returns the options of the deserializers in order.
    pub fn formats(&self) -> impl ExactSizeIterator<Item = &dyn Format> {
        self.deserializers.iter().map(|one| &**one)
    }

    /// Returns how far each worker reads for a minibatch.
    pub fn pace(&self) -> Pace {
        match self.in_place_of {
            _ if self.lockstep => Pace::Lockstep,
            Some(Release::Beta) => Pace::Beta,
            Some(Release::Current) | None => Pace::Own,
        }
    }
}

/// The kinds of configurations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// `deserializers = ( ... )`, as used by CNTK's API and its composite reader.
    Composite,
    /// `readerType = "CNTKTextFormatReader"`, with one text deserializer. CNTK prefixes runtime
    /// errors that occur after this reader's configuration is read with
    /// `CNTKTextFormatReader: While reading '<file>': `.
    TextReader,
    /// `readerType = "CNTKBinaryReader"`, with one binary deserializer. CNTK's prefix is
    /// `CNTKBinaryReader: While reading '<file>': `.
    BinaryReader,
    /// `readerType = "ImageReader"`, with one deserializer of images.
    ImageReader,
    /// `readerType = "HTKMLFReader"` or `"HTKDeserializers"`: features and labels in the reader's
    /// own sections.
    HtkReader,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::tests::settings;
    use crate::reader::tests::source::{InMemory, Source};

    #[test]
    fn pace_follows_lockstep_and_release() {
        for (lockstep, in_place_of, pace) in [
            (false, None, Pace::Own),
            (false, Some(Release::Current), Pace::Own),
            (false, Some(Release::Beta), Pace::Beta),
            (true, None, Pace::Lockstep),
            (true, Some(Release::Beta), Pace::Lockstep),
        ] {
            let settings = ReaderSettings { lockstep, in_place_of, ..settings() };
            assert_eq!(settings.pace(), pace, "{lockstep} {in_place_of:?}");
        }
    }

    #[test]
    fn places_in_a_configuration_are_named_only_in_its_language() {
        for (front_end, is_kept) in [(FrontEnd::Configuration, true), (FrontEnd::Python, false)] {
            let place = Written::at(Some("a.cntk"), 3, 1, String::new());
            let one = Box::new(InMemory::new("a", &Arc::new(Source::twelve())));
            let mut settings = ReaderSettings {
                front_end: FrontEnd::Rust,
                deserializers: vec![one],
                packing_key: place.clone(),
                descriptions: vec![place],
                ..settings()
            };
            settings.speak(front_end);
            assert_eq!(settings.front_end, front_end);
            let spoken = settings.formats().map(|one| one.of::<InMemory>().expect("in memory").front_end);
            assert!(spoken.eq([front_end]));
            assert_eq!(settings.packing_key.describe().is_some(), is_kept);
            assert_eq!(settings.descriptions.len(), usize::from(is_kept));
        }
    }
}
