//! Readers over small deserializers in memory.

mod checkpoints;
mod epochs;
mod failures;
mod fetching;
mod opening;
mod reading;
pub mod source;

use super::*;
use crate::pack::Minibatch;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::written::Written;
use settings::Shape;
use source::Source;

/// Settings for whole sequences in the data's own order, without prefetching.
pub(super) fn settings() -> ReaderSettings {
    ReaderSettings {
        shape: Shape::Composite,
        deserializers: Vec::new(),
        adapters: Vec::new(),
        numeric_keys: true,
        hash_keys: false,
        order: Order::InOrder,
        packing: Packing::Sequence,
        expand_sparse: true,
        lanes_by_epoch: None,
        local_timeline: false,
        lockstep: false,
        max_errors: 0,
        element: ElementType::Float,
        trace_level: 1,
        verbosity: 0,
        front_end: FrontEnd::Rust,
        multithreaded: false,
        prefetch: false,
        in_place_of: None,
        packing_key: Written::default(),
        descriptions: Vec::new(),
    }
}

/// Randomization in windows of this many chunks, with seed 7.
pub(super) fn block(chunks: u64) -> Order {
    Order::Block { window: WindowSize::Chunks(chunks), seed: 7 }
}

pub(super) fn truncated(length: u64) -> Packing {
    Packing::Truncated { length, right_splice: 0 }
}

/// A reader with two packing threads.
fn over(deserializer: AnyDeserializer, settings: &ReaderSettings) -> Reader {
    let pool = Pool::shared().expect("threads");
    let threads = PackingThreads { all: 2, beside_caller: 1 };
    let (corpus, process) = (Arc::new(Corpus::Numeric), Process::current());
    Reader::over((deserializer, Vec::new()), settings, corpus, pool, threads, process).expect("a reader")
}

fn open(source: &Arc<Source>, settings: &ReaderSettings) -> Reader {
    over(source.known(), settings)
}

/// A reader that has started an epoch.
fn started(source: &Arc<Source>, settings: &ReaderSettings, epoch: Epoch) -> Reader {
    let mut reader = open(source, settings);
    reader.start_epoch(&epoch).expect("an epoch");
    reader
}

/// The keys of a minibatch, with `*` for the end of a sweep and `!` for the end of the epoch.
fn text(minibatch: &Minibatch) -> String {
    let keys: Vec<String> = minibatch.keys.iter().map(u64::to_string).collect();
    let mut text = keys.join(" ");
    if minibatch.end_of_sweep {
        text.push('*');
    }
    if minibatch.end_of_epoch {
        text.push('!');
    }
    text
}

/// Reads to the end of the epoch with `Reader::next`.
fn rest(reader: &mut Reader) -> String {
    let mut texts = Vec::new();
    while let Some(minibatch) = reader.next().expect("a minibatch") {
        texts.push(text(&minibatch));
    }
    texts.join(" | ")
}

/// Reads `count` minibatches with `Reader::read`.
fn some(reader: &mut Reader, count: usize) -> String {
    let texts: Vec<String> = (0..count).map(|_| text(&reader.read().expect("a minibatch"))).collect();
    texts.join(" | ")
}
