//! Inspects data without reading minibatches: recognizes, describes and checks files.
//!
//! [`Look::inspect`](crate::Look::inspect) opens the deserializers of a configuration for an
//! [`Inspector`]. It describes them ([`InspectedMember`]), and [checks](Inspector::check) their
//! data: the engine's own parsers read everything, in parallel, and everything they would report is
//! listed in the order of the data, with file, line, offset, stream and key.
//!
//! ```
//! # fn main() -> cntk_reader::Result<()> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! # std::env::set_current_dir(&folder).expect("entering the folder");
//! # std::fs::write("train.ctf", "|x 1 2 |y 3:1\n|x 1 |y 9:1\n").expect("writing the data");
//! use cntk_reader_tools::Look;
//! use cntk_reader_tools::inspect::CheckOptions;
//! use cntk_reader::{CtfDeserializer, Reader};
//! use std::ops::ControlFlow;
//!
//! let ctf = CtfDeserializer::new("train.ctf").dense("x", 2).sparse("y", 5);
//! let data = Reader::builder().ctf(ctf).inspect()?;
//! let summary = data.check(&CheckOptions::default(), &mut |finding| {
//!     println!("{:?}: {}", finding.location, finding.message);
//!     ControlFlow::Continue(())
//! }, &mut |_| ())?;
//! // The first sequence is fine. In the second `x` lacks a value, a warning, and the index 9
//! // of `y` is out of range, an error.
//! assert!(summary.warnings >= 1 && summary.errors >= 1);
//! assert_eq!(summary.streams[0][1].dim, 10); // the dimension that the data need
//! # Ok(())
//! # }
//! ```

mod bare;
mod brief;
mod check;
mod generated;
mod inspector;
mod join;
mod lengths;
mod loaded;
mod notes;
mod outline;
mod sequences;

pub use bare::BareFiles;
pub use brief::{Brief, BriefMember};
pub use check::{CheckOptions, CheckProgress, CheckSummary};
pub use cntk_reader_core::format::check::{Finding, Severity, StreamStatistics, UnknownName};
pub use inspector::{InspectedMember, Inspector, WindowUse};
pub use lengths::Lengths;
pub use outline::{OutlineStream, TextOutline};
pub use sequences::{Number, Sequence, SequenceData, SequenceReader, Values};
