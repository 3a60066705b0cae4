//! NumPy arrays, alone and joined with text by key.

use crate::common;

use cntk_reader::{
    CtfDeserializer, Element, ElementType, Epoch, Error, Minibatch, NumpyDeserializer, Reader, ReaderOptions,
    f16,
};
use cntk_reader_arrays::header::header;
use std::fs;
use std::path::Path;

/// Writes an array, and returns its path.
fn write(folder: &Path, name: &str, element: &str, shape: &[u64], values: &[u8]) -> String {
    let path = folder.join(name).display().to_string();
    fs::write(&path, [&header(element, shape), values].concat()).expect("writing");
    path
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// Calls `each` for each minibatch of a sweep.
fn read(mut reader: Reader, size: u64, mut each: impl FnMut(&Minibatch)) -> Result<(), Error> {
    for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(size))? {
        each(&minibatch?);
    }
    Ok(())
}

/// Returns row `row` of an array.
fn x(row: u64) -> [f32; 6] {
    std::array::from_fn(|place| (row * 6) as f32 + place as f32 + 0.5)
}

#[test]
fn rows_are_joined_with_text_by_key() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a folder");
    let features = write(folder.path(), "x.npy", "<f4", &[5, 2, 3], &floats((0..5).flat_map(x)));
    let pixels = write(folder.path(), "p.npy", "|u1", &[5], &[0, 1, 128, 254, 255]);
    let ctf = folder.path().join("y.ctf").display().to_string();
    // Another order, a row without a line, and a line without a row.
    fs::write(&ctf, "3 |y 30\n0 |y 1\n9 |y 9\n4 |y 40\n1 |y 10\n").expect("writing");
    let text = format!(
        "traceLevel = 0 ; deserializers = (
            [ type = NumpyDeserializer ; chunkSizeInBytes = 50
              input = [ x = [ file = \"{features}\" ] ; p = [ file = \"{pixels}\" ] ] ] :
            [ type = CNTKTextFormatDeserializer ; module = CNTKTextFormatReader ; file = \"{ctf}\"
              input = [ y = [ dim = 1 ; format = dense ] ] ] )"
    );
    let typed = Reader::builder()
        .options(ReaderOptions::new().trace_level(0))
        .numpy(NumpyDeserializer::new().array("x", &features).array("p", &pixels).chunk_size(50))
        .ctf(CtfDeserializer::new(&ctf).dense("y", 1));
    for builder in [Reader::builder().config_text(&text).expect("a configuration"), typed] {
        let reader = builder.open().expect("a reader");
        let shapes: Vec<_> = reader.streams().iter().map(|stream| (&*stream.name, &*stream.shape)).collect();
        assert!(shapes.contains(&("x", &[3, 2])) && shapes.contains(&("p", &[])), "{shapes:?}");
        let mut seen = Vec::new();
        read(reader, 3, |minibatch| {
            let values = |name| minibatch.stream(name).and_then(|stream| stream.dense::<f32>());
            let (all_x, all_y) = (values("x").expect("x"), values("y").expect("y"));
            let all_p = minibatch.stream("p").and_then(|stream| stream.dense::<u8>()).expect("p");
            for (place, &key) in minibatch.keys().iter().enumerate() {
                assert_eq!(all_x[place * 6..][..6], x(key));
                assert_eq!(all_p[place], [0, 1, 128, 254, 255][key as usize]);
                assert_eq!(all_y[place], [1.0, 10.0, 0.0, 30.0, 40.0][key as usize]);
                seen.push(key);
            }
        })
        .expect("minibatches");
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 3, 4]);
    }
}

