//! Inspects, checks and converts the data that [`cntk_reader`] reads.
//!
//! [`Look`] opens the data of a [`Builder`] for other purposes than reading minibatches: to
//! [inspect](Look::inspect) and check them, to show their sequences or their order, to time the
//! stages of reading.

pub mod convert;
#[cfg(feature = "import")]
pub mod import;
pub mod inspect;
pub mod order;
pub mod stages;

/// Writing compressed data files, in the form that is fastest to read.
pub mod files {
    pub use crate::convert::{CompressOptions, Listener, Progress, compress, compress_with};
}

/// Index caches: CNTK's files beside text files, which save scanning the text. See
/// [`Look::index_caches`].
pub mod index {
    pub use cntk_reader_text::ctf::index::{CacheState, IndexCache, IndexSize};
}

/// Conversions of speech data: HTK features, Kaldi archives, labels (MLF), text (CTF) and NumPy
/// arrays.
pub mod speech {
    pub use crate::convert::speech::{
        SpeechConversion, htk_to_kaldi, htk_to_numpy, kaldi_to_htk, kaldi_to_mlf, kaldi_to_numpy,
        mlf_to_kaldi, mlf_to_numpy, mlf_to_text, text_to_mlf,
    };
    pub use crate::convert::{Listener, Progress};
}

use cntk_reader::{Builder, Epoch, Result};
use cntk_reader_core::format::files::Files;
use cntk_reader_engine::reader::build;
use cntk_reader_text::ctf::TextOptions;
use index::IndexCache;
use inspect::{Brief, Inspector, SequenceReader};
use order::SequenceOrder;
use stages::Stages;

/// Opens the data of a [`Builder`] for inspection.
pub trait Look {
    /// Opens the deserializers to describe and check their data, without joining them and without
    /// reading minibatches.
    ///
    /// Opens and indexes all files, which takes a while for large ones. A file that cannot be
    /// opened is an error of its [member](inspect::InspectedMember::error), not of this call.
    fn inspect(self) -> Result<Inspector>;

    /// Summarizes the data from the index caches beside the data files, without loading or building
    /// an index: in milliseconds, however large the files are. `None` unless all deserializers read
    /// text files with caches that fit.
    fn brief(self) -> Result<Option<Brief>>;

    /// Opens the data to read single sequences by number, in the order of the data. The
    /// deserializers are joined by key, as in a reader.
    ///
    /// A large text file that is the only one is indexed while it is read.
    fn sequences(self) -> Result<SequenceReader>;

    /// Opens the data for the order of their sequences in an epoch, without reading the sequences:
    /// see [`mod@order`].
    ///
    /// Opens and indexes all files, which takes a while for large ones.
    fn order(self, epoch: &Epoch) -> Result<SequenceOrder>;

    /// Returns the index caches of the text files, whether the configuration asks for them
    /// (`cacheIndex`) or not. Does not index anything yet.
    fn index_caches(self) -> Result<Vec<IndexCache>>;

    /// Opens the data to run the stages of reading one by one: see [`mod@stages`].
    fn stages(self) -> Result<Stages>;
}

impl Look for Builder {
    fn inspect(self) -> Result<Inspector> {
        self.with_settings(Inspector::open)
    }

    fn brief(self) -> Result<Option<Brief>> {
        self.with_settings(|settings, _| Brief::open(settings))
    }

    fn sequences(self) -> Result<SequenceReader> {
        self.with_settings(SequenceReader::open)
    }

    fn order(self, epoch: &Epoch) -> Result<SequenceOrder> {
        self.with_settings(|settings, others| SequenceOrder::open(settings, others, epoch))
    }

    fn index_caches(self) -> Result<Vec<IndexCache>> {
        self.with_settings(|settings, _| {
            let corpus = build::corpus(settings);
            let mut caches = Vec::new();
            for one in &settings.deserializers {
                let Some(text) = one.of::<TextOptions>() else { continue };
                for file in text.files.paths()? {
                    let options = TextOptions { files: Files::one(file), ..text.clone() };
                    caches.push(IndexCache::of(&options, &corpus));
                }
            }
            Ok(caches)
        })
    }

    fn stages(self) -> Result<Stages> {
        self.with_settings(Stages::open)
    }
}

#[cfg(test)]
mod tests {
    use super::Look;
    use super::index::CacheState;
    use cntk_reader::{CtfDeserializer, Reader, ReaderOptions};

    #[test]
    fn caches_are_built_and_checked() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data.ctf");
        std::fs::write(&path, "|x 1\n".repeat(1000)).expect("writing");
        let builder =
            |options| Reader::builder().options(options).ctf(CtfDeserializer::new(&path).dense("x", 1));
        let caches = builder(ReaderOptions::new()).index_caches().expect("caches");
        let [cache] = &caches[..] else { panic!("one cache") };
        assert_eq!(cache.state().expect("a state"), CacheState::Missing);
        let size = cache.build().expect("building");
        assert_eq!((size.bytes, size.sequences, size.samples), (5000, 1000, 1000));
        assert_eq!(cache.state().expect("a state"), CacheState::Fits);
        assert!(std::fs::exists(cache.path().expect("a path")).expect("looking"));
        std::fs::write(&path, "|x 1\n".repeat(1001)).expect("writing");
        assert!(matches!(cache.state().expect("a state"), CacheState::Unfit(_) | CacheState::Outdated));
        cache.build().expect("building");
        assert_eq!(cache.state().expect("a state"), CacheState::Fits);
        let caches = builder(ReaderOptions::new().numeric_keys(false)).index_caches().expect("caches");
        assert!(caches[0].state().expect_err("no cache").to_string().contains("hashSequenceKeys"));
    }
}
