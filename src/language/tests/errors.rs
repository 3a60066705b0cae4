//! Configurations that CNTK refuses, with CNTK's messages and exception classes.

use super::readers::{STREAMS, composite, composite_of, legacy};
use super::*;

#[test]
fn errors_of_streams() {
    let open = |input: &str| composite_of("", &format!("file=f;input=[{input}]"));
    let table = [
        (
            "x=[dim=3000000000;format=sparse]",
            "Sample dimension (3000000000) for sparse input 'x' exceeds the maximum allowed value (2147483647).\n",
        ),
        (
            "x=[dim=-1;format=sparse]",
            "Sample dimension (18446744073709551615) for sparse input 'x' exceeds the maximum allowed value (2147483647).\n",
        ),
        ("x=[dim=1;format=s]", "'format' parameter must be set either to 'dense' or 'sparse'."),
        ("x=[dim=r;format=s]", "ConfigValue (uint64_t): invalid input string 'r'"),
        (
            "x=[dim=\"\";format=dense]",
            "configparameters: required parameter missing: unknown:deserializers[0]:input:x:dim",
        ),
        (
            "x=[dim=1;format=dense;alias=\"\"]",
            "configparameters: required parameter missing: unknown:deserializers[0]:input:x:alias",
        ),
        (
            "x=[dim=1;format=dense;alias=default]",
            "configparameters: required parameter missing: unknown:deserializers[0]:input:x:alias",
        ),
        (
            "a=[dim=1;format=dense;alias=z]\nb=[dim=1;format=dense;alias=z]",
            "Alias z is already mapped to input a.",
        ),
        ("a=[dim=1;format=dense;alias=b]\nb=[dim=1;format=dense]", "Alias b is already mapped to input a."),
        (
            "x=[dim=1;format=dense;definesMBSize=1]\ny=[dim=1;format=dense;definesMBSize=1]",
            "Only a single stream is allowed to define the minibatch size, but 2 found: x, y.",
        ),
        ("x=[dim=1;format=dense;definesMBSize=q]", "ConfigValue (bool): boolean argument expected"),
        (
            "x=[dim=-1;format=dense]",
            "NDShape::TotalSize: TotalSize cannot be determined for a NDShape '[?]' with one or more dimensions being InferredDimension or FreeDimension.",
        ),
        (
            "x=[dim=-3;format=dense]",
            "NDShape::TotalSize: TotalSize cannot be determined for a NDShape '[*]' with one or more dimensions being InferredDimension or FreeDimension.",
        ),
        ("x=[dim=-5;format=dense]", "Sample dimension (18446744073709551611) for input 'x' is too large."),
        (
            "x=[dim=1;format=dense;transforms=([type=Crop])]",
            "Symbol 'CreateTransformer' not found in plugin 'Cntk.Deserializers.TextFormat-2.7.so'",
        ),
        ("", "CNTKTextFormatReader configuration contains an empty \"input\" section."),
        (
            "x=[dim=1;format=$f$]",
            "No variable found with the name f. Parsing of string failed: unknown:deserializers[0]:[x=[dim=1;format=$f$]]",
        ),
    ];
    for (input, message) in table {
        assert_error(open(input), R, message);
    }
    assert!(open("q=[dim=0;format=dense]\nr=[dim=1;format=SPARSE;alias=Q]").is_ok());
    assert_error(
        composite_of("", "file=f"),
        R,
        "CNTKTextFormatReader configuration does not contain \"input\" section.",
    );
    let error = open("x=[dim=1;format=s]").unwrap_err();
    assert_eq!(error.location().stream.as_deref(), Some("x"));
    assert_eq!(error.kind(), cntk_reader_core::ErrorKind::Config);
}