#[test]
fn lengths_group_rows_into_sequences() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a folder");
    let values = write(folder.path(), "x.npy", "<f4", &[6, 1], &floats((0..6u8).map(f32::from)));
    let lengths = [1i64, 3, 2].map(i64::to_le_bytes).concat();
    let lengths = write(folder.path(), "lengths.npy", "<i8", &[3], &lengths);
    let arrays = NumpyDeserializer::new().array("x", &values).lengths(&lengths);
    let options = ReaderOptions::new().randomize(false);
    let reader = Reader::builder().options(options).numpy(arrays).open().expect("a reader");
    let mut seen = Vec::new();
    read(reader, 1, |minibatch| {
        let stream = minibatch.stream("x").expect("x");
        seen.push((minibatch.keys().to_vec(), stream.dense::<f32>().expect("floats").to_vec()));
    })
    .expect("minibatches");
    assert_eq!(seen, [(vec![0], vec![0.0]), (vec![1], vec![1.0, 2.0, 3.0]), (vec![2], vec![4.0, 5.0])]);
}

#[test]
fn row_sequences_are_joined_with_text_by_key() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a folder");
    let values = write(folder.path(), "x.npy", "<f4", &[6, 1], &floats((0..6u8).map(f32::from)));
    let lengths = write(folder.path(), "lengths.npy", "|u1", &[3], &[1, 3, 2]);
    let ctf = folder.path().join("y.ctf").display().to_string();
    fs::write(&ctf, "2 |y 20\n2 |y 21\n0 |y 1\n7 |y 7\n1 |y 10\n1 |y 11\n1 |y 12\n").expect("writing");
    let arrays = || NumpyDeserializer::new().array("x", &values).lengths(&lengths).chunk_size(1);
    let text = || CtfDeserializer::new(&ctf).dense("y", 1);
    let builders = [
        (Reader::builder().numpy(arrays()).ctf(text()), [0, 1, 2]),
        (Reader::builder().ctf(text()).numpy(arrays()), [2, 0, 1]),
    ];
    let expected =
        [(&[0.0][..], &[1.0][..]), (&[1.0, 2.0, 3.0], &[10.0, 11.0, 12.0]), (&[4.0, 5.0], &[20.0, 21.0])];
    for (builder, order) in builders {
        let reader = builder.options(ReaderOptions::new().randomize(false)).open().expect("a reader");
        let mut keys = Vec::new();
        read(reader, 1, |minibatch| {
            let values = |name| minibatch.stream(name).and_then(|stream| stream.dense::<f32>());
            let &[key] = minibatch.keys() else { panic!("{:?}", minibatch.keys()) };
            let found = (values("x").expect("x"), values("y").expect("y"));
            assert_eq!(found, expected[key as usize], "{key}");
            keys.push(key);
        })
        .expect("minibatches");
        assert_eq!(keys, order);
    }
}

#[test]
fn only_float32_follows_the_precision() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a folder");
    let doubles = [0.1f64, 0.2].map(f64::to_le_bytes).concat();
    let doubles = write(folder.path(), "d.npy", "<f8", &[2], &doubles);
    let singles = write(folder.path(), "s.npy", "<f4", &[2], &floats([1.0, -2.0]));
    let halves = write(folder.path(), "h.npy", "<f2", &[2], &[0, 0x3c, 0, 0xc0]);
    for precision in [ElementType::Float, ElementType::Double] {
        let arrays = NumpyDeserializer::new().array("d", &doubles).array("s", &singles).array("h", &halves);
        let options = ReaderOptions::new().randomize(false).precision(precision);
        let reader = Reader::builder().options(options).numpy(arrays).open().expect("a reader");
        read(reader, 2, |minibatch| {
            let stream = |name| minibatch.stream(name).expect("a stream");
            assert_eq!(stream("d").dense::<f64>().expect("doubles"), [0.1, 0.2]);
            assert_eq!(stream("h").dense::<f16>().expect("halves").len(), 2);
            match precision {
                ElementType::Float => assert_eq!(stream("s").dense::<f32>().expect("floats"), [1.0, -2.0]),
                _ => assert_eq!(stream("s").dense::<f64>().expect("doubles"), [1.0, -2.0]),
            }
        })
        .expect("minibatches");
    }
}

