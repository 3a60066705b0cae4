//! The numbering of sequence keys for a deserializer that is opened alone, and its place among a
//! reader's deserializers.

use crate::sized::Sized;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::runtime::exit;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

/// Maps a textual sequence key (`length` bytes) to a number. Writes the number and returns 0, or
/// returns a nonzero number on failure. Called while the deserializer is opened, on any thread but
/// one at a time, in order of first appearance.
pub type cntk_reader_number_key = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        text: *const c_char,
        length: usize,
        number: *mut u64,
    ) -> i32,
>;

/// The context of a deserializer: how its reader maps sequence keys to numbers, and its place among
/// the deserializers. Initialize with CNTK_READER_CORPUS_INIT: keys are numbers, and it is not the
/// first deserializer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_corpus {
    /// sizeof(cntk_reader_corpus).
    pub struct_size: usize,
    /// 1 if keys are numbers in the data.
    pub numeric_keys: u32,
    /// 1 if textual keys are mapped to numbers by CNTK's hash.
    pub hash_keys: u32,
    /// First argument of `number`. It must stay valid as long as the deserializer.
    pub userdata: *mut c_void,
    /// Maps textual keys to numbers. NULL: they are numbered in order of first appearance.
    pub number: cntk_reader_number_key,
    /// 1 if it is the reader's first deserializer, which determines the order of the sequences.
    /// Labels, lattices and repeated vectors of speech cannot be.
    pub is_primary: u32,
    /// Reserved; 0.
    pub reserved: u32,
}

// SAFETY: `repr(C)`, begins with a `usize`, and has only integers, a pointer and a nullable
// function pointer, for which zero is valid.
unsafe impl Sized for cntk_reader_corpus {
    const NAME: &'static str = "cntk_reader_corpus";
}

/// CNTK_READER_CORPUS_INIT, without the size.
pub(crate) const INITIAL: cntk_reader_corpus = cntk_reader_corpus {
    struct_size: 0,
    numeric_keys: 1,
    hash_keys: 0,
    userdata: null_mut(),
    number: None,
    is_primary: 0,
    reserved: 0,
};

struct Userdata {
    pointer: *mut c_void,
    number: unsafe extern "C-unwind" fn(*mut c_void, *const c_char, usize, *mut u64) -> i32,
}

// SAFETY: the pointer is only passed to `number`. `cntk_reader_corpus` documents that it stays
// valid as long as the deserializer, and that `number` is called on any thread, but one at a time,
// which numbering keys in order ensures.
unsafe impl Send for Userdata {}
// SAFETY: as above; keys are numbered by one thread at a time.
unsafe impl Sync for Userdata {}

impl Userdata {
    fn number(&self, key: &[u8]) -> Option<u64> {
        let mut number = 0;
        // SAFETY: the caller passed this function with this userdata; `key` and `number` are
        // borrowed until it returns.
        let status = exit::foreign(|| unsafe {
            (self.number)(self.pointer, key.as_ptr().cast(), key.len(), &raw mut number)
        });
        (status == 0).then_some(number)
    }
}

impl From<cntk_reader_corpus> for Corpus {
    fn from(corpus: cntk_reader_corpus) -> Self {
        match (corpus.numeric_keys != 0, corpus.hash_keys != 0, corpus.number) {
            (true, _, _) => Corpus::Numeric,
            (_, true, _) => Corpus::Hashed,
            (_, _, None) => Corpus::symbolic(),
            (_, _, Some(number)) => {
                let userdata = Userdata { pointer: corpus.userdata, number };
                Corpus::Host(Box::new(move |key| userdata.number(key)))
            }
        }
    }
}
