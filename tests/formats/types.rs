//! Text streams with their own types, and ids, from files to minibatches.

use crate::common::{self, rng::Rng};
use cntk_reader_core::testing;

use cntk_reader::{
    CbfDeserializer, CtfDeserializer, ElementType, Epoch, Error, Ids, Minibatch, Reader, ReaderOptions,
    StreamInfo,
};
use cntk_reader_tools::convert::{TextToBinary, parse_streams, text_to_binary};
use std::fmt::Write as _;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

fn write(folder: &Path, text: &str) -> PathBuf {
    common::quiet();
    let path = folder.join("x.ctf");
    fs::write(&path, text).expect("writing");
    path
}

fn read(mut reader: Reader, epoch: Epoch) -> Result<Vec<Minibatch>, Error> {
    reader.epoch(epoch)?.collect()
}

/// Returns options that keep the data's order and log nothing.
fn in_order() -> ReaderOptions {
    ReaderOptions::new().randomize(false).trace_level(0)
}

#[test]
fn a_file_has_streams_of_several_types() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(
        folder.path(),
        "1 |p 0 255 |i -32768 |n -2147483648 |l 9223372036854775807 |h 0.1 |b 1 |f 0.1 |d 0.1 |w 3:1 |s 1:0.5\n\
         2 |p 3.0 1e2 |i 32767 |n 2147483647 |l -9223372036854775808 |h -2 |b 0 |f 7 |d 7 |w 0:1 |s\n",
    );
    let typed = CtfDeserializer::new(&path)
        .dense("p", 2)
        .element(ElementType::UInt8)
        .dense("i", 1)
        .element(ElementType::Int16)
        .dense("n", 1)
        .element(ElementType::Int32)
        .dense("l", 1)
        .element(ElementType::Int64)
        .dense("h", 1)
        .element(ElementType::Float16)
        .dense("b", 1)
        .element(ElementType::Bool)
        .dense("f", 1)
        .dense("d", 1)
        .element(ElementType::Double)
        .sparse("w", 5)
        .ids(ElementType::Int64)
        .sparse("s", 4)
        .element(ElementType::Float);
    let written = format!("traceLevel = 0\nrandomize = false\ndeserializers = ( {} )", {
        typed.to_configuration().expect("a configuration")
    });
    let of_text = Reader::builder().config_text(&written).expect("a configuration");
    for builder in [of_text, Reader::builder().options(in_order()).ctf(typed)] {
        let reader = builder.open().expect("a reader");
        let ids = reader.stream("w").expect("ids");
        let expected = StreamInfo::ids("w", 5, Ids { element: ElementType::Int64, padding: 0 });
        assert_eq!(*ids, expected);
        let minibatches = read(reader, Epoch::sweeps(1).minibatch_size(2)).expect("minibatches");
        let [minibatch] = &minibatches[..] else { panic!("{} minibatches", minibatches.len()) };
        let stream = |name| minibatch.stream(name).expect("a stream");
        assert_eq!(stream("p").dense::<u8>().expect("bytes"), [0, 255, 3, 100]);
        assert_eq!(stream("i").dense::<i16>().expect("integers"), [i16::MIN, i16::MAX]);
        assert_eq!(stream("n").dense::<i32>().expect("integers"), [i32::MIN, i32::MAX]);
        assert_eq!(stream("l").dense::<i64>().expect("integers"), [i64::MAX, i64::MIN]);
        let half = [0.1, -2.0].map(cntk_reader_core::stream::f16::from_f64);
        assert_eq!(stream("h").dense::<cntk_reader_core::stream::f16>().expect("halves"), half);
        assert_eq!(stream("b").dense::<bool>().expect("truth values"), [true, false]);
        assert_eq!(stream("f").dense::<f32>().expect("floats"), [0.1, 7.0]);
        assert_eq!(stream("d").dense::<f64>().expect("doubles"), [0.1, 7.0]);
        assert_eq!(stream("w").dense::<i64>().expect("ids"), [3, 0]);
        assert_eq!(stream("s").sparse::<f32>().expect("entries").values, [0.5]);
        assert!(stream("p").dense::<f32>().is_err());
    }
}

/// Writes a file of sequences of one or several one-hot samples, with values beside them.
/// `is_even`: all streams of a sequence have equal lengths.
fn random_file(random: &mut Rng, folder: &Path, is_even: bool) -> PathBuf {
    let mut text = String::new();
    for key in 0..random.range(20, 120) {
        let words = random.range(1, 12);
        let tags = if is_even { words } else { random.range(1, words) };
        for word in 0..words {
            write!(text, "{key} |w {}:1", random.below(300)).expect("writing");
            if word < tags {
                write!(text, " |t {}:1", random.below(70_000)).expect("writing");
            }
            let comment = if random.once_in(5) { " |# a comment" } else { "" };
            writeln!(text, "{comment} |x {}", random.range(0, 255)).expect("writing");
        }
    }
    write(folder, &text)
}