/// Each NumPy type with the type of its streams, and the values of both.
#[test]
fn integers_and_booleans_keep_their_types() {
    fn check<T: Element>(descr: &str, stored: &[u8], expected: &[T]) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = write(folder.path(), "x.npy", descr, &[expected.len() as u64], stored);
        let options = ReaderOptions::new().randomize(false);
        let arrays = NumpyDeserializer::new().array("x", path);
        let reader = Reader::builder().options(options).numpy(arrays).open().expect("a reader");
        assert_eq!(reader.streams()[0].element, T::TYPE, "{descr}");
        read(reader, 9, |minibatch| {
            let stream = minibatch.stream("x").expect("a stream");
            assert_eq!(stream.dense::<T>().expect("values"), expected, "{descr}");
            assert_eq!(stream.packed::<T>().expect("values").values, expected, "{descr}");
        })
        .expect("minibatches");
    }
    common::quiet();
    check::<bool>("|b1", &[1, 0, 1], &[true, false, true]);
    check::<u8>("|u1", &[0, 7, 255], &[0, 7, 255]);
    check::<i16>("|i1", &[0x80, 0xff], &[-128, -1]);
    check::<i16>("<i2", &[0xff, 0x7f, 0, 0x80], &[i16::MAX, i16::MIN]);
    check::<i32>("<u2", &[0xff, 0xff], &[65535]);
    check::<i32>("<i4", &i32::MIN.to_le_bytes(), &[i32::MIN]);
    check::<i64>("<u4", &u32::MAX.to_le_bytes(), &[u32::MAX.into()]);
    check::<i64>("<i8", &i64::MIN.to_le_bytes(), &[i64::MIN]);
    check::<i64>("<u8", &i64::MAX.to_le_bytes(), &[i64::MAX]);
}

#[test]
fn unrepresentable_values_are_located_errors() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a folder");
    for (descr, stored, found) in
        [("<u8", &u64::MAX.to_le_bytes()[..], "18446744073709551615"), ("|b1", &[2], "A stream of bool")]
    {
        let path = write(folder.path(), "x.npy", descr, &[1], stored);
        let options = ReaderOptions::new().randomize(false);
        let reader = Reader::builder().options(options).numpy(NumpyDeserializer::new().array("x", &path));
        let error = reader.open().and_then(|reader| read(reader, 1, |_| {})).expect_err("an error");
        assert!(error.to_string().contains(found), "{error}");
        assert_eq!(error.location().file.as_deref(), Some(&*path));
    }
}

#[test]
fn checkpoints_detect_changed_values() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a folder");
    let open = |values: [f32; 4]| {
        let path = write(folder.path(), "x.npy", "<f4", &[4], &floats(values));
        Reader::builder().numpy(NumpyDeserializer::new().array("x", path)).open().expect("a reader")
    };
    let mut reader = open([1.0, 2.0, 3.0, 4.0]);
    _ = reader.epoch(Epoch::sweeps(1).minibatch_size(2)).expect("an epoch");
    let checkpoint = reader.checkpoint().expect("a checkpoint");
    assert!(open([1.0, 2.0, 3.0, 4.0]).restore(&checkpoint).is_ok());
    assert!(open([1.0, 2.0, 3.0, 5.0]).restore(&checkpoint).is_err());
}

#[test]
fn files_of_other_formats_are_recognized() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a folder");
    let sound = write(folder.path(), "x.npy", "<f4", &[1], &floats([0.0]));
    let ctf = folder.path().join("y.npy").display().to_string();
    fs::write(&ctf, "|y 1\n").expect("writing");
    let arrays = NumpyDeserializer::new().array("x", &sound).array("y", &ctf);
    let error = Reader::builder().numpy(arrays).open().expect_err("an error");
    assert_eq!(error.location().file.as_deref(), Some(&*ctf));
    assert!(error.to_string().contains("The file looks like a text file in CNTK's format (CTF)"), "{error}");
    let ctf = CtfDeserializer::new(&sound).dense("x", 1);
    let error = Reader::builder().ctf(ctf).open().expect_err("an error");
    assert!(error.to_string().contains("A 'NumpyDeserializer' reads it"), "{error}");
}
