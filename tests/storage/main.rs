//! Compressed and remote data yield the same minibatches as uncompressed local files.

#![cfg(feature = "compression")]
#![allow(unsafe_code, reason = "set_var, before other threads start")]

mod safe;
mod server;

use cntk_reader::files;
use cntk_reader::{
    CbfDeserializer, CtfDeserializer, Epoch, ErrorKind, NumpyDeserializer, Reader, ReaderOptions, Result,
};
use cntk_reader_tools::files::{Progress, compress};
use flate2::Compression;
use flate2::write::GzEncoder;
use server::{Http, Server};
use std::fmt::Write as _;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Returns sequences with ids: a dense stream, and a sparse one.
fn text(sequences: u32) -> String {
    let mut text = String::new();
    for sequence in 0..sequences {
        for line in 0..sequence % 4 + 1 {
            let value = f64::from(sequence * 7919 % 1000 + line) / 1000.0;
            writeln!(text, "{sequence}\t|x {value:.3} {}.5 -1 |y {}:1", line, sequence % 10).expect("memory");
        }
    }
    text
}

/// Returns the keys and values of two sweeps in random order, with small chunks.
fn deliver(path: &str, randomize: bool) -> Result<Vec<(Vec<u64>, Vec<f32>)>> {
    let ctf = CtfDeserializer::new(path).dense("x", 3).sparse("y", 10).chunk_size(100_000);
    let mut reader = Reader::builder().ctf(ctf).options(ReaderOptions::new().randomize(randomize)).open()?;
    let minibatches = reader.epoch(Epoch::sweeps(2).minibatch_size(500))?;
    minibatches
        .map(|minibatch| {
            let minibatch = minibatch?;
            Ok((minibatch.keys().to_vec(), minibatch.stream("x")?.dense::<f32>()?.to_vec()))
        })
        .collect()
}

fn no_listener() -> impl FnMut(Progress) -> ControlFlow<()> {
    |_| ControlFlow::Continue(())
}

/// Returns the cache folder of this test program.
fn cache() -> &'static Path {
    use std::sync::OnceLock;
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempfile::tempdir().expect("a folder");
            // SAFETY: the whole program reads the environment through the standard library, which
            // locks it.
            unsafe { std::env::set_var("CNTK_READER_CACHE", folder.path()) };
            folder
        })
        .path()
}

fn path_in(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_str().expect("a path").to_owned()
}

#[test]
fn zstd_frames_read_like_the_uncompressed_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = path_in(&folder, "a.ctf");
    let packed = format!("{path}.zst");
    std::fs::write(&path, text(30_000)).expect("a file");
    compress(&path, &packed, &mut no_listener()).expect("it compresses");
    for randomize in [true, false] {
        assert_eq!(
            deliver(&packed, randomize).expect("compressed data"),
            deliver(&path, randomize).expect("plain data")
        );
    }
    // Errors give lines and byte offsets of the uncompressed text.
    let mut wrong = text(30_000);
    let at = wrong.rfind("|x").expect("a stream");
    wrong.replace_range(at + 3..at + 4, "z");
    std::fs::write(&path, &wrong).expect("a file");
    compress(&path, &packed, &mut no_listener()).expect("it compresses");
    let (plain, compressed) =
        (deliver(&path, true).expect_err("wrong"), deliver(&packed, true).expect_err("wrong"));
    assert_eq!(compressed.location().line, plain.location().line);
    assert!(plain.location().line.is_some());
    assert_eq!(compressed.location().offset, plain.location().offset);
    assert_eq!(compressed.location().file.as_deref(), Some(&*packed));
}

#[test]
fn binary_data_can_be_compressed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = path_in(&folder, "a.ctf");
    let binary = path_in(&folder, "a.cbf");
    std::fs::write(&path, text(20_000)).expect("a file");
    let options = cntk_reader_tools::convert::TextToBinary {
        input: path,
        output: binary.clone(),
        streams: cntk_reader_tools::convert::parse_streams("x x dense 3\ny y sparse 10\n").expect("streams"),
        chunk_size: 100_000,
        element: cntk_reader::ElementType::Float,
        ctf2bin_compatible: false,
    };
    cntk_reader_tools::convert::text_to_binary(&options, &mut no_listener()).expect("a binary file");
    compress(&binary, &format!("{binary}.zst"), &mut no_listener()).expect("it compresses");
    let deliver = |path: &str| -> Vec<Vec<f32>> {
        let mut reader = Reader::builder().cbf(CbfDeserializer::new(path)).open().expect("a reader");
        let minibatches = reader.epoch(Epoch::sweeps(1).minibatch_size(500)).expect("an epoch");
        let values = |minibatch: Result<cntk_reader::Minibatch>| {
            minibatch
                .expect("a minibatch")
                .stream("x")
                .expect("a stream")
                .dense::<f32>()
                .expect("floats")
                .to_vec()
        };
        minibatches.map(values).collect()
    };
    let values = deliver(&format!("{binary}.zst"));
    assert!(values.len() > 50);
    assert_eq!(values, deliver(&binary));
}

