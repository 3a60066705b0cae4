//! Bundles and binary files, from configuration to minibatch.

mod common;

use cntk_reader::language::from_text;
use cntk_reader_core::runtime::log::set_sink;
use cntk_reader_core::stream::ElementType;
use cntk_reader_engine::randomize::SIZE_UNLIMITED;
use cntk_reader_engine::reader::{Epoch, ReadConfig, Reader};
use cntk_reader_tools::convert::{TextToBinary, parse_streams, text_to_binary};
use common::rng::Rng;
use common::seen::read_all;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Lets one test run at a time, because one of them replaces the process's log sink.
static TURN: Mutex<()> = Mutex::new(());

fn quiet() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    common::quiet();
    turn
}

const P: &str = "0|a 0\n1|a 1\n1|a 11\n2|a 2\n5|a 5\n3|a 3\n";
const S: &str = "3|b 30\n3|b 31\n3|b 32\n2|b 20\n0|b 0\n1|b 10\n7|b 70\n";

fn text(folder: &Path, file: &str, stream: &str, more: &str) -> String {
    format!(
        "[ type = CNTKTextFormatDeserializer ; module = CNTKTextFormatReader ; {more} ; file = \"{}\"\n\
         input = [ {stream} ] ]",
        folder.join(file).display()
    )
}

fn dense(name: &str) -> String {
    format!("{name} = [ dim = 1 ; format = dense ]")
}

fn binary(folder: &Path, file: &str) -> String {
    let file = folder.join(file);
    format!(
        "[ type = CNTKBinaryFormatDeserializer ; module = CNTKBinaryReader ; file = \"{}\" ]",
        file.display()
    )
}

fn reader(reader: &str, deserializers: &[String]) -> Reader {
    let config = format!("{reader}\ndeserializers = ({})", deserializers.join(" : "));
    Reader::open(&from_text(&config).expect("a configuration")).expect("a reader")
}

fn epoch(workers: u64, rank: u64, minibatch: u64, sweeps: u64) -> Epoch {
    let read = ReadConfig::new(minibatch).worker(rank, workers);
    Epoch::from_numbers(read, SIZE_UNLIMITED, sweeps, 0)
}

/// Returns the position after each minibatch, and the values of each stream without gaps, in column
/// order.
fn run(reader: &mut Reader, epoch: &Epoch) -> Vec<(u64, Vec<Vec<f32>>)> {
    reader.start_epoch(epoch).expect("an epoch");
    let mut all = Vec::new();
    loop {
        let seen = common::seen::read(reader).expect("a minibatch");
        if !seen.streams.is_empty() {
            let floats =
                |data: &[u8]| data.as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect();
            let values = seen.streams.iter().map(|stream| floats(&stream.data)).collect();
            all.push((reader.state()[0].1, values));
        }
        if seen.end_of_epoch {
            return all;
        }
    }
}

fn files(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, content) in files {
        std::fs::write(folder.path().join(name), content).expect("writing data");
    }
    folder
}

fn batches(recorded: &[(u64, &[f32], &[f32])]) -> Vec<(u64, Vec<Vec<f32>>)> {
    recorded.iter().map(|(position, a, b)| (*position, vec![a.to_vec(), b.to_vec()])).collect()
}

