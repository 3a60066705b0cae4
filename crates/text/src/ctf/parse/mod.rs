//! The parsers of text: bytes of a sequence become values, indices and offsets in the columns of an [`output`].
//!
//! # Two parsers
//!
//! [`exact`] is complete and readable: every rule, message and oddity of CNTK 2.7, byte by byte. [`fast`] reads only what calls
//! for no message and ends with a line break, which is nearly all data. Each sequence is given to `fast` first. At its first
//! surprise, whatever it is, `fast` returns without saying why; what it wrote for the sequence is rolled back, and `exact` reads the
//! sequence from its start. So no rule about errors exists twice, and `fast` has only one duty: where it returns data, they are those
//! of `exact`, to the bit. One error is so common that `fast` counts it itself: an id that is text, which each line of some files
//! begins with. Tests hold the two against each other on random, mostly well-formed text, once for each instruction set.
//!
//! # Three shapes of lines
//!
//! What costs time is waiting. A parser that goes token by token knows where the next token begins only when the last one has
//! been loaded, classified and measured, and cannot begin to convert before. The way out is the same for all shapes: 64 bytes of
//! text are classified at once into masks of one bit a byte, places of all tokens fall out of shifts and additions of these
//! masks, and conversions no longer depend on each other.
//!
//! | shape | who decides | what it gains |
//! | --- | --- | --- |
//! | [`dense`]: samples of `dim` values | the stream's rule; up to 3 values are read one by one, where 64 bytes would not pay | `%.6f`: 0.6 GB/s token by token, 1.8 by blocks with AVX2, 3 with AVX-512; pixels 4 |
//! | [`sparse`]: samples of entries `index:value` | the stream's rule; the first entry of a sample is read alone, the others by blocks, unless the stream's last sample had several | counts: 2.4 times as fast with AVX-512, 1.8 times with AVX2 |
//! | [`uniform_lines`]: runs of lines with one entry for each of some streams, and comments | a template of a line before, which is tried at the start of each line | words: more than 2 times as fast with AVX-512, 1.5 times with AVX2; with comments 1.3 times with AVX2; with ids that are text, several blanks in a row or names of 9 to 24 bytes 0.6 to 0.9 of the time of a first sweep |
//!
//! All shapes end in the same conversions. Numbers that are short or look alike are converted four or more at a time, where the
//! instruction set can. All others go through one loop body, [`simd::number`], which takes the numbers off the masks one after
//! the other. Blocks with exponents go through [`mixed`], and so do entries that are more than whole numbers where the instruction set has no
//! way for them; single numbers with many digits or across a block's end go through [`number::quick`]. All of them give the bits of CNTK's
//! arithmetic, which rounds at each step ([`number`]): by the same steps, or by fewer where these give the same `f32`.
//!
//! # Types of a stream's own
//!
//! Columns have values of the file's precision, `f32` or `f64`. A stream that declares another type
//! has its values as bytes ([`typed`]), read one by one, or as doubles by blocks where a sample has
//! many. Sparse streams that are delivered as numbers of classes are read as they are written,
//! which `fast` and `exact` check; their indices become the values when the segment is finished.
//!
//! # Three instruction sets
//!
//! A shape is written once, generic over the trait [`simd::Simd`], which has three implementations:
//! portable code on registers of 8 bytes, AVX2 and AVX-512. The trait knows bytes, masks and
//! numbers; streams, samples, templates and columns are known to the shapes alone. `dispatch!`
//! ([`cntk_reader_core::cpu::processor`]) compiles the parser of lines once for each instruction
//! set, and chooses when a file is opened. Everything between this choice and the instructions must
//! be inlined: a closure that the compiler does not inline is compiled without AVX-512, and text
//! then takes three times as long, which happened with `array::map` as well.
//!
//! But for blocks of samples: these are functions of their own ([`blocks`]), which `dispatch!` defines as well. In one function with all else, their
//! thirty constants do not leave room for each other in the registers and were loaded again for each sample, also where it was read without
//! vector instructions. Without that, one thread parses 0.93 to 1.30 times as fast with
//! AVX-512, 1.07 times in the mean of 24 shapes, most of them of short samples; with AVX2 0.93 to 1.08 times, 1.0 in the mean.
//!
//! # No pointers
//!
//! Text is read through [`simd::Window`] (64 bytes and what surrounds them, checked once a block) and through places that are checked
//! one by one; columns hand out initialised memory as slices ([`output::ScratchVec`]). A text that ends too early is a surprise like
//! any other. Raw pointers, and conversions that knew the columns, were tried before. With them, sparse samples that are read one by one
//! took a sixth less time, short integers with AVX2 a twentieth; all other shapes gained less than that, or lost.
//! Unsafe code is left for vector instructions, which are allowed by a value of the instruction set's type, and for places
//! in a window.

mod bad_id;
mod blocks;
pub(crate) mod collect;
mod dense;
pub(crate) mod exact;
mod excerpt;
pub(crate) mod fast;
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
