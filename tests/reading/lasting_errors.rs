//! Lasting errors: reading continues past them, or ends with the same error every time.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

use crate::common;

use cntk_reader::user::{UserChunk, UserDeserializer};
use cntk_reader::{ElementType, Epoch, Error, ErrorKind, Reader, StreamInfo};
use cntk_reader_tools::convert::{TextToBinary, parse_streams, text_to_binary};
use std::fmt::Write;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

/// Maximum number of reads.
const READS: usize = 40;

/// Reads a sweep in minibatches of one sequence after `damage`. Returns the number of sequences and
/// the errors.
fn sweep(config: &str, damage: impl FnOnce()) -> (usize, Vec<Error>) {
    common::quiet();
    let text = format!("randomize = false\nmultithreadedDeserialization = false\n{config}");
    let mut reader = Reader::builder().config_text(&text).unwrap().open().unwrap();
    damage();
    drop(reader.epoch(Epoch::sweeps(1).minibatch_size(1)).unwrap());
    let (mut count, mut errors) = (0, Vec::new());
    for _ in 0..READS {
        match reader.read() {
            Ok(minibatch) if minibatch.end_of_epoch() && minibatch.is_empty() => return (count, errors),
            Ok(minibatch) => {
                count += minibatch.keys().len();
                if minibatch.end_of_epoch() {
                    return (count, errors);
                }
            }
            Err(error) => errors.push(error),
        }
    }
    panic!("the sweep does not end: {count} sequences, {errors:?}");
}

/// Returns a file of HTK features with frames of one value.
fn htk(frames: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(frames.to_be_bytes());
    bytes.extend(100_000u32.to_be_bytes());
    bytes.extend(4u16.to_be_bytes());
    bytes.extend(9u16.to_be_bytes());
    bytes.extend((0..frames).flat_map(|value| (value as f32).to_be_bytes()));
    bytes
}

/// Minimum number of frames of a chunk: a chunk has at most two utterances of this length.
const FRAMES: u32 = 90_000;

/// Writes four utterances of HTK features, each in its own file.
fn speech(folder: &Path) -> String {
    let mut script = String::new();
    for name in ["a", "b", "c", "d"] {
        let path = folder.join(format!("{name}.mfc"));
        fs::write(&path, htk(FRAMES)).unwrap();
        writeln!(script, "{name}.mfc={}[0,{}]", path.display(), FRAMES - 1).unwrap();
    }
    fs::write(folder.join("a.scp"), script).unwrap();
    format!(
        "deserializers = ([ type = \"HTKFeatureDeserializer\" ; module = \"HTKDeserializers\" ; \
         input = [ x = [ scpFile = \"{}\" ; dim = 1 ] ] ])",
        folder.join("a.scp").display()
    )
}

#[test]
fn missing_feature_file_fails_its_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let config = speech(folder.path());
    let (count, errors) = sweep(&config, || fs::remove_file(folder.path().join("b.mfc")).unwrap());
    assert!(errors.iter().all(|error| error.kind() == ErrorKind::Io), "{errors:?}");
    assert!(count >= 2 && count + errors.len() == 4, "{count} sequences, {errors:?}");
    assert!(errors[0].to_string().contains("No such file"), "{}", errors[0]);
}

#[test]
fn cyclic_link_to_feature_file_fails_its_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let config = speech(folder.path());
    let path = folder.path().join("c.mfc");
    let (count, errors) = sweep(&config, || {
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&path, &path).unwrap();
    });
    assert!(count >= 2 && count + errors.len() == 4, "{count} sequences, {errors:?}");
}

#[test]
fn sweep_ends_when_all_feature_files_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let config = speech(folder.path());
    let (count, errors) = sweep(&config, || {
        for name in ["a", "b", "c", "d"] {
            fs::remove_file(folder.path().join(format!("{name}.mfc"))).unwrap();
        }
    });
    assert_eq!((count, errors.len()), (0, 4), "{errors:?}");
}

#[test]
fn missing_kaldi_archive_fails_its_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let mut script = String::new();
    // More archives than stay open.
    let archives = 300;
    for number in 0..archives {
        let mut archive = format!("u{number} \0BFM \x04").into_bytes();
        let start = archive.len() - 6;
        archive.extend(1u32.to_le_bytes());
        archive.push(4);
        archive.extend(1u32.to_le_bytes());
        archive.extend(1f32.to_le_bytes());
        let path = folder.path().join(format!("{number}.ark"));
        fs::write(&path, archive).unwrap();
        writeln!(script, "u{number} {}:{start}", path.display()).unwrap();
    }
    fs::write(folder.path().join("a.scp"), script).unwrap();
    let config = format!(
        "useNumericSequenceKeys = false\ndeserializers = ([ type = \"KaldiDeserializer\" ; \
         input = [ x = [ scpFile = \"{}\" ; dim = 1 ] ] ])",
        folder.path().join("a.scp").display()
    );
    let text = format!("randomize = false\n{config}");
    common::quiet();
    let mut reader = Reader::builder().config_text(&text).unwrap().open().unwrap();
    for number in 280..archives {
        let _ = fs::remove_file(folder.path().join(format!("{number}.ark")));
    }
    drop(reader.epoch(Epoch::sweeps(1).minibatch_size(1)).unwrap());
    let (mut count, mut errors) = (0, 0);
    for _ in 0..archives + 1 {
        match reader.read() {
            Ok(minibatch) => {
                count += minibatch.keys().len();
                if minibatch.end_of_epoch() {
                    break;
                }
            }
            Err(_) => errors += 1,
        }
    }
    assert!(errors > 0 && count + errors == archives, "{count} sequences, {errors} errors");
}

