//! The front door: what a Rust program uses. It names streams, counts nothing and copies nothing; all work is the
//! engine's, [`crate::reader`].

mod builder;
mod forms;
mod iter;
mod minibatch;
mod reader;

pub use builder::Builder;
pub use forms::{CanonicalColumns, Packed, Padded};
pub use iter::{EpochCursor, EpochIter};
pub use minibatch::{Minibatch, MinibatchStream};
pub use reader::Reader;

// What may move to, or be used from, other threads. A promise: code that breaks it does not compile.
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
    is_send::<cntk_reader_core::Error>();
    is_sync::<cntk_reader_core::Error>();
    is_send::<Minibatch>();
    is_sync::<Minibatch>();
    is_send::<MinibatchStream<'_>>();
    is_send::<crate::Config>();
    is_sync::<crate::Config>();
};
