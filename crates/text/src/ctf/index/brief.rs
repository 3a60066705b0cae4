//! Facts about a file from its index cache, without loading the cache: in milliseconds, whatever
//! the size of the file.

use super::IndexOptions;
use super::cache::{Cache, CacheState, Checked, HEADER, OpenCache, RECORD, Refusal, words};
use super::source::SourceFile;
use super::start::Start;
use cntk_reader_core::Result;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::runtime::cancel::carried;
use rayon::prelude::*;

/// Summary of an index cache.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexBrief {
    /// Path of the cache.
    pub cache: String,
    /// Bytes of the data file.
    pub bytes: u64,
    /// Number of sequences.
    pub sequences: u64,
    /// Number of chunks; approximate if there are very many.
    pub chunks: u64,
    /// Lengths of the sequences, or of a sample of them from all over the file.
    pub lengths: Vec<u32>,
}

/// Number of sequences up to which all of them are read.
const ALL: usize = 1 << 18;

/// Number of places of a larger cache that are read, and of sequences at each.
const PLACES: usize = 256;
const PLACE: usize = 256;

/// Approximate number of chunks up to which they are counted.
const COUNTED: u64 = 10_000;

/// Returns the path of a file's cache, whether it exists or not, and its state. `None` if there can
/// be no cache, because each process numbers the keys anew.
pub fn state(file: &DataFile, options: &IndexOptions, corpus: &Corpus) -> Option<(String, CacheState)> {
    let cache = Cache::beside(file, &IndexOptions { cache: true, ..options.clone() }, corpus)?;
    let state = CacheState::of(open(file, &cache, options, corpus));
    Some((cache.path().to_owned(), state.unwrap_or(CacheState::Unfit("the data cannot be read"))))
}

/// Summarizes the cache of a file, if there is one that fits the file at its ends.
pub fn brief(file: &DataFile, options: &IndexOptions, corpus: &Corpus) -> Result<Option<IndexBrief>> {
    let Some(cache) = Cache::beside(file, &IndexOptions { cache: true, ..options.clone() }, corpus) else {
        return Ok(None);
    };
    let records = match open(file, &cache, options, corpus) {
        Ok(records) => records,
        Err(Refusal::Failed(error)) => return Err(error),
        Err(_) => return Ok(None),
    };
    let lengths = match records.by_line {
        true => vec![1],
        false => records.lengths()?,
    };
    let bytes = file.size()?;
    let chunks = match bytes / options.chunk_size.max(1) {
        few if few <= COUNTED => records.chunks(options.chunk_size)?,
        many => many,
    };
    let cache = cache.path().to_owned();
    Ok(Some(IndexBrief { cache, bytes, sequences: records.count as u64, chunks, lengths }))
}

/// The records of a cache.
struct Records {
    file: DataFile,
    count: usize,
    by_line: bool,
}

/// Opens a cache if it fits the file at its ends.
fn open(data: &DataFile, cache: &Cache, options: &IndexOptions, corpus: &Corpus) -> Checked<Records> {
    let source = SourceFile::new(data)?;
    let OpenCache { file, sequences: count, .. } = cache.open(&source)?;
    let start = Start::read(&source, options, corpus)?;
    let records = Records { file, count, by_line: start.by_line };
    // Lines without the main stream belong to no sequence, and may be at the ends of the file.
    let fits = match (count.checked_sub(1), &options.main_stream) {
        (Some(last), None) => {
            let (first, last) = (records.get(0)?, records.get(last)?);
            first.offset == start.content && last.end() == source.size()
        }
        (Some(last), Some(_)) => records.get(last)?.end() <= source.size(),
        (None, main_stream) => main_stream.is_some(),
    };
    if fits { Ok(records) } else { Err(Refusal::Unfit("it does not fit the file's start or end")) }
}

/// One sequence.
struct Record {
    samples: u32,
    offset: u64,
    size: u32,
}

impl Record {
    fn of(bytes: &[u8; RECORD]) -> Record {
        let [_, samples, offset, size] = words(bytes);
        // The upper halves are padding, of undefined content.
        Record { samples: samples as u32, offset, size: size as u32 }
    }

    fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.size))
    }
}

impl Records {
    fn get(&self, index: usize) -> Result<Record> {
        let mut bytes = [0; RECORD];
        self.file.read_exact_at((HEADER + RECORD * index) as u64, &mut bytes)?;
        Ok(Record::of(&bytes))
    }

