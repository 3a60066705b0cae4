//! Damaged and malicious texts: cycles, exponential growth, deep nesting, noise. Each yields a
//! value or an error quickly.

use super::*;
use proptest::prelude::*;

#[test]
fn cyclic_definitions() {
    let cycle = |name| format!("The definition of variable {name} in global refers to itself.");
    assert_error(root("a=x$a$").unwrap().text("a"), R, &cycle("a"));
    assert_error(root("a=$B$\nb=$c$\nc=$a$").unwrap().text("a"), R, &cycle("B"));
    assert_error(root("a=$a$\nsec=[x=$a$]").unwrap().section("sec"), R, &cycle("a"));
    assert_error(
        from_text("input=[x=$x$];x=$x$"),
        R,
        "The definition of variable x in unknown refers to itself.",
    );
}

#[test]
fn exponential_definitions() {
    let mut text = String::from("v0=\"\"\nw0=aaaaaaaaaaaaaaaa\n");
    for i in 1..100 {
        text += &format!("v{i}=$v{0}$$v{0}$\nw{i}=$w{0}$$w{0}$\n", i - 1);
    }
    let section = root(&text).unwrap();
    assert!(section.text("w99").unwrap_err().message().contains("too large"));
    assert!(section.text_or("v99", "").unwrap_err().message().contains("too large"));
    assert_eq!(section.text("w10").unwrap().len(), 16 << 10);
}

#[test]
fn long_chains_of_definitions() {
    let chain = |length: usize| {
        let mut text = String::from("v0=end\n");
        for i in 1..=length {
            text += &format!("v{i}=$v{}$\n", i - 1);
        }
        root(&text).unwrap().text(&format!("v{length}"))
    };
    assert_eq!(chain(128).unwrap(), "end");
    let deep = chain(129).unwrap_err();
    assert_eq!(deep.message(), "The definition of variable v0 in global refers to too many others.");
    assert_eq!(deep.class(), R);
    assert!(deep.detail().contains("at most 128 variables"), "{deep}");
    assert!(chain(100_000).is_err());
}

#[test]
fn deep_nesting() {
    let depth = 200_000;
    for (open, close) in [("[", "]"), ("a=[", "]"), ("(", ")"), ("[x{", "}]")] {
        let text = open.repeat(depth) + &close.repeat(depth);
        let _ = root(&text).map(|section| section.section("a").map(|inner| inner.section("a").is_ok()));
        let _ = Array::open("a".into(), &source::SourceText::written(&text), Default::default());
        assert!(root(&open.repeat(depth)).is_err());
    }
}

#[test]
fn many_repetitions() {
    for text in [
        "(1*2000000000)",
        "(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa*1000000)",
    ] {
        assert_error(
            Array::open("g:a".into(), &source::SourceText::written(text), Default::default()),
            R,
            "The array g:a has too many elements.",
        );
    }
}

#[test]
fn largest_arrays() {
    let open = |text: &str| Array::open("a".into(), &source::SourceText::written(text), Default::default());
    assert_eq!(open("*1048576").unwrap().len(), 1 << 20);
    assert!(open("*1048577").is_err() && open("*1048576:b").is_err() && open("b:*1048576").is_err());
    let megabyte = "b".repeat(1 << 20);
    assert_eq!(open(&format!("({megabyte}*63:{megabyte})")).unwrap().len(), 64);
    let error = open(&format!("(\n{megabyte}*64:b)")).unwrap_err();
    assert_eq!((error.message(), error.location().line), ("The array a has too many elements.", Some(2)));
    let limits = "An array may have at most 1048576 elements and 67108864 bytes; check the counts after '*'.";
    assert_eq!(error.detail(), limits);
}

#[test]
fn many_blocks_of_one_key() {
    let text = "a=[x=1]\n".repeat(100_000);
    assert_eq!(shown(&root(&text).unwrap().section("a").unwrap()), "x=1");
}

const PIECES: [&str; 34] = [
    "a",
    "b",
    "x",
    "=",
    "=",
    ";",
    ":",
    ",",
    "\n",
    "\r\n",
    " ",
    "\t",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    "\"",
    "#",
    " #",
    "$",
    "$a$",
    "*",
    "2",
    "-",
    "..",
    "default",
    "é",
    "deserializers=(",
    "input=[",
    "reader=[",
    "dim=1;format=dense",
    "type=",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        read_everything(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn pieces_of_the_language_never_panic(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40)) {
        read_everything(&pieces.concat());
    }
}

fn read_everything(text: &str) {
    let _ = from_text(text);
    let _ = Array::open("a".into(), &source::SourceText::written(text), Default::default())
        .and_then(|array| array.sections().collect::<Result<Vec<_>>>());
    let Ok(section) = root(text) else { return };
    for key in section.keys().map(str::to_owned).collect::<Vec<_>>() {
        let _ = (section.text(&key), section.get_or(&key, 0u64), section.array(&key), section.child(&key));
        if let Ok(inner) = section.section(&key) {
            for key in inner.keys() {
                let _ = (inner.text(key), inner.section(key), inner.array(key));
            }
        }
    }
}