#[test]
fn joins_match_the_record() {
    let _turn = quiet();
    let folder = files(&[("p.ctf", P), ("s.ctf", S)]);
    let of = |file: &str, stream: &str, more: &str| {
        let stream = format!("{stream} = [ dim = 1 ; format = dense ; {more} ]");
        text(folder.path(), file, &stream, "")
    };
    let (p, s) = (of("p.ctf", "a", ""), of("s.ctf", "b", ""));
    let plain = "traceLevel = 0 ; randomize = false";

    let got = run(&mut reader(plain, &[p.clone(), s.clone()]), &epoch(1, 0, 1, 1));
    let b_of_3: &[f32] = &[30.0, 31.0, 32.0];
    let expected: [(u64, &[f32], &[f32]); 4] =
        [(1, &[0.0], &[0.0]), (3, &[1.0, 11.0], &[10.0]), (4, &[2.0], &[20.0]), (7, &[3.0], b_of_3)];
    assert_eq!(got, batches(&expected));

    let got = run(&mut reader(plain, &[s.clone(), p.clone()]), &epoch(1, 0, 2, 1));
    let expected: [(u64, &[f32], &[f32]); 3] =
        [(3, b_of_3, &[3.0]), (5, &[20.0, 0.0], &[2.0, 0.0]), (7, &[10.0], &[1.0, 11.0])];
    assert_eq!(got, batches(&expected));

    let positions =
        |batches: Vec<(u64, Vec<Vec<f32>>)>| -> Vec<u64> { batches.iter().map(|b| b.0).collect() };
    let defining = of("s.ctf", "b", "definesMBSize = true");
    let got = run(&mut reader(plain, &[p.clone(), defining.clone()]), &epoch(1, 0, 2, 1));
    assert_eq!(positions(got), [2, 3, 6]);
    let got =
        run(&mut reader(plain, &[of("p.ctf", "a", "definesMBSize = true"), s.clone()]), &epoch(1, 0, 2, 1));
    assert_eq!(positions(got), [1, 3, 5]);

    let randomized = "traceLevel = 0";
    let got = run(&mut reader(randomized, &[p.clone(), s.clone()]), &epoch(1, 0, 3, 2));
    assert_eq!(positions(got), [2, 4, 7, 9, 12, 14]);
    let got = run(&mut reader(randomized, &[s.clone(), p.clone()]), &epoch(1, 0, 3, 1));
    assert_eq!(positions(got), [1, 4, 7]);
    let keys = |list: &[String]| {
        let mut reader = reader(randomized, list);
        reader.start_epoch(&epoch(1, 0, 3, 1)).expect("an epoch");
        let all = read_all(&mut reader, 20).expect("minibatches");
        all.into_iter().map(|seen| seen.keys).filter(|keys| !keys.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(keys(&[p.clone(), s.clone()]), [vec![2, 0], vec![1], vec![3]]);
    assert_eq!(keys(&[s.clone(), p.clone()]), [vec![0], vec![3], vec![2, 1]]);

    let worker = |rank| positions(run(&mut reader(plain, &[p.clone(), s.clone()]), &epoch(2, rank, 4, 1)));
    assert_eq!((worker(0)[0], worker(1)), (4, vec![3, 7]));
}

#[test]
fn textual_and_hashed_keys_join() {
    let _turn = quiet();
    let folder = files(&[("p.ctf", "b |a 1\na |a 2\nc |a 3\n"), ("s.ctf", "c |b 30\na |b 20\nb |b 10\n")]);
    let list = ["p.ctf", "s.ctf"].map(|file| {
        let stream = if file == "p.ctf" { dense("a") } else { dense("b") };
        text(folder.path(), file, &stream, "maxErrors = 100")
    });
    for more in ["", "hashSequenceKeys = true"] {
        let head = format!("traceLevel = 0 ; randomize = false ; useNumericSequenceKeys = false ; {more}");
        let got = run(&mut reader(&head, &list), &epoch(1, 0, 3, 1));
        assert_eq!(got, batches(&[(3, &[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0])]), "{more}");
    }
}

#[test]
fn dropped_sequences_are_named() {
    let _turn = quiet();
    let folder = files(&[("p.ctf", P), ("s.ctf", S)]);
    let list = [text(folder.path(), "p.ctf", &dense("a"), ""), text(folder.path(), "s.ctf", &dense("b"), "")];
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    set_sink(Some(Arc::new(move |_, line: &str| sink.lock().expect("no panic").push(line.to_owned()))));
    // At every trace level.
    for level in 0..3 {
        drop(reader(&format!("traceLevel = {level}"), &list));
    }
    let (p, s) = (folder.path().join("p.ctf"), folder.path().join("s.ctf"));
    let joined = format!("Joined 2 deserializers by key: 4 of 5 sequences of '{}'.", p.display());
    let dropped =
        format!("Dropped 1 of 5 sequences of '{}', because '{}' lacks them: 5.", p.display(), s.display());
    let unused = format!("Not used: 1 of 5 sequences of '{}': 7.", s.display());
    let lines = lines.lock().expect("no panic");
    let joined_lines = ["Joined", "Dropped", "Not used"];
    let seen: Vec<_> =
        lines.iter().filter(|line| joined_lines.iter().any(|start| line.starts_with(start))).collect();
    let starts = [&dropped, &unused, &dropped, &unused, &joined, &dropped, &unused];
    assert!(seen.iter().zip(starts).all(|(line, start)| line.starts_with(start)), "{seen:?}");
    assert_eq!(seen.len(), starts.len());
}

/// Both streams have the key as their value.
#[test]
fn no_wrong_pair_in_a_hundred_runs() {
    let _turn = quiet();
    let mut rng = Rng::new(5);
    let mut keys: Vec<u64> = (0..2000).collect();
    let write = |keys: &[u64], name: &str| {
        keys.iter().fold(String::new(), |mut all, key| {
            writeln!(all, "{key} |{name} {key}").expect("writing to a string");
            all
        })
    };
    let primary = write(&keys, "a");
    for i in (1..keys.len()).rev() {
        keys.swap(i, rng.below(i + 1));
    }
    let folder = files(&[("p.ctf", &primary), ("s.ctf", &write(&keys, "b"))]);
    let list = [
        text(folder.path(), "p.ctf", &dense("a"), "chunkSizeInBytes = 3000"),
        text(folder.path(), "s.ctf", &dense("b"), "chunkSizeInBytes = 300"),
    ];
    for turn in 0..100 {
        let head = format!("traceLevel = 0 ; randomize = {} ; randomizationSeed = {turn}", turn % 4 != 0);
        let got = run(&mut reader(&head, &list), &epoch(1, 0, 100, 1));
        let mut count = 0;
        for (_, streams) in got {
            assert_eq!(streams[0], streams[1]);
            count += streams[0].len();
        }
        assert_eq!(count, 2000);
    }
}

#[test]
fn binary_files_join_by_ordinal_in_any_position() {
    let _turn = quiet();
    let folder = files(&[("p.ctf", "|a 0\n|a 1\n|a 2\n"), ("y.ctf", "2 |y 22\n0 |y 20\n1 |y 21\n1 |y 31\n")]);
    for (input, output, stream) in [("p.ctf", "p.cbf", "a a dense 1"), ("p.ctf", "q.cbf", "q a dense 1")] {
        let options = TextToBinary {
            input: folder.path().join(input).display().to_string(),
            output: folder.path().join(output).display().to_string(),
            streams: parse_streams(stream).expect("streams"),
            chunk_size: 8,
            element: ElementType::Float,
            ctf2bin_compatible: false,
        };
        text_to_binary(&options, &mut |_| ControlFlow::Continue(())).expect("a binary file");
    }
    let (p, q) = (binary(folder.path(), "p.cbf"), binary(folder.path(), "q.cbf"));
    let y = text(folder.path(), "y.ctf", &dense("y"), "");
    let plain = "traceLevel = 0 ; randomize = false";
    let got = run(&mut reader(plain, &[p.clone(), q, y.clone()]), &epoch(1, 0, 9, 1));
    let (a, values) = (vec![0.0, 1.0, 2.0], vec![20.0, 21.0, 22.0, 31.0]);
    assert_eq!(got, [(4, vec![a.clone(), a, values])]);
    let got = run(&mut reader(plain, &[y, p]), &epoch(1, 0, 9, 1));
    assert_eq!(got, batches(&[(4, &[22.0, 21.0, 20.0, 31.0], &[2.0, 0.0, 1.0])]));
}

#[test]
fn checkpoints_of_bundles_continue() {
    let _turn = quiet();
    let mut rng = Rng::new(9);
    let (mut p, mut s) = (String::new(), String::new());
    // In reverse order in the second file.
    let lengths: Vec<u64> = (0..200).map(|_| rng.range(1, 4)).collect();
    for key in 0..200 {
        for sample in 0..lengths[key] {
            writeln!(p, "{key} |a {key}.{sample}").expect("writing to a string");
        }
        let partner = 199 - key;
        for sample in 0..if rng.once_in(5) { 0 } else { lengths[partner] } {
            writeln!(s, "{partner} |b {key}.{sample}").expect("writing to a string");
        }
    }
    let folder = files(&[("p.ctf", &p), ("s.ctf", &s)]);
    let list = [
        text(folder.path(), "p.ctf", &dense("a"), "chunkSizeInBytes = 200"),
        text(folder.path(), "s.ctf", &dense("b"), "chunkSizeInBytes = 100"),
    ];
    let packings = ["", "randomize = false", "truncated = true ; truncationLength = 3"];
    for head in packings.map(|packing| format!("traceLevel = 0 ; {packing}")) {
        let mut whole = reader(&head, &list);
        whole.start_epoch(&epoch(1, 0, 20, 2)).expect("an epoch");
        let mut checkpoints = Vec::new();
        let mut seen = Vec::new();
        loop {
            checkpoints.push(whole.checkpoint().expect("a checkpoint"));
            let one = common::seen::read(&mut whole).expect("a minibatch");
            let end = one.is_end();
            seen.push(one);
            if end {
                break;
            }
        }
        for at in (0..seen.len()).step_by(7) {
            let mut again = reader(&head, &list);
            again.restore(&checkpoints[at]).expect("the checkpoint");
            assert_eq!(read_all(&mut again, 1000).expect("minibatches"), seen[at..], "{head}: {at}");
        }
    }
}

/// CNTK renumbers the remaining chunks but looks them up by their old numbers: without
/// randomization it delivers the data of other keys.
#[test]
fn chunk_without_partners_does_not_shift_others() {
    let _turn = quiet();
    // Lines of 6 bytes, two in each chunk.
    let lines = |keys: &[u64], name: &str| -> String {
        keys.iter().map(|key| format!("{key} |{name} {key}")).map(|line| line + "\n").collect()
    };
    let primary = lines(&[0, 1, 2, 3, 4, 5, 6, 7], "a");
    for kept in [&[2, 3, 4, 5, 6, 7][..], &[0, 1, 6, 7], &[4, 5], &[7, 5, 2], &[0, 1, 2, 3]] {
        let folder = files(&[("p.ctf", &primary), ("s.ctf", &lines(kept, "b"))]);
        let list = [
            text(folder.path(), "p.ctf", &dense("a"), "chunkSizeInBytes = 14"),
            text(folder.path(), "s.ctf", &dense("b"), "chunkSizeInBytes = 14"),
        ];
        for randomize in [false, true] {
            let head = format!("traceLevel = 0 ; randomize = {randomize}");
            let mut seen = Vec::new();
            for (_, streams) in run(&mut reader(&head, &list), &epoch(1, 0, 1, 2)) {
                assert_eq!(streams[0], streams[1], "{kept:?}");
                seen.extend(streams[0].iter().map(|&value| value as u64));
            }
            let mut once = kept.to_vec();
            once.sort_unstable();
            if randomize {
                seen[..kept.len()].sort_unstable();
                seen[kept.len()..].sort_unstable();
            }
            assert_eq!(seen, [once.clone(), once].concat(), "{kept:?}, randomize = {randomize}");
        }
    }
}

/// As in CNTK, which does not notice; this library warns.
#[test]
fn keys_with_equal_hashes_are_one_key() {
    let _turn = quiet();
    // (x ^ 'a') * 33 ^ '6' is (x ^ 'g') * 33 ^ 'p'.
    let folder =
        files(&[("p.ctf", "a6 |a 1\nb |a 2\ngp |a 3\n"), ("s.ctf", "gp |b 30\nb |b 20\na6 |b 10\n")]);
    let list = ["p.ctf", "s.ctf"].map(|file| {
        let stream = if file == "p.ctf" { dense("a") } else { dense("b") };
        text(folder.path(), file, &stream, "maxErrors = 100")
    });
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    set_sink(Some(Arc::new(move |_, line: &str| sink.lock().expect("no panic").push(line.to_owned()))));
    let joined = |more: &str| {
        let head = format!("randomize = false ; useNumericSequenceKeys = false ; {more}");
        run(&mut reader(&head, &list), &epoch(1, 0, 3, 1))
    };
    assert_eq!(joined("traceLevel = 0"), batches(&[(3, &[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0])]));
    assert_eq!(
        joined("traceLevel = 1 ; hashSequenceKeys = true"),
        batches(&[(3, &[1.0, 2.0, 3.0], &[30.0, 20.0, 30.0])])
    );
    let lines = lines.lock().expect("no panic");
    for file in ["p.ctf", "s.ctf"].map(|name| folder.path().join(name).display().to_string()) {
        let is_warning = |line: &&String| {
            [file.as_str(), "line 1 (offset 0)", "line 3 (offset "].iter().all(|part| line.contains(part))
        };
        assert_eq!(lines.iter().filter(is_warning).count(), 1, "{file}: {lines:#?}");
    }
}