    /// Returns the lengths of all sequences, or of a sample of them from all over the file.
    fn lengths(&self) -> Result<Vec<u32>> {
        let (places, size) = match self.count {
            count if count <= ALL => (1, count),
            _ => (PLACES, PLACE),
        };
        let of_place = |place: usize| {
            let first = (self.count - size) / places.max(2).saturating_sub(1) * place;
            let mut bytes = vec![0; RECORD * size];
            self.file.read_exact_at((HEADER + RECORD * first) as u64, &mut bytes)?;
            let records = bytes.as_chunks::<RECORD>().0;
            Ok(records.iter().map(|bytes| Record::of(bytes).samples).collect::<Vec<_>>())
        };
        let places: Result<Vec<Vec<u32>>> = (0..places).into_par_iter().map(carried(of_place)).collect();
        Ok(places?.concat())
    }

    /// Returns the number of chunks of this size, cut as an index cuts them: a chunk ends before
    /// the sequence that would make it larger.
    fn chunks(&self, size: u64) -> Result<u64> {
        let (mut chunks, mut first) = (0, 0);
        while first < self.count {
            let limit = self.get(first)?.offset.saturating_add(size);
            // The first sequence after `first` that ends past the limit.
            let (mut low, mut high) = (first + 1, self.count);
            while low < high {
                let middle = low + (high - low) / 2;
                if self.get(middle)?.end() <= limit { low = middle + 1 } else { high = middle }
            }
            chunks += 1;
            first = low;
        }
        Ok(chunks)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Index, tests as index_tests};
    use super::*;
    use std::fmt::Write;

    fn options(chunk_size: u64) -> IndexOptions {
        IndexOptions { chunk_size, cache: true, ..index_tests::options(None) }
    }

    /// Writes a text and its cache to a folder.
    fn data(
        folder: &tempfile::TempDir,
        text: &str,
        main_stream: Option<&str>,
    ) -> (DataFile, IndexOptions, String) {
        let path = folder.path().join("a.ctf").display().to_string();
        std::fs::write(&path, text).expect("writing");
        let file = DataFile::open(&path).expect("a file");
        let options = IndexOptions { cache: true, ..index_tests::options(main_stream) };
        Index::open(&file, &options, &Corpus::Numeric).expect("an index");
        (file, options, path)
    }

    #[test]
    fn cache_is_summarized() {
        let folder = tempfile::tempdir().expect("a folder");
        let text = "1 |x\n1 |y\n2 |y\n3 |x\n3 |x\n4 |x\n";
        let (file, options, path) = data(&folder, text, Some("x"));
        // Whether readers use the cache does not matter.
        let options = IndexOptions { cache: false, chunk_size: 10, ..options };
        let expected = IndexBrief {
            cache: format!("{path}.x.0.0.0.v1.cache"),
            bytes: 30,
            sequences: 3,
            chunks: 3,
            lengths: vec![1, 2, 1],
        };
        assert_eq!(brief(&file, &options, &Corpus::Numeric).expect("it is read"), Some(expected));
        let state = |corpus| state(&file, &options, corpus);
        let fits = (format!("{path}.x.0.0.0.v1.cache"), CacheState::Fits);
        assert_eq!(state(&Corpus::Numeric), Some(fits));
        let missing = (format!("{path}.x.0.1.1.v1.cache"), CacheState::Missing);
        assert_eq!(state(&Corpus::Hashed), Some(missing));
        assert_eq!(state(&Corpus::symbolic()), None);
        assert_eq!(brief(&file, &options, &Corpus::symbolic()).expect("it is read"), None);
    }

    #[test]
    fn many_chunks_are_estimated() {
        let folder = tempfile::tempdir().expect("a folder");
        let text: String = (0..2000).map(|line| format!("|x {line:08}\n")).collect();
        let (file, options, _) = data(&folder, &text, None);
        for (chunk_size, chunks) in
            [(12, 2000), (24, 1000), (2, 2000 * 6), (0, 2000 * 12), (3, 2000), (u64::MAX, 1)]
        {
            let options = IndexOptions { chunk_size, ..options.clone() };
            let brief = brief(&file, &options, &Corpus::Numeric).expect("it is read").expect("a brief");
            assert_eq!(
                (brief.chunks, brief.sequences, brief.lengths),
                (chunks, 2000, vec![1]),
                "{chunk_size}"
            );
        }
    }

