use super::*;
use crate::ErrorKind;
use std::path::Path;
use zstd_safe::{CCtx, CParameter};

/// Data that compress, but not to almost nothing.
fn data(size: usize) -> Vec<u8> {
    let mut state = 12345u64;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        b"0123456789 .|\n"[(state >> 60) as usize % 14]
    };
    std::iter::repeat_with(next).take(size).collect()
}

/// Returns the bytes of a file with frames of these sizes, with or without a seek table.
fn packed(data: &[u8], sizes: &[usize], with_table: bool) -> Vec<u8> {
    let (mut file, mut table, mut rest) = (Vec::new(), FrameTable::default(), data);
    for &size in sizes {
        let (frame, others) = rest.split_at(size);
        let bytes = pack(frame, 9).expect("a frame");
        table.add(bytes.len(), size).expect("an entry");
        file.extend(bytes);
        rest = others;
    }
    assert!(rest.is_empty());
    if with_table {
        file.extend(table.finish());
    }
    file
}

fn write(folder: &Path, bytes: &[u8]) -> String {
    let path = folder.join("data.ctf.zst").to_str().expect("a path").to_owned();
    std::fs::write(&path, bytes).expect("a file");
    path
}

fn open(path: &str) -> DataFile {
    let file = DataFile::open(path).expect("it opens");
    assert!(matches!(file.0.source, crate::file::FileSource::Frames(_)), "{path} was unpacked to a folder");
    file
}

/// Returns the error of opening the file or of reading all of it.
fn error_of(path: &str, size: usize) -> crate::Error {
    DataFile::open(path).and_then(|file| file.read_exact_at(0, &mut vec![0; size])).expect_err("damaged")
}

#[test]
fn any_range_reads_the_original_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let sizes = [1, 300_000, 0, 7, 65_536, 2_000_000, 12_345, 5];
    let data = data(sizes.iter().sum());
    let skippable = [0x53, 0x2a, 0x4d, 0x18, 5, 0, 0, 0, 1, 2, 3, 4, 5];
    let without = packed(&data, &sizes, false);
    let surrounded = [&skippable[..], &without, &skippable].concat();
    for bytes in [packed(&data, &sizes, true), without, surrounded] {
        let path = write(folder.path(), &bytes);
        let file = open(&path);
        assert_eq!(file.size().expect("a size"), data.len() as u64);
        let mut starts: Vec<usize> = sizes
            .iter()
            .scan(0, |at, size| {
                *at += size;
                Some(*at)
            })
            .collect();
        starts.extend([0, 150_000, 1_000_000]);
        for &start in &starts {
            for &end in &starts {
                for (start, end) in [(start, end), (start.saturating_sub(1), end), (start + 1, end + 1)] {
                    let mut buffer = vec![0; end.saturating_sub(start)];
                    let count = file.read_at(start as u64, &mut buffer).expect("it reads");
                    let expected =
                        &data[start.min(data.len())..end.min(data.len()).max(start.min(data.len()))];
                    assert_eq!(count, expected.len());
                    assert!(buffer[..count] == *expected, "{start}..{end}");
                }
            }
        }
        assert_eq!(file.read_at(u64::MAX, &mut [0; 9]).expect("nothing"), 0);
        assert!(file.memory() > 2_000_000);
    }
}

#[test]
fn concurrent_small_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let sizes = [100_000; 20];
    let data = data(2_000_000);
    let file = open(&write(folder.path(), &packed(&data, &sizes, true)));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (file, data) = (&file, &data);
            scope.spawn(move || {
                for piece in (0..data.len()).step_by(3_000) {
                    let at = (piece + thread * 500_000) % data.len();
                    let mut buffer = [0; 3_000];
                    let count = file.read_at(at as u64, &mut buffer).expect("it reads");
                    assert!(buffer[..count] == data[at..at + count]);
                }
            });
        }
    });
}

