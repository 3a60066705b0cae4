//! Value types of single streams and class ids, which CNTK does not have.

use super::*;
use crate::language::options::{BinaryOptions, TextStream};
use cntk_reader_core::stream::Ids;

const HEAD: &str = "type = CNTKTextFormatDeserializer ; module = CNTKTextFormatReader ; file = f";

/// Reads the stream `x` of a text file outside of CNTK's place, beside keys of the reader.
fn stream_with(reader: &str, keys: &str) -> Result<TextStream> {
    let text = format!("{reader}\ndeserializers = ([ {HEAD} ; input = [\n x = [ {keys} ]\n] ])");
    let settings = Config::from_text(&text)?.settings(ExtensionTypes::default())?;
    Ok(settings.deserializers[0].of::<options::TextOptions>().unwrap().streams[0].clone())
}

fn stream(keys: &str) -> Result<TextStream> {
    stream_with("", keys)
}

#[test]
fn types_of_values() {
    let element = |keys: &str| stream(&format!("dim = 2 ; {keys}")).map(|stream| stream.element);
    let dense = |word: &str| element(&format!("format = dense ; element = {word}"));
    for &known in ElementType::ALL {
        assert_eq!(dense(known.name()).unwrap(), Some(known));
        assert_eq!(dense(&known.name().to_ascii_uppercase()).unwrap(), Some(known));
    }
    assert_eq!(element("format = dense").unwrap(), None);
    let all: Vec<&str> = ElementType::ALL.iter().map(|element| element.name()).collect();
    let expected = format!("Expected one of the words {}.", all.join(", "));
    for (word, hint) in [("UNIT8", " Did you mean 'uint8'?"), ("half", "")] {
        let error = dense(word).unwrap_err();
        let path = "deserializers[0]:input:x";
        let message = format!("The value of '{path}:element' is '{word}', which is not a value type.");
        assert_eq!((error.message(), error.class()), (&*message, I));
        assert_eq!(error.detail(), format!("{expected}{hint}"));
        let place = error.location();
        assert_eq!((place.stream.as_deref(), place.line, place.column), (Some("x"), Some(3), Some(45)));
    }
}

#[test]
fn types_must_fit_their_streams() {
    let name =
        |error: Error| (error.message().to_owned(), error.detail().to_owned(), error.location().column);
    let sparse = "dim = 2 ; format = sparse";
    let double = "element = float64";
    assert!(stream_with("precision = double", &format!("{sparse} ; {double}")).is_ok());
    assert!(stream_with("", "dim = 2 ; format = dense ; element = float64").is_ok());
    for (keys, message, detail, column) in [
        (
            format!("{sparse} ; {double}"),
            "The values of the sparse stream 'x' cannot be float64.",
            "Sparse streams have values of the reader's 'precision'. For the indices of samples 'index:1' set 'ids'.",
            46,
        ),
        (
            format!("{sparse} ; element = float32 ; ids = int32"),
            "The stream 'x' has both 'element' and 'ids'.",
            "'ids' is the type of its values: leave 'element' out.",
            46,
        ),
        (
            "dim = 2 ; format = dense ; ids = int32".to_owned(),
            "The stream 'x' has 'ids' but is not sparse.",
            "Ids are the indices of samples 'index:1': set 'format = \"sparse\"'. Numbers in a dense stream are read with 'element'.",
            41,
        ),
    ] {
        let error = stream(&keys).unwrap_err();
        assert_eq!(error.location().stream.as_deref(), Some("x"));
        assert_eq!(name(error), (message.to_owned(), detail.to_owned(), Some(column)), "{keys}");
    }
}

#[test]
fn ids_and_their_padding() {
    let ids = |keys: &str| stream(&format!("dim = 2 ; format = sparse ; {keys}")).map(|stream| stream.ids);
    let some = |element, padding| Some(Ids { element, padding });
    for (keys, expected) in [
        ("", None),
        ("ids = int32", some(ElementType::Int32, 0)),
        ("ids = INT64", some(ElementType::Int64, 0)),
        ("ids = int32 ; padding = -1", some(ElementType::Int32, -1)),
        ("ids = int32 ; padding = 2147483647", some(ElementType::Int32, i32::MAX.into())),
        ("ids = int64 ; padding = 2147483648", some(ElementType::Int64, 1 << 31)),
    ] {
        assert_eq!(ids(keys).unwrap(), expected, "{keys}");
    }
    let path = "deserializers[0]:input:x";
    let word = format!("The value of '{path}:ids' is 'int8', which is not a value type.");
    let value = |word: &str| format!("The value of '{path}:padding' is '{word}'.");
    for (keys, message, detail) in [
        ("ids = int8", word, "Expected one of the words int32, int64."),
        (
            "padding = 1",
            "The stream 'x' has 'padding' but no 'ids'.".to_owned(),
            "Gaps of other streams are 0: set 'ids', or leave 'padding' out.",
        ),
        (
            "ids = int32 ; padding = 2147483648",
            value("2147483648"),
            "Expected a whole number of the type int32.",
        ),
        ("ids = int64 ; padding = 1.5", value("1.5"), "Expected a whole number of the type int64."),
    ] {
        let error = ids(keys).unwrap_err();
        assert_eq!((error.message(), error.detail()), (&*message, detail), "{keys}");
        assert_eq!(error.location().stream.as_deref(), Some("x"));
        assert!(error.location().column.is_some_and(|column| column > 30), "{error}");
    }
    // Of binary files, whose streams have other names in the file.
    let head = "type = CNTKBinaryFormatDeserializer ; module = CNTKBinaryReader ; file = f";
    let text = format!(
        "deserializers = ([ {head} ; input = [ a = [ ids = int64 ; padding = 7 ] ; b = [ alias = c ] ] ])"
    );
    let settings = Config::from_text(&text).unwrap().settings(ExtensionTypes::default()).unwrap();
    let binary = settings.deserializers[0].of::<BinaryOptions>().unwrap();
    assert_eq!(binary.ids, [("a".to_owned(), Ids { element: ElementType::Int64, padding: 7 })]);
    assert_eq!(binary.renamed, [("a".into(), "a".into()), ("b".into(), "c".into())]);
}

#[test]
fn dimensions_that_are_no_sizes() {
    let dim = |format: &str, dim: &str| stream(&format!("dim = {dim} ; format = {format}"));
    let path = "deserializers[0]:input:x";
    let largest = isize::MAX as u64 / 8;
    assert_eq!(dim("dense", &largest.to_string()).unwrap().dim, largest);
    assert_eq!(dim("sparse", "2147483647").unwrap().dim, 2_147_483_647);
    let large = format!("Sample dimension ({}) for input 'x' is too large.", largest + 1);
    let zero = format!("The value of 'dim' in '{path}' is 0.");
    let negative = format!("The value of '{path}:dim' is negative: -1.");
    let many = format!("The value of '{path}:dim' is too large: 99999999999999999999.");
    for (value, class, message, detail) in [
        ((largest + 1).to_string(), R, large, "'dim' of the stream 'x' is 1152921504606846976. Expected"),
        ("0".into(), I, zero, "Expected the number of values of a sample, at least 1."),
        ("-1".into(), I, negative, ""),
        ("99999999999999999999".into(), I, many, ""),
    ] {
        let error = dim("dense", &value).unwrap_err();
        assert_eq!((error.message(), error.class()), (&*message, class), "{value}");
        assert!(error.detail().starts_with(detail), "{error}");
        assert_eq!(error.location().column, Some(14), "{value}");
    }
}
