//! Mixed files in one chunk, and files that change.

use super::*;
use cntk_reader_core::file::faults::{Fault, Faults, Operation};
use cntk_reader_core::testing::system_message;

#[test]
fn byte_orders_and_compression_may_differ_between_files() {
    let (_folder, path) = folder();
    let names = ["arch.mfc", "arch_c.mfc", "arch_le.mfc", "arch_k.mfc", "arch_c1.mfc", "arch_c.mfc"];
    for first in 0..names.len() {
        let lines = (first..first + 12).map(|number| {
            let name = names[number % names.len()];
            let frames = if name == "arch_c1.mfc" { "[0,1]" } else { "[12,20]" };
            format!("u{number}={DATA}/{name}{frames}\nv{number}={DATA}/{name}[0,1]\n")
        });
        let script = write(&path, "a.scp", lines.collect::<String>());
        let read = read_all(&options(&script)).expect("utterances");
        let other = read_all(&options("f_arch_c1.scp")).expect("an utterance").remove(0).1;
        for (number, pair) in (first..).zip(read.chunks(2)) {
            if names[number % names.len()] == "arch_c1.mfc" {
                assert!(pair[0].1 == other && pair[1].1 == other);
            } else {
                assert_eq!((&pair[0].1, &pair[1].1), (&frames(3, 9), &frames(1, 2)), "{number} from {first}");
            }
        }
    }
}

#[test]
fn archives_are_read_in_parts_in_any_order() {
    let (_folder, path) = folder();
    let archive = write(&path, "a.mfc", feature_file(60_000, 16));
    let mut ranges: Vec<(u32, u32)> = (0..600).map(|number| (number * 100, number * 100 + 99)).collect();
    for step in [1, 7, 599] {
        ranges.sort_by_key(|range| range.0 / 100 * step % 601);
        let lines = ranges.iter().map(|(first, last)| format!("u{first}={archive}[{first},{last}]\n"));
        let script = write(&path, "a.scp", lines.collect::<String>());
        let read = read_all(&HtkFeatureOptions { dim: 16, ..options(&script) }).expect("utterances");
        for ((_, samples), (first, _)) in read.iter().zip(&ranges) {
            let mut values = samples.iter().flatten();
            assert!((first * 16..).take(1600).all(|value| values.next() == Some(&(value as f32))));
        }
    }
}

#[test]
fn archives_beyond_the_open_limit_are_read() {
    let (_folder, path) = folder();
    let archives: Vec<String> =
        (0..90).map(|number| write(&path, &format!("{number}.mfc"), feature_file(number + 3, 3))).collect();
    let lines = (0..180).map(|number| {
        let frame = number / 90;
        format!("u{number}={}[{frame},{}]\n", archives[number % 90], frame + 1)
    });
    let script = write(&path, "a.scp", lines.collect::<String>());
    let read = read_all(&options(&script)).expect("utterances");
    assert_eq!(read[5].1, [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]);
    assert!(read[90..].iter().all(|utterance| utterance.1 == [[3.0, 4.0, 5.0], [6.0, 7.0, 8.0]]));
    assert_eq!(read.len(), 180);
}

#[test]
fn first_failure_of_a_chunk_is_reported() {
    let (_folder, path) = folder();
    let archive = write(&path, "a.mfc", feature_file(100, 3));
    let ranges = ["[0,9]", "[10,19]", "[20,100]", "[0,200]", "[1,1]"];
    let lines = ranges.iter().enumerate().map(|(number, range)| format!("u{number}={archive}{range}\n"));
    let script = write(&path, "a.scp", lines.collect::<String>());
    let error = failure(&options(&script));
    let expected = format!("open: end frame exceeds archive's total number of frames 100 in '{archive}'");
    assert_eq!((error.message(), error.location().key.as_deref()), (expected.as_str(), Some("u2")));
    // The file is truncated within the first two utterances, which are read before the range of the
    // third is checked.
    std::fs::write(&archive, &feature_file(100, 3)[..12 + 15 * 12]).expect("writing");
    let error = failure(&options(&script));
    assert_eq!(
        (error.message(), error.location().offset),
        ("error reading from file: Success", Some(12 + 15 * 12))
    );
}

#[cfg(unix)]
#[test]
fn shrunken_file_is_an_error_with_location() {
    let (_folder, path) = folder();
    let archive = write(&path, "a.mfc", feature_file(100, 3));
    let script = write(&path, "a.scp", format!("u1={archive}[0,9]\nu2={archive}[10,99]\n"));
    let opened = open(&options(&script)).expect("it opens");
    assert!(opened.load(0).is_ok());
    std::fs::File::options().write(true).open(&archive).expect("a file").set_len(500).expect("cutting");
    let error = opened.load(0).err().expect("an error");
    assert_eq!(error.message(), format!("The file '{archive}' was changed while it was in use."));
    assert_eq!(error.location().file.as_ref(), Some(&archive));
    assert!(error.detail().contains("line 1 of") && error.detail().contains("has 500 bytes"), "{error}");
    std::fs::remove_file(&archive).expect("removing");
    let error = opened.load(0).err().expect("an error");
    assert_eq!(error.message(), format!("error opening file '{archive}': No such file or directory"));
    assert_eq!(
        (error.location().key.as_deref(), error.location().stream.as_deref()),
        (Some("u1"), Some("features"))
    );
}