#[test]
fn damage_is_an_error_with_file_and_offset() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = data(300_000);
    for with_table in [true, false] {
        let bytes = packed(&data, &[100_000; 3], with_table);
        let first = packed(&data[..100_000], &[100_000], false).len();
        let mut damaged = bytes.clone();
        damaged[first + 20_000] ^= 4;
        let path = write(folder.path(), &damaged);
        let file = open(&path);
        file.read_exact_at(0, &mut vec![0; 100_000]).expect("the first frame is well");
        for range in [0..300_000, 150_000..150_010] {
            let error = file.read_exact_at(range.start, &mut vec![0; (range.end - range.start) as usize]);
            let error = error.expect_err("damaged");
            assert_eq!(error.kind(), ErrorKind::Data);
            assert_eq!(
                (error.location().file.as_deref(), error.location().offset),
                (Some(&*path), Some(first as u64))
            );
            assert!(error.to_string().contains("frame is damaged"), "{error}");
        }
        // A file that was cut anywhere is an error, not shorter data.
        let frames = packed(&data, &[100_000; 3], false).len();
        for size in [5, 20, first - 1, first + 1, first + 8, first + 13, frames - 1] {
            let error = error_of(&write(folder.path(), &bytes[..size]), data.len());
            assert_eq!(error.kind(), ErrorKind::Data, "{size}: {error}");
            assert!(error.location().offset.is_some(), "{size}: {error}");
        }
    }
}

#[test]
fn inconsistent_seek_tables_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = data(30_000);
    let bytes = packed(&data, &[10_000; 3], true);
    let table = bytes.len() - (8 + 3 * 8 + 9);
    for (at, value) in [
        (table, 0),
        (table + 4, 1),
        (table + 8, bytes[table + 8] ^ 1),
        (table + 12, bytes[table + 12] ^ 1),
        (bytes.len() - 9, 2),
        (bytes.len() - 6, 255),
        (bytes.len() - 5, 4),
        (bytes.len() - 5, 0x80),
    ] {
        let mut damaged = bytes.clone();
        damaged[at] = value;
        let error = error_of(&write(folder.path(), &damaged), data.len());
        assert_eq!(error.kind(), ErrorKind::Data, "{at}: {error}");
    }
}

#[test]
fn seek_table_checksums_are_verified() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = data(20_000);
    // Frames without checksums, as the format's reference implementation writes them.
    for sum in [Xxh64::of(&data) as u32, 1] {
        let mut file = Vec::with_capacity(30_000);
        CCtx::create().compress2(&mut file, &data).expect("a frame");
        let size = file.len() as u32;
        for word in [table::TABLE_MAGIC, 12 + 9, size, 20_000, sum, 1] {
            file.extend(word.to_le_bytes());
        }
        file.push(0x80);
        file.extend(table::FOOTER_MAGIC.to_le_bytes());
        let read = open(&write(folder.path(), &file)).read_exact_at(0, &mut vec![0; 20_000]);
        match read {
            Ok(()) => assert_ne!(sum, 1),
            Err(error) => assert!(sum == 1 && error.to_string().contains("checksum"), "{error}"),
        }
    }
}

#[test]
fn frames_of_unknown_or_large_size_go_to_the_cache_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = data(20_000);
    let mut context = CCtx::create();
    context.set_parameter(CParameter::ContentSizeFlag(false)).expect("a parameter");
    let mut unstated = Vec::with_capacity(30_000);
    context.compress2(&mut unstated, &data).expect("a frame");
    // A frame that claims 2^60 bytes of data.
    let mut huge = vec![0x28, 0xb5, 0x2f, 0xfd, 0xe0];
    huge.extend((1u64 << 60).to_le_bytes());
    huge.extend([1, 0, 0]);
    for bytes in [unstated, huge] {
        let path = write(folder.path(), &bytes);
        let file = DataFile::open_packed(path.as_ref(), &path, |cause| panic!("{cause}")).expect("a file");
        assert!(Frames::open(&file).expect("frames").is_none());
    }
}

#[test]
fn impossible_compression_ratios_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = |bytes: &[u8]| {
        let error = DataFile::open(&write(folder.path(), bytes)).expect_err("it is refused");
        assert!(error.kind() == ErrorKind::Data && error.to_string().contains("bytes of data"), "{error}");
    };
    // A header that claims 16 MB, and an empty block: thousands of these would turn a file of a few
    // KB into many GB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    frame.extend((16u32 << 20).to_le_bytes());
    frame.extend([1, 0, 0]);
    refused(&frame);
    let mut table = FrameTable::default();
    table.add(frame.len(), 16 << 20).expect("an entry");
    refused(&[&frame[..], &table.finish()].concat());
    // Zeros have the best possible compression ratio.
    let zeros = vec![0; 16 << 20];
    let file = open(&write(folder.path(), &packed(&zeros, &[16 << 20], true)));
    assert_eq!(file.size().expect("a size"), 16 << 20);
}
