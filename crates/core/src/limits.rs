//! All limits on sizes, and the reasons for them.
//!
//! Exceeding a limit means a mistake or malice: a device in place of a file, a damaged length, a
//! decompression bomb. Real data are far below all limits. Sizes that files claim are also compared
//! with the files' actual sizes before memory is allocated; an allocation that still fails is an
//! error of the kind [`Memory`](crate::ErrorKind::Memory) (`memory::room`). Parameters that merely
//! tune the library, such as block and cache sizes, stay with the code that they tune.

// Configurations

/// Characters of a number: CNTK's numbers have 20 digits, and more only take time to read.
pub const LONGEST_NUMBER: usize = 1000;

/// Elements of an array, including repetitions: `1*2000000000` must not exhaust the memory.
pub const MAX_ELEMENTS: usize = 1 << 20;

/// Bytes of all elements of an array, for the same reason.
pub const MAX_ARRAY_BYTES: usize = 64 << 20;

/// Bytes of a configuration file: a device or data file named by mistake must not exhaust the
/// memory.
pub const LARGEST_CONFIGURATION: u64 = 64 << 20;

/// Depth of nested inclusions of configuration files; deeper nesting is treated as a cycle.
pub const DEEPEST_INCLUSION: usize = 64;

/// Depth of definitions that refer to each other: expanding them uses the stack. Real
/// configurations need a handful.
pub const DEEPEST_DEFINITION: usize = 128;

/// Bytes read by the expansion of one value, including the values that it refers to: stops
/// definitions that double in size with each step.
pub const MAX_EXPANDED: usize = 32 << 20;

/// Number of errors that can be tolerated: CNTK's largest `int`.
pub const MAX_ERRORS: u32 = i32::MAX as u32;

/// Dimension of a sparse stream: its indices are signed 32-bit numbers, as in CNTK.
pub const LARGEST_SPARSE_DIM: u64 = i32::MAX as u64;

/// Classes of HTK labels, which are stored in 16 bits.
pub const MAX_LABEL_CLASSES: u64 = u16::MAX as u64;

/// Columns, rows or channels that a transform can produce: signed 32-bit numbers in OpenCV.
pub const LARGEST_SIDE: u64 = i32::MAX as u64;

// Threads and files

/// Threads of the pool: more than the CPUs of any machine likely to read such data. A larger number
/// is a mistake, and would make opening a reader take minutes.
pub(crate) const MAX_THREADS: usize = 1024;

/// Files of a deserializer: the number of file indices that fit above [`LARGEST_KEY_IN_LIST`] in a
/// key.
pub const MAX_FILES: usize = 1 << 20;

/// Keys in one of several files must be less than this: the file's index in the list takes the
/// other 20 bits.
pub const LARGEST_KEY_IN_LIST: u64 = 1 << 44;

/// Bytes that a compressed file may unpack to. A file that claims more is damaged or malicious.
#[cfg(feature = "compression")]
pub(crate) const LARGEST_UNPACKED: u64 = 16 << 40;

/// Bytes of data per byte of a zstd frame: its smallest block has four bytes and produces 128 KB. A
/// frame that claims more is damaged or malicious.
#[cfg(feature = "compression")]
pub(crate) const BEST_FRAME_RATIO: u64 = 1 << 15;

/// Unpacked bytes of a zstd frame that is unpacked in memory. Larger frames would be wasteful: a
/// reader of random chunks (32 MB by default) unpacks a part of each frame in vain.
#[cfg(feature = "compression")]
pub(crate) const LARGEST_FRAME: u64 = 16 << 20;

// Minibatches and epochs

/// Samples of a minibatch: CNTK counts them with a signed 32-bit number. Larger sizes are reduced
/// to this one, which no data reach.
pub const LARGEST_MINIBATCH: u64 = i32::MAX as u64;

/// Samples of an epoch: CNTK's positions would overflow beyond.
pub const LARGEST_EPOCH: u64 = u64::MAX / 2;

/// Consecutive sweeps in which a worker may get no sample before a minibatch is given up. Only data
/// whose sequences are nearly all empty reach this limit.
pub const MAX_BARREN_SWEEPS: u32 = 1000;

/// Segments to skip on the way to a restored position. A checkpoint that needs more is damaged: no
/// window has that many sweeps.
pub const LONGEST_WAY: u32 = 1 << 20;

/// Values of sparse samples that are converted to dense ones: samples of many thousands of values
/// would exhaust the memory.
pub const MAX_DENSIFIED: usize = 1 << 31;

// Text

/// Unknown stream names that a check collects, and bytes of a name: a file of another format has
/// any number of them.
pub const MAX_NAMES: usize = 1000;
/// See [`MAX_NAMES`].
pub const LONGEST_NAME: usize = 200;

// Files

/// Bytes of a file, 128 TiB. A sparse file or a store's answer can claim any number, and tables are
/// sized by it.
pub(crate) const LARGEST_FILE: u64 = 1 << 47;

// Binary data

/// Samples of a chunk in the documented layout: this many per byte, plus [`SOME_SAMPLES`]. A code
/// can claim any number of empty samples before its own; real data do not need more.
pub const SAMPLES_PER_BYTE: usize = 16;
/// See [`SAMPLES_PER_BYTE`].
pub const SOME_SAMPLES: usize = 1 << 16;

// Speech

/// Bytes of a chunk of HTK features that are trusted without a check: usual chunks are much
/// smaller. Before memory for a larger one is allocated, all its ranges are compared with the sizes
/// of their files, because a script and a header of a few bytes can claim any number of frames.
pub const MAX_BELIEVED: u64 = 256 << 20;

/// Frames of an utterance whose labels are read: a week of speech. Longer utterances are invalid.
pub const LONGEST_LABELS: u32 = 1 << 26;

/// Bytes of a label file between two places at which an utterance certainly begins: a larger piece
/// contains an utterance of about this size.
pub const LARGEST_UTTERANCE: u64 = 1 << 30;

/// Bytes of a key in binary label files: the size of CNTK's buffer.
pub const LONGEST_BINARY_KEY: u16 = 256;

/// Bytes of a key in Kaldi archives: files that are not archives are recognized by exceeding it.
pub const LONGEST_KALDI_KEY: usize = 4096;

// Images

/// Default of `maxPixels`, the maximum of columns times rows of a decoded image: 268 megapixels. A
/// few bytes can claim to be an image of any size.
pub const MAX_PIXELS: u64 = 1 << 28;

/// Values of an image: more than CNTK's images can have.
pub const MAX_IMAGE_VALUES: usize = 1 << 31;

/// Columns or rows of a JPEG image (libjpeg's limit).
pub const LARGEST_JPEG_SIDE: u32 = 65500;

/// Scans of a JPEG image. Programs write about ten; each costs time proportional to the image, not
/// to the file.
pub const MAX_SCANS: u32 = 500;

/// Deflate's maximum compression ratio: a member of a zip file that claims more is damaged or
/// malicious.
pub const BEST_RATIO: u64 = 1032;

/// Bytes of OpenCV's file of a mean image, also when uncompressed: room for 100 million numbers.
pub const LARGEST_MEAN_FILE: u64 = 2 << 30;

/// Elements and attributes of OpenCV's file of a mean image, which has about ten. The XML parser
/// allocates memory for each, and compares the attributes of an element with each other.
pub const MAX_STORAGE_NODES: usize = 10_000;

// NumPy arrays

/// Bytes at the start of an array file that its header must fit into.
pub const LONGEST_ARRAY_HEADER: usize = 64 << 10;
