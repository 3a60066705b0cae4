//! Declarations of all options that a program or a configuration can set; each is declared here and
//! nowhere else.
//!
//! The declarations determine the words of messages, the checks of values that programs set, and
//! the tables of `docs/configuration.md`, which a test compares (`UPDATE_TABLES=1` writes them).
//! Another test sets each option to its default and checks that nothing changes.

use super::table::Word::{self, Entry, Fixed, Key, Method, Unnamed};
use crate::stream::ElementType;
use Initial::{Depends, Is, Nothing, Required};
use Kind::{Choice, Counts, Files, Flag, List, Numbers, Path, Section, Text, Whole};
use Owner::{
    Arrays, Binary, Color, Crop, Features, Images, Intensity, Kaldi, Labels, Mean, Reader, Scale, Stream,
    TextFile,
};

/// The things that have options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    Reader,
    TextFile,
    /// A stream of a text file.
    Stream,
    Binary,
    Features,
    Labels,
    Kaldi,
    Arrays,
    Images,
    Crop,
    Scale,
    Mean,
    Color,
    Intensity,
}

/// The values that an option may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Flag,
    /// An integer from the first to the last.
    Whole(i128, i128),
    /// One or two numbers, at least 0.
    Numbers,
    /// One or two integers from 0 to 2^31 - 1.
    Counts,
    /// One of these words, or of others that the language knows.
    Choice(&'static [&'static str]),
    /// Free text.
    Text,
    Path,
    /// Paths or patterns.
    Files,
    /// Paths, sections.
    List,
    /// Options.
    Section,
}

impl Kind {
    /// Describes the values in words, for messages.
    pub fn describe(self) -> String {
        match self {
            Flag => "true or false".to_owned(),
            Whole(least, most) => format!("a whole number from {least} to {most}"),
            Numbers => "a number, at least 0, or two".to_owned(),
            Counts => format!("a whole number from 0 to {}, or two", i32::MAX),
            Choice(words) => format!("one of the words {}", words.join(", ")),
            Text => "a text".to_owned(),
            Path => "a path".to_owned(),
            Files => "paths or patterns of files".to_owned(),
            List => "a list".to_owned(),
            Section => "options".to_owned(),
        }
    }
}

