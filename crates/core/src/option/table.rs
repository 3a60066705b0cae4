//! Words for other things that messages name: formats, phrases, options with a value.

use Word::{Fixed, Key, Method, Phrase};

/// A front end's word for an option.
#[derive(Debug, Clone, Copy)]
pub enum Word {
    /// A key, a field or an argument, to which a value is assigned.
    Key(&'static str),
    /// A method that takes the value.
    Method(&'static str),
    /// A key of CNTK's language among the `options` of Python's `MinibatchSource`.
    Entry(&'static str),
    /// A name, or an option with its value.
    Fixed(&'static str),
    /// No word of its own: uses the key of CNTK's language.
    Unnamed,
    /// A part of a sentence, which is not quoted.
    Phrase(&'static str),
}

/// Something that messages name, with each front end's word for it.
pub struct Named {
    /// Its id in the messages of this library's code.
    pub id: &'static str,
    /// The word in CNTK's language.
    pub configuration: Word,
    pub rust: Word,
    pub cpp: Word,
    pub python: Word,
}

const fn row(id: &'static str, configuration: Word, rust: Word, cpp: Word, python: Word) -> Named {
    Named { id, configuration, rust, cpp, python }
}

#[rustfmt::skip]
pub const NAMED: &[Named] = &[
    // Id, and the words of CNTK's language, of Rust, of C++ and of Python.
    // Of the reader.
    row("truncated", Fixed("truncated = true"), Method("truncation_length"), Key("truncation_length"), Key("truncation_length")),
    row("truncation", Phrase("'truncated = true' and 'truncationLength'"), Phrase("'truncation_length'"), Phrase("'truncation_length'"), Phrase("'truncation_length'")),
    row("double_precision", Fixed("precision = \"double\""), Fixed("precision(ElementType::Double)"), Fixed("precision = ElementType::kDouble"), Fixed("precision=\"double\"")),
    row("float_precision", Fixed("precision = \"float\""), Fixed("precision(ElementType::Float)"), Fixed("precision = ElementType::kFloat"), Fixed("precision=\"float\"")),
    row("in_the_reader", Phrase("beside 'deserializers'"), Phrase("in the 'ReaderOptions'"), Phrase("in the 'ReaderOptions'"), Phrase("in the 'MinibatchSource'")),
    row("truncating", Fixed("truncated"), Fixed("truncation_length"), Fixed("truncation_length"), Fixed("truncation_length")),
    row("steps", Fixed("truncationLength"), Phrase("at least 1"), Phrase("at least 1"), Phrase("at least 1")),
    row("deserializers", Phrase("'deserializers = ( [ type = ... ] : ... )' with at least one element"), Phrase("at least one deserializer: add it to the builder, as with 'ctf' or 'deserializer'"), Phrase("at least one deserializer: pass it to 'Reader::Open'"), Phrase("at least one deserializer: pass it to 'MinibatchSource'")),
    // Of one deserializer.
    row("ctf_type", Phrase("'CNTKTextFormatDeserializer' of the module 'CNTKTextFormatReader'"), Fixed("CtfDeserializer"), Fixed("CtfDeserializer"), Fixed("CTFDeserializer")),
    row("cbf_type", Phrase("'CNTKBinaryFormatDeserializer' of the module 'CNTKBinaryReader'"), Fixed("CbfDeserializer"), Fixed("CbfDeserializer"), Fixed("CBFDeserializer")),
    row("htk_type", Fixed("HTKFeatureDeserializer"), Fixed("HtkFeatureDeserializer"), Fixed("HtkFeatureDeserializer"), Fixed("HTKFeatureDeserializer")),
    row("mlf_type", Fixed("HTKMLFDeserializer"), Fixed("HtkMlfDeserializer"), Fixed("HtkMlfDeserializer"), Fixed("HTKMLFDeserializer")),
    row("kaldi_type", Fixed("KaldiDeserializer"), Fixed("KaldiDeserializer"), Fixed("KaldiDeserializer"), Fixed("KaldiDeserializer")),
    row("array_type", Fixed("NumpyDeserializer"), Fixed("NumpyDeserializer"), Phrase("'NumpyDeserializer' of a configuration"), Phrase("'NumpyDeserializer' of a configuration")),
    row("image_type", Fixed("ImageDeserializer"), Fixed("ImageDeserializer"), Fixed("ImageDeserializer"), Fixed("ImageDeserializer")),
    row("base64_type", Fixed("Base64ImageDeserializer"), Fixed("Base64ImageDeserializer"), Fixed("Base64ImageDeserializer"), Fixed("Base64ImageDeserializer")),
    row("several_files", Phrase("'file = (a.ctf:b.ctf)', of HTK 'scpFile = (a.scp:b.scp)'"), Phrase("'add_file', of HTK 'add_scp_file'"), Phrase("'AddFile', of HTK 'AddScpFile'"), Phrase("'filename=[\"a.ctf\", \"b.ctf\"]', of HTK 'scp=[\"a.scp\", \"b.scp\"]'")),
    row("a_deserializer", Phrase("an element to 'deserializers'"), Phrase("a deserializer to the builder"), Phrase("a deserializer to the list"), Phrase("a deserializer to the list")),
    row("table_reader", Phrase("a deserializer of your own"), Phrase("a deserializer of your own"), Phrase("a deserializer of your own"), Phrase("'from_csv' or 'from_arrays'")),
    row("columns_reader", Phrase("a deserializer of your own"), Phrase("a deserializer of your own"), Phrase("a deserializer of your own"), Phrase("pandas or pyarrow and 'from_table'")),
    row("listing_method", Phrase("the method or callback that lists them: `sequences` in Rust, `list_sequences` in C, `GetSequences` in C++, `get_sequences` in Python"), Phrase("the method `sequences`, which lists them"), Phrase("the method `GetSequences`, which lists them"), Phrase("the method `get_sequences`, which lists them")),
    // Of one stream.
    row("dense", Fixed("format = \"dense\""), Method("dense"), Method("Dense"), Fixed("is_sparse=False")),
    row("sparse", Fixed("format = \"sparse\""), Method("sparse"), Method("Sparse"), Fixed("is_sparse=True")),
    row("image_shape", Fixed("imageShape = \"channels:columns:rows\""), Fixed("imageShape"), Fixed("imageShape"), Fixed("shape=(channels, rows, columns)")),
    row("streams", Phrase("'input = [ name = [ dim = ... ; format = \"dense\" ] ... ]'"), Fixed("dense(name, dim)"), Fixed("Dense(name, dim)"), Fixed("StreamDefs(name=StreamDef(shape=...))")),
    row("arrays", Phrase("'input = [ features = [ file = \"x.npy\" ] ]'"), Fixed("array(name, file)"), Fixed("Array(name, file)"), Fixed("StreamDefs(name=StreamDef(npy=...))")),
    // Of one transform.
];

/// Ids of flags that builders set with a method that takes no value.
pub(crate) const SWITCHES: [&str; 2] = ["defines_minibatch_size", "array_defines_size"];

/// Deserializers by their types in CNTK's language, with their class names in Rust and C++, and in
/// Python, where these differ.
pub(crate) const CLASSES: &[(&str, &str, &str)] = &[
    ("CNTKTextFormatDeserializer", "CtfDeserializer", "CTFDeserializer"),
    ("CNTKBinaryFormatDeserializer", "CbfDeserializer", "CBFDeserializer"),
    ("HTKFeatureDeserializer", "HtkFeatureDeserializer", "HTKFeatureDeserializer"),
    ("HTKMLFDeserializer", "HtkMlfDeserializer", "HTKMLFDeserializer"),
    ("HTKMLFBinaryDeserializer", "HtkMlfBinaryDeserializer", "HTKMLFBinaryDeserializer"),
];
