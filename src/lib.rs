//! Reads the training data of CNTK: text (CTF), binary (CBF), and formats that users write.
//!
//! Data flows one way, and so do the modules:
//! [`config`] -> [`deserialize`] -> [`randomize`] -> [`pack`] -> [`reader`] -> [`capi`].
//! Nothing looks back up, and nothing knows the room after the next one.

pub mod capi;
mod compact;
pub mod config;
pub mod convert;
pub mod corpus;
pub mod deserialize;
pub mod error;
pub mod file;
pub mod fork;
mod front;
pub mod log;
mod memory;
pub mod pack;
pub mod pool;
mod prefetch;
mod processor;
pub mod randomize;
pub mod reader;
pub mod sequence;
pub mod stream;

pub use config::{CbfDeserializer, Config, CtfDeserializer, ReaderOptions};
pub use error::{Error, ErrorKind, Result};
pub use front::{Builder, EpochIter, Minibatch, MinibatchStream, Reader};
pub use reader::{Epoch, EpochProgress, Member, MemoryUse, ReadConfig, Sizes};