/// By minibatch and stream, the lengths of sequences and the class ids of their samples.
type Seen = Vec<(Vec<u64>, Vec<(Vec<i32>, Vec<i64>)>)>;

fn seen(minibatches: &[Minibatch], is_ids: bool) -> Seen {
    let of_stream = |minibatch: &Minibatch, name: &str| {
        let stream = minibatch.stream(name).expect("a stream");
        if !is_ids {
            let packed = stream.packed_indices().expect("one-hot samples");
            return (packed.offsets, packed.values.into_iter().map(i64::from).collect());
        }
        match stream.info().element {
            ElementType::Int32 => {
                let packed = stream.packed::<i32>().expect("ids");
                (packed.offsets, packed.values.into_iter().map(i64::from).collect())
            }
            _ => {
                let packed = stream.packed::<i64>().expect("ids");
                (packed.offsets, packed.values)
            }
        }
    };
    let of_minibatch = |minibatch: &Minibatch| {
        let streams = ["w", "t"].map(|name| of_stream(minibatch, name)).to_vec();
        (minibatch.keys().to_vec(), streams)
    };
    minibatches.iter().map(of_minibatch).collect()
}

/// Checks that whole sequences of ids have no gaps, and that gaps of truncated minibatches have the
/// stream's padding.
fn check_gaps(minibatches: &[Minibatch], is_truncated: bool) {
    for minibatch in minibatches {
        let stream = minibatch.stream("w").expect("ids");
        let (layout, values) = (stream.layout(), stream.dense::<i32>().expect("ids"));
        assert!(is_truncated || layout.lanes == 1 && layout.extent().is_packed);
        for gap in layout.records.iter().filter(|record| record.is_gap()) {
            for step in gap.begin as usize..gap.end as usize {
                assert_eq!(values[layout.column(step, gap.lane as usize)], -100);
            }
        }
    }
}

#[test]
fn ids_match_indices_of_the_one_hot_stream() {
    for seed in 0..if testing::is_long() { 200 } else { 4 } {
        let mut random = Rng::new(seed);
        let folder = tempfile::tempdir().expect("a folder");
        // Truncation cuts all streams after the same number of steps.
        let is_even = seed % 2 == 0;
        let path = random_file(&mut random, folder.path(), is_even);
        let chunk_size = random.range(100, 4000);
        let ctf = || CtfDeserializer::new(&path).chunk_size(chunk_size);
        let one_hot = || ctf().sparse("w", 300).sparse("t", 70_000).dense("x", 1);
        let ids = || {
            let ctf = ctf().sparse("w", 300).ids(ElementType::Int32).padding(-100);
            let ctf = ctf.sparse("t", 70_000).ids(ElementType::Int64);
            ctf.dense("x", 1).element(ElementType::UInt8)
        };
        let randomized = ReaderOptions::new().randomization_seed(seed).trace_level(0);
        let whole = [in_order(), randomized.clone(), randomized.clone().randomization_window_in_chunks(2)];
        let truncated =
            [randomized.clone().truncation_length(random.range(1, 5)), in_order().truncation_length(3)];
        for options in whole.into_iter().chain(truncated.into_iter().filter(|_| is_even)) {
            let epoch = || Epoch::sweeps(2).minibatch_size(Rng::new(seed).range(1, 40));
            let read = |ctf| {
                let reader = Reader::builder().options(options.clone()).ctf(ctf).open().expect("a reader");
                read(reader, epoch()).expect("minibatches")
            };
            let (expected, found) = (read(one_hot()), read(ids()));
            assert_eq!(seen(&found, true), seen(&expected, false), "seed {seed}, {options:?}");
            check_gaps(&found, options.to_configuration().expect("a text").contains("truncated"));
            for (found, expected) in found.iter().zip(&expected) {
                let (found, expected) = (found.stream("x").expect("x"), expected.stream("x").expect("x"));
                let (found, expected) =
                    (found.dense::<u8>().expect("bytes"), expected.dense::<f32>().expect("floats"));
                assert!(found.iter().map(|value| f32::from(*value)).eq(expected.iter().copied()));
            }
        }
    }
}