#[test]
fn errors_of_composite_readers() {
    let bool_error = "ConfigValue (bool): boolean argument expected";
    let long_error = "ConfigValue (long): invalid input string 'q'";
    let table = [
        ("frameMode=1;truncated=1", "", L, "frameMode and truncated BPTT are mutually exclusive."),
        ("truncated=1", "", I, "Truncation length cannot be 0."),
        ("truncated=1;truncationLength=0", "", I, "Truncation length cannot be 0."),
        (
            "truncated=1;truncationLength=3;rightSplice=4",
            "",
            I,
            "rightSplice should not be greater than truncation length",
        ),
        (
            "truncationLength=3;rightSplice=1",
            "",
            I,
            "rightSplice should not be greater than truncation length",
        ),
        (
            "truncated=1;truncationLength=3;rightSplice=-1",
            "",
            I,
            "rightSplice should not be greater than truncation length",
        ),
        ("hashSequenceKeys=1;frameMode=q", "", R, "Hashing should not be used with numeric sequence keys."),
        ("precision=half", "skipSequenceIds=q", I, "Unsupported precision 'half'"),
        ("randomize=none", "", R, bool_error),
        ("randomize=auto", "", R, bool_error),
        ("verbosity=q;randomize=none", "", R, long_error),
        ("maxErrors=q;localTimeline=q", "", R, long_error),
        ("localTimeline=q;nbruttsineachrecurrentiter=q", "", R, bool_error),
        ("nbruttsineachrecurrentiter=(1:q);prefetch=z", "", R, long_error),
        ("traceLevel=q", "traceLevel=1", R, long_error),
        ("", "maxErrors=3000000000", R, "ConfigValue (int): integer argument expected"),
        ("", "skipSequenceIds=q;maxErrors=q", R, bool_error),
        ("", "randomize=auto", R, bool_error),
        ("", "keepDataInMemory=x", R, bool_error),
        ("", "randomizationWindow=q", R, "ConfigValue (uint64_t): invalid input string 'q'"),
        ("", "chunkSizeInBytes=1e3", R, "ConfigValue (uint64_t): invalid input string '1e3'"),
        ("", "chunkSizeInBytes=0", I, "'chunkSizeInBytes' in unknown:deserializers[0] must not be 0."),
        ("chunkSizeInBytes=0", "", I, "'chunkSizeInBytes' in unknown must not be 0."),
        ("", "composable=q", R, bool_error),
        ("", "composable=false", I, "Deserializers with 'composable = false' are not supported yet."),
        (
            "sampleBasedRandomizationWindow=true",
            "",
            L,
            "'sampleBasedRandomizationWindow' (== 'true') requires that the 'randomizationWindow' is explicitly specified.",
        ),
    ];
    for (reader, element, class, message) in table {
        let error = composite(reader, element).expect_err(reader);
        assert_eq!((error.message(), error.class()), (message, class), "{reader} | {element}");
    }
    assert!(composite("", "randomize=None;randomizationWindow=q").is_ok());
    for (reader, reason) in [
        ("lockstep=1;localTimeline=1", "at its own pace"),
        ("lockstep=1;truncated=1;truncationLength=3", "pieces of sequences"),
    ] {
        let error = composite(reader, "").expect_err(reader);
        assert_eq!(error.message(), "Workers cannot read in lockstep here.");
        assert!(error.detail().contains(reason), "{}", error.detail());
    }
    assert!(composite("lockstep=0;localTimeline=1", "").is_ok());
    assert!(composite("lockstep=1;localTimeline=0;frameMode=1", "").is_ok());
    assert!(composite("action=WRITE;randomize=none", "").is_ok());
}