#[test]
fn gzip_is_unpacked_once_verified_and_reused() {
    let cache = cache();
    let folder = tempfile::tempdir().expect("a folder");
    let path = path_in(&folder, "once.ctf");
    let packed = format!("{path}.gz");
    let data = text(5_000);
    std::fs::write(&path, &data).expect("a file");
    // Two consecutive gzip streams are one file.
    let (head, rest) = data.as_bytes().split_at(data[..data.len() / 3].rfind('\n').expect("a line") + 1);
    let stream = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    };
    let bytes = [stream(head), stream(rest)].concat();
    std::fs::write(&packed, &bytes).expect("a file");
    let expected = deliver(&path, true).expect("plain data");
    // Two at once, like two processes.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert_eq!(deliver(&packed, true).expect("unpacked data"), expected));
        }
    });
    let names_of_unpacked = || {
        std::fs::read_dir(cache)
            .expect("the folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("text"))
            .filter(|name| name.starts_with("once.ctf-") && !name.ends_with(".sum"))
            .collect::<Vec<_>>()
    };
    let names = names_of_unpacked();
    assert_eq!(names.len(), 1, "{names:?}");
    let unpacked = cache.join(&names[0]);
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).expect("a file"));
    let before = inode(&unpacked);
    assert_eq!(deliver(&packed, true).expect("unpacked data"), expected);
    assert_eq!(inode(&unpacked), before);
    // A truncated file is not used.
    std::fs::write(&unpacked, "cut").expect("a file");
    assert_eq!(deliver(&packed, true).expect("unpacked data"), expected);
    assert_eq!(std::fs::read(&unpacked).expect("a file"), data.as_bytes());
    // Another file has another place in the cache.
    std::fs::write(&packed, stream(head)).expect("a file");
    assert_ne!(deliver(&packed, true).expect("unpacked data"), expected);
    assert_eq!(names_of_unpacked().len(), 2);
    // Damaged data: an error with the offset, and no file is left.
    let mut damaged = bytes.clone();
    let at = bytes.len() / 2;
    damaged[at] ^= 16;
    for bytes in [&damaged[..], &bytes[..bytes.len() - 3]] {
        std::fs::write(&packed, bytes).expect("a file");
        let error = deliver(&packed, true).expect_err("damaged");
        assert_eq!((error.kind(), error.location().file.as_deref()), (ErrorKind::Data, Some(&*packed)));
        assert!(error.location().offset.is_some_and(|offset| offset <= bytes.len() as u64), "{error}");
        assert_eq!(names_of_unpacked().len(), 2);
    }
}

#[test]
fn zstd_frame_without_a_size_is_unpacked_once() {
    cache();
    let folder = tempfile::tempdir().expect("a folder");
    let path = path_in(&folder, "stream.ctf");
    let data = text(5_000);
    std::fs::write(&path, &data).expect("a file");
    // As written by `zstd < plain > packed`.
    let mut context = zstd_safe::CCtx::create();
    context.set_parameter(zstd_safe::CParameter::ContentSizeFlag(false)).expect("a parameter");
    let mut bytes = Vec::with_capacity(zstd_safe::compress_bound(data.len()));
    context.compress2(&mut bytes, data.as_bytes()).expect("a frame");
    let packed = format!("{path}.zst");
    std::fs::write(&packed, &bytes).expect("a file");
    assert_eq!(deliver(&packed, true).expect("unpacked data"), deliver(&path, true).expect("plain data"));
    std::fs::write(&packed, &bytes[..bytes.len() - 5]).expect("a file");
    let error = deliver(&packed, true).expect_err("cut");
    assert_eq!((error.kind(), error.location().offset), (ErrorKind::Data, Some(0)), "{error}");
    // A frame that claims to have 2^60 bytes, with an empty block.
    let huge = [&[0x28, 0xb5, 0x2f, 0xfd, 0xe0][..], &(1u64 << 60).to_le_bytes(), &[1, 0, 0]].concat();
    std::fs::write(&packed, huge).expect("a file");
    let error = deliver(&packed, true).expect_err("a lie");
    assert_eq!((error.kind(), error.location().offset), (ErrorKind::Data, Some(0)), "{error}");
}