#[test]
fn out_of_range_values_are_located_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    for (stream, text, line, offset, said) in [
        (
            "x",
            "1 |x 1 2 |w 1:1\n1 |x 3 256 |w 2:1\n",
            2,
            23,
            "A value does not fit: 256. Expected an integer from 0 to 255 (uint8)",
        ),
        ("x", "1 |x 1 2 |w 1:1\n2 |x -1 2 |w 1:1\n", 2, 21, "A value does not fit: -1. Expected"),
        ("x", "1 |x 1 2.5 |w 1:1\n", 1, 7, "A value is not an integer: 2.5. Expected"),
        ("x", "1 |x 1 nan |w 1:1\n", 1, 7, "A value is not a number: it begins with 'n'"),
        ("w", "1 |x 1 2 |w 9:1\n", 1, 13, "A value has the index 9, but 'dim' of 'w' is 5"),
        ("w", "1 |x 1 2 |w 1:1 2:1\n", 1, 19, "A sample of ids has 2 entries. Expected one, 'index:1'"),
        ("w", "1 |x 1 2 |w\n", 1, 11, "A sample of ids has 0 entries"),
        ("w", "1 |x 1 2 |w 1:2\n", 1, 15, "A sample of ids has an entry with a value other than 1"),
    ] {
        let path = write(folder.path(), text);
        let open = |errors| {
            let ctf =
                CtfDeserializer::new(&path).max_errors(errors).dense("x", 2).element(ElementType::UInt8);
            let ctf = ctf.sparse("w", 5).ids(ElementType::Int32);
            Reader::builder().options(in_order()).ctf(ctf).open().expect("a reader")
        };
        let error = read(open(0), Epoch::sweeps(1).minibatch_size(8)).expect_err("an error");
        let place = error.location();
        assert_eq!((place.line, place.offset), (Some(line), Some(offset)), "{text}: {error}");
        assert_eq!(place.stream.as_deref(), Some(stream), "{text}: {error}");
        assert!(place.file.as_deref() == path.to_str(), "{error}");
        assert!(error.to_string().contains(said), "{text}: {error}");
    }
    // Tolerated like other malformed values: the sample is skipped.
    let path = write(folder.path(), "1 |x 1 2\n1 |x 3 256\n1 |x 5 6\n");
    let ctf = CtfDeserializer::new(&path).max_errors(3).dense("x", 2).element(ElementType::UInt8);
    let reader = Reader::builder().options(in_order()).ctf(ctf).open().expect("a reader");
    let minibatches = read(reader, Epoch::sweeps(1).minibatch_size(8)).expect("minibatches");
    let values = minibatches[0].stream("x").expect("x").packed::<u8>().expect("values").values;
    assert_eq!(values, [1, 2, 5, 6]);
}

#[test]
fn unsupported_stream_types_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(folder.path(), "1 |x 1\n");
    let open = |stream: &str, precision: &str| {
        let text = format!(
            "precision = {precision} ; traceLevel = 0 ; deserializers = ( [ type = CNTKTextFormatDeserializer
             module = CNTKTextFormatReader ; file = \"{}\" ; input = [ x = [ dim = 3 ; {stream} ] ] ] )",
            path.display()
        );
        Reader::builder().config_text(&text)?.open()
    };
    for (stream, said) in [
        ("format = sparse ; element = uint8", "The values of the sparse stream 'x' cannot be uint8"),
        ("format = sparse ; element = float64", "The values of the sparse stream 'x' cannot be float64"),
        ("format = dense ; ids = int32", "The stream 'x' has 'ids' but is not sparse"),
        ("format = sparse ; ids = uint8", "Expected one of the words int32, int64."),
        ("format = dense ; element = uint9", "Did you mean 'uint8'?"),
        ("format = sparse ; ids = int32 ; element = int32", "has both 'element' and 'ids'"),
    ] {
        let error = open(stream, "float").expect_err("an error");
        assert!(error.to_string().contains(said), "{stream}: {error}");
        assert_eq!(error.location().stream.as_deref(), Some("x"), "{error}");
    }
    for precision in ["float", "double"] {
        for stream in ["format = dense ; element = float32", "format = dense ; element = FLOAT64"] {
            open(stream, precision).expect("a reader");
        }
    }
    open("format = sparse ; element = float64", "double").expect("a reader");
    let early = CtfDeserializer::new(&path).ids(ElementType::Int32).dense("x", 1).to_configuration();
    assert!(early.expect_err("an error").to_string().contains("CtfDeserializer::ids was called before"));
}

