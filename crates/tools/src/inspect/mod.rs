//! Looking at data without reading minibatches: what a file is, what it has, and what is wrong with it.
//!
//! [`Look::inspect`](crate::Look::inspect) opens the deserializers of a configuration for an
//! [`Inspector`]. It describes them ([`InspectedMember`]), and [checks](Inspector::check) their
//! data: the engine's own parsers read everything, in parallel, and all that they would report is
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
//! let data = Reader::builder().ctf(CtfDeserializer::new("train.ctf").dense("x", 2).sparse("y", 5)).inspect()?;
//! let summary = data.check(&CheckOptions::default(), &mut |finding| {
//!     println!("{:?}: {}", finding.location, finding.message);
//!     ControlFlow::Continue(())
//! }, &mut |_| ())?;
//! // The first sample is fine. The second lacks a value of `x`, a warning; its `y` has the index 9 and is refused.
//! assert!(summary.warnings >= 1 && summary.errors >= 1);
//! assert_eq!(summary.streams[0][1].dim, 10); // what would be needed
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

pub use bare::{BareFile, BareFiles};
pub use brief::{Brief, BriefMember};
pub use check::{CheckOptions, CheckProgress, CheckSummary};
pub use cntk_reader_core::format::check::{Finding, Severity, StreamStatistics, UnknownName};
pub use inspector::{InspectedMember, Inspector, WindowUse};
pub use lengths::Lengths;
pub use outline::{OutlineStream, TextOutline};
pub use sequences::{Number, Sequence, SequenceData, SequenceReader, Values};
