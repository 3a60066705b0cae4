use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

const XML: &str = "<?xml version=\"1.0\"?>\n<opencv_storage>\n<Channel>3</Channel><!-- a comment --><Row> 1 </Row>\n\
    <Other><a>1</a></Other>\n<M type_id=\"opencv-matrix\">\n  <rows>2</rows>\n  <cols>1</cols>\n  <dt>\"2f\"</dt>\n  \
    <data>\n    1. -2.5e+00 3\n    .Inf</data></M>\n</opencv_storage>\n";

const YAML: &str = "%YAML:1.0\n---\n# a comment\nChannel: 3\nRow: 1\nOther:\n   a: 1\nList:\n  - 1\n\
    M: !!opencv-matrix\n   rows: 2\n   cols: 1\n   dt: \"2f\"\n   data: [ 1., -2.5e+00, # so far\n       3, .Inf ]\nlast: 4\n";

fn stored(content: &[u8]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("storage").to_str().unwrap().to_owned();
    std::fs::write(&file, content).unwrap();
    (folder, file)
}

fn compressed(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn all_formats_are_equivalent() {
    let wanted = Matrix {
        rows: 2,
        columns: 1,
        channels: 2,
        element: b'f',
        values: vec![1.0, -2.5, 3.0, f64::INFINITY],
    };
    for text in [XML, YAML] {
        for content in [text.as_bytes().to_vec(), compressed(text.as_bytes())] {
            let (_folder, file) = stored(&content);
            let storage = read(&file).unwrap();
            assert_eq!((storage.number("Channel"), storage.number("Row")), (Some(3.0), Some(1.0)));
            assert_eq!((storage.number("Missing"), storage.number("M")), (None, None));
            assert_eq!(storage.matrix("M").unwrap(), Some(wanted.clone()));
            assert_eq!(storage.matrix("Other").unwrap(), None);
        }
    }
    let (_folder, file) = stored(YAML.as_bytes());
    assert_eq!(read(&file).unwrap().number("last"), Some(4.0));
}

/// Returns the error of a damaged file, from parsing or from the matrix.
fn error_of(content: &str) -> Error {
    let (_folder, file) = stored(content.as_bytes());
    match read(&file) {
        Err(error) => error,
        Ok(storage) => storage.matrix("M").unwrap_err(),
    }
}

#[test]
fn errors_name_what_was_found() {
    let cases = [
        (XML.replace("<?xml version=\"1.0\"?>\n", ""), "Valid XML should start with '<?xml ...?>'."),
        (
            XML.replace("opencv_storage", "storage"),
            "<storage> was found where <opencv_storage> was expected.",
        ),
        (XML.replace("</M>", ""), "expected 'M' tag, not 'opencv_storage'"),
        (XML.replace("<cols>1", "<cols>x"), "'x' was found as 'cols'"),
        (XML.replace("2f", "2g"), "'2g' was found as 'dt'"),
        (XML.replace("<dt>\"2f\"</dt>", ""), "'' was found as 'dt'"),
        (XML.replace("-2.5", "-2.5x"), "'-2.5xe+00' was found where a number was expected."),
        (XML.replace("<rows>2", "<rows>3"), "Matrix 'M' has 4 elements"),
        (
            XML.replace("<rows>2", "<rows>18446744073709551615"),
            "does not match to the number of stored elements",
        ),
        (YAML.replace(" ]", ""), "The list of the last matrix is not closed by ']'."),
        (YAML.replace("Row: 1", "Row"), "'Row' was found where 'name: value' was expected."),
        (YAML.replace("data: [", "data:"), "'data' has no list in brackets."),
    ];
    for (content, wanted) in cases {
        let error = error_of(&content);
        assert!(error.to_string().contains(wanted), "{error} should contain {wanted:?}");
        assert!(error.location().file.is_some());
    }
    assert_eq!(error_of(&XML.replace("</Row>", "")).location().line, Some(12));
    assert_eq!(error_of(&YAML.replace("Row: 1", "Row")).location().line, Some(5));
}

#[test]
fn missing_file_has_cntks_message() {
    let error = read("/nowhere/mean.xml").unwrap_err();
    assert_eq!(error.message(), "Could not open file: /nowhere/mean.xml");
    assert!(error.detail().contains("There is no folder"), "{error}");
    let (_folder, file) = stored(&compressed(XML.as_bytes())[..20]);
    assert!(read(&file).unwrap_err().message().starts_with("Could not open file: "));
}

#[test]
fn files_with_too_many_nodes_are_rejected() {
    let words = "It has more than 10000 elements and attributes, far more than a mean image.";
    let elements = XML.replace("<Other>", &format!("{}<Other>", "<a/>".repeat(20_000)));
    // The parser compares the attributes of an element pairwise: these would take minutes.
    let attributes: String = (0..200_000).map(|number| format!(" a{number}='1'")).collect();
    let attributes = XML.replace("<Other>", &format!("<Other{attributes}>"));
    // Other `=` count too, because the parser reserves memory for them.
    let signs = XML.replace("a comment", &"=".repeat(1 << 20));
    let lines = YAML.replace("Row: 1", &"a:\n".repeat(20_000));
    for content in [elements, attributes, signs, lines] {
        assert!(error_of(&content).to_string().contains(words), "{}", error_of(&content));
    }
}
