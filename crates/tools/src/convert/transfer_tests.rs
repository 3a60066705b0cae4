//! Round trips through all formats: equal digests, and files that other programs read.

use super::*;
use cntk_reader::{Builder, CbfDeserializer, CtfDeserializer, Reader, ReaderOptions};
use cntk_reader_core::stream::{ElementType, StreamInfo};
use std::path::Path;

/// Sequences of several lengths, with empty samples, indices in any order and awkward numbers.
fn text() -> String {
    let mut text = String::new();
    for id in 0..700u32 {
        for line in 0..1 + id % 5 {
            let values = format!("{} -0 {:e}", f64::from(id) / 7.0, f64::from(line) * 1e-30);
            let words = if id % 3 == 0 { String::new() } else { format!("{}:1 {}:-2.5", 9 - id % 7, id % 2) };
            text += &format!("{id} |x {values} |y {words} \n");
        }
    }
    text
}

fn ctf(path: &str, element: ElementType) -> Builder {
    let options = ReaderOptions::new().precision(element).frame_mode(true);
    Reader::builder().options(options).ctf(CtfDeserializer::new(path).dense("x", 3).sparse("y", 10))
}

fn cbf(path: &str, element: ElementType) -> Builder {
    Reader::builder().options(ReaderOptions::new().precision(element)).cbf(CbfDeserializer::new(path))
}

fn run(data: Data, format: Format, path: &str) -> Result<Digest> {
    convert(
        data,
        format,
        path,
        &ConvertOptions { chunk_size: 1000, ..ConvertOptions::default() },
        &mut |_| ControlFlow::Continue(()),
    )
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

fn numpy(path: &str) -> Data {
    Data::of_numpy(path, &NumpyOptions::default()).expect("arrays")
}

#[test]
fn every_format_keeps_every_bit() {
    for element in [ElementType::Float, ElementType::Double] {
        let folder = tempfile::tempdir().expect("a folder");
        let [input, text_out, binary, arrays, again] =
            ["in.ctf", "out.ctf", "out.cbf", "out.npz", "again.cbf"].map(|name| path(folder.path(), name));
        std::fs::write(&input, text()).expect("writing");
        let data = || Data::of_reader(ctf(&input, element)).expect("data");
        let digest = Digest::of(&mut data()).expect("a digest");
        assert_eq!(digest.sequences, 700);
        assert_eq!(run(data(), Format::Binary, &binary).expect("binary"), digest);
        assert_eq!(run(data(), Format::NumpyArchive, &arrays).expect("arrays"), digest);
        let from_binary = Data::of_reader(cbf(&binary, element)).expect("data");
        assert!(!from_binary.has_keys());
        assert_eq!(run(from_binary, Format::Text, &text_out).expect("text"), digest);
        assert_eq!(run(numpy(&arrays), Format::Binary, &again).expect("binary"), digest);
        assert_eq!(std::fs::read(&binary).expect("a file"), std::fs::read(&again).expect("a file"));
        assert_eq!(run(numpy(&arrays), Format::Text, &text_out).expect("text"), digest);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 5);
    }
}

