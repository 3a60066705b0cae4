//! What the library refuses or ignores for its size alone, and why: all limits in one place.
//!
//! A limit stands for a mistake or for harm that is meant: a device in place of a file, a damaged length, a file that unpacks without
//! end. Data in use are far below all of them. Sizes that files claim are also compared with what the files have, before memory is asked
//! for; what then still finds none is an error of the kind [`Memory`](crate::ErrorKind::Memory) (`memory::room`). What only tunes
//! the library, as sizes of blocks and caches do, stays with the code that it tunes.

// Configurations

/// Characters of a number: CNTK's numbers have 20 digits, and more of them change nothing but the time to read them.
pub const LONGEST_NUMBER: usize = 1000;

/// Elements of an array, repetitions counted: `1*2000000000` must not fill the memory.
pub const MOST_ELEMENTS: usize = 1 << 20;

/// Bytes of all elements of an array, for the same reason.
pub const MOST_ARRAY_BYTES: usize = 64 << 20;

/// Bytes of a configuration file: a device or a data file that is named by mistake does not fill the memory.
pub const LARGEST_CONFIGURATION: u64 = 64 << 20;

/// Configuration files that include each other in a row: more are a circle.
pub const DEEPEST_INCLUSION: usize = 64;

/// Definitions that refer to each other in a row: expanding them takes the stack. Configurations in use need a handful.
pub const DEEPEST_DEFINITION: usize = 128;

/// Bytes that expanding one value may read, those of the values it refers to included: stops definitions that double in size with each
/// step.
pub const MOST_EXPANDED: usize = 32 << 20;

/// Errors that can be tolerated, that of all: CNTK's largest `int`.
pub const MOST_ERRORS: u32 = i32::MAX as u32;

/// Dimension of a sparse stream: its indices are signed 32-bit numbers, in CNTK too.
pub const LARGEST_SPARSE_DIM: u64 = i32::MAX as u64;

/// Classes of HTK's labels, which are stored in 16 bits.
pub const MOST_LABEL_CLASSES: u64 = u16::MAX as u64;

/// Columns, rows or channels that a transform may be asked for: signed 32-bit numbers in OpenCV.
pub const LARGEST_SIDE: u64 = i32::MAX as u64;

// Threads and files

/// Threads of the pool: more than the CPUs of any machine that such data are read on. A larger number is a mistake, and opening a
/// reader would take minutes.
pub(crate) const MOST_THREADS: usize = 1024;

/// Files of a deserializer: the places for which keys have room above [`LARGEST_KEY_IN_LIST`].
pub const MOST_FILES: usize = 1 << 20;

/// Keys in one of several files are less than this: the file's place in the list takes the other 20 bits.
pub const LARGEST_KEY_IN_LIST: u64 = 1 << 44;

/// Bytes that a compressed file may unpack to. One that claims more is damaged, or meant to do harm.
#[cfg(feature = "compression")]
pub(crate) const LARGEST_UNPACKED: u64 = 16 << 40;

/// A zstd frame has at most this many bytes of data for each of its own: its smallest block, of four bytes, makes 128 KB. A frame that
/// claims to have more is damaged, or meant to do harm.
#[cfg(feature = "compression")]
pub(crate) const BEST_FRAME_RATIO: u64 = 1 << 15;

/// Bytes of unpacked data of a zstd frame that is unpacked in memory. A reader of random chunks, which have 32 MB by default, unpacks a
/// part of each frame for nothing.
#[cfg(feature = "compression")]
pub(crate) const LARGEST_FRAME: u64 = 16 << 20;

// Minibatches and epochs

/// Samples of a minibatch: CNTK counts them with a signed 32-bit number. A larger size means this many, which no data have at once.
pub const LARGEST_MINIBATCH: u64 = i32::MAX as u64;

/// Samples of an epoch: in a larger one CNTK's positions would overflow.
pub const LARGEST_EPOCH: u64 = u64::MAX / 2;

/// Consecutive sweeps in which a worker may get no sample before a minibatch is given up. Only data whose sequences are nearly all
/// empty reach this limit.
pub const MOST_BARREN_SWEEPS: u32 = 1000;

/// Segments that are passed on the way to a restored position. A checkpoint that leads further is damaged: no window has that many
/// sweeps.
pub const LONGEST_WAY: u32 = 1 << 20;

/// Values that sparse samples become in a form, at most: samples of many thousands of values would fill the memory.
pub const MOST_DENSIFIED: usize = 1 << 31;

// Text

/// Names of unknown streams that a check collects, and bytes of a name: a file of another format has names without end.
pub const MOST_NAMES: usize = 1000;
/// See [`MOST_NAMES`].
pub const LONGEST_NAME: usize = 200;

// Files

/// Bytes of a file, 128 TiB. A sparse file or the answer of a store can claim any number, and
/// tables are made by it.
pub(crate) const LARGEST_FILE: u64 = 1 << 47;

// Binary data

/// Samples of a chunk in the documented layout: this many per byte, and [`SOME_SAMPLES`] more. A code can claim any number of empty
/// samples in front of its own; no real data need more.
pub const SAMPLES_PER_BYTE: usize = 16;
/// See [`SAMPLES_PER_BYTE`].
pub const SOME_SAMPLES: usize = 1 << 16;

// Speech

/// Bytes of a chunk of HTK features that are believed: usual chunks have far fewer. Before memory is asked for a larger one, all its
/// ranges are compared with the sizes of their files, because a script and a header of a few bytes can claim any number of frames.
pub const MOST_BELIEVED: u64 = 256 << 20;

/// Frames of an utterance whose labels are read: a week of speech. Longer ones are invalid.
pub const LONGEST_LABELS: u32 = 1 << 26;

/// Bytes of a label file between two places at which an utterance is sure to begin: a larger piece has an utterance of about this size.
pub const LARGEST_UTTERANCE: u64 = 1 << 30;

/// Bytes of a key in binary label files: CNTK's buffer.
pub const LONGEST_BINARY_KEY: u16 = 256;

/// Bytes of a key in Kaldi's archives: a file that is no archive is recognized by it.
pub const LONGEST_KALDI_KEY: usize = 4096;

// Images

/// Columns times rows of an image that are decoded at most, unless `maxPixels` says otherwise: a photograph of 268 megapixels. A few bytes
/// can claim to be an image of any size.
pub const MOST_PIXELS: u64 = 1 << 28;

/// Values of an image, 2^31: more than CNTK's images can have.
pub const MOST_IMAGE_VALUES: usize = 1 << 31;

/// Columns or rows of a JPEG image (libjpeg).
pub const LARGEST_JPEG_SIDE: u32 = 65500;

/// Scans of a JPEG image. Programs write about ten; each costs time that grows with the image and not with the file.
pub const MOST_SCANS: u32 = 500;

/// Deflate makes at most this many bytes of one: a member of a zip file that claims to have more is damaged, or meant to do harm.
pub const BEST_RATIO: u64 = 1032;

/// Bytes of OpenCV's file of a mean image, and of what its compressed form stands for: room for 100 million numbers.
pub const LARGEST_MEAN_FILE: u64 = 2 << 30;

/// Elements and attributes of OpenCV's file of a mean image, which has about ten. The parser of XML takes memory for each, and compares
/// the attributes of an element with each other.
pub const MOST_STORAGE_NODES: usize = 10_000;

// Arrays of NumPy

/// Bytes at the start of an array that its description fits into, or the array is refused.
pub const LONGEST_ARRAY_HEADER: usize = 64 << 10;
