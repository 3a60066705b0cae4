//! Reads the training data of CNTK, the Microsoft Cognitive Toolkit: its text format (CTF), its
//! binary format (CBF), and your own formats. Delivers minibatches randomized, sharded between
//! workers and packed as CNTK 2.7 does, bit for bit but for deliberate differences, and faster.
//!
//! ```
//! # use cntk_reader::user::{Sequences, StreamData, UserChunk, UserDeserializer};
//! # use cntk_reader::{Error, StreamInfo};
//! # /// A file of numbers, one sample a line.
//! # struct Csv { streams: [StreamInfo; 1], values: Vec<f32>, lines: u32 }
//! # impl Csv {
//! #     fn open(path: &std::path::Path) -> Result<Csv, Error> {
//! #         let text = std::fs::read_to_string(path);
//! #         let text = text.map_err(|error| Error::user(error.to_string()))?;
//! #         let fields = text.split([',', '\n']);
//! #         let values: Vec<f32> = fields.filter_map(|field| field.trim().parse().ok()).collect();
//! #         let lines = text.lines().count();
//! #         let streams = [StreamInfo::dense("features", &[values.len() / lines])];
//! #         Ok(Csv { streams, values, lines: lines as u32 })
//! #     }
//! # }
//! # impl UserDeserializer for Csv {
//! #     fn streams(&self) -> &[StreamInfo] { &self.streams }
//! #     fn chunk_count(&self) -> u32 { 1 }
//! #     fn sequences(&self, _: u32) -> Result<Option<Sequences>, Error> {
//! #         Ok(Some(Sequences::of_one_sample(self.lines)))
//! #     }
//! #     fn load(&self, _: u32) -> Result<UserChunk, Error> {
//! #         Ok(UserChunk::arrays(vec![StreamData::dense(self.values.clone())]))
//! #     }
//! # }
//! # fn main() -> Result<(), Error> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! # std::env::set_current_dir(&folder).expect("entering the folder");
//! # let path = &folder.path().join("digits.csv");
//! # std::fs::write(path, "0,0.5\n1,0.25\n0,0.75\n").expect("writing the data");
//! # let labels = "|labels 3:1\n|labels 7:1\n|labels 1:1\n";
//! # std::fs::write("labels.ctf", labels).expect("writing the data");
//! # let config = "deserializers = (
//! #     [ type = \"csv\" ] :
//! #     [ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\"
//! #       file = \"labels.ctf\"
//! #       input = [ labels = [ dim = 10 ; format = \"sparse\" ] ] ] )";
//! # std::fs::write("digits.cntk", config).expect("writing the configuration");
//! # let mut seen = 0;
//! use cntk_reader::{Epoch, Reader};
//!
//! let csv = Csv::open(path)?;
//! let mut reader =
//!     Reader::builder().config_file("digits.cntk")?.deserializer("csv", csv).open()?;
//! for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(256))? {
//!     let minibatch = minibatch?;
//!     // &[f32]: columns of `sample_size` values
//!     let x = minibatch.stream("features")?.dense::<f32>()?;
//!     // values, indices, offsets
//!     let y = minibatch.stream("labels")?.sparse::<f32>()?;
//! #   seen += y.columns();
//! #   assert_eq!((x.len(), y.values, y.offsets), (6, &[1.0; 3][..], &[0, 1, 2, 3][..]));
//! }
//! # assert_eq!(seen, 3);
//! # Ok(())
//! # }
//! ```
//!
//! `digits.cntk` is a configuration in CNTK's language. Options and data can also be described in
//! Rust, without a file:
//!
//! ```
//! # fn main() -> cntk_reader::Result<()> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! # std::env::set_current_dir(&folder).expect("entering the folder");
//! # let data = "|features 1 2 3 |labels 7:1\n".repeat(1000);
//! # std::fs::write("train.ctf", data).expect("writing the data");
//! use cntk_reader::{CtfDeserializer, Epoch, Reader, ReaderOptions};
//!
//! let mut reader = Reader::builder()
//!     .options(ReaderOptions::new().randomization_seed(1))
//!     .ctf(CtfDeserializer::new("train.ctf").dense("features", 3).sparse("labels", 10))
//!     .open()?;
//! for minibatch in reader.epoch(Epoch::sweeps(2).minibatch_size(256))? {
//!     let minibatch = minibatch?;
//!     for features in minibatch.stream("features")?.dense::<f32>()?.chunks_exact(3) {
//!         // ... one sample ...
//! #       assert_eq!(features, [1.0, 2.0, 3.0]);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Terms
//!
//! * A *sequence* is a run of *samples* under one key: an image with its label, a sentence, an
//!   utterance. Each *stream* holds its own part of the sequence, dense or sparse.
//! * A *sweep* is one pass over the data; each sweep has a different order. An [`Epoch`] is a
//!   number of sweeps or of samples.
//! * A [`Minibatch`] has a block of *columns* for each stream: one column is one sample, or a gap
//!   where sequences of different lengths are packed side by side. Its [`Layout`] says which column
//!   belongs to which sequence.
//! * A *chunk* is the unit of loading; sequences are randomized within a window of chunks.
//!
//! # Where to go from here
//!
//! * [`Builder`]: configurations, options and deserializers, and how they combine.
//!   `docs/configuration.md` in the repository lists all keys.
//! * [`Epoch`], [`ReadConfig`]: sizes, several workers, limits.
//! * [`Reader::checkpoint`] and [`Reader::restore`]: resuming training exactly where it stopped.
//! * [`user::UserDeserializer`]: your own formats, joined with others by key.
//! * [`Error`]: what is wrong, where, and what to do.
//!
//! A pool of threads loads and parses the data ([`set_threads`]). Warnings go to standard error or
//! to your own function ([`set_log_sink`]).
//!
//! The same engine has a C interface (`include/cntk_reader.h`), a C++ header on top of it, and
//! modules that replace CNTK's own readers; see the repository.

