//! Randomization windows: the tables of defaults of both kinds of readers.

use super::options::{Order, WindowSize};
use super::*;

const ALL: u64 = (1 << 62) - 1;

/// Returns the window; None means the data's own order.
fn window(text: &str) -> Option<WindowSize> {
    match from_text(text).unwrap().order {
        Order::InOrder => None,
        Order::Block { window, .. } => Some(window),
    }
}

#[test]
fn of_composite_readers() {
    let table = [
        ("", Some(WindowSize::Chunks(128))),
        ("sampleBasedRandomizationWindow=false", Some(WindowSize::Chunks(128))),
        ("chunkSizeInBytes=4294967296", Some(WindowSize::Chunks(1))),
        ("chunkSizeInBytes=4294967297", Some(WindowSize::Chunks(1))),
        ("chunkSizeInBytes=1", Some(WindowSize::Chunks(u32::MAX.into()))),
        ("chunkSizeInBytes=-1", Some(WindowSize::Chunks(1))),
        ("randomizationWindow=8", Some(WindowSize::Samples(8))),
        ("randomizationWindow=8;sampleBasedRandomizationWindow=1", Some(WindowSize::Samples(8))),
        ("randomizationWindow=8;sampleBasedRandomizationWindow=0", Some(WindowSize::Chunks(8))),
        ("randomizationWindow=0", Some(WindowSize::Samples(0))),
        ("randomizationWindow=0;sampleBasedRandomizationWindow=0", Some(WindowSize::Chunks(1))),
        ("randomizationWindow=default", Some(WindowSize::Samples(ALL))),
        (
            "randomizationWindow=4294967296;sampleBasedRandomizationWindow=0",
            Some(WindowSize::Chunks(u32::MAX.into())),
        ),
        (
            "randomizationWindow=8589934592;sampleBasedRandomizationWindow=0",
            Some(WindowSize::Chunks(u32::MAX.into())),
        ),
        ("randomizationWindow=4294967299;sampleBasedRandomizationWindow=0", Some(WindowSize::Chunks(3))),
        (
            "randomizationWindow=4611686018427387903;sampleBasedRandomizationWindow=0",
            Some(WindowSize::Chunks(u32::MAX.into())),
        ),
        ("randomizationWindow=-1", Some(WindowSize::Samples(u64::MAX))),
        ("randomize=false;randomizationWindow=8", None),
        ("randomize=0;sampleBasedRandomizationWindow=1", None),
        ("action=write", None),
    ];
    for (keys, expected) in table {
        let text = format!(
            "traceLevel=0\n{keys}\ndeserializers=([module=CNTKTextFormatReader;type=CNTKTextFormatDeserializer
             file=f;input=[x=[dim=1;format=dense]]])"
        );
        assert_eq!(window(&text), expected, "{keys}");
    }
    // The check for an explicit window looks at the reader's own section only; the value may come
    // from outside.
    let around = |outer: &str| {
        window(&format!(
            "traceLevel=0\n{outer}\nreader=[deserializers=([module=CNTKTextFormatReader;type=CNTKTextFormatDeserializer
             file=f;input=[x=[dim=1;format=dense]]])]"
        ))
    };
    assert_eq!(around("randomizationWindow=8"), Some(WindowSize::Chunks(128)));
    assert_eq!(around("sampleBasedRandomizationWindow=true"), Some(WindowSize::Chunks(128)));
    assert_eq!(around("randomize=false"), None);
}

#[test]
fn of_text_readers() {
    let table = [
        ("", Some(WindowSize::Chunks(128))),
        ("chunkSizeInBytes=4294967296", Some(WindowSize::Chunks(1))),
        ("chunkSizeInBytes=4294967297", None),
        ("chunkSizeInBytes=5000000000", None),
        ("chunkSizeInBytes=1", Some(WindowSize::Chunks(u32::MAX.into()))),
        ("sampleBasedRandomizationWindow=1", Some(WindowSize::Samples(ALL))),
        ("chunkSizeInBytes=5000000000;sampleBasedRandomizationWindow=1", Some(WindowSize::Samples(ALL))),
        ("randomizationWindow=8", Some(WindowSize::Chunks(8))),
        ("randomizationWindow=8;sampleBasedRandomizationWindow=1", Some(WindowSize::Samples(8))),
        ("randomizationWindow=0", None),
        ("randomizationWindow=0;sampleBasedRandomizationWindow=1", None),
        ("randomizationWindow=4294967296", Some(WindowSize::Chunks(u32::MAX.into()))),
        ("randomize=NONE", None),
        ("randomize=none;randomizationWindow=q", None),
        ("randomize=false;randomizationWindow=8", None),
        ("randomize=\"\"", None),
        ("randomize=default", Some(WindowSize::Chunks(128))),
    ];
    for (keys, expected) in table {
        let text = format!(
            "readerType=CNTKTextFormatReader;traceLevel=0;file=f;input=[x=[dim=1;format=dense]]\n{keys}"
        );
        assert_eq!(window(&text), expected, "{keys}");
    }
}
