//! Everything that a reader is built from.

use crate::pack::Packing;
use crate::randomize::{Order, Pace};
use cntk_reader_core::format::options::{Adapter, Format};
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::option::release::Release;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::written::Written;
use std::sync::Arc;

/// Everything a reader is built from.
#[derive(Debug, Clone, PartialEq)]
pub struct ReaderSettings {
    /// Which kind of configuration this was.
    pub shape: Shape,
    /// The deserializers in the order of the configuration; the first one is primary.
    pub deserializers: Vec<Box<dyn Format>>,
    /// Changes to the samples of opened deserializers, in the order of the deserializers.
    pub adapters: Vec<Arc<dyn Adapter>>,
    /// Keys of sequences are numbers (`useNumericSequenceKeys`).
    pub numeric_keys: bool,
    /// Textual keys are numbered by hash (`hashSequenceKeys`).
    pub hash_keys: bool,
    /// Order of sequences.
    pub order: Order,
    /// How minibatches are packed.
    pub packing: Packing,
    /// Truncated minibatches are as long as the epoch's minibatch size says, and have this many lanes: one number for
    /// each epoch, of which the last one counts for all later epochs. `None`: `packing` has the length.
    pub lanes_by_epoch: Option<Vec<u64>>,
    /// Each worker's minibatch size is its share of the total (`localTimeline`); otherwise all workers walk the same
    /// global minibatch and keep their share.
    pub local_timeline: bool,
    /// Every worker reads as many minibatches as the others, and gets one without data where its share is empty
    /// (`lockstep`). Not with a local timeline.
    pub lockstep: bool,
    /// Invalid sequences tolerated by the reader; bad lines of a text file are counted by its deserializer.
    pub max_errors: u64,
    /// Type of the delivered values.
    pub element: ElementType,
    /// `traceLevel`.
    pub trace_level: u32,
    /// `verbosity`.
    pub verbosity: i32,
    /// Whose words messages use for options.
    pub front_end: FrontEnd,
    /// Sequences that are fetched one by one are fetched by several threads (`multiThreadedDeserialization`).
    pub multithreaded: bool,
    /// Minibatches are packed ahead (`prefetch`).
    pub prefetch: bool,
    /// The release of CNTK in whose place the reader stands: its section came from CNTK, which chose the module by itself. What CNTK
    /// ignores without a word is ignored then, and is an error otherwise.
    pub in_place_of: Option<Release>,
    /// Where the key was written that `packing` comes from: `frameMode` or `truncated`.
    pub packing_key: Written,
    /// Where each of `deserializers` was described; there may be fewer places than deserializers.
    pub descriptions: Vec<Written>,
}

impl ReaderSettings {
    /// Has messages use the words of a front end. Where that is not CNTK's language, nobody has
    /// written the lines that keys stand in.
    pub fn speak(&mut self, front_end: FrontEnd) {
        self.front_end = front_end;
        self.deserializers.iter_mut().for_each(|one| one.speak(front_end));
        if front_end != FrontEnd::Configuration {
            self.packing_key = Written::default();
            self.descriptions.clear();
        }
    }

    /// The options of the deserializers in their order.
    pub fn formats(&self) -> impl ExactSizeIterator<Item = &dyn Format> {
        self.deserializers.iter().map(|one| &**one)
    }

    /// How far each worker reads for a minibatch.
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
    /// `deserializers = ( ... )`: what CNTK's API and its composite reader use.
    Composite,
    /// `readerType = "CNTKTextFormatReader"`, with one text deserializer. CNTK puts
    /// `CNTKTextFormatReader: While reading '<file>': ` before the runtime errors that occur once this reader's
    /// configuration has been read.
    TextReader,
    /// `readerType = "CNTKBinaryReader"`, with one binary deserializer. CNTK's prefix is
    /// `CNTKBinaryReader: While reading '<file>': ` here.
    BinaryReader,
    /// `readerType = "ImageReader"`, with one deserializer of images.
    ImageReader,
    /// `readerType = "HTKMLFReader"` or `"HTKDeserializers"`: features and labels in sections of the reader's own.
    HtkReader,
}
