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

#[cfg(test)]
mod tests {
    use super::super::sample::{DUMP, bytes_of};
    use super::super::tests::options;
    use super::*;
    use cntk_reader_core::ErrorKind;
    use cntk_reader_core::format::Loaded;
    use cntk_reader_core::format::content::Sampler;
    use cntk_reader_core::sequence::SequenceId;
    use cntk_reader_core::stream::ElementType;

    /// Writes copies of the sample, and returns options to read them.
    fn copies(folder: &tempfile::TempDir, count: usize) -> BinaryOptions {
        for number in 0..count {
            std::fs::write(folder.path().join(format!("{number:03}.cbf")), bytes_of(DUMP)).expect("writing");
        }
        let pattern = folder.path().join("*.cbf").display().to_string();
        BinaryOptions { files: Files::named(pattern).expect("a pattern"), ..options(folder.path()) }
    }

    fn open(options: &BinaryOptions, narrow: bool) -> Result<Arc<dyn Deserializer>> {
        Pool::shared().expect("threads").install(|| open_files(options, &Corpus::Numeric, narrow))
    }

    #[test]
    fn keys_of_lists_follow_the_rule() {
        for (count, shared_ids, second) in [(1, false, 0), (2, false, 1 << 44), (2, true, 3)] {
            let folder = tempfile::tempdir().expect("a folder");
            let all = open(&BinaryOptions { shared_ids, ..copies(&folder, count) }, false).expect("files");
            assert_eq!(all.chunks().len(), 2 * count);
            assert!(all.sequence_facts().counts_keys);
            let last = SequenceId { chunk: 2 * count as ChunkId - 1, index: 0 };
            let (mut keys, mut reported) = (Vec::new(), Vec::new());
            all.keys(&[last], &mut keys);
            all.reported_keys(&[last], false, &mut reported);
            assert_eq!((keys, reported), (vec![second + 2], vec![0]));
            assert_eq!(all.find(second + 2), Some(last));
        }
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = BinaryOptions { element: ElementType::Double, ..copies(&folder, 2) };
        let first = options.files.paths().expect("paths").swap_remove(0);
        assert_eq!(open(&options, false).err().expect("an error").location().file, Some(first));
        let keys = open_files(&options, &Corpus::symbolic(), false).err().expect("an error");
        assert_eq!(keys.kind(), ErrorKind::InvalidArgument);
    }

    #[cfg(unix)] // Wine 8 cannot remove an open file.
    #[test]
    fn only_short_lists_stay_open() {
        for (count, stays_open) in [(2, true), (files::KEPT_OPEN, true), (files::KEPT_OPEN + 1, false)] {
            let folder = tempfile::tempdir().expect("a folder");
            let all = open(&copies(&folder, count), false).expect("files");
            let sample = || {
                let mut sampler = Sampler::new();
                all.sample_content(None, &mut sampler).expect("a sample");
                sampler.finish()
            };
            let before = sample();
            folder.close().expect("removing the files");
            assert_eq!(sample() == before, stays_open, "{count} files");
        }
    }

    #[test]
    fn indices_are_narrow_if_packers_can_read_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = copies(&folder, 2);
        let paths = options.files.paths().expect("paths");
        for narrow in [false, true] {
            let (options, common) = (options.clone(), Arc::new(Common::new()));
            let format = BinaryFormat { options, common, stays_open: true, narrow };
            let all = Pool::shared()
                .expect("threads")
                .install(|| Concat::open(format, paths.clone(), KeyRule::PerFile))
                .expect("files");
            let chunk = all.load(2).expect("a chunk");
            let Loaded::Data(view) = chunk.sequence(1, 0) else { panic!("no data") };
            let sparse = view.sparse().expect("a sparse stream");
            assert_eq!((sparse.narrow, sparse.count()), (narrow, 2));
        }
    }
}