#[cfg(unix)]
#[test]
fn reading_survives_transient_faults() {
    let (_folder, path) = folder();
    let archive = write(&path, "a.mfc", feature_file(100, 3));
    let script = write(&path, "a.scp", format!("u1={archive}[0,99]\n"));
    let opened = open(&options(&script)).expect("it opens");
    let faults = Faults::of(&archive);
    faults.inject(Operation::Open, Fault::Fails(libc::EIO), 0, 4);
    faults.inject(Operation::Read, Fault::Reads(7), 0, 9);
    assert_eq!(read(&opened).expect("utterances")[0].1.len(), 100);
    assert_eq!(faults.left(), 0);
    faults.inject(Operation::Read, Fault::Fails(libc::EIO), 1, 5);
    let error = opened.load(0).err().expect("five failures");
    assert_eq!(error.kind(), cntk_reader_core::ErrorKind::Io);
    assert_eq!(error.message(), format!("error reading from file: {}", system_message(libc::EIO)));
    let script = write(&path, "b.scp", format!("u1={path}[0,99]\n"));
    assert_eq!(failure(&options(&script)).message(), "error reading from file: Is a directory");
}

#[test]
fn long_ranges_are_compared_with_their_files_first() {
    let (_folder, path) = folder();
    let mut bytes = feature_file(3, 3);
    // Files that claim 2147483647 frames, and -1, which CNTK takes for enormous.
    for claimed in [0x7fff_ffff_u32, 0xffff_ffff] {
        bytes[..4].copy_from_slice(&claimed.to_be_bytes());
        let archive = write(&path, "a.mfc", &bytes);
        for last in ["2147483645", "90001"] {
            let script = write(&path, "a.scp", format!("u1={archive}[0,1]\nu2={archive}[0,{last}]\n"));
            let error = open(&options(&script)).err().expect("an error");
            assert_eq!(error.message(), "error reading from file: Success");
            assert_eq!(error.location().offset, Some(48));
            assert!(error.detail().contains("line 2 of"), "{error}");
        }
        let script = write(&path, "a.scp", format!("u1={archive}[0,2]\n"));
        assert_eq!(read_all(&options(&script)).expect("an utterance").len(), 1);
    }
    // The range of all numbers, and a file that shrinks after it was opened.
    let archive = write(&path, "a.mfc", feature_file(100_000, 3));
    let script = write(&path, "a.scp", format!("u1={archive}[0,1]\nu2={archive}[0,-1]\n"));
    let expected = format!("open: end frame exceeds archive's total number of frames 100000 in '{archive}'");
    assert_eq!(open(&options(&script)).err().expect("an error").message(), expected);
    let script = write(&path, "a.scp", format!("u1={archive}[0,99999]\n"));
    let opened = open(&options(&script)).expect("it opens");
    write(&path, "a.mfc", &feature_file(100_000, 3)[..500]);
    let error = opened.load(0).err().expect("an error");
    assert_eq!(error.message(), format!("The file '{archive}' was changed while it was in use."));
    assert_eq!(error.location().key.as_deref(), Some("u1"));
    assert_eq!(opened.memory().chunks, 0);
}

/// CNTK opens a truncated archive and fails only when missing frames are needed.
#[test]
fn truncated_archive_leaves_other_chunks_readable() {
    let (_folder, path) = folder();
    let whole = feature_file(90_001, 3);
    let cut = write(&path, "a.mfc", &whole[..whole.len() - 1]);
    let other = write(&path, "b.mfc", feature_file(3, 3));
    for (script, cut_chunk, frames) in [
        (format!("u1={cut}[0,90000]\nu2={other}[0,2]\n"), 0, 3),
        (format!("u2={other}[0,2]\nu1={cut}[0,90000]\n"), 0, 0),
    ] {
        let script = write(&path, "a.scp", script);
        let opened = open(&options(&script)).expect("it opens");
        let error = opened.load(cut_chunk).err().expect("an error");
        assert_eq!(error.message(), "error reading from file: Success");
        assert_eq!(error.location().key.as_deref(), Some("u1"));
        assert!(error.detail().contains("it is not complete"), "{error}");
        if frames > 0 {
            assert!(opened.load(1).is_ok());
            assert_eq!(opened.chunks()[1].samples, frames);
        }
    }
}

#[test]
fn many_values_are_compared_with_their_files_first() {
    let (_folder, path) = folder();
    // Three frames of 6.8 KB; the header and the script claim a usual chunk's number.
    let mut bytes = feature_file(3, 1700);
    bytes[..4].copy_from_slice(&200_000_u32.to_be_bytes());
    let archive = write(&path, "a.mfc", &bytes);
    let script = write(&path, "a.scp", format!("u1={archive}[0,1]\nu2={archive}[0,89999]\n"));
    let opened = open(&HtkFeatureOptions { dim: 1700, ..options(&script) }).expect("it opens");
    let error = opened.load(0).err().expect("an error");
    assert_eq!(error.message(), "error reading from file: Success");
    assert_eq!((error.location().offset, error.location().key.as_deref()), (Some(20_412), Some("u2")));
    // No memory was reserved for the claimed 612 MB.
    assert_eq!(opened.memory().chunks, 0);
}

#[cfg(unix)]
#[test]
fn paths_need_not_be_text() {
    use std::os::unix::ffi::OsStrExt;
    let (folder, _) = folder();
    let archive = folder.path().join(std::ffi::OsStr::from_bytes(b"a\xff.mfc"));
    std::fs::write(&archive, feature_file(3, 3)).expect("writing");
    let line = [b"u1=", archive.as_os_str().as_bytes(), b"[0,2]\nu2=/no\xffne[0,2]\n"].concat();
    let script = folder.path().join("a.scp");
    std::fs::write(&script, &line[..line.len() - 15]).expect("writing");
    let script = script.to_str().expect("text");
    assert_eq!(read_all(&options(script)).expect("an utterance")[0].1.len(), 3);
    std::fs::write(script, line).expect("writing");
    let expected = "error opening file '/no\u{fffd}ne': No such file or directory";
    assert_eq!(failure(&options(script)).message(), expected);
}
