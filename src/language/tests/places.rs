//! Errors of configurations say where the mistake is.

use super::readers::STREAMS;
use super::*;
use std::fs;

/// Returns the line, the column and the text from there on that an error of the text points to.
fn place(text: &str) -> (u64, u64, String) {
    let error = from_text(text).expect_err(text);
    let location = error.location();
    let (Some(line), Some(column)) = (location.line, location.column) else { panic!("no place: {error}") };
    let written = text.lines().nth(line as usize - 1).unwrap();
    let excerpt = location.excerpt.as_deref().unwrap();
    let (shown, caret) = excerpt.split_once('\n').unwrap();
    // The caret is below the character that the column refers to.
    let at = caret.chars().count() - 1;
    let rest: String = written.chars().skip(column as usize - 1).collect();
    assert_eq!(shown.chars().skip(at).collect::<String>(), rest, "{excerpt}");
    assert!(error.to_string().contains(&format!("line {line}, column {column}")), "{error}");
    assert!(error.to_string().ends_with(&format!("\n{excerpt}")), "{error}");
    (line, column, rest)
}

fn text_config(keys: &str, input: &str) -> String {
    format!(
        "deserializers = (\n  [ type = CNTKTextFormatDeserializer\n    module = CNTKTextFormatReader\n    {keys}\n\
         \n    input = [\n{input}\n    ]\n  ]\n)\n"
    )
}

#[test]
fn of_values() {
    let good = "      x = [ dim = 1 ; format = dense ]";
    let table = [
        (text_config("file = f ; maxErrors = 1e3", good), 4, "1e3"),
        (text_config("file = f ; cacheIndex = yes", good), 4, "yes"),
        (text_config("file = f ; chunkSizeInBytes = 0", good), 4, "0"),
        (text_config("fiel = f", good), 4, "fiel = f"),
        (text_config("file = \"\"", good), 4, "file = \"\""),
        (
            text_config(
                "file = f",
                "      y = [ dim = 2 ; format = sparse ]\n      x = [ din = 1 ; format = dense ]",
            ),
            8,
            "din",
        ),
        (text_config("file = f", "      x = [ dim = one ; format = dense ]"), 7, "one"),
        (text_config("file = f", "      x = [ dim = 1 ; format = thick ]"), 7, "thick"),
        (text_config("file = f", "      x = [ dim = -5 ; format = dense ]"), 7, "-5"),
        (text_config("file = f", "      x = [ dim = 1 ; format = $f$ ]"), 7, "$f$"),
        (format!("{}truncated = true", text_config("file = f", good)), 11, "true"),
        (format!("w = abc\nrandomizationWindow = $w$\n{}", text_config("file = f", good)), 2, "$w$"),
        (format!("precision = half\n{}", text_config("file = f", good)), 1, "half"),
    ];
    for (text, line, start) in table {
        let (found, _, rest) = place(&text);
        assert!(found == line && rest.starts_with(start), "{text}: {found} {rest}");
    }
    // The place of a variable's value is its definition.
    let text = "t = 3x\nreader = [ randomizationSeed = 1\n nbruttsineachrecurrentiter = ( 1:2:$t$ ) ]";
    let section = Section::parse("g", text).unwrap().section("reader").unwrap();
    let error = section.array("nbruttsineachrecurrentiter").unwrap().values::<i32>().unwrap_err();
    assert_eq!((error.location().line, error.location().column), (Some(1), Some(5)));
}

#[test]
fn of_the_language() {
    for (text, line, start) in [
        ("a = 1\nreader = [\n  b = 2\n", 2, "["),
        ("a = 1\nreader = [ (x ] )\n", 2, "] )"),
        ("a = \"open\nb = 2", 1, "\"open"),
        ("a = 1\nb =", 2, "b ="),
        ("reader = [ b = ; ]", 1, "b = ;"),
    ] {
        let (found, _, rest) = place(text);
        assert!(found == line && rest.starts_with(start), "{text}: {found} {rest}");
    }
}

#[test]
fn of_included_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let text = text_config("file = f ; maxErrors = 1e3", "x = [ dim = 1 ; format = dense ]");
    fs::write(path("inner"), format!("\n# of the data\n{text}")).unwrap();
    fs::write(path("outer"), format!("randomize = true # yes\ninclude={}\n", path("inner"))).unwrap();
    let error = from_file(Path::new(&path("outer"))).unwrap_err();
    let location = error.location();
    assert_eq!(location.file.as_deref(), Some(path("inner").as_str()));
    assert_eq!((location.line, location.column), (Some(6), Some(28)));
}

#[test]
fn of_builders_are_their_keys() {
    let error = Section::of_values(
        "CtfDeserializer",
        &CtfDeserializer::new("f").dense("x", 1).max_errors(u32::MAX).values().unwrap(),
    );
    let error = error.required::<i32>("maxErrors").unwrap_err();
    assert_eq!((error.location().line, error.location().column), (None, None));
    assert!(error.detail().contains("'CtfDeserializer:maxErrors'"), "{error}");
}

#[test]
fn of_unread_keys() {
    let text = format!("randomise = true\ndeserializers = ([ type=T ; {STREAMS} ])");
    let section = Section::parse("g", &text).unwrap();
    section.array("deserializers").unwrap();
    _ = section.get_or("randomize", true);
    let expected = "The configuration key 'randomise' in 'g' has no effect; did you mean 'randomize'? (line 1 of the \
                    configuration)";
    assert_eq!(section.log().unread_but("g", &[]), [expected]);
}
