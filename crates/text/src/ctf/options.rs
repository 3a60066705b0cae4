//! Options of the text format.

use cntk_reader_core::Result;
use cntk_reader_core::file::Confinement;
use cntk_reader_core::format::AnyDeserializer;
use cntk_reader_core::format::files::Files;
use cntk_reader_core::format::options::{Context, Facts, Format, Opened, Signature};
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::option::release::{Quirks, Release};
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::stream::{ElementType, Ids, Storage, StreamInfo};

/// The largest number of errors that can be tolerated.
pub const MAX_ERRORS: u32 = cntk_reader_core::limits::MAX_ERRORS;

/// Options of the text deserializer.
#[derive(Debug, Clone, PartialEq)]
pub struct TextOptions {
    /// The files, read one after the other.
    pub files: Files,
    /// Whether several files share one numbering of sequences (`sharedIds`).
    pub shared_ids: bool,
    /// Streams, sorted by name without regard to case: their order is the order of stream numbers.
    pub streams: Vec<TextStream>,
    /// Take every line as a sequence, whatever its id.
    pub skip_sequence_ids: bool,
    /// Number of errors in the data that are tolerated.
    pub max_errors: u32,
    /// Log, with its level.
    pub log: Logger,
    /// Bytes of a chunk; never 0.
    pub chunk_size: u64,
    /// Keep and use an index file beside the data.
    pub cache_index: bool,
    /// Keep every chunk that was loaded once. CNTK's composite reader has no such cache.
    pub keep_data_in_memory: bool,
    /// Type of the values.
    pub element: ElementType,
    /// CNTK's rules for lines and streams of a sequence; if false, the more lenient rules of its
    /// documentation.
    pub strict_sequences: bool,
    /// Quirks of the CNTK release that the reader stands in for.
    pub quirks: Quirks,
}

impl TextOptions {
    /// The streams as the deserializer offers them.
    pub fn stream_infos(&self) -> Vec<StreamInfo> {
        let info = |stream: &TextStream| {
            let (name, dim) = (&stream.name, stream.dim as usize);
            let element = stream.element.unwrap_or(self.element);
            let mut info = match stream.ids {
                Some(ids) => StreamInfo::ids(name, dim, ids),
                None => StreamInfo::new(name, stream.storage, element, vec![dim]),
            };
            info.defines_mb_size = stream.defines_mb_size;
            info
        };
        self.streams.iter().map(info).collect()
    }
}

/// A stream of the text deserializer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextStream {
    /// Name of the stream.
    pub name: String,
    /// Name in the file; bytes, case-sensitive.
    pub alias: String,
    /// Number of values in a sample.
    pub dim: u64,
    /// Dense or sparse.
    pub storage: Storage,
    /// Whether minibatches are measured in this stream's samples.
    pub defines_mb_size: bool,
    /// Type of the values of a dense stream; `None` means [`TextOptions::element`].
    pub element: Option<ElementType>,
    /// Samples are sparse, with a single entry of value 1; its index is delivered as a dense
    /// scalar.
    pub ids: Option<Ids>,
}

impl Format for TextOptions {
    fn type_name(&self) -> &str {
        "CNTKTextFormatDeserializer"
    }

    fn name(&self) -> &str {
        self.files.name()
    }

    fn facts(&self) -> Facts {
        Facts {
            signature: Signature::Explained,
            has_written_indices: true,
            suggests_chunk_size: true,
            ..Facts::default()
        }
    }

    fn open(&self, context: Context<'_>) -> Result<Opened> {
        let Context { corpus, pool, is_incremental, .. } = context;
        let open = || super::open_files(self, corpus, true, is_incremental.then_some(pool));
        Ok(AnyDeserializer::Known(pool.install(open)?).into())
    }

    fn data_files(&self) -> Result<Vec<String>> {
        self.files.paths()
    }

    fn confine(&mut self, _: &Confinement) {}

    fn speak(&mut self, front_end: FrontEnd) {
        self.log.front_end = front_end;
    }

    fn follow(&mut self, release: Release) {
        self.quirks = release.quirks();
    }

    fn keep_nothing(&mut self) {
        (self.cache_index, self.keep_data_in_memory) = (false, false);
    }

    fn report_warnings(&mut self) {
        self.log.trace_level = self.log.trace_level.max(1);
    }
}