#[test]
fn errors_of_deserializers() {
    let open = |deserializers: &str| from_text(&format!("traceLevel=0\ndeserializers={deserializers}"));
    let none = "Could not find deserializers in the reader config.";
    for text in ["()", "\"\"", "default"] {
        assert_error(open(text), I, none);
    }
    assert_error(from_text(""), I, none);
    let missing =
        |key: &str| format!("configparameters: required parameter missing: unknown:deserializers{key}");
    assert_error(open("[\ntype=T\nmodule=M\n]"), R, &missing("[1]:type"));
    assert_error(open("([type=A]:[module=M])"), R, &missing("[1]:type"));
    assert_error(open("([type=A])"), R, &missing("[0]:module"));
    let table = [
        ("CNTKTextFormatReader", "A", I, "Unknown deserializer type 'A'"),
        (
            "CNTKTextFormatReader",
            "cntktextformatdeserializer",
            I,
            "Unknown deserializer type 'cntktextformatdeserializer'",
        ),
        (
            "CNTKBinaryReader",
            "CNTKTextFormatDeserializer",
            I,
            "Unknown deserializer type 'CNTKTextFormatDeserializer'",
        ),
        ("CNTKTextFormatReader", "ImageDeserializer", I, "Unknown deserializer type 'ImageDeserializer'"),
        (
            "ImageReader",
            "A",
            R,
            "Cannot create deserializer. Please check module and type in the configuration.",
        ),
        (
            "ImageReader",
            "ImageDeserializer",
            R,
            "configparameters: required parameter missing: unknown:deserializers[0]:input",
        ),
        (
            "HTKDeserializers",
            "HTKMLFdeserializer",
            R,
            "Cannot create deserializer. Please check module and type in the configuration.",
        ),
        (
            "CNTKTextFormatReader",
            "CNTKBinaryFormatDeserializer",
            I,
            "Unknown deserializer type 'CNTKBinaryFormatDeserializer'",
        ),
        (
            "CNTKBinaryReader",
            "CNTKBinaryFormatDeserializer",
            R,
            "configparameters: required parameter missing: unknown:deserializers[0]:file",
        ),
        ("my.so", "A", I, "The module 'my.so' of the deserializer type 'A' is not supported yet."),
    ];
    for (module, name, class, message) in table {
        assert_error(open(&format!("([module={module};type={name}])")), class, message);
    }
    let head = "module=CNTKTextFormatReader;type=CNTKTextFormatDeserializer;file=f";
    let two = |more: &str| open(&format!("([{head};{STREAMS}]:[{head};{STREAMS};{more}])"));
    assert_eq!(two("").unwrap().deserializers.len(), 2);
    let message = "Currently user defined deserializers do not support composability. Please specify a single deserializer.";
    assert_error(two("composable=f"), I, message);
    // Bracketed blocks need no separator, and a semicolon before one is harmless.
    for separator in ["", " ", ";", ",", "\n"] {
        let options = open(&format!("([{head};{STREAMS}]{separator}[{head};{STREAMS}])")).unwrap();
        assert_eq!(options.deserializers.len(), 2, "{separator:?}");
    }
    for (before, after) in [("[", "]"), ("([", "])"), ("[[", "]]"), ("{[", "]}"), ("({", "})"), ("{{", "}}")]
    {
        assert!(open(&format!("{before}{head};{STREAMS}{after}")).is_ok(), "{before}");
    }
}

#[test]
fn errors_of_text_readers() {
    let bool_error = "ConfigValue (bool): boolean argument expected";
    let table = [
        ("precision=half", R, "Not supported precision 'half'. Expected 'double' or 'float'."),
        ("randomize=auto", R, bool_error),
        ("randomizationWindow=q", R, "ConfigValue (uint64_t): invalid input string 'q'"),
        (
            "randomizationWindow=\"\"",
            R,
            "configparameters: required parameter missing: unknown:reader:randomizationWindow",
        ),
        ("chunkSizeInBytes=0", I, "'chunkSizeInBytes' in unknown:reader must not be 0."),
        ("prefetch=q", R, bool_error),
        ("nbruttsineachrecurrentiter=q", R, "ConfigValue (long): invalid input string 'q'"),
    ];
    for (reader, class, message) in table {
        assert_error(legacy("", reader), class, message);
    }
}