#[cfg(not(all(target_pointer_width = "64", target_endian = "little")))]
compile_error!(
    "cntk-reader is for 64-bit little-endian processors: sizes and places in files are kept in `usize`, and binary data files and \
     index caches are read in the processor's order of bytes"
);

mod builder;
mod forms;
mod iter;
// For this project's other crates and its fuzz targets; not covered by semver.
#[doc(hidden)]
pub mod language;
mod minibatch;
mod reader;
#[cfg(test)]
mod tests;

pub use builder::Builder;
pub use cntk_reader_core::error::{Cause, Error, ErrorKind, ExceptionClass, Location, Result};
pub use cntk_reader_core::format::recognize::FileFormat;
pub use cntk_reader_core::option::FrontEnd;
pub use cntk_reader_core::runtime::cancel::Canceller;
pub use cntk_reader_core::runtime::log::{Level as LogLevel, set_sink as set_log_sink};
pub use cntk_reader_core::runtime::pool::{set_threads, threads};
pub use cntk_reader_core::stream::{Element, ElementType, Ids, Storage, StreamInfo, bf16, f16};
pub use cntk_reader_engine::pack::SparseColumns;
pub use cntk_reader_engine::pack::layout::{Extent, GAP, Layout, Record, Run};
pub use cntk_reader_engine::reader::{
    Epoch, EpochProgress, EpochState, Member, MemoryUse, ReadConfig, Sizes,
};
pub use forms::{Bags, CanonicalColumns, Packed, Padded};
pub use iter::{EpochCursor, EpochIter};
#[cfg(feature = "images")]
pub use language::{Base64ImageDeserializer, ImageDeserializer};
pub use language::{CbfDeserializer, Config, CtfDeserializer, NumpyDeserializer, ReaderOptions};
#[cfg(feature = "speech")]
pub use language::{
    HtkFeatureDeserializer, HtkMlfBinaryDeserializer, HtkMlfDeserializer, KaldiDeserializer,
    LatticeDeserializer,
};
pub use minibatch::{Minibatch, MinibatchStream};
pub use reader::Reader;

/// Mounted file systems and compressed data files.
///
/// [`mount`](files::mount) a [`FileSystem`](files::FileSystem) for a scheme, and it opens every
/// data file whose path begins with that scheme. Files whose names end in `.zst` or `.gz` are read
/// like uncompressed ones; the package `cntk-reader-tools` writes the variants that are fastest to
/// read. See the guide `docs/storage.md`.
pub mod files {
    pub use cntk_reader_core::file::mounted::{FileSystem, RemoteFile, mount, unmount};
}

/// Transforms of images, for [`ImageDeserializer`] and [`Base64ImageDeserializer`].
#[cfg(feature = "images")]
pub mod images {
    pub use crate::language::typed::image::{
        Cast, Color, Crop, Intensity, Mean, Scale, Transform, Transpose,
    };
    pub use cntk_reader_images::transform::{Interpolation, ScaleMode};
}

/// Your own formats and transforms: implement [`UserDeserializer`](user::UserDeserializer) and pass
/// it to [`Builder::deserializer`], or [`UserTransform`](user::UserTransform) and pass it to
/// [`Builder::transform`].
pub mod user {
    pub use cntk_reader_core::format::ChunkInfo;
    pub use cntk_reader_core::format::user::transform::UserTransform;
    pub use cntk_reader_core::format::user::{
        Array, Buffer, DenseArray, FetchedChunk, Keys, SequenceMatcher, Sequences, SparseArray, StreamData,
        UserChunk, UserDeserializer, UserSequence,
    };
    pub use cntk_reader_core::image::{Depth, Drawn, Image, ImageInfo, PixelOrder, Pixels};
    pub use cntk_reader_core::sequence::{SequenceId, SequenceInfo};
    pub use cntk_reader_core::stream::{Element, ElementType, Ids, Storage, StreamInfo, bf16, f16};
}

// Compile-time promise of which types are `Send` and `Sync`.
const _: () = {
    const fn is_send<T: Send>() {}
    const fn is_sync<T: Sync>() {}
    is_send::<Reader>();
    is_send::<EpochIter<'_>>();
    is_send::<EpochCursor>();
    is_sync::<EpochCursor>();
    is_send::<std::sync::Mutex<Reader>>();
    is_sync::<std::sync::Mutex<Reader>>();
    is_send::<Builder>();
    is_send::<Error>();
    is_sync::<Error>();
    is_send::<Minibatch>();
    is_sync::<Minibatch>();
    is_send::<MinibatchStream<'_>>();
    is_send::<Config>();
    is_sync::<Config>();
};

/// Compiles the programs in the guides.
#[cfg(doctest)]
#[doc = include_str!("../docs/speech.md")]
struct SpeechGuide;

#[cfg(doctest)]
#[doc = include_str!("../docs/images.md")]
struct ImageGuide;

/// Examples of types that the core defines. They are compiled here because they need a `Reader`.
#[cfg(doctest)]
mod examples {
    #[doc = include_str!("../crates/core/doc/canceller.md")]
    struct Canceller;

    #[doc = include_str!("../crates/core/doc/deserializer.md")]
    struct Deserializer;

    #[doc = include_str!("../crates/core/doc/transform.md")]
    struct Transform;
}
