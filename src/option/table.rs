//! The options that messages name.

use Word::{Entry, Fixed, Key, Method, Phrase};

/// The word of a front end for an option.
pub(super) enum Word {
    /// A key, a field or an argument, which a value is assigned to.
    Key(&'static str),
    /// A method, which takes the value.
    Method(&'static str),
    /// A key of CNTK's language among the `options` of Python's `MinibatchSource`.
    Entry(&'static str),
    /// A name, or an option with its value.
    Fixed(&'static str),
    /// A part of a sentence, which needs no quotation marks.
    Phrase(&'static str),
}

/// An option, and what each front end calls it.
pub(super) struct Named {
    /// Its name in the messages of this library's code.
    pub id: &'static str,
    /// CNTK's language.
    pub configuration: Word,
    pub rust: Word,
    pub cpp: Word,
    pub python: Word,
}

const fn row(id: &'static str, configuration: Word, rust: Word, cpp: Word, python: Word) -> Named {
    Named { id, configuration, rust, cpp, python }
}

#[rustfmt::skip]
pub(super) const OPTIONS: &[Named] = &[
    // Id, and the words of CNTK's language, of Rust, of C++ and of Python.
    // Of the reader.
    row("max_errors", Key("maxErrors"), Method("max_errors"), Key("max_errors"), Key("max_errors")),
    row("randomize", Key("randomize"), Method("randomize"), Key("randomize"), Key("randomize")),
    row("window", Key("randomizationWindow"), Method("randomization_window_in_chunks"), Key("randomization_window_in_chunks"), Key("randomization_window_in_chunks")),
    row("frame_mode", Key("frameMode"), Method("frame_mode"), Key("frame_mode"), Key("frame_mode")),
    row("truncated", Fixed("truncated = true"), Method("truncation_length"), Key("truncation_length"), Key("truncation_length")),
    row("truncation_length", Key("truncationLength"), Method("truncation_length"), Key("truncation_length"), Key("truncation_length")),
    row("truncation", Phrase("'truncated = true' and 'truncationLength'"), Phrase("'truncation_length'"), Phrase("'truncation_length'"), Phrase("'truncation_length'")),
    row("right_splice", Key("rightSplice"), Method("right_splice"), Key("right_splice"), Entry("rightSplice")),
    row("precision", Key("precision"), Method("precision"), Key("precision"), Key("precision")),
    row("double_precision", Fixed("precision = \"double\""), Fixed("precision(ElementType::Double)"), Fixed("precision = ElementType::kDouble"), Fixed("precision=\"double\"")),
    row("float_precision", Fixed("precision = \"float\""), Fixed("precision(ElementType::Float)"), Fixed("precision = ElementType::kFloat"), Fixed("precision=\"float\"")),
    row("trace_level", Key("traceLevel"), Method("trace_level"), Key("trace_level"), Key("trace_level")),
    row("numeric_keys", Key("useNumericSequenceKeys"), Method("numeric_keys"), Key("numeric_keys"), Entry("useNumericSequenceKeys")),
    row("hash_keys", Key("hashSequenceKeys"), Method("hash_keys"), Key("hash_keys"), Entry("hashSequenceKeys")),
    row("prefetch", Key("prefetch"), Method("prefetch"), Key("prefetch"), Entry("prefetch")),
    row("confine_paths", Key("confinePaths"), Method("confine_paths"), Key("confine_paths"), Entry("confinePaths")),
    row("allowed_folders", Key("allowedFolders"), Method("confine_paths"), Key("confine_paths"), Entry("allowedFolders")),
    row("in_the_reader", Phrase("beside 'deserializers'"), Phrase("in the 'ReaderOptions'"), Phrase("in the 'ReaderOptions'"), Phrase("in the 'MinibatchSource'")),
    row("local_timeline", Key("localTimeline"), Method("local_timeline"), Key("local_timeline"), Entry("localTimeline")),
    row("lockstep", Key("lockstep"), Method("lockstep"), Key("lockstep"), Key("lockstep")),
    row("truncating", Fixed("truncated"), Fixed("truncation_length"), Fixed("truncation_length"), Fixed("truncation_length")),
    row("steps", Fixed("truncationLength"), Phrase("at least 1"), Phrase("at least 1"), Phrase("at least 1")),
    row("deserializers", Phrase("'deserializers = ( [ type = ... ] : ... )' with at least one element"), Phrase("at least one deserializer"), Phrase("at least one deserializer"), Phrase("at least one deserializer")),
    // Of one deserializer.
    row("ctf_type", Phrase("'CNTKTextFormatDeserializer' of the module 'CNTKTextFormatReader'"), Fixed("CtfDeserializer"), Fixed("CtfDeserializer"), Fixed("CTFDeserializer")),
    row("cbf_type", Phrase("'CNTKBinaryFormatDeserializer' of the module 'CNTKBinaryReader'"), Fixed("CbfDeserializer"), Fixed("CbfDeserializer"), Fixed("CBFDeserializer")),
    row("htk_type", Fixed("HTKFeatureDeserializer"), Fixed("HtkFeatureDeserializer"), Fixed("HtkFeatureDeserializer"), Fixed("HTKFeatureDeserializer")),
    row("mlf_type", Fixed("HTKMLFDeserializer"), Fixed("HtkMlfDeserializer"), Fixed("HtkMlfDeserializer"), Fixed("HTKMLFDeserializer")),
    row("kaldi_type", Fixed("KaldiDeserializer"), Fixed("KaldiDeserializer"), Fixed("KaldiDeserializer"), Fixed("KaldiDeserializer")),
    row("image_type", Fixed("ImageDeserializer"), Fixed("ImageDeserializer"), Fixed("ImageDeserializer"), Fixed("ImageDeserializer")),
    row("base64_type", Fixed("Base64ImageDeserializer"), Fixed("Base64ImageDeserializer"), Fixed("Base64ImageDeserializer"), Fixed("Base64ImageDeserializer")),
    row("several_files", Phrase("'file = (a.ctf:b.ctf)', of HTK 'scpFile = (a.scp:b.scp)'"), Phrase("'add_file', of HTK 'add_scp_file'"), Phrase("'AddFile', of HTK 'AddScpFile'"), Phrase("'filename=[\"a.ctf\", \"b.ctf\"]', of HTK 'scp=[\"a.scp\", \"b.scp\"]'")),
    row("a_deserializer", Phrase("an element to 'deserializers'"), Phrase("a deserializer to the builder"), Phrase("a deserializer to the list"), Phrase("a deserializer to the list")),
    row("file", Key("file"), Fixed("file"), Fixed("file"), Key("filename")),
    row("chunk_size", Key("chunkSizeInBytes"), Method("chunk_size"), Method("ChunkSize"), Key("chunk_size_in_bytes")),
    row("window_chunk_size", Key("chunkSizeInBytes"), Method("window_chunk_size"), Key("window_chunk_size"), Entry("chunkSizeInBytes")),
    row("max_malformed", Key("maxErrors"), Method("max_errors"), Method("MaxErrors"), Key("max_errors")),
    row("skip_sequence_ids", Key("skipSequenceIds"), Method("skip_sequence_ids"), Method("SkipSequenceIds"), Key("skip_sequence_ids")),
    row("keep_data_in_memory", Key("keepDataInMemory"), Method("keep_data_in_memory"), Method("KeepDataInMemory"), Key("keep_data_in_memory")),
    row("strict_sequences", Key("strictSequences"), Method("strict_sequences"), Method("StrictSequences"), Key("strict_sequences")),
    row("shared_ids", Key("sharedIds"), Method("shared_ids"), Method("SharedIds"), Key("shared_ids")),
    row("max_pixels", Key("maxPixels"), Method("max_pixels"), Method("MaxPixels"), Key("max_pixels")),
    row("phone_boundaries", Key("phoneBoundaries"), Method("phone_boundaries"), Method("PhoneBoundaries"), Key("phone_boundaries")),
    row("multi_view", Key("multiViewCrop"), Method("multi_view"), Method("MultiView"), Key("multi_view_crop")),
    row("grayscale", Key("grayscale"), Method("grayscale"), Method("Grayscale"), Key("grayscale")),
    row("state_list", Key("labelMappingFile"), Method("state_list"), Method("StateList"), Key("label_mapping_file")),
    row("script_file", Key("scpFile"), Fixed("scp_file"), Fixed("scp_file"), Key("scp")),
    row("archive_file", Key("arkFile"), Fixed("KaldiDeserializer::archive"), Fixed("KaldiDeserializer::Archive"), Key("ark")),
    row("label_file", Key("mlfFile"), Fixed("mlf_file"), Fixed("mlf_file"), Key("mlf")),
    // Of one stream.
    row("alias", Key("alias"), Method("alias"), Method("Alias"), Key("field")),
    row("context", Key("contextWindow"), Method("context_window"), Method("ContextWindow"), Key("context")),
    row("dim", Key("dim"), Key("dim"), Key("dim"), Key("shape")),
    row("classes", Key("labelDim"), Key("classes"), Key("classes"), Key("shape")),
    row("dense", Fixed("format = \"dense\""), Method("dense"), Method("Dense"), Fixed("is_sparse=False")),
    row("sparse", Fixed("format = \"sparse\""), Method("sparse"), Method("Sparse"), Fixed("is_sparse=True")),
    row("defines_minibatch_size", Key("definesMBSize"), Method("defines_minibatch_size"), Method("DefinesMinibatchSize"), Key("defines_mb_size")),
    row("max_sequence_size", Key("maxSequenceSize"), Method("max_sequence_size"), Method("MaxSequenceSize"), Key("max_sequence_length")),
    row("image_shape", Fixed("imageShape = \"channels:columns:rows\""), Fixed("imageShape"), Fixed("imageShape"), Fixed("shape=(channels, rows, columns)")),
    row("expand_to_utterance", Key("expandToUtterance"), Method("expand_to_utterance"), Method("ExpandToUtterance"), Key("broadcast")),
    row("streams", Phrase("'input = [ name = [ dim = ... ; format = \"dense\" ] ... ]'"), Fixed("dense(name, dim)"), Fixed("Dense(name, dim)"), Fixed("StreamDefs(name=StreamDef(shape=...))")),
    row("format", Key("format"), Method("sparse"), Method("Sparse"), Key("is_sparse")),
    row("transforms", Key("transforms"), Method("add_transform"), Method("AddTransform"), Key("transforms")),
    // Of one transform.
    row("side_ratio", Key("sideRatio"), Method("side_ratio"), Method("SideRatio"), Key("side_ratio")),
    row("area_ratio", Key("areaRatio"), Method("area_ratio"), Method("AreaRatio"), Key("area_ratio")),
    row("aspect_ratio", Key("aspectRatio"), Method("aspect_ratio"), Method("AspectRatio"), Key("aspect_ratio")),
    row("crop_size", Key("cropSize"), Method("size"), Method("Size"), Key("size")),
    row("pad_value", Key("padValue"), Method("pad"), Method("PadValue"), Key("pad_value")),
    row("brightness", Key("brightnessRadius"), Method("brightness"), Method("Brightness"), Key("brightness")),
    row("contrast", Key("contrastRadius"), Method("contrast"), Method("Contrast"), Key("contrast")),
    row("std_dev", Key("intensityStdDev"), Key("std_dev"), Key("std_dev"), Key("std_dev")),
    row("channels", Key("channels"), Key("channels"), Key("channels"), Key("channels")),
    row("saturation", Key("saturationRadius"), Method("saturation"), Method("Saturation"), Key("saturation")),
];
