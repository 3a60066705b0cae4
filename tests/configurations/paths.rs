//! Paths with characters that have a meaning in configurations.

use super::*;
use cntk_reader::{CtfDeserializer, ReaderOptions};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Names of files that the language cannot express as plain text.
const NAMES: &[&[u8]] = &[
    b"a #b.ctf",
    b"a\"b.ctf",
    b"\"ab.ctf\"",
    b"$a$.ctf",
    b"$HOME$x$.ctf",
    b"a\\b.ctf",
    b"a[b]{c}(d).ctf",
    b"(a:b)",
    b"(a.ctf",
    b"[ab].ctf",
    b"a,b;c:d=e.ctf",
    b"a\nb.ctf",
    b"a\r\tb.ctf",
    b" a.ctf ",
    b"'a.ctf'",
    b"a //b.ctf",
    b"a*b?.ctf",
    b"a%20b.ctf",
    b"file:a.ctf",
    b"default",
    b"\xff\xfe.ctf",
    "\u{e4}\u{201c}b\u{201d}.ctf".as_bytes(),
    b"\xe2\x80\x9ca\xe2\x80\x9d",
];

fn path(folder: &TempDir, name: &[u8]) -> PathBuf {
    let path = folder.path().join(OsStr::from_bytes(name));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, DATA).unwrap();
    path
}

fn deserializer(path: &Path) -> CtfDeserializer {
    CtfDeserializer::new(path).dense("features", 2).sparse("labels", 3)
}

#[test]
fn every_path_can_be_read_by_a_builder_and_by_its_text() {
    let folder = folder();
    for &name in NAMES {
        let path = path(&folder, name);
        let shown = path.display();
        let ctf = deserializer(&path);
        let text = format!("deserializers = ( {} )", ctf.to_configuration().expect("a path can be written"));
        assert_eq!(read(Reader::builder().ctf(ctf).open().unwrap_or_else(|e| panic!("{shown}: {e}"))), TRAIN);
        let config = Config::from_text(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(read(open(config).unwrap_or_else(|error| panic!("{text}: {error}"))), TRAIN);
    }
}

#[test]
fn every_path_works_in_lists_and_with_an_index_cache() {
    let folder = folder();
    for &name in NAMES {
        let path = path(&folder, name);
        let several = deserializer(&path).add_file(folder.path().join("data/test.ctf")).cache_index(true);
        let values = read(Reader::builder().ctf(several).open().unwrap());
        assert_eq!(values, [&TRAIN[..], &TEST].concat(), "{}", path.display());
        let mut cache = path.into_os_string();
        cache.push("._.0.0.0.v1.cache");
        assert!(Path::new(&cache).exists(), "{}", cache.display());
    }
}

#[test]
fn every_folder_can_be_allowed() {
    let folder = folder();
    for &name in NAMES.iter().filter(|name| **name != b"default") {
        let inside = [name, b".d/x.ctf"].concat();
        let path = path(&folder, &inside);
        let options = ReaderOptions::new().confine_paths(&[path.parent().unwrap()]);
        let reader = Reader::builder().options(options).ctf(deserializer(&path)).open();
        assert_eq!(read(reader.unwrap()), TRAIN);
    }
}

#[test]
fn a_url_in_a_configuration_is_a_path() {
    let folder = folder();
    path(&folder, b"a #b.ctf");
    let here = text_of(folder.path());
    for url in [format!("file://{here}/a%20%23b.ctf"), format!("file:{here}/a%20*b.ctf")] {
        let text = format!("file = \"{url}\" ; input = [ features = [ dim = 2 ; format = dense ] ]");
        assert_eq!(read(open(Config::from_text(&text).unwrap()).unwrap()), TRAIN, "{url}");
    }
    let text = format!(
        "file = \"file://{here}/none%20x.ctf\" ; input = [ features = [ dim = 2 ; format = dense ] ]"
    );
    let error = open(Config::from_text(&text).unwrap()).unwrap_err();
    assert!(error.to_string().contains(&format!("{here}/none x.ctf")), "{error}");
}

#[test]
fn patterns_are_found_in_every_folder() {
    let folder = folder();
    for (number, name) in [&b"a #b"[..], b"a\"b", b"\xff\xfe"].into_iter().enumerate() {
        let inside = [name, format!("/x-{number}.ctf").as_bytes()].concat();
        let pattern = path(&folder, &inside).with_file_name("x-?.ctf");
        let reader = Reader::builder().ctf(deserializer(&pattern)).open();
        if std::str::from_utf8(name).is_ok() {
            assert_eq!(read(reader.unwrap()), TRAIN);
        }
    }
    // Files that match a pattern may have any name.
    let folder = super::folder();
    path(&folder, b"p/\xff-\"1 #\".ctf");
    let reader = Reader::builder().ctf(deserializer(&folder.path().join("p/*.ctf"))).open();
    assert_eq!(read(reader.unwrap()), TRAIN);
}