#[test]
fn missing_file_of_a_long_list_fails_its_sequences() {
    let folder = tempfile::tempdir().unwrap();
    let files = 300;
    for number in 0..files {
        fs::write(folder.path().join(format!("{number:03}.ctf")), format!("|x {number}\n")).unwrap();
    }
    let config = format!(
        "randomize = true\nrandomizationWindow = 1\nsampleBasedRandomizationWindow = false\ndeserializers = ([ type = \
         \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; file = \"{}/*.ctf\" ; \
         input = [ x = [ dim = 1 ; format = \"dense\" ] ] ])",
        folder.path().display()
    );
    common::quiet();
    let mut reader = Reader::builder().config_text(&config).unwrap().open().unwrap();
    for number in 280..files {
        fs::remove_file(folder.path().join(format!("{number:03}.ctf"))).unwrap();
    }
    drop(reader.epoch(Epoch::sweeps(1).minibatch_size(1)).unwrap());
    let (mut count, mut errors) = (0, 0);
    for _ in 0..files + 1 {
        match reader.read() {
            Ok(minibatch) => {
                count += minibatch.keys().len();
                if minibatch.end_of_epoch() {
                    break;
                }
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                errors += 1;
            }
        }
    }
    assert!(errors > 0 && count + errors == files, "{count} sequences, {errors} errors");
}

#[test]
fn text_file_truncated_while_open_ends_in_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ctf");
    let lines: String = (0..10).map(|number| format!("|x {number}\n")).collect();
    fs::write(&path, lines).unwrap();
    let config = format!(
        "deserializers = ([ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; file = \"{}\" ; \
         chunkSizeInBytes = 10 ; input = [ x = [ dim = 1 ; format = \"dense\" ] ] ])",
        path.display()
    );
    let (_, errors) = sweep(&config, || fs::write(&path, "|x 0\n").unwrap());
    assert!(!errors.is_empty() && errors.iter().all(|error| error.kind() == ErrorKind::Data), "{errors:?}");
}

#[test]
fn damaged_binary_chunk_only_loses_its_own_sequences() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let lines: String = (0..12).map(|number| format!("{number} |x {number} |y {}:1\n", number % 5)).collect();
    fs::write(path("a.ctf"), lines).unwrap();
    let options = TextToBinary {
        input: path("a.ctf"),
        output: path("a.cbf"),
        streams: parse_streams("x x dense 1\ny y sparse 5").unwrap(),
        chunk_size: 30,
        element: ElementType::Float,
        ctf2bin_compatible: false,
    };
    text_to_binary(&options, &mut |_| ControlFlow::Continue(())).unwrap();
    let mut bytes = fs::read(path("a.cbf")).unwrap();
    // The indices of the first chunk's sparse values come after the lengths of its sequences; these
    // are out of range.
    let first = bytes.windows(4).position(|bytes| bytes == 1f32.to_le_bytes()).unwrap();
    bytes[first + 4..first + 16].fill(0xff);
    fs::write(path("a.cbf"), bytes).unwrap();
    let config = format!(
        "deserializers = ([ type = \"CNTKBinaryFormatDeserializer\" ; module = \"CNTKBinaryReader\" ; file = \"{}\" ])",
        path("a.cbf")
    );
    let (count, errors) = sweep(&config, || ());
    assert!(errors.iter().all(|error| error.kind() == ErrorKind::Data), "{errors:?}");
    assert!(!errors.is_empty() && count > 0 && count + errors.len() == 12, "{count} sequences, {errors:?}");
}

/// A deserializer whose chunks always fail to load.
struct Broken([StreamInfo; 1]);

impl UserDeserializer for Broken {
    fn streams(&self) -> &[StreamInfo] {
        &self.0
    }

    fn chunk_count(&self) -> u32 {
        5
    }

    fn load(&self, chunk: u32) -> Result<UserChunk, Error> {
        Err(Error::user(format!("chunk {chunk} is gone")))
    }
}

#[test]
fn failing_user_deserializer_fails_each_chunk() {
    common::quiet();
    for randomize in [false, true] {
        let options = cntk_reader::ReaderOptions::new().randomize(randomize);
        let broken = Broken([StreamInfo::dense("x", &[1])]);
        let mut reader = Reader::builder().options(options).deserializer("broken", broken).open().unwrap();
        drop(reader.epoch(Epoch::sweeps(1).minibatch_size(4)).unwrap());
        let mut errors = 0;
        let is_over = (0..READS).any(|_| match reader.read() {
            Ok(minibatch) => minibatch.end_of_epoch(),
            Err(error) => {
                assert!(error.kind() == ErrorKind::User || errors > 0, "{error}");
                errors += 1;
                false
            }
        });
        assert!(errors > 0, "randomize {randomize}");
        assert!(is_over || errors == READS, "randomize {randomize}: {errors} errors");
    }
}
