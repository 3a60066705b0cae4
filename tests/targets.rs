//! Where outputs may be written: over plain files, never over anything else, and never into the
//! standard streams.

#![allow(unsafe_code, reason = "a descriptor of a child")]

mod common;

use cntk_reader::{CtfDeserializer, ElementType, Error, Reader};
use cntk_reader_tools::convert::{
    ConvertOptions, Data, Format, TextToBinary, convert, parse_streams, text_to_binary,
};
use cntk_reader_tools::files::compress;
use common::child;
use std::fs;
use std::ops::ControlFlow;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

type Writer = fn(&str, &str) -> Result<(), Error>;

fn reader(input: &str) -> Result<Data, Error> {
    Data::of_reader(Reader::builder().ctf(CtfDeserializer::new(input).dense("x", 2)))
}

/// Everything that writes an output, by name.
const WRITERS: [(&str, Writer); 5] = [
    ("text", |input, output| {
        convert(reader(input)?, Format::Text, output, &ConvertOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
        .map(drop)
    }),
    ("binary", |input, output| {
        convert(reader(input)?, Format::Binary, output, &ConvertOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
        .map(drop)
    }),
    ("numpy", |input, output| {
        convert(reader(input)?, Format::NumpyArchive, output, &ConvertOptions::default(), &mut |_| {
            ControlFlow::Continue(())
        })
        .map(drop)
    }),
    ("script", |input, output| {
        let options = TextToBinary {
            input: input.to_owned(),
            output: output.to_owned(),
            streams: parse_streams("x x dense 2")?,
            chunk_size: 500,
            element: ElementType::Float,
            ctf2bin_compatible: false,
        };
        text_to_binary(&options, &mut |_| ControlFlow::Continue(())).map(drop)
    }),
    ("zstd", |input, output| compress(input, output, &mut |_| ControlFlow::Continue(())).map(drop)),
];

fn data(folder: &Path) -> String {
    let input = folder.join("a.ctf").display().to_string();
    fs::write(&input, "|x 1 2\n|x 3 4\n").expect("writing");
    input
}

#[test]
fn only_plain_files_are_replaced() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a folder");
    let input = data(folder.path());
    let path = |name: &str| folder.path().join(name);
    let made = |program: &str, arguments: &[&str]| {
        Command::new(program)
            .args(arguments)
            .current_dir(folder.path())
            .status()
            .is_ok_and(|status| status.success())
    };
    assert!(made("mkfifo", &["pipe"]));
    let _socket = UnixListener::bind(path("socket")).expect("a socket");
    fs::create_dir(path("folder")).expect("a folder");
    symlink("pipe", path("link")).expect("a link");
    let mut targets = vec![("pipe", "pipe"), ("socket", "socket"), ("folder", "folder"), ("link", "pipe")];
    // Only root may create a device. Never use a real one.
    if made("mknod", &["device", "c", "1", "3"]) {
        targets.push(("device", "device"));
    }
    let before = fs::read_dir(folder.path()).expect("a folder").count();
    for (writer, write) in WRITERS {
        for &(target, what) in &targets {
            let output = path(target).display().to_string();
            let error = write(&input, &output).expect_err(target);
            let words = format!("The output '{output}' cannot be written: It is a {what}.");
            assert_eq!(error.message(), words, "{writer}");
            assert!(error.detail().contains("Name a plain file"), "{error}");
        }
    }
    let kind = |name: &str| fs::symlink_metadata(path(name)).expect("it is there").file_type();
    assert!(
        kind("pipe").is_fifo()
            && kind("socket").is_socket()
            && kind("folder").is_dir()
            && kind("link").is_symlink()
    );
    assert!(targets.len() == 4 || kind("device").is_char_device());
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), before, "nothing was left");
}

#[test]
fn links_are_followed_and_stay() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a folder");
    let input = data(folder.path());
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("sub")).expect("a folder");
    symlink("sub/second", path("first")).expect("a link");
    symlink("../sub/out", path("sub/second")).expect("a link");
    for (writer, write) in WRITERS {
        for earlier in [false, true] {
            let _ = fs::remove_file(path("sub/out"));
            if earlier {
                fs::write(path("sub/out"), "earlier").expect("writing");
            }
            write(&input, &path("first").display().to_string()).expect(writer);
            assert!(fs::symlink_metadata(path("first")).expect("a link").is_symlink(), "{writer}");
            assert!(fs::symlink_metadata(path("sub/second")).expect("a link").is_symlink(), "{writer}");
            assert!(fs::symlink_metadata(path("sub/out")).expect("a file").is_file(), "{writer}");
            assert_ne!(fs::read(path("sub/out")).expect("a file"), b"earlier", "{writer}");
        }
    }
}

#[test]
fn names_of_maximum_length_are_written() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a folder");
    let input = data(folder.path());
    for (writer, write) in WRITERS {
        for name in ["n".repeat(255), format!("{} \" # $a$ [x]\t\n'", "\u{e4}".repeat(100))] {
            let output = folder.path().join(name);
            write(&input, output.to_str().expect("text")).expect(writer);
            assert!(output.is_file(), "{writer}");
        }
    }
}

#[test]
fn caches_that_are_links_or_pipes_are_not_written() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a folder");
    let input = data(folder.path());
    let cache = format!("{input}._.0.0.0.v1.cache");
    let victim = folder.path().join("victim");
    fs::write(&victim, "keep").expect("writing");
    symlink(&victim, &cache).expect("a link");
    let text = format!(
        "cacheIndex=true\ntraceLevel=0\ndeserializers=([type=CNTKTextFormatDeserializer;module=CNTKTextFormatReader;file=\"{input}\";\
         input=[x=[dim=2;format=dense]]])"
    );
    Reader::builder().config_text(&text).and_then(|builder| builder.open()).expect("a reader");
    assert!(fs::symlink_metadata(&cache).expect("a link").is_symlink());
    assert_eq!(fs::read(&victim).expect("a file"), b"keep");
}

#[test]
fn closed_standard_streams_are_not_written() {
    let folder = tempfile::tempdir().expect("a folder");
    data(folder.path());
    child::run("write_without_standard_streams", folder.path());
    for (writer, _) in WRITERS {
        let [with, without] = ["with", "without"]
            .map(|name| fs::read(folder.path().join(format!("{writer}.{name}"))).expect("an output"));
        assert!(with == without, "{writer}");
    }
}

/// The child of `closed_standard_streams_are_not_written`.
#[test]
fn write_without_standard_streams() {
    let Some(folder) = child::directory() else { return };
    let input = folder.join("a.ctf").display().to_string();
    let output = |writer: &str, name: &str| folder.join(format!("{writer}.{name}")).display().to_string();
    for (writer, write) in WRITERS {
        write(&input, &output(writer, "with")).expect(writer);
    }
    for descriptor in 0..3 {
        // SAFETY: this process does not use its standard streams otherwise, and ends after this.
        drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
    }
    for (writer, write) in WRITERS {
        let listened = |_| {
            // The file that has been given the descriptor of standard error would receive this
            // line.
            eprintln!("a line of log");
            ControlFlow::Continue(())
        };
        let output = output(writer, "without");
        let written = match writer {
            "zstd" => compress(&input, &output, &mut { listened }).map(drop),
            "text" => reader(&input).and_then(|data| {
                convert(data, Format::Text, &output, &ConvertOptions::default(), &mut { listened }).map(drop)
            }),
            _ => write(&input, &output),
        };
        if written.is_err() {
            std::process::exit(3);
        }
    }
    std::process::exit(0);
}
