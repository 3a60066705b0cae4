//! Tests of the order of events: which files are opened when, and who learns of errors.

use super::*;
use crate::concat::test_format::{Content, Gate, KeylessFormat, TestFormat, files, simple, wait_until};
use crate::concat::{Concat, KeyRule};
use cntk_reader_core::ErrorKind;
use cntk_reader_core::file::changed;
use cntk_reader_core::runtime::cancel::Canceller;
use cntk_reader_core::testing::system_message;
use std::time::Duration;

/// Opens files of these sizes, or of one byte each.
fn open<F: Format>(format: F, paths: Vec<String>, rule: KeyRule) -> Concat<F> {
    let pool = Pool::shared().expect("threads");
    pool.install(|| Concat::open_incremental(format, paths, rule, &pool)).expect("a good first file")
}

fn background<F: Format>(concat: &Concat<F>) -> &Arc<Background<F>> {
    &concat.opening.as_ref().expect("files that are opened ahead").0
}

/// Returns the last file in use, the number of files begun, and the bytes of the files after it.
fn reached<F: Format>(concat: &Concat<F>) -> (usize, usize, u64) {
    let state = background(concat).state.lock();
    (state.used, state.placed + state.opened.len(), state.ahead)
}

/// Waits until all begun files have been opened, or have failed.
fn settle<F: Format>(concat: &Concat<F>) {
    wait_until(|| background(concat).state.lock().opened.iter().all(Option::is_some));
}

#[test]
fn files_are_opened_only_a_little_ahead() {
    let near = BYTES_AHEAD / 2;
    for (size, count, ahead) in
        [(60 << 20, 12, 3), (near, 12, 2), (near - 1, 12, 3), (200 << 20, 5, 1), (0, 1030, 1023)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let concat = open(
            TestFormat::new(&vec![simple(1); count]),
            files(&folder, &vec![size; count]),
            KeyRule::PerFile,
        );
        for chunk in (0..count).filter(|&chunk| chunk < 12 || chunk + 3 > count) {
            assert!(concat.chunk(chunk as ChunkId).expect("a good file").is_some());
            let begun = count.min(chunk + 1 + ahead);
            assert_eq!(reached(&concat), (chunk, begun, size * (begun - chunk - 1) as u64));
        }
        assert_eq!(concat.chunk(count as ChunkId).expect("the end"), None);
        assert_eq!(concat.files.format.called("open").len(), count);
        assert_eq!(concat.file_bytes(), Some(size * count as u64));
    }
}

#[test]
fn positions_wait_for_the_index_of_the_previous_file() {
    let contents = [Content { known: 1, ..simple(2) }, simple(1), simple(2)];
    let folder = tempfile::tempdir().expect("a folder");
    let paths = files(&folder, &[5, 6, 7]);
    let concat = open(TestFormat::new(&contents), paths.clone(), KeyRule::Shared);
    assert_eq!(reached(&concat), (0, 3, 13));
    settle(&concat);
    assert_eq!(background(&concat).state.lock().placed, 1);
    assert_eq!(concat.index_progress(), IndexProgress { chunks: 1, all: false });
    assert!(concat.chunk(1).expect("a good file").is_some());
    assert_eq!(background(&concat).state.lock().placed, 3);
    assert_eq!(concat.index_progress(), IndexProgress { chunks: 5, all: true });

    // By default, formats open their files in any order.
    let concat = open(KeylessFormat(TestFormat::new(&contents)), paths, KeyRule::Shared);
    assert_eq!(reached(&concat), (0, 3, 13));
}

#[test]
fn files_are_opened_in_turn_if_the_format_needs_it() {
    let contents = [Content { known: 1, ..simple(2) }, simple(1), simple(2)];
    let folder = tempfile::tempdir().expect("a folder");
    let format = TestFormat { in_turn: true, ..TestFormat::new(&contents) };
    let gate = format.close_gate();
    let concat = open(format, files(&folder, &[5, 6, 7]), KeyRule::Shared);
    assert_eq!(reached(&concat), (0, 1, 0));
    assert_eq!(concat.index_progress(), IndexProgress { chunks: 1, all: false });
    assert!(concat.chunk(1).expect("a good file").is_some());
    assert_eq!(reached(&concat), (0, 2, 6));
    assert_eq!(concat.index_progress(), IndexProgress { chunks: 2, all: false });
    drop(gate);
    assert!(concat.chunk(4).expect("a good file").is_some());
    assert_eq!(concat.index_progress(), IndexProgress { chunks: 5, all: true });
    assert_eq!(reached(&concat), (2, 3, 0));
    assert_eq!(concat.files.format.called("open"), [0, 1, 2]);
}

/// Drops the gate a little later, while the test waits.
fn open_later(gate: Gate) {
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        drop(gate);
    });
}

#[test]
fn whole_table_waits_for_all_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let format = TestFormat::new(&[simple(1), simple(2), simple(3)]);
    let gate = format.close_gate();
    let concat = open(format, files(&folder, &[1; 3]), KeyRule::Shared);
    open_later(gate);
    assert_eq!(concat.chunks().len(), 6);
    assert_eq!(*concat.files.format.warnings.lock(), [3]);
}

