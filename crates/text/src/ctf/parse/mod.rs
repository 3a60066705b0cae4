//! The parsers of text: the bytes of a sequence become values, indices and offsets in the columns
//! of an [`output`].
//!
//! # Two parsers
//!
//! [`exact`] is complete and readable: every rule, message and quirk of CNTK 2.7, byte by byte.
//! [`fast`] reads only text that causes no message and ends with a line break, which is nearly all
//! data. Each sequence goes to `fast` first. If it meets anything unusual, `fast` gives up without
//! saying why; its output for the sequence is rolled back, and `exact` reads the sequence from its
//! start. So no rule about errors exists twice, and `fast` has only one duty: the data it returns
//! must equal the data of `exact`, bit for bit. One error is so common that `fast` counts it
//! itself: a textual id, with which every line of some files begins. Tests compare the two parsers
//! on random, mostly well-formed text, once for each instruction set.
//!
//! # Three shapes of lines
//!
//! Parsing is bound by latency. A parser that goes token by token knows where the next token begins
//! only after the previous one has been loaded, classified and measured, and cannot start to
//! convert it earlier. All shapes use the same remedy: 64 bytes of text are classified at once into
//! masks with one bit per byte, shifts and additions of these masks give the places of all tokens,
//! and conversions do not depend on each other.
//!
//! - [`dense`]: samples of `dim` values. Up to 3 values are read one by one, for which a block of
//!   64 bytes does not pay. Speed for `%.6f`: 0.6 GB/s token by token, 1.8 GB/s with AVX2, 3 GB/s
//!   with AVX-512.
//! - [`sparse`]: samples of entries `index:value`. The first entry of a sample is read alone and
//!   the others by blocks, unless the stream's last sample had several. Blocks make counts 2.4
//!   times as fast with AVX-512 and 1.8 times with AVX2.
//! - [`uniform_lines`]: runs of lines with one entry for each of some streams, and comments. An
//!   earlier line serves as a template, which is tried at the start of each line. This makes words
//!   more than 2 times as fast with AVX-512 and 1.5 times with AVX2.
//!
//! All shapes share the same conversions. Numbers that are short or similar are converted four or
//! more at a time, if the instruction set can. All others go through one loop body,
//! [`simd::number`], which takes the numbers off the masks one after the other. Blocks with
//! exponents go through [`mixed`], and so do entries with more than whole numbers if the
//! instruction set has no operation for them; single numbers with many digits, or across the end of
//! a block, go through [`number::quick`]. All of them give the bits of CNTK's arithmetic, which
//! rounds at each step ([`number`]): by the same steps, or by fewer steps that give the same `f32`.
//!
//! # Streams with their own type
//!
//! Columns have values of the file's precision, `f32` or `f64`. A stream that declares another type
//! stores its values as bytes ([`typed`]), which are read one by one, or as doubles by blocks if a
//! sample has many. Sparse streams that are delivered as class numbers are read as written, with a
//! check in `fast` and `exact`; their indices become the values when the segment is finished.
//!
//! # Three instruction sets
//!
//! A shape is written once, generic over the trait [`simd::Simd`], which has three implementations:
//! portable code on registers of 8 bytes, AVX2 and AVX-512. The trait knows bytes, masks and
//! numbers; only the shapes know streams, samples, templates and columns. `dispatch!`
//! ([`cntk_reader_core::cpu::processor`]) compiles the line parser once for each instruction set,
//! and chooses one when a file is opened. Everything between this choice and the instructions must
//! be inlined: a closure that the compiler does not inline (as happened with `array::map`) is
//! compiled without AVX-512, which makes parsing three times slower.
//!
//! Blocks of samples are the exception: they are separate functions ([`blocks`]), also defined by
//! `dispatch!`. In a single function, their thirty constants would not fit into the registers and
//! would be loaded again for each sample, even for samples that are read without vector
//! instructions. Separate functions make parsing 7 % faster on average with AVX-512 (24 shapes,
//! mostly short samples) and equally fast with AVX2.
//!
//! # No pointers
//!
//! Text is read through [`simd::Window`] (64 bytes and their surroundings, checked once per block)
//! and through places that are checked one by one; columns hand out initialised memory as slices
//! ([`output::ScratchVec`]). A text that ends too early is unusual like anything else. With raw
//! pointers, and conversions that know the columns, sparse samples that are read one by one would
//! be 20 % faster and short integers with AVX2 5 %; all other shapes would gain less, or lose. The
//! remaining unsafe code is for vector instructions, which a value of the instruction set's type
//! permits, and for places in a window.

pub(crate) mod bad_id;
mod blocks;
pub(crate) mod cause;
pub(crate) mod collect;
mod dense;
pub(crate) mod exact;
mod excerpt;
pub(crate) mod fast;
pub(crate) mod fold;
mod found;
mod mixed;
mod names;
pub mod number;
pub(crate) mod output;
pub(crate) mod report;
pub mod rules;
mod simd;
mod sparse;
pub(crate) mod typed;
mod uniform_lines;