#[test]
fn outputs_are_compressed_and_verified() {
    let folder = tempfile::tempdir().expect("a folder");
    let [input, plain, binary] = ["in.ctf", "plain.cbf", "out.cbf.zst"].map(|name| path(folder.path(), name));
    std::fs::write(&input, text()).expect("writing");
    let data = || Data::of_reader(ctf(&input, ElementType::Float)).expect("data");
    let digest = Digest::of(&mut data()).expect("a digest");
    let compressed =
        |level| ConvertOptions { chunk_size: 1000, compression: Some(level), ..ConvertOptions::default() };
    let run_with = |data, format, path: &str, options: &ConvertOptions| {
        convert(data, format, path, options, &mut |_| ControlFlow::Continue(()))
    };
    assert_eq!(run_with(data(), Format::Binary, &binary, &compressed(1)).expect("binary"), digest);
    // Decompressed, it is the binary file that would have been written.
    run(data(), Format::Binary, &plain).expect("binary");
    let file = cntk_reader_core::file::DataFile::open(&binary).expect("a compressed file");
    let mut bytes = vec![0; file.size().expect("a size") as usize];
    file.read_exact_at(0, &mut bytes).expect("it reads");
    assert_eq!(bytes, std::fs::read(&plain).expect("a file"));
    assert!(std::fs::metadata(&binary).expect("a file").len() < bytes.len() as u64);
    let text = path(folder.path(), "out.ctf.zst");
    let from_binary = Data::of_reader(cbf(&binary, ElementType::Float)).expect("data");
    assert_eq!(run_with(from_binary, Format::Text, &text, &compressed(9)).expect("text"), digest);
    for (format, name, level) in
        [(Format::Text, "out.ctf", 9), (Format::NumpyArchive, "out.zst", 9), (Format::Text, "a.zst", 23)]
    {
        let path = path(folder.path(), name);
        assert!(run_with(data(), format, &path, &compressed(level)).is_err(), "{name}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 4);
}

#[test]
fn text_keys_round_trip_through_arrays() {
    let folder = tempfile::tempdir().expect("a folder");
    let [input, arrays, output] = ["in.ctf", "out.npz", "out.ctf"].map(|name| path(folder.path(), name));
    std::fs::write(&input, "käse |x 1\nb2 |x 2\nb2 |x 3\nlonger-key |x 4\n").expect("writing");
    let options = ReaderOptions::new().numeric_keys(false);
    let ctf = CtfDeserializer::new(&input).dense("x", 1);
    let builder = Reader::builder().options(options).ctf(ctf);
    run(Data::of_reader(builder).expect("data"), Format::NumpyArchive, &arrays).expect("arrays");
    run(numpy(&arrays), Format::Text, &output).expect("text");
    let text = std::fs::read_to_string(&output).expect("text");
    assert_eq!(text, "käse\t|x 1\nb2\t|x 2\nb2\t|x 3\nlonger-key\t|x 4\n");
}

#[test]
fn one_dense_stream_is_one_array() {
    let folder = tempfile::tempdir().expect("a folder");
    let [input, array, output] = ["in.ctf", "x.npy", "out.ctf"].map(|name| path(folder.path(), name));
    std::fs::write(&input, "|x 1 2\n|x 3 4\n|x 5 6\n").expect("writing");
    let builder = || Reader::builder().ctf(CtfDeserializer::new(&input).dense("x", 2));
    run(Data::of_reader(builder()).expect("data"), Format::NumpyArray, &array).expect("an array");
    let bytes = std::fs::read(&array).expect("a file");
    assert_eq!(bytes.len(), 128 + 24);
    assert!(String::from_utf8_lossy(&bytes).contains("'<f4', 'fortran_order': False, 'shape': (3, 2)"));
    assert_eq!(numpy(&array).streams()[0].name, "x");
    run(numpy(&array), Format::Text, &output).expect("text");
    assert_eq!(std::fs::read_to_string(&output).expect("text"), "0\t|x 1 2\n1\t|x 3 4\n2\t|x 5 6\n");
    // An array cannot hold sequences of several samples.
    std::fs::write(&input, "1 |x 1 2\n1 |x 3 4\n").expect("writing");
    let refused = run(Data::of_reader(builder()).expect("data"), Format::NumpyArray, &array);
    assert!(refused.expect_err("two samples").message().contains("sequences of one sample"));
    assert_eq!(std::fs::read(&array).expect("the earlier file"), bytes);
}

#[test]
fn class_numbers_become_sparse_streams() {
    let folder = tempfile::tempdir().expect("a folder");
    let [array, output] = ["y.npy", "out.ctf"].map(|name| path(folder.path(), name));
    let mut bytes = numpy::header("<i8", &[3]);
    bytes.extend([2i64, 0, 4].iter().flat_map(|class| class.to_le_bytes()));
    std::fs::write(&array, &bytes).expect("writing");
    let of = |classes| {
        let one_hot = vec![("y".to_owned(), classes)];
        Data::of_numpy(&array, &NumpyOptions { one_hot, ..NumpyOptions::default() }).expect("an array")
    };
    run(of(5), Format::Text, &output).expect("text");
    assert_eq!(std::fs::read_to_string(&output).expect("text"), "0\t|y 2:1\n1\t|y 0:1\n2\t|y 4:1\n");
    assert!(run(of(4), Format::Text, &output).is_err());
}

/// Three sequences of a dense stream `x` and a sparse stream `y`, in two batches.
fn batches() -> [Batch; 2] {
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
    let x = |lengths: &[u32], values: &[f32]| Column {
        lengths: lengths.to_vec(),
        values: bytes(values),
        ..Column::default()
    };
    let y = |lengths: &[u32], counts: &[u32], indices: &[i32], values: &[f32]| Column {
        lengths: lengths.to_vec(),
        counts: counts.to_vec(),
        indices: indices.to_vec(),
        values: bytes(values),
    };
    [
        Batch {
            keys: vec!["a".into(), "b".into()],
            columns: vec![
                x(&[1, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
                y(&[1, 2], &[2, 0, 1], &[4, 0, 3], &[1.0, 0.5, 7.0]),
            ],
        },
        Batch { keys: vec!["c".into()], columns: vec![x(&[1], &[7.0, 8.5]), y(&[1], &[1], &[2], &[-1.0])] },
    ]
}

fn of_batches(batches: impl IntoIterator<Item = Batch, IntoIter: Send + 'static>) -> Data {
    let streams = vec![StreamInfo::dense("x", &[2]), StreamInfo::sparse("y", &[5])];
    let mut batches = batches.into_iter();
    Data::of_batches(streams, true, Some(3), move |batch| {
        assert!(batch.keys.is_empty() && batch.columns == [Column::default(), Column::default()]);
        Ok(batches.next().map(|next| *batch = next).is_some())
    })
}

#[test]
fn batches_of_another_format_are_converted() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = path(folder.path(), "out.ctf");
    let written = |data: Data| {
        let digest = run(data, Format::Text, &output).expect("text");
        assert_eq!(digest.sequences, 3);
        std::fs::read_to_string(&output).expect("text")
    };
    let data = of_batches(batches());
    assert_eq!((data.sequences(), data.are_single(), data.has_keys()), (Some(3), false, true));
    let text = "a\t|x 1 2\t|y 4:1 0:0.5\nb\t|x 3 4\t|y \nb\t|x 5 6\t|y 3:7\nc\t|x 7 8.5\t|y 2:-1\n";
    assert_eq!(written(data), text);
    // Numbers from 0 go on from batch to batch.
    let mut numbered = of_batches(batches());
    numbered.number_keys();
    assert!(!numbered.has_keys());
    assert_eq!(written(numbered), text.replace("a\t", "0\t").replace("b\t", "1\t").replace("c\t", "2\t"));
    let mut selected = of_batches(batches());
    selected.select(&["y".to_owned()]).expect("a stream");
    assert_eq!(written(selected), "a\t|y 4:1 0:0.5\nb\t|y \nb\t|y 3:7\nc\t|y 2:-1\n");
}

#[test]
fn batches_that_contradict_themselves_are_errors() {
    type Change = fn(&mut Batch);
    let changes: [(&str, Change); 9] = [
        ("x", |batch| batch.columns[0].lengths[0] = 2),
        ("x", |batch| batch.columns[0].lengths.push(0)),
        ("x", |batch| batch.columns[0].values.truncate(23)),
        ("x", |batch| batch.columns[0].counts.push(1)),
        ("y", |batch| batch.columns[1].counts[1] = 1),
        ("y", |batch| batch.columns[1].counts.push(0)),
        ("y", |batch| batch.columns[1].indices[0] = 5),
        ("y", |batch| batch.columns[1].indices[2] = -1),
        ("y", |batch| batch.columns.truncate(1)),
    ];
    for (number, (stream, change)) in changes.into_iter().enumerate() {
        let mut batches = batches();
        change(&mut batches[0]);
        let error = of_batches(batches).next_batch().map(|_| ()).expect_err("a contradiction");
        assert!(error.message().contains(&format!("'{stream}'")), "{number}: {error}");
    }
    let mut data = of_batches(batches());
    for batch in batches() {
        assert_eq!(data.next_batch().expect("a batch"), Some(&batch));
    }
    assert_eq!(data.next_batch().expect("the end"), None);
    assert_eq!(data.next_batch().expect("the end"), None);
}

#[test]
fn single_samples_are_known_beforehand() {
    let folder = tempfile::tempdir().expect("a folder");
    let [one, several, arrays] = ["a.ctf", "b.ctf", "c.npz"].map(|name| path(folder.path(), name));
    std::fs::write(&one, "|x 1 2 3 |y 1:1\n|x 4 5 6 |y 2:1\n").expect("writing");
    std::fs::write(&several, "0 |x 1 2 3 |y 1:1\n0 |x 4 5 6 |y 2:1\n").expect("writing");
    write_arrays(&arrays, &[("x.npy", &[2], &[1, 2])]);
    let of = |path: &str| Data::of_reader(ctf(path, ElementType::Float)).expect("data").are_single();
    assert_eq!((of(&one), of(&several), numpy(&arrays).are_single()), (true, false, true));
}

/// Writes an archive of arrays of bytes: names, shapes and values.
fn write_arrays(path: &str, arrays: &[(&str, &[u64], &[u8])]) {
    let mut archive = numpy::ArchiveWriter::create(path).expect("an archive");
    for (name, shape, values) in arrays {
        let bytes = [&numpy::header("|u1", shape), *values].concat();
        archive.begin(name, bytes.len() as u64, crc32fast::hash(&bytes)).expect("a member");
        archive.write(&bytes).expect("writing");
    }
    archive.finish().expect("an archive").commit().expect("committing");
}

#[test]
fn shapes_that_contradict_each_other_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let [arrays, output] = ["x.npz", "out.ctf"].map(|name| path(folder.path(), name));
    let refused = |members: &[(&str, &[u64], &[u8])], words: &str| {
        write_arrays(&arrays, members);
        let data = Data::of_numpy(&arrays, &NumpyOptions::default());
        let error = data.and_then(|data| run(data, Format::Text, &output)).expect_err("it is refused");
        assert!(error.to_string().contains(words), "{error}");
    };
    let one_dimension = "It must have one dimension.";
    // A two-dimensional array has more numbers than rows.
    refused(&[("x.npy", &[2], &[1, 2]), ("x.sequences.npy", &[2, 2], &[0, 1, 1, 2])], one_dimension);
    let (values, dim): ((&str, &[u64], &[u8]), _) =
        (("x.values.npy", &[1], &[5]), ("x.dim.npy", &[][..], &[9][..]));
    let (indices, offsets) =
        (("x.indices.npy", &[1][..], &[3][..]), ("x.offsets.npy", &[2][..], &[0, 1][..]));
    write_arrays(&arrays, &[values, dim, indices, offsets]);
    assert_eq!(run(numpy(&arrays), Format::Text, &output).expect("text").sequences, 1);
    refused(&[values, dim, indices, ("x.offsets.npy", &[2, 2], &[0, 1, 1, 2])], one_dimension);
    refused(&[values, dim, ("x.indices.npy", &[1, 2], &[3, 4]), offsets], one_dimension);
    // There are no rows, but a row would exceed any memory.
    refused(&[("x.npy", &[0, 1 << 40, 1 << 40], &[])], "It ends before the values of its shape");
}

#[test]
fn unverifiable_text_is_not_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let [arrays, output] = ["x.npz", "out.ctf"].map(|name| path(folder.path(), name));
    write_arrays(&arrays, &[("x.npy", &[2], &[1, 2]), ("keys.npy", &[2], &[7, 7])]);
    // Both sequences have the key 7, so the text reads as one sequence.
    let error = run(numpy(&arrays), Format::Text, &output).expect_err("the digest differs");
    assert!(error.detail().contains("same key"), "{error}");
    assert!(!std::fs::exists(&output).expect("looking"));
}

#[test]
fn damaged_arrays_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let [input, arrays] = ["in.ctf", "out.npz"].map(|name| path(folder.path(), name));
    std::fs::write(&input, text()).expect("writing");
    let data = Data::of_reader(ctf(&input, ElementType::Float)).expect("data");
    let digest = run(data, Format::NumpyArchive, &arrays).expect("arrays");
    let good = std::fs::read(&arrays).expect("a file");
    let mut differ = 0;
    for at in (0..good.len()).step_by(good.len() / 300) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x5a;
        std::fs::write(&arrays, &bytes).expect("writing");
        let read =
            Data::of_numpy(&arrays, &NumpyOptions::default()).and_then(|mut data| Digest::of(&mut data));
        differ += usize::from(read.is_err() || read.is_ok_and(|found| found != digest));
        std::fs::write(&arrays, &good[..at]).expect("writing");
        let cut =
            Data::of_numpy(&arrays, &NumpyOptions::default()).and_then(|mut data| Digest::of(&mut data));
        assert!(cut.is_err(), "cut at {at}");
    }
    // Some bytes do not affect the values: keys, padding, checksums, dates.
    assert!(differ > 200, "{differ} of 300 changes were noticed");
}