#[test]
fn arrays_can_be_compressed_and_remote() {
    const ROWS: u16 = 10_000;
    cache();
    files::mount("arrays-http", Arc::new(Http)).expect("a scheme");
    let (server, address) = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let array = |name: &str, shape: &[u64], values: Vec<u8>| {
        let bytes = [&cntk_reader_arrays::header::header("<u2", shape), &values[..]].concat();
        let path = path_in(&folder, name);
        std::fs::write(&path, &bytes).expect("a file");
        compress(&path, &format!("{path}.zst"), &mut no_listener()).expect("it compresses");
        server.put(&format!("/{name}"), &bytes);
        server.put(&format!("/{name}.zst"), &std::fs::read(format!("{path}.zst")).expect("a file"));
    };
    array("x.npy", &[ROWS.into(), 1], (0..ROWS).flat_map(u16::to_le_bytes).collect());
    array("n.npy", &[u64::from(ROWS) / 4], [4, 0].repeat(usize::from(ROWS) / 4));
    let deliver = |at: &str, ending: &str| -> Vec<(Vec<u64>, Vec<i32>)> {
        let file = |name: &str| format!("{at}/{name}.npy{ending}");
        let arrays = NumpyDeserializer::new().array("x", file("x")).lengths(file("n")).chunk_size(2000);
        let mut reader = Reader::builder().numpy(arrays).open().expect("a reader");
        let minibatches = reader.epoch(Epoch::sweeps(1).minibatch_size(100)).expect("an epoch");
        let values = |minibatch: Result<cntk_reader::Minibatch>| {
            let minibatch = minibatch.expect("a minibatch");
            let values = minibatch.stream("x").expect("a stream").dense::<i32>().expect("integers").to_vec();
            (minibatch.keys().to_vec(), values)
        };
        minibatches.map(values).collect()
    };
    let (here, there) = (folder.path().display().to_string(), format!("arrays-http://{address}"));
    let expected = deliver(&here, "");
    let mut all: Vec<i32> = expected.iter().flat_map(|(_, values)| values.clone()).collect();
    all.sort_unstable();
    assert_eq!(all, (0..ROWS).map(i32::from).collect::<Vec<_>>());
    for (at, ending) in [(&here, ".zst"), (&there, ""), (&there, ".zst")] {
        assert_eq!(deliver(at, ending), expected, "{at} {ending}");
    }
    assert!(files::unmount("arrays-http"));
}

#[test]
fn remote_data_read_like_the_local_file() {
    cache();
    files::mount("test-http", Arc::new(Http)).expect("a scheme");
    let (server, address) = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let path = path_in(&folder, "a.ctf");
    let packed = format!("{path}.zst");
    let data = text(20_000);
    std::fs::write(&path, &data).expect("a file");
    compress(&path, &packed, &mut no_listener()).expect("it compresses");
    let expected = deliver(&path, true).expect("plain data");
    server.put("/a.ctf", data.as_bytes());
    server.put("/a.ctf.zst", &std::fs::read(&packed).expect("a file"));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(data.as_bytes()).expect("memory");
    server.put("/a.ctf.gz", &encoder.finish().expect("memory"));
    let url = |name: &str| format!("test-http://{address}/{name}");
    for name in ["a.ctf", "a.ctf.zst", "a.ctf.gz"] {
        assert_eq!(deliver(&url(name), true).expect("remote data"), expected, "{name}");
    }
    // Unpacked data are reused as long as the server's file is unchanged.
    let before = server.requests.load(Ordering::Relaxed);
    assert_eq!(deliver(&url("a.ctf.gz"), true).expect("remote data"), expected);
    assert!(server.requests.load(Ordering::Relaxed) - before < 12);
    // Transient failures are retried; other failures are errors with the server's message.
    server.busy.store(2, Ordering::Relaxed);
    assert_eq!(deliver(&url("a.ctf"), true).expect("remote data"), expected);
    let error = deliver(&url("b.ctf"), true).expect_err("not there");
    assert!(error.to_string().contains("404 Not Found"), "{error}");
    assert!(files::unmount("test-http"));
    let error = deliver(&url("a.ctf"), true).expect_err("not mounted");
    assert!(error.to_string().contains("mount it first"), "{error}");
}
