//! Configuration files and their includes.

use super::options::TextOptions;
use super::*;
use cntk_reader_core::ErrorKind;
use std::fs;

fn read(path: &Path) -> Section {
    Section::parse_source("global", &file::read(path).unwrap()).unwrap()
}

#[test]
fn comments_are_stripped_line_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cntk");
    fs::write(&path, "\u{feff}a=1 # c\r\nb=1#c\n\n  # all\nc=x#y # z\n \t\nd=[ # open\n  e=\"f g\"\n]\n")
        .unwrap();
    assert_eq!(&*file::read(&path).unwrap(), "a=1 \nb=1#c\nc=x#y # z\nd=[ \n  e=\"f g\"\n]\n");
    let section = read(&path);
    assert_eq!(section.text("a").unwrap(), "1");
    assert_eq!(section.text("b").unwrap(), "1#c");
    assert_eq!(section.text("c").unwrap(), "x#y # z");
    assert_eq!(section.section("d").unwrap().text("e").unwrap(), "f g");
    fs::write(&path, "a=\"x # y\"\n").unwrap();
    assert_error(from_file(&path), R, "no closing \" found in parameters");
}

#[test]
fn include_lines_are_replaced_by_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let full = |name: &str| path(name).display().to_string();
    fs::write(path("a"), format!("x=1\ninclude={}+{} # both\nx=5\n include=no\n", full("b"), full("c")))
        .unwrap();
    fs::write(path("b"), format!("x=2\ny=2\ninclude={}\n", full("a"))).unwrap();
    fs::write(path("c"), format!("y=3\ninclude={}", full("b"))).unwrap();
    let section = read(&path("a"));
    assert_eq!(shown(&section), "include=no|x=5|y=3");

    fs::write(path("d"), "\nx=1\ninclude=$dir$/a\n").unwrap();
    let error = file::read(&path("d")).unwrap_err();
    assert!(error.message().contains("$varName$"), "{error}");
    assert_eq!((error.location().line, error.location().offset), (Some(3), Some(5)));
}

#[test]
fn long_chains_of_includes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |i: usize| folder.path().join(i.to_string());
    for i in 0..200 {
        fs::write(path(i), format!("include={}\n", path(i + 1).display())).unwrap();
    }
    assert_error(file::read(&path(0)), R, "Configuration files include each other too deeply.");
}

#[test]
fn deepest_chain_of_includes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |i: usize| folder.path().join(i.to_string());
    let chain = |length: usize| {
        (0..length).for_each(|i| fs::write(path(i), format!("include={}\n", path(i + 1).display())).unwrap());
        fs::write(path(length), "a=1\n").unwrap();
        file::read(&path(0))
    };
    assert_eq!(&*chain(64).unwrap(), "a=1\n");
    let error = chain(65).unwrap_err();
    assert_eq!(error.location().file.as_deref(), path(65).to_str());
    assert_eq!(error.detail(), "At most 64 levels of includes are allowed.");
}

#[test]
fn repeated_includes_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("b"), "y=2\n").unwrap();
    fs::write(path("a"), format!("include=\"{0}\" + {0} +\t+{1}\n", path("b"), path("a"))).unwrap();
    let mut text = String::new();
    let lines = logged(|| text = file::read(Path::new(&path("a"))).unwrap().to_string());
    let line = |name| {
        format!(
            "Warning: The configuration file '{}' is included more than once; only the first counts",
            path(name)
        )
    };
    assert_eq!((&*text, lines), ("y=2\n", vec![line("b"), line("a")]));
    // An error of an include line is in that line, unless it is in the included file.
    fs::write(path("a"), "x=1\r\ny=2\ninclude=$v$\n").unwrap();
    let error = file::read(Path::new(&path("a"))).unwrap_err();
    assert_eq!((error.location().line, error.location().offset), (Some(3), Some(9)));
    assert_eq!((error.location().file.as_deref(), error.class()), (Some(&*path("a")), R));
    let large = fs::File::create(path("large")).unwrap();
    large.set_len((64 << 20) + 1).unwrap();
    let error = file::read(Path::new(&path("large"))).unwrap_err();
    assert_eq!(error.message(), "The file is too large for a configuration.");
    assert_eq!(error.detail(), "It has more than 67108864 bytes. Is it a data file?");
    assert_eq!(error.location().file.as_deref(), Some(&*path("large")));
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let error = from_file(&missing).unwrap_err();
    assert_eq!((error.kind(), error.class()), (ErrorKind::Io, R));
    assert_eq!(error.location().file.as_deref(), missing.to_str());

    let path = folder.path().join("a");
    fs::write(&path, format!("x=1\ninclude={}\n", missing.display())).unwrap();
    let error = from_file(&path).unwrap_err();
    assert_eq!((error.kind(), error.location().file.as_deref()), (ErrorKind::Io, missing.to_str()));

    fs::write(&path, b"x=\xff\n").unwrap();
    let error = from_file(&path).unwrap_err();
    assert_eq!((error.message(), error.location().offset), ("The configuration is not UTF-8 text.", Some(2)));
    assert!(from_file(folder.path()).is_err());
}

#[test]
fn options_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.cntk");
    let text = "reader=[ # text\ntraceLevel=0\nfile=f # here\ninput=[x=[dim=2;format=dense]]\n]\n";
    fs::write(&path, text).unwrap();
    let options = from_file(&path).unwrap();
    let Some(options) = options.deserializers[0].of::<TextOptions>() else { panic!("no text") };
    assert_eq!(options.files.name(), "f");

    fs::write(&path, text.replace("dim", "din")).unwrap();
    let error = from_file(&path).unwrap_err();
    assert_eq!(error.location().file.as_deref(), path.to_str());
    fs::write(&path, "deserializers=[\ntype=T\nmodule=M\n]").unwrap();
    assert_error(
        from_file(&path),
        R,
        "configparameters: required parameter missing: global:deserializers[1]:type",
    );
}