/// Text with a stream of each type, at its limits, ids, and sparse values.
fn text_of_types() -> String {
    let mut text = String::new();
    for id in 0..300i64 {
        for line in 0..1 + id % 3 {
            let sign = if line == 0 { 1 } else { -1 };
            text += &format!(
                "{id} |uint8 {} 255 |int16 {} |int32 {} |int64 {} |bool {} |float16 {} |bfloat16 {}",
                id % 256,
                i16::MIN + id as i16,
                i32::MAX - id as i32,
                (i64::MAX - id) * sign,
                id % 2,
                id as f32 / 7.0,
                1e30 / (id + 1) as f32,
            );
            text += &format!(
                " |float32 {} |float64 {} |w {}:1 |l 5:1 |s {}:0.5\n",
                id as f32 / 3.0,
                id as f64 / 7.0,
                id % 9,
                id % 4,
            );
        }
    }
    text
}

#[test]
fn types_and_ids_are_kept_in_text_and_binary_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let [input, text_out, binary, again] =
        ["in.ctf", "out.ctf", "out.cbf", "again.cbf"].map(|name| path(folder.path(), name));
    std::fs::write(&input, text_of_types()).expect("writing");
    let ctf = |path: &str| {
        let ctf = CtfDeserializer::new(path).sparse("w", 9).ids(ElementType::Int32);
        let ctf = ctf.sparse("l", 6).ids(ElementType::Int64).sparse("s", 4);
        let ctf = ElementType::ALL.iter().fold(ctf, |ctf, element| {
            let dim = if *element == ElementType::UInt8 { 2 } else { 1 };
            ctf.dense(element.name(), dim).element(*element)
        });
        Reader::builder().ctf(ctf)
    };
    let digest = run(Data::of_reader(ctf(&input)).expect("data"), Format::Binary, &binary).expect("binary");
    assert_eq!((digest.sequences, digest.values), (300, 600 * 13));
    let bytes = std::fs::read(&binary).expect("a file");
    assert_eq!(bytes[8..12], 2u32.to_le_bytes());
    let of_text = ctf(&input).open().expect("a reader");
    for precision in [ElementType::Float, ElementType::Double] {
        let of_binary = cbf(&binary, precision).open().expect("a reader");
        assert_eq!(of_binary.streams(), of_text.streams());
        let data = Data::of_reader(cbf(&binary, precision)).expect("data");
        assert_eq!(run(data, Format::Text, &text_out).expect("text"), digest);
    }
    // The same with `binary_to_text`, which uses no reader.
    let other = path(folder.path(), "other.ctf");
    binary_to_text(&binary, &other, &mut |_| ControlFlow::Continue(())).expect("text");
    for text in [&text_out, &other] {
        let data = Data::of_reader(ctf(text)).expect("data");
        assert_eq!(run(data, Format::Binary, &again).expect("binary"), digest);
        assert_eq!(std::fs::read(&again).expect("a file"), bytes);
    }
    // Arrays keep the types, too, except bfloat16, and are converted back to the same file.
    let arrays = path(folder.path(), "arrays.npz");
    let of_arrays = || {
        let mut data = Data::of_numpy(&arrays, &NumpyOptions::default()).expect("arrays");
        let names: Vec<String> = of_text.streams().iter().map(|stream| stream.name.clone()).collect();
        data.select(&names).expect("the streams");
        data
    };
    let digest =
        run(Data::of_reader(ctf(&input)).expect("data"), Format::NumpyArchive, &arrays).expect("arrays");
    for (own, stream) in of_arrays().streams().iter().zip(of_text.streams()) {
        let widened = if own.name == "bfloat16" { ElementType::Float } else { stream.element };
        assert_eq!((own.element, own.storage), (widened, stream.storage), "{}", own.name);
    }
    assert_eq!(run(of_arrays(), Format::Binary, &again).expect("binary"), digest);
    // Floats cannot represent all of these numbers.
    let mut data = Data::of_reader(ctf(&input)).expect("data");
    data.to_floats(ElementType::Double);
    let error = run(data, Format::Binary, &again).expect_err("an error");
    assert!(error.message().contains("The stream 'int64' has the value"), "{error}");
    let options = NumpyOptions { element: Some(ElementType::Float), ..NumpyOptions::default() };
    let data = Data::of_numpy(&arrays, &options).expect("arrays");
    let error = run(data, Format::Binary, &again).expect_err("an error").to_string();
    assert!(error.contains("has the number") && error.contains("float32 cannot hold it"), "{error}");
}