    #[test]
    fn both_ends_of_the_data_are_compared() {
        let fits = |text: &str, main_stream, change: fn(&mut Vec<u64>)| {
            let folder = tempfile::tempdir().expect("a folder");
            let (file, options, path) = data(&folder, text, main_stream);
            let cache = format!("{path}.{}.0.0.0.v1.cache", main_stream.unwrap_or("_"));
            let bytes = std::fs::read(&cache).expect("a cache");
            let mut words: Vec<u64> =
                bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
            // Without the state of the data.
            words.truncate(words.len() - 4);
            change(&mut words);
            std::fs::write(&cache, words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())
                .expect("writing");
            let (_, state) = state(&file, &options, &Corpus::Numeric).expect("a cache");
            let is_summarized = brief(&file, &options, &Corpus::Numeric).expect("it is read").is_some();
            assert_eq!(state == CacheState::Fits, is_summarized, "{state:?}");
            is_summarized
        };
        let text = "\n1 |x\n2 |x\n3 |y\n";
        // The header and each record have four words; a record has its offset and its size last.
        assert!(fits(text, None, |_| ()));
        assert!(!fits(text, None, |words| words[6] = 0));
        assert!(!fits(text, None, |words| words[15] = 4));
        assert!(!fits(text, None, |words| words[2] = 0));
        assert!(fits(text, Some("x"), |_| ()));
        assert!(fits(text, Some("x"), |words| words[11] = 10));
        assert!(!fits(text, Some("x"), |words| words[11] = 11));
        assert!(fits(text, Some("x"), |words| words[6] = 0));
        assert!(fits(text, Some("z"), |_| ()));
    }

    #[test]
    fn lengths_of_many_sequences_are_sampled() {
        let records = |count: usize| {
            let mut file = tempfile::tempfile().expect("a file");
            let words = |number: u64| [0, number, 0, 0].map(u64::to_le_bytes).concat();
            let bytes: Vec<u8> =
                vec![0; HEADER].into_iter().chain((0..count as u64).flat_map(words)).collect();
            std::io::Write::write_all(&mut file, &bytes).expect("writing");
            Records { file: DataFile::from_file(file, "cache"), count, by_line: false }
        };
        let lengths = |count| records(count).lengths().expect("it is read");
        assert_eq!(lengths(1), [0]);
        assert!(lengths(ALL).into_iter().eq(0..ALL as u32));
        // One more than 255 distances of 1030 from the first place to the last one.
        let count = 255 * 1030 + PLACE + 200;
        assert!(count > ALL);
        let expected = (0..256).flat_map(|place| (0..256).map(move |number| 1030 * place + number));
        assert!(lengths(count).into_iter().eq(expected));
    }

    #[test]
    fn brief_matches_the_index() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.ctf");
        let path = path.to_str().expect("a path");
        for with_ids in [false, true] {
            let mut text = String::new();
            for line in 0..5000u32 {
                if with_ids {
                    let _ = write!(text, "{} ", line * line / 70_000);
                }
                let _ = writeln!(text, "|x {line}");
            }
            std::fs::write(path, text).expect("writing");
            let file = DataFile::open(path).expect("a file");
            let corpus = Corpus::Numeric;
            for chunk_size in [100, 1000, 1 << 20] {
                let options = options(chunk_size);
                let index = Index::open(&file, &options, &corpus).expect("an index");
                assert_eq!(state(&file, &options, &corpus).map(|(_, state)| state), Some(CacheState::Fits));
                let brief = brief(&file, &options, &corpus).expect("it is read").expect("a brief");
                let chunks = index.chunks();
                assert_eq!(brief.chunks, chunks.len() as u64, "{chunk_size}");
                assert_eq!(
                    brief.sequences,
                    chunks.iter().map(|chunk| u64::from(chunk.sequences)).sum::<u64>()
                );
                let samples: u64 = brief.lengths.iter().map(|&length| u64::from(length)).sum();
                let expected = if with_ids { chunks.iter().map(|chunk| chunk.samples).sum() } else { 1 };
                assert_eq!(samples, expected);
            }
            // Replaced by another file: the cache does not fit, whatever its age.
            std::fs::write(path, "1 |x 1\n").expect("writing");
            let file = DataFile::open(path).expect("a file");
            let changed = state(&file, &options(100), &corpus).map(|(_, state)| state);
            assert!(matches!(changed, Some(CacheState::Unfit(_) | CacheState::Outdated)), "{changed:?}");
            assert!(brief(&file, &options(100), &corpus).expect("it is read").is_none());
            let (cache, _) = state(&file, &options(100), &corpus).expect("a path");
            std::fs::remove_file(cache).expect("removing");
            assert_eq!(
                state(&file, &options(100), &corpus).map(|(_, state)| state),
                Some(CacheState::Missing)
            );
        }
    }
}