/// The value of an option that is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Initial {
    Required,
    Nothing,
    /// This value.
    Is(&'static str),
    /// Depends on other things, which the text names.
    Depends(&'static str),
}

/// An option.
pub struct Declared {
    pub of: Owner,
    /// Its id in the messages of this library's code.
    pub id: &'static str,
    /// Its name in CNTK's language and in C.
    pub key: &'static str,
    pub kind: Kind,
    pub default: Initial,
    pub rust: Word,
    pub cpp: Word,
    pub python: Word,
    /// A sentence for the documentation.
    pub meaning: &'static str,
}

/// Sizes: a greater number comes from a program that has converted a negative one.
const SIZE: Kind = Whole(0, i64::MAX as i128);
const COUNT: Kind = Whole(0, i32::MAX as i128);
/// Seeds may use all bits.
const SEED: Kind = Whole(0, u64::MAX as i128);

/// Values of padding.
const PADDING: Kind = Whole(i64::MIN as i128, i64::MAX as i128);

/// The names of all element types.
const ELEMENTS: &[&str] = &{
    let mut names = [""; ElementType::ALL.len()];
    let mut number = 0;
    while number < names.len() {
        names[number] = ElementType::ALL[number].name();
        number += 1;
    }
    names
};

const NO_WORDS: [Word; 3] = [Unnamed, Unnamed, Unnamed];

const fn option(
    of: Owner,
    (id, key): (&'static str, &'static str),
    (kind, default): (Kind, Initial),
    [rust, cpp, python]: [Word; 3],
    meaning: &'static str,
) -> Declared {
    Declared { of, id, key, kind, default, rust, cpp, python, meaning }
}

#[rustfmt::skip]
pub const DECLARED: &[Declared] = &[
    option(Reader, ("list", "deserializers"), (List, Depends("needed, unless a program adds some")), NO_WORDS,
        "array of sections, see below"),
    option(Reader, ("randomize", "randomize"), (Flag, Is("true")), [Method("randomize"), Key("randomize"), Key("randomize")],
        "block randomization in rolling windows; `false`: the order of the data"),
    option(Reader, ("window", "randomizationWindow"), (Whole(0, i64::MAX as i128), Depends("128 chunks with text data or arrays")),
        [Method("randomization_window_in_chunks"), Key("randomization_window_in_chunks"), Key("randomization_window_in_chunks")],
        "size of the window, in samples unless the next key says otherwise"),
    option(Reader, ("window_in_samples", "sampleBasedRandomizationWindow"), (Flag, Depends("`true` if a window is given")),
        [Method("randomization_window_in_samples"), Key("randomization_window_in_samples"), Key("randomization_window_in_samples")],
        "the window counts samples; `false`: chunks"),
    // For programs that set the first key, and the second one to `true`.
    option(Reader, ("sample_window", "randomizationWindow"), (Whole(0, i64::MAX as i128), Nothing),
        [Method("randomization_window_in_samples"), Key("randomization_window_in_samples"), Key("randomization_window_in_samples")],
        ""),
    option(Reader, ("randomization_seed", "randomizationSeed"), (SEED, Is("0")),
        [Method("randomization_seed"), Key("randomization_seed"), Key("randomization_seed")],
        "added to the number of the sweep"),
    option(Reader, ("frame_mode", "frameMode"), (Flag, Is("false")), [Method("frame_mode"), Key("frame_mode"), Key("frame_mode")],
        "every sequence is one sample"),
    option(Reader, ("truncate", "truncated"), (Flag, Is("false")),
        [Method("truncation_length"), Key("truncation_length"), Key("truncation_length")],
        "truncated back-propagation"),
    option(Reader, ("truncation_length", "truncationLength"), (SIZE, Depends("required with `truncated`")),
        [Method("truncation_length"), Key("truncation_length"), Key("truncation_length")],
        "the number of steps of a minibatch"),
    option(Reader, ("right_splice", "rightSplice"), (SIZE, Is("0")), [Method("right_splice"), Key("right_splice"), Entry("rightSplice")],
        "steps by which truncated minibatches of one sequence overlap"),
    option(Reader, ("expand_sparse", "expandSparse"), (Flag, Depends("`true`; the classes of Rust, C++ and Python set `false`")),
        [Method("expand_sparse"), Key("expand_sparse"), Entry("expandSparse")],
        "(not in CNTK) sparse streams become dense in truncated minibatches, as in CNTK; `false`: they stay sparse"),
    option(Reader, ("local_timeline", "localTimeline"), (Flag, Is("true")),
        [Method("local_timeline"), Key("local_timeline"), Entry("localTimeline")],
        "each worker fills its share of the minibatch; `false`: all workers share one global minibatch"),
    option(Reader, ("lockstep", "lockstep"), (Flag, Is("false")), [Method("lockstep"), Key("lockstep"), Key("lockstep")],
        "(not in CNTK) every worker reads as many minibatches as the others: `localTimeline` is `false`, and a worker whose share is \
         empty gets a minibatch without data instead of reading on. See [workers](guide/workers.md#lockstep)"),
    option(Reader, ("precision", "precision"), (Choice(&["float", "double"]), Is("float")),
        [Method("precision"), Key("precision"), Key("precision")],
        "`float` or `double`"),
    option(Reader, ("max_errors", "maxErrors"), (COUNT, Is("0")), [Method("max_errors"), Key("max_errors"), Key("max_errors")],
        "number of invalid sequences that are tolerated (errors in text are counted separately, see below)"),
    option(Reader, ("trace_level", "traceLevel"), (COUNT, Is("1")), [Method("trace_level"), Key("trace_level"), Key("trace_level")],
        "0 errors, 1 warnings, 2 information. At 1 a warning about a text file's content is written once for each kind and stream, and \
         counted after that; 2 writes every one"),
    option(Reader, ("verbosity", "verbosity"), (COUNT, Is("0")), [Unnamed, Unnamed, Entry("verbosity")],
        "the greater of it and `traceLevel` counts; in CNTK's place each for its own parts"),
    option(Reader, ("numeric_keys", "useNumericSequenceKeys"),
        (Flag, Depends("`true`, with [speech](#speech-module--htkdeserializers) `false`")),
        [Method("numeric_keys"), Key("numeric_keys"), Entry("useNumericSequenceKeys")],
        "`false`: sequence keys are text"),
    option(Reader, ("multithreaded", "multiThreadedDeserialization"),
        (Flag, Depends("`true` with [images](#images-module--imagereader) and transforms, else `false`")),
        [Method("multithreaded"), Key("multithreaded"), Entry("multiThreadedDeserialization")],
        "images, and sequences of users that are fetched one by one, are worked on by several threads"),
    option(Reader, ("reproducible", "reproducibleTransforms"), (Flag, Is("false")),
        [Method("reproducible_transforms"), Key("reproducible_transforms"), Entry("reproducibleTransforms")],
        "(not in CNTK) see [images](#transforms)"),
    option(Reader, ("hash_keys", "hashSequenceKeys"), (Flag, Is("false")), [Method("hash_keys"), Key("hash_keys"), Entry("hashSequenceKeys")],
        "textual keys are numbered by a hash"),
    option(Reader, ("confine_paths", "confinePaths"), (Flag, Is("false")),
        [Method("confine_paths"), Key("confine_paths"), Entry("confinePaths")],
        "(not in CNTK) see [paths](#paths-that-data-files-name-not-in-cntk)"),
    option(Reader, ("allowed_folders", "allowedFolders"), (List, Nothing),
        [Method("confine_paths"), Key("confine_paths"), Entry("allowedFolders")],
        "(not in CNTK) folders that paths may lead to, too"),
    option(Reader, ("prefetch", "prefetch"), (Flag, Is("true")), [Method("prefetch"), Key("prefetch"), Entry("prefetch")],
        "minibatches are packed ahead, up to 128 small ones, where that gains more than a change of threads costs"),
    option(Reader, ("check_data", "checkData"), (Flag, Is("true")), [Method("check_data"), Key("check_data"), Entry("checkData")],
        "accepted, but sequences are always checked, as in CNTK"),

    option(TextFile, ("file", "file"), (Files, Required), [Fixed("file"), Fixed("file"), Key("filename")],
        "path; or (not in CNTK) a pattern, or a list of both: see [several files](#several-files)"),
    option(TextFile, ("shared_ids", "sharedIds"), (Flag, Is("false")), [Method("shared_ids"), Method("SharedIds"), Key("shared_ids")],
        "(not in CNTK) the ids of several files are one numbering"),
    option(TextFile, ("input", "input"), (Section, Required), NO_WORDS,
        "one section per stream"),
    option(TextFile, ("chunk_size", "chunkSizeInBytes"), (Whole(1, i64::MAX as i128), Is("33554432")),
        [Method("chunk_size"), Method("ChunkSize"), Key("chunk_size_in_bytes")],
        "the data are divided into chunks of this size, which are loaded, randomized and shared out as a whole"),
    option(TextFile, ("max_malformed", "maxErrors"), (COUNT, Is("0")), [Method("max_errors"), Method("MaxErrors"), Key("max_errors")],
        "number of malformed values, lines and sequences that are tolerated, over all sweeps"),
    option(TextFile, ("skip_sequence_ids", "skipSequenceIds"), (Flag, Is("false")),
        [Method("skip_sequence_ids"), Method("SkipSequenceIds"), Key("skip_sequence_ids")],
        "every line is a sequence, whatever ids the lines have"),
    option(TextFile, ("cache_index", "cacheIndex"), (Flag, Is("false")), [Method("cache_index"), Method("CacheIndex"), Key("cache_index")],
        "the index is kept beside the file, in CNTK's format"),
    option(TextFile, ("keep_data_in_memory", "keepDataInMemory"), (Flag, Is("false")),
        [Method("keep_data_in_memory"), Method("KeepDataInMemory"), Key("keep_data_in_memory")],
        "chunks stay in memory once they are loaded"),
    option(TextFile, ("strict_sequences", "strictSequences"), (Flag, Is("true")),
        [Method("strict_sequences"), Method("StrictSequences"), Key("strict_sequences")],
        "`false` (not in CNTK): a label may stand on a line of its own, and a sequence in which a stream has no sample is left out: a \
         warning counts such sequences, and they do not count against `maxErrors`"),

    option(Stream, ("dim", "dim"), (SIZE, Required), [Key("dim"), Key("dim"), Key("shape")],
        "number of values of a sample"),
    option(Stream, ("format", "format"), (Choice(&["dense", "sparse"]), Required), [Method("sparse"), Method("Sparse"), Key("is_sparse")],
        "`dense`, or `sparse`: pairs of index and value"),
    option(Stream, ("alias", "alias"), (Text, Depends("the stream's name")), [Method("alias"), Method("Alias"), Key("field")],
        "the name in the file"),
    option(Stream, ("defines_minibatch_size", "definesMBSize"), (Flag, Is("false")),
        [Method("defines_minibatch_size"), Method("DefinesMinibatchSize"), Key("defines_mb_size")],
        "this stream's samples are the lengths that minibatches and windows are measured in"),
    option(Stream, ("element", "element"), (Choice(ELEMENTS), Depends("that of `precision`")),
        [Method("element"), Method("Element"), Key("dtype")],
        "(not in CNTK) type of the values of a dense stream: `float32`, `float64`, `float16`, `bfloat16`, `uint8`, `int16`, `int32`, `int64` \
         or `bool`; see [types of values](guide/ctf.md#types-of-values)"),
    option(Stream, ("ids", "ids"), (Choice(&["int32", "int64"]), Nothing), [Method("ids"), Method("Ids"), Key("ids")],
        "(not in CNTK) samples of a sparse stream are one entry, `index:1`, and the index is delivered as an integer of this type"),
    option(Stream, ("padding", "padding"), (PADDING, Depends("`0` with `ids`")), [Method("padding"), Method("Padding"), Key("padding")],
        "(not in CNTK) with `ids`: the value of gaps in truncated minibatches"),

    option(Binary, ("cbf_file", "file"), (Files, Required), [Fixed("file"), Fixed("file"), Key("filename")],
        "path of a CBF file, in the layout that CNTK 2.7 and `ctf2bin.py` write or in the one that CNTK's public page describes; or (not \
         in CNTK) a pattern, or a list of both: see [several files](#several-files)"),
    option(Binary, ("shared_numbers", "sharedIds"), (Flag, Is("false")), [Method("shared_ids"), Method("SharedIds"), Key("shared_ids")],
        "(not in CNTK) the sequences of several files are numbered from the first file to the last"),
    option(Binary, ("renamed", "input"), (Section, Nothing), NO_WORDS,
        "sections `newName = [ alias = \"nameInFile\" ]` rename streams, which the file must have; everything else is stored in the file, \
         and `dim`, `format` and `definesMBSize` have no effect there, as in CNTK"),
    option(Binary, ("binary_ids", "ids"), (Choice(&["int32", "int64"]), Nothing), [Method("ids"), Method("Ids"), Key("ids")],
        "(in the section of a stream; not in CNTK) samples of the stream are sparse in the file with one entry of value 1, and the index is delivered \
         as an integer of this type"),
    option(Binary, ("binary_padding", "padding"), (PADDING, Depends("`0` with `ids`")), [Method("padding"), Method("Padding"), Key("padding")],
        "(beside `ids`) the value of gaps in truncated minibatches"),
    option(Binary, ("keep_in_memory", "keepDataInMemory"), (Flag, Is("false")),
        [Method("keep_data_in_memory"), Method("KeepDataInMemory"), Key("keep_data_in_memory")],
        "chunks stay in memory once they are loaded"),

    option(Features, ("script_file", "scpFile"), (Path, Required), [Fixed("scp_file"), Fixed("scp_file"), Key("scp")],
        "(stream) path of a script file with one utterance in each line, `key=archive[first,last]`; or (not in CNTK) an array of paths, \
         `(a.scp:b.scp)`"),
    option(Features, ("frame_dim", "dim"), (SIZE, Required), [Key("dim"), Key("dim"), Key("shape")],
        "(stream) values of a frame. Without `contextWindow`, an odd multiple of it is allowed: samples then have as many frames"),
    option(Features, ("context", "contextWindow"), (Counts, Is("1")), [Method("context_window"), Method("ContextWindow"), Key("context")],
        "(stream) size of the window of frames that make a sample, an odd number; or `before:after`, the numbers of neighbours"),
    option(Features, ("prefix_path", "prefixPathInSCP"), (Path, Nothing), [Method("prefix_path"), Method("PrefixPath"), Key("prefix_path")],
        "(stream) folder that stands before each path of the script. Without it, `...` stands for the script's folder"),
    option(Features, ("expand_to_utterance", "expandToUtterance"), (Flag, Is("false")),
        [Method("expand_to_utterance"), Method("ExpandToUtterance"), Key("broadcast")],
        "(stream) the only frame of each utterance is repeated for every sample of the first deserializer (i-vectors)"),
    option(Features, ("max_sequence_size", "maxSequenceSize"), (SIZE, Nothing),
        [Method("max_sequence_size"), Method("MaxSequenceSize"), Key("max_sequence_length")],
        "(`input`) utterances with more frames are left out"),
    option(Features, ("measured_in_frames", "definesMBSize"), (Flag, Is("false")),
        [Method("defines_minibatch_size"), Method("DefinesMinibatchSize"), Key("defines_mb_size")],
        "(`input`) minibatches and windows are measured in frames of this stream"),

    option(Labels, ("label_file", "mlfFile"), (Path, Depends("this or `mlfFileList` is required")),
        [Fixed("mlf_file"), Fixed("mlf_file"), Key("mlf")],
        "(stream only) path of a file of labels"),
    option(Labels, ("label_files", "mlfFileList"), (List, Nothing), [Method("add_mlf_file"), Method("AddMlfFile"), Key("mlf")],
        "(stream only) several paths, `(a.mlf:b.mlf)`; without a colon, the path of a file with one path in each line"),
    option(Labels, ("state_list", "labelMappingFile"), (Path, Nothing),
        [Method("state_list"), Method("StateList"), Key("label_mapping_file")],
        "(stream) path of the list of states. Without it, each line of labels has a fourth column with the class's number"),
    option(Labels, ("classes", "labelDim"), (SIZE, Required), [Key("classes"), Key("classes"), Key("shape")],
        "(stream) number of classes, at most 65535; also written `dim`"),
    option(Labels, ("phone_boundaries", "phoneBoundaries"), (Flag, Is("false")),
        [Method("phone_boundaries"), Method("PhoneBoundaries"), Key("phone_boundaries")],
        "(stream) the value is 2 where a range of frames begins; not together with `frameMode`"),
    option(Labels, ("label_ids", "ids"), (Choice(&["int32", "int64"]), Nothing), [Method("ids"), Method("Ids"), Key("ids")],
        "(stream; not in CNTK) classes are delivered as integers of this type, not as one-hot samples"),
    option(Labels, ("label_padding", "padding"), (PADDING, Depends("`0` with `ids`")), [Method("padding"), Method("Padding"), Key("padding")],
        "(stream; not in CNTK) with `ids`: the value of gaps in truncated minibatches"),
    option(Labels, ("cache_labels", "cacheIndex"), (Flag, Is("false")), [Method("cache_index"), Method("CacheIndex"), Unnamed],
        "(stream) the index is kept beside the file, in CNTK's format; only with `hashSequenceKeys = true`"),
    option(Labels, ("label_chunk_size", "chunkSizeInBytes"), (Whole(1, i64::MAX as i128), Is("67108864")),
        [Method("chunk_size"), Method("ChunkSize"), Unnamed],
        "(deserializer) size of a chunk"),

    option(Kaldi, ("kaldi_script", "scpFile"), (Path, Depends("this or `arkFile` is required")),
        [Fixed("script"), Fixed("Script"), Key("scp")],
        "path of a script"),
    option(Kaldi, ("archive_file", "arkFile"), (Path, Nothing),
        [Fixed("KaldiDeserializer::archive"), Fixed("KaldiDeserializer::Archive"), Key("ark")],
        "path of an archive"),
    option(Kaldi, ("kaldi_format", "format"), (Choice(&["dense", "sparse"]), Is("dense")),
        [Method("sparse"), Method("Sparse"), Key("is_sparse")],
        "`dense`: matrices of features; `sparse`: integer vectors of class numbers"),
    option(Kaldi, ("kaldi_dim", "dim"), (SIZE, Required), [Key("dim"), Key("dim"), Key("shape")],
        "values of a frame, or number of classes"),
    option(Kaldi, ("kaldi_ids", "ids"), (Choice(&["int32", "int64"]), Nothing), [Method("ids"), Method("Ids"), Key("ids")],
        "of class numbers: they are delivered as integers of this type, not as one-hot samples"),
    option(Kaldi, ("kaldi_padding", "padding"), (PADDING, Depends("`0` with `ids`")), [Method("padding"), Method("Padding"), Key("padding")],
        "with `ids`: the value of gaps in truncated minibatches"),

    option(Arrays, ("array_file", "file"), (Path, Required), [Fixed("file"), Fixed("file"), Key("npy")],
        "(stream) path of the array"),
    option(Arrays, ("sequence_lengths", "lengths"), (Path, Nothing), [Method("lengths"), Method("Lengths"), Key("lengths")],
        "path of an array of integers, the lengths of sequences in rows; without it each row is a sequence"),
    option(Arrays, ("array_chunk_size", "chunkSizeInBytes"), (Whole(1, i64::MAX as i128), Is("33554432")),
        [Method("chunk_size"), Method("ChunkSize"), Key("chunk_size_in_bytes")],
        "size of a chunk"),
    option(Arrays, ("array_defines_size", "definesMBSize"), (Flag, Is("false")),
        [Method("defines_minibatch_size"), Method("DefinesMinibatchSize"), Key("defines_mb_size")],
        "(stream) minibatches and windows are measured in samples of this stream"),

    option(Images, ("image_file", "file"), (Path, Required), [Fixed("file"), Fixed("file"), Key("filename")],
        "path of the map file, or of the file with Base64 lines"),
    option(Images, ("image_streams", "input"), (Section, Required), NO_WORDS,
        "two sections with names of your choice: one with `transforms` describes the stream of images, one with `labelDim`, the number of \
         classes, that of labels; a third one with `draw = true` (not in CNTK) a stream that says [what transforms \
         show](images.md#targets-that-follow)"),
    option(Images, ("grayscale", "grayscale"), (Flag, Is("false")), [Method("grayscale"), Method("Grayscale"), Key("grayscale")],
        "images are decoded to one channel instead of three"),
    option(Images, ("multi_view", "multiViewCrop"), (Flag, Is("false")), [Method("multi_view"), Method("MultiView"), Key("multi_view_crop")],
        "each image stands for ten sequences, the views of `cropType = \"MultiView10\"`"),
    option(Images, ("cache_images", "cacheIndex"), (Flag, Is("false")), [Method("cache_index"), Method("CacheIndex"), Key("cache_index")],
        "Base64 only: the index is kept beside the file, in CNTK's format"),
    option(Images, ("max_pixels", "maxPixels"), (Whole(1, i64::MAX as i128), Is("268435456")),
        [Method("max_pixels"), Method("MaxPixels"), Key("max_pixels")],
        "(not in CNTK) most columns times rows of an image that are decoded; a larger one is an error before memory is taken for it"),
    option(Images, ("own_reproducible", "reproducibleTransforms"), (Flag, Depends("that of the reader")),
        [Method("reproducible_transforms"), Method("ReproducibleTransforms"), Key("reproducible_transforms")],
        "(not in CNTK) random transforms depend on nothing but their seed, the sweep and the sequence; see below"),
    option(Images, ("transforms", "transforms"), (List, Nothing), [Method("add_transform"), Method("AddTransform"), Key("transforms")],
        "(stream of images) what is done to each image, in this order; see below"),
    option(Images, ("image_element", "element"), (Choice(&["uint8", "float32", "float64"]), Depends("that of `precision`")),
        [Method("element"), Method("Element"), Key("dtype")],
        "(stream of images; not in CNTK) type of the values: `uint8`, or that of `precision`; see [bytes](images.md#bytes)"),

    option(Crop, ("crop_type", "cropType"), (Choice(&["Center", "RandomSide", "RandomArea", "MultiView10"]), Is("Center")),
        [Fixed("Crop::random"), Fixed("Crop::Random"), Key("kind")],
        "`Center`; `RandomSide` or `RandomArea`: at a random place; `MultiView10`: corners and middle, plain and mirrored, by the number of \
         the view"),
    option(Crop, ("crop_size", "cropSize"), (Counts, Is("0")), [Method("size"), Method("Size"), Key("size")],
        "columns and rows, `w:h`, or one number for both; at most the image's. 0: not given"),
    option(Crop, ("side_ratio", "sideRatio"), (Numbers, Is("0")), [Method("side_ratio"), Method("SideRatio"), Key("side_ratio")],
        "both sides' length as a share of the image's shorter side, above 0 and up to 1: a number, or `least:greatest`. 0: not given"),
    option(Crop, ("area_ratio", "areaRatio"), (Numbers, Is("0")), [Method("area_ratio"), Method("AreaRatio"), Key("area_ratio")],
        "the area as a share of the image's; not together with `sideRatio`"),
    option(Crop, ("aspect_ratio", "aspectRatio"), (Numbers, Is("1")), [Method("aspect_ratio"), Method("AspectRatio"), Key("aspect_ratio")],
        "one side divided by the other, whichever, at random: a number, or `least:greatest`"),
    option(Crop, ("jitter", "jitterType"), (Choice(&["None", "UniRatio"]), Is("None")), [Method("jitter"), Method("Jitter"), Key("jitter")],
        "`UniRatio`: ratios are drawn between their bounds; otherwise they are the least"),
    option(Crop, ("flip", "hflip"), (Flag, Depends("`true` for `RandomSide` and `RandomArea`")), [Method("flip"), Method("Flip"), Key("flip")],
        "half of the images are mirrored"),
    option(Crop, ("seed", "seed"), (Whole(0, u32::MAX as i128), Is("0")), [Method("seed"), Method("Seed"), Key("seed")],
        "of all random transforms: seed of the draws; transforms with equal seeds draw equal numbers"),
    option(Scale, ("width", "width"), (COUNT, Required), [Key("width"), Key("width"), Key("width")],
        "columns of the new size"),
    option(Scale, ("height", "height"), (COUNT, Required), [Key("height"), Key("height"), Key("height")],
        "its rows"),
    option(Scale, ("channels", "channels"), (COUNT, Required), [Key("channels"), Key("channels"), Key("channels")],
        "the number of channels that the images have"),
    option(Scale, ("interpolation", "interpolations"), (Choice(&["nearest", "linear", "cubic", "lanczos"]), Is("linear")),
        [Method("interpolation"), Method("Interpolate"), Key("interpolation")],
        "`nearest`, `linear`, `cubic` or `lanczos`"),
    option(Scale, ("scale_mode", "scaleMode"), (Choice(&["fill", "crop", "pad"]), Is("fill")), [Method("mode"), Method("Mode"), Key("mode")],
        "of images with other proportions: `fill` stretches, `crop` takes the middle, `pad` adds a border"),
    option(Scale, ("pad_value", "padValue"), (Whole(-1, 255), Is("-1")), [Fixed("ScaleMode::Pad"), Method("PadValue"), Key("pad_value")],
        "value of the border; -1: that of the nearest pixel"),
    option(Mean, ("mean_file", "meanFile"), (Path, Nothing), [Fixed("path"), Fixed("path"), Key("filename")],
        "path of the mean image that is subtracted, OpenCV's XML or YAML with `Channel`, `Row`, `Col` and `MeanImg`"),
    option(Color, ("brightness", "brightnessRadius"), (Numbers, Is("0")), [Method("brightness"), Method("Brightness"), Key("brightness")],
        "how far it changes at random, from 0 to 1"),
    option(Color, ("contrast", "contrastRadius"), (Numbers, Is("0")), [Method("contrast"), Method("Contrast"), Key("contrast")],
        "how far it changes at random, from 0 to 1"),
    option(Color, ("saturation", "saturationRadius"), (Numbers, Is("0")), [Method("saturation"), Method("Saturation"), Key("saturation")],
        "how far it changes at random, from 0 to 1"),
    option(Intensity, ("std_dev", "intensityStdDev"), (Numbers, Is("0")), [Key("std_dev"), Key("std_dev"), Key("std_dev")],
        "standard deviation of random changes along the principal components of colors"),
    option(Intensity, ("intensity_file", "intensityFile"), (Path, Nothing), [Key("path"), Key("path"), Key("filename")],
        "path of the file with `EigVal` and `EigVec`"),
    // After the option of text files, which messages mean if only the key is known.
    option(Reader, ("window_chunk_size", "chunkSizeInBytes"), (Whole(1, i64::MAX as i128), Is("33554432")),
        [Method("window_chunk_size"), Key("window_chunk_size"), Entry("chunkSizeInBytes")],
        "at this level it only scales the default window, which is 4 GiB of chunks"),
];