#[test]
fn unopenable_file_fails_at_its_first_chunk() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = files(&folder, &[60 << 20; 6]);
    for (bad, message) in [
        (Content { fails: true, ..Content::default() }, "File 2 is wrong."),
        (Content { panics: true, ..Content::default() }, "Opening a file panicked."),
        (Content { stream: Some("y"), ..simple(1) }, "The files of a deserializer have different streams."),
    ] {
        let contents = [simple(2), simple(2), bad, simple(1), simple(1), simple(1)];
        let format = TestFormat { is_slow: true, ..TestFormat::new(&contents) };
        let concat = open(format, paths.clone(), KeyRule::Shared);
        for _ in 0..2 {
            assert!((0..4).all(|chunk| concat.chunk(chunk).expect("a good file").is_some()));
            assert_eq!(concat.chunk(4).expect_err("a bad file").message(), message);
        }
        assert_eq!(concat.chunks().len(), 4);
        assert!(concat.whole.get().is_some(), "the error is permanent");
        assert!(!concat.index_progress().all);
        assert!(concat.files.format.warnings.lock().is_empty());
        assert!(!concat.files.format.called("open").contains(&5));
        if !contents[2].panics {
            let pool = Pool::shared().expect("threads");
            let all = || Concat::open(TestFormat::new(&contents), paths.clone(), KeyRule::PerFile);
            assert_eq!(pool.install(all).err().expect("an error").message(), message);
        }
    }
}

#[cfg(unix)] // It injects an error number of POSIX.
#[test]
fn unavailable_files_are_opened_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = files(&folder, &[1; 4]);
    let format = TestFormat::new(&vec![simple(1); 4]);
    format.unavailable.lock().extend([1, 1, 2]);
    let concat = open(format, paths.clone(), KeyRule::PerFile);
    for _ in 0..2 {
        settle(&concat);
        assert_eq!(background(&concat).state.lock().placed, 1);
        let error = concat.chunk(1).expect_err("an unavailable file");
        let reason = system_message(libc::EIO);
        assert_eq!(error.message(), format!("Error opening file '{}': {reason}.", paths[1]));
    }
    assert!((0..4).all(|chunk| concat.chunk(chunk).expect("a file").is_some()));
    let opened = concat.files.format.called("open");
    let times = |number: usize| opened.iter().filter(|&&other| other == number).count();
    assert_eq!([0, 1, 2, 3].map(times), [1, 3, 2, 1]);
}

#[test]
fn changed_files_are_rejected() {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = files(&folder, &[3; 2]);
    let format = TestFormat::new(&[simple(1), simple(1)]);
    let gate = format.close_gate();
    let concat = open(format, paths.clone(), KeyRule::PerFile);
    std::fs::write(&paths[1], "longer").expect("writing");
    drop(gate);
    let error = concat.chunk(1).expect_err("another size");
    assert_eq!(error.to_string(), changed(&paths[1], Some(3), 6).to_string());
}

#[test]
fn cancelled_calls_do_not_wait_and_change_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let format = TestFormat::new(&[simple(1), simple(2)]);
    let gate = format.close_gate();
    let concat = open(format, files(&folder, &[1; 2]), KeyRule::PerFile);
    let mut chunks = Vec::new();
    let mut look_at_table = || chunks.push(concat.chunks().len());
    let mut wait_for_chunk =
        || assert_eq!(concat.chunk(1).map_err(|error| error.kind()), Err(ErrorKind::Cancelled));
    for call in [&mut look_at_table as &mut dyn FnMut(), &mut wait_for_chunk] {
        let canceller = Canceller::new();
        let other = canceller.clone();
        let cancels = std::thread::spawn(move || {
            wait_until(|| {
                // Long enough for the call to wait.
                std::thread::sleep(Duration::from_millis(20));
                other.cancel()
            });
        });
        let result = canceller.run(|| {
            call();
            Ok(())
        });
        assert_eq!(result.map_err(|error| error.kind()), Err(ErrorKind::Cancelled));
        cancels.join().expect("no panic");
    }
    assert_eq!(chunks, [1]);
    assert!(concat.whole.get().is_none());
    drop(gate);
    assert!(concat.chunk(2).expect("a good file").is_some());
    assert_eq!(concat.chunks().len(), 3);
}

#[test]
fn cancelled_or_dropped_reader_stops_opening() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut contents = vec![simple(1); 40];
    contents[0] = Content { known: 1, ..simple(2) };
    let paths = files(&folder, &[200 << 20; 40]);
    for drops in [false, true] {
        let format = TestFormat { in_turn: true, ..TestFormat::new(&contents) };
        let events = Arc::clone(&format.events);
        let concat = open(format, paths.clone(), KeyRule::Shared);
        assert!(concat.chunk(3).expect("a good file").is_some());
        let background = Arc::clone(background(&concat));
        let closed = "The reader was closed while its files were opened.";
        if drops {
            drop(concat);
        } else {
            concat.incremental().expect("files that are opened ahead").cancel();
            assert_eq!(concat.chunk(30).expect_err("it was cancelled").message(), closed);
            assert_eq!(concat.files.format.called("cancel"), [0]);
        }
        let state = background.state.lock();
        assert_eq!(state.failure.as_ref().map(Error::message), Some(closed));
        assert!(state.opened.is_empty() && state.placed < 30);
        assert!(events.lock().len() < 30);
    }
}