/// Streams of several types in one reader, shuffled, also in frame mode.
#[test]
fn precision_and_types_of_streams_are_independent() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines: String = (0..500).map(|key| format!("{key} |x {}.25 |y {key}\n", key)).collect();
    let path = write(folder.path(), &lines);
    for precision in [ElementType::Float, ElementType::Double] {
        for element in [ElementType::Float, ElementType::Double] {
            let ctf = CtfDeserializer::new(&path).dense("x", 1).element(element);
            let ctf = ctf.dense("y", 1).element(ElementType::Int32).chunk_size(500);
            let is_framewise = element == ElementType::Double;
            let options = ReaderOptions::new().precision(precision).frame_mode(is_framewise).trace_level(0);
            let reader = Reader::builder().options(options).ctf(ctf).open().expect("a reader");
            let mut count = 0;
            for minibatch in read(reader, Epoch::sweeps(1).minibatch_size(64)).expect("minibatches") {
                let x = minibatch.stream("x").expect("x");
                let x: Vec<f64> = match element {
                    ElementType::Float => {
                        x.dense::<f32>().expect("floats").iter().map(|&x| x.into()).collect()
                    }
                    _ => x.dense::<f64>().expect("doubles").to_vec(),
                };
                let y = minibatch.stream("y").expect("y").dense::<i32>().expect("integers");
                assert!(x.iter().zip(y).all(|(x, y)| *x == f64::from(*y) + 0.25));
                count += x.len();
            }
            assert_eq!(count, 500);
        }
    }
}

/// Converts a file of [`random_file`].
fn to_binary(path: &Path) -> PathBuf {
    let output = path.with_extension("cbf");
    let options = TextToBinary {
        input: path.display().to_string(),
        output: output.display().to_string(),
        streams: parse_streams("w w sparse 300\nt t sparse 70000\nx x dense 1").expect("streams"),
        chunk_size: 2000,
        element: ElementType::Float,
        ctf2bin_compatible: false,
    };
    text_to_binary(&options, &mut |_| ControlFlow::Continue(())).expect("a binary file");
    output
}

#[test]
fn ids_of_binary_files_match_indices_of_the_one_hot_stream() {
    for seed in 0..8 {
        let mut random = Rng::new(seed);
        let folder = tempfile::tempdir().expect("a folder");
        let is_even = seed % 2 == 0;
        let path = to_binary(&random_file(&mut random, folder.path(), is_even));
        let cbf = || CbfDeserializer::new(&path);
        let ids = || cbf().ids("w", ElementType::Int32).padding("w", -100).ids("t", ElementType::Int64);
        let options = ReaderOptions::new().randomization_seed(seed).trace_level(0);
        let truncated = options.clone().truncation_length(3);
        for options in [options].into_iter().chain(is_even.then_some(truncated)) {
            let read = |cbf| {
                let reader = Reader::builder().options(options.clone()).cbf(cbf).open().expect("a reader");
                read(reader, Epoch::sweeps(2).minibatch_size(30)).expect("minibatches")
            };
            let (expected, found) = (read(cbf()), read(ids()));
            assert_eq!(seen(&found, true), seen(&expected, false), "seed {seed}");
            check_gaps(&found, options.to_configuration().expect("a text").contains("truncated"));
        }
    }
}

#[test]
fn binary_samples_without_ids_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    for (line, said) in [
        ("7 |w 1:1 2:1 |t 0:1 |x 1", "A sample of ids has 2 entries. Expected one entry with the value 1"),
        ("7 |w 3:2 |t 0:1 |x 1", "A sample of ids has the value 2.0"),
    ] {
        let text = format!("6 |w 1:1 |t 0:1 |x 1\n{line}\n");
        let path = to_binary(&write(folder.path(), &text));
        let cbf = CbfDeserializer::new(&path).ids("w", ElementType::Int32);
        let reader = Reader::builder().options(in_order()).cbf(cbf).open().expect("a reader");
        let error = read(reader, Epoch::sweeps(1).minibatch_size(8)).expect_err("an error");
        assert!(error.to_string().contains(said), "{line}: {error}");
        let place = error.location();
        assert_eq!((place.stream.as_deref(), place.key.as_deref()), (Some("w"), Some("1")), "{error}");
        assert!(place.offset.is_some() && place.file.as_deref() == path.to_str(), "{error}");
    }
    let path = to_binary(&write(folder.path(), "1 |w 1:1 |t 0:1 |x 1\n"));
    let open = |cbf| Reader::builder().options(in_order()).cbf(cbf).open();
    let error = open(CbfDeserializer::new(&path).ids("x", ElementType::Int32)).expect_err("an error");
    assert!(error.to_string().contains("but is not sparse in the file"), "{error}");
    for cbf in [
        CbfDeserializer::new(&path).ids("w", ElementType::Int32).padding("w", 1 << 40),
        CbfDeserializer::new(&path).padding("w", 1),
    ] {
        let error = open(cbf).expect_err("an error").to_string();
        assert!(
            error.contains("Expected a whole number of the type int32") || error.contains("but no"),
            "{error}"
        );
    }
}
