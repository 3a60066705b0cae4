//! Opening of one text file, or of several as one deserializer.

use super::index::warn_of_repeats;
use super::{ListContext, ListState, TextDeserializer};
use crate::concat::{Concat, Format, KEY_LIMIT, KeyRule};
use crate::ctf::TextOptions;
use cntk_reader_core::Result;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::files::{self, Files};
use cntk_reader_core::format::{Chunk, Deserializer};
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::ChunkId;
use std::sync::Arc;

/// Opens the files of `options`. Call it on a thread of the pool. With `narrow`, small numbers are
/// stored in fewer bytes, for packers that can read them. With `pool`, files are indexed as they
/// are read from front to back.
pub fn open_files(
    options: &TextOptions,
    corpus: &Arc<Corpus>,
    narrow: bool,
    pool: Option<&Pool>,
) -> Result<Arc<dyn Deserializer>> {
    let mut paths = options.files.paths()?;
    if let [path] = &mut *paths {
        let options = TextOptions { files: Files::one(std::mem::take(path)), ..options.clone() };
        let opened = match pool {
            Some(pool) => TextDeserializer::open_incremental(&options, corpus, pool)?,
            None => TextDeserializer::open(&options, corpus)?,
        };
        return Ok(Arc::new(if narrow { opened.narrow() } else { opened }));
    }
    // Textual keys are names: they denote the same sequence in every file.
    let rule = match options.shared_ids || !corpus.is_numeric() {
        true => KeyRule::Shared,
        false => KeyRule::PerFile,
    };
    let stays_open = paths.len() <= files::KEPT_OPEN;
    let list = ListContext {
        common: Arc::new(ListState::new(options)),
        key_limit: (rule == KeyRule::PerFile).then_some(KEY_LIMIT),
        warns_of_repeats: rule == KeyRule::PerFile,
        stays_open,
    };
    let format = TextFormat { options: options.clone(), corpus: Arc::clone(corpus), list, narrow };
    Ok(match pool {
        Some(pool) => Arc::new(Concat::open_incremental(format, paths, rule, pool)?),
        None => Arc::new(Concat::open(format, paths, rule)?),
    })
}

/// The text format, as [`Concat`] opens its files.
struct TextFormat {
    options: TextOptions,
    corpus: Arc<Corpus>,
    list: ListContext,
    narrow: bool,
}

impl Format for TextFormat {
    type File = TextDeserializer;
    const REPORTS_KEYS: bool = true;

    fn open(&self, path: &str, pool: Option<&Pool>) -> Result<TextDeserializer> {
        let options = TextOptions { files: Files::one(path.to_owned()), ..self.options.clone() };
        let opened = match pool {
            // An incremental index keeps its file open.
            Some(pool) if self.list.stays_open => {
                TextDeserializer::open_incremental_in(&self.list, &options, &self.corpus, pool)
            }
            _ => TextDeserializer::open_in(&self.list, &options, &self.corpus),
        };
        let opened = opened.map_err(|error| error.in_file(path))?;
        Ok(if self.narrow { opened.narrow() } else { opened })
    }

    fn load(file: &Self::File, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        file.load(chunk)
    }

    /// Textual keys are numbered in the order in which they appear in the data.
    fn opens_in_turn(&self) -> bool {
        matches!(*self.corpus, Corpus::Symbolic(_) | Corpus::Host(_))
    }

    fn is_counted(&self, file: &TextDeserializer) -> bool {
        file.shared.index.is_by_line()
    }

    fn count(&self, file: &TextDeserializer) -> Result<u64> {
        file.shared.index.lines(&file.shared.handle.get()?)
    }

    fn warn_of_repeats(&self, files: &[&TextDeserializer]) {
        let files: Vec<_> = files.iter().map(|file| (&file.shared.handle, &file.shared.index)).collect();
        warn_of_repeats(&files, &self.corpus, &self.options.log);
    }
}
