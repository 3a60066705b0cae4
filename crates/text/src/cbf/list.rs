//! One binary file, or several as one deserializer.

use super::{BinaryDeserializer, Common};
use crate::cbf::BinaryOptions;
use crate::concat::{Concat, Format, KeyRule};
use cntk_reader_core::Result;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::Chunk;
use cntk_reader_core::format::files::{self, Files};
use cntk_reader_core::format::{ChunkTable, Deserializer};
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::ChunkId;
use std::sync::Arc;

/// Opens the files of `options`, and reads their tables. Must run on a thread of the library's
/// pool. With `narrow`, small numbers are stored narrow, which packers can read.
pub fn open_files(options: &BinaryOptions, corpus: &Corpus, narrow: bool) -> Result<Arc<dyn Deserializer>> {
    super::check_corpus(options, corpus)?;
    let mut paths = options.files.paths()?;
    if let [path] = &mut *paths {
        let options = BinaryOptions { files: Files::one(std::mem::take(path)), ..options.clone() };
        let opened = BinaryDeserializer::open(&options, corpus)?;
        return Ok(Arc::new(if narrow { opened.narrow() } else { opened }));
    }
    let rule = if options.shared_ids { KeyRule::Shared } else { KeyRule::PerFile };
    let stays_open = paths.len() <= files::KEPT_OPEN;
    let format =
        BinaryFormat { options: options.clone(), common: Arc::new(Common::new()), stays_open, narrow };
    Ok(Arc::new(Concat::open(format, paths, rule)?))
}

/// Opens the binary files of a list.
struct BinaryFormat {
    options: BinaryOptions,
    common: Arc<Common>,
    stays_open: bool,
    narrow: bool,
}

impl Format for BinaryFormat {
    type File = BinaryDeserializer;
    const REPORTS_KEYS: bool = false;

    fn open(&self, path: &str, _: Option<&Pool>) -> Result<BinaryDeserializer> {
        let options = BinaryOptions { files: Files::one(path.to_owned()), ..self.options.clone() };
        let element = Some(options.element);
        let opened = BinaryDeserializer::open_in(&self.common, self.stays_open, &options, element)
            .map_err(|error| error.in_file(path))?;
        Ok(if self.narrow { opened.narrow() } else { opened })
    }

    fn load(file: &Self::File, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        file.load(chunk)
    }

    fn is_counted(&self, _: &BinaryDeserializer) -> bool {
        true
    }

    fn count(&self, file: &BinaryDeserializer) -> Result<u64> {
        Ok(file.chunks().iter().map(|chunk| u64::from(chunk.sequences)).sum())
    }
}
