//! Option values that cannot be intended, in texts outside of CNTK's place.

use super::*;
use cntk_reader::LogLevel;
use cntk_reader::language::options::Release;
use cntk_reader::language::{ReaderType, Section};

/// Returns a configuration with keys of the reader, of the deserializer and of the stream.
fn text(reader: &str, deserializer: &str, stream: &str) -> String {
    format!(
        "{reader}\ndeserializers = ( [ type = CNTKTextFormatDeserializer ; module = CNTKTextFormatReader ; file = none.ctf\n\
         {deserializer}\ninput = [ features = [ dim = 2 ; format = dense\n{stream}\n] ] ] )"
    )
}

#[test]
fn negative_sizes_are_refused_with_their_line() {
    let reader = [
        "randomizationWindow",
        "randomizationSeed",
        "maxErrors",
        "chunkSizeInBytes",
        "traceLevel",
        "verbosity",
    ];
    for key in reader {
        let error = refused(&text(&format!("{key} = -1"), "", ""));
        let message = error.message();
        assert!(message.starts_with(&format!("The value of '{key}'")), "{error}");
        assert!(message.contains("is negative"), "{error}");
        assert_eq!(place(&error), (1, key.len() as u64 + 4), "{error}");
    }
    for (before, key) in [("truncated = true ; ", "truncationLength"), ("", "rightSplice")] {
        let error = refused(&text(&format!("{before}{key} = -1"), "", ""));
        assert!(error.message().contains("is negative"), "{error}");
    }
    for key in ["maxErrors", "chunkSizeInBytes"] {
        let error = refused(&text("", &format!("{key} = -5"), ""));
        assert!(error.message().ends_with("is negative: -5."), "{error}");
        assert_eq!(place(&error), (3, key.len() as u64 + 4), "{error}");
    }
    let error = refused(&text("", "", "dim = -2"));
    assert!(error.message().ends_with("is negative: -2."), "{error}");
    for key in ["randomizationWindow", "chunkSizeInBytes"] {
        let error = refused(&text(&format!("{key} = 99999999999999999999"), "", ""));
        assert!(error.message().ends_with("is too large: 99999999999999999999."), "{error}");
    }
}

#[test]
fn samples_without_values_are_refused() {
    let error = refused(&text("", "", "dim = 0"));
    assert_eq!(error.message(), "The value of 'dim' in 'deserializers[0]:input:features' is 0.");
    assert_eq!(place(&error), (5, 7));
    let speech = "deserializers = ( [ type = HTKFeatureDeserializer ; module = HTKDeserializers\n\
                  input = [ f = [ scpFile = x ; dim = 0 ] ] ] )";
    assert!(refused(speech).message().ends_with("is 0."));
}

#[test]
fn negative_sizes_are_refused_in_all_kinds_of_readers() {
    let kinds = [
        "readerType = CNTKTextFormatReader ; file = x ; input = [ a = [ dim = 1 ; format = dense ] ]",
        "readerType = CNTKBinaryReader ; file = x",
        "readerType = HTKDeserializers ; f = [ scpFile = x ; dim = 3 ]",
        "readerType = ImageReader ; file = x ; f = [ width = 1 ; height = 1 ; channels = 1 ] ; l = [ labelDim = 2 ]",
    ];
    for kind in kinds {
        for key in ["randomizationSeed", "traceLevel", "verbosity"] {
            let error = refused(&format!("{kind}\n{key} = -1"));
            assert!(error.message().contains("is negative"), "{kind} {key}: {error}");
            assert_eq!(error.location().line, Some(2), "{kind} {key}: {error}");
        }
    }
    let speech =
        "type = HTKFeatureDeserializer ; module = HTKDeserializers ; input = [ f = [ scpFile = x ; dim = 3";
    for key in ["maxSequenceSize = -1", "contextWindow = -3", "contextWindow = -1:1"] {
        let error = refused(
            &format!("deserializers = ( [ {speech} ; a = 1 ] ; z = 1\n{key} ] ] )").replace("a = 1", key),
        );
        assert!(error.message().contains("negative"), "{key}: {error}");
    }
}

#[test]
fn negative_sizes_wrap_around_in_the_place_of_cntk() {
    let section = Section::parse(
        "reader",
        &text("maxErrors = -1 ; randomizationSeed = -1 ; verbosity = -1", "maxErrors = -1", ""),
    );
    let config = Config::from_reader_section(&section.unwrap(), ReaderType::Composite, Release::Current);
    let settings = config.settings(Default::default()).unwrap();
    assert_eq!((settings.max_errors, settings.verbosity), (u64::MAX, -1));
}

#[test]
fn verbosity_raises_the_trace_level() {
    let _ = LogLevel::Warning;
    for (keys, level) in [
        ("", 1),
        ("verbosity = 0", 1),
        ("verbosity = 2", 2),
        ("traceLevel = 0", 0),
        ("traceLevel = 0 ; verbosity = 0", 0),
        ("traceLevel = 1 ; verbosity = 2", 2),
        ("traceLevel = 2 ; verbosity = 1", 2),
    ] {
        let of = |text: &str| Config::from_text(text).unwrap().settings(Default::default()).unwrap();
        assert_eq!(of(&text(keys, "", "")).trace_level, level, "{keys}");
        let reader = format!("file = x ; input = [ a = [ dim = 1 ; format = dense ] ]\n{keys}");
        assert_eq!(of(&reader).trace_level, level, "{keys}");
    }
    // The deserializer logs at the reader's level.
    let settings =
        Config::from_text(&text("verbosity = 2", "", "")).unwrap().settings(Default::default()).unwrap();
    let Some(options) = settings.deserializers[0].of::<cntk_reader::language::options::TextOptions>() else {
        panic!()
    };
    assert_eq!(options.log.trace_level, 2);
}

#[test]
fn a_misspelt_reader_type_is_recognized() {
    let error = refused("readerType = CNTKTextReader ; file = x");
    assert!(
        error.detail().contains("Did you mean 'CNTKTextFormatReader'?")
            || error.detail().contains("Supported"),
        "{error}"
    );
    let error = refused("readerType = CNTKTextFormatReder ; file = x");
    assert!(error.detail().contains("Did you mean 'CNTKTextFormatReader'?"), "{error}");
}
