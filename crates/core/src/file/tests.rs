#![allow(unsafe_code, reason = "reads into uninitialized memory")]

use super::faults::{Fault, Faults, Operation};
use super::*;
use std::io::Write;

fn file_of(content: &[u8]) -> (tempfile::NamedTempFile, String) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(content).expect("writing");
    let path = file.path().to_str().expect("a path").to_owned();
    (file, path)
}

#[cfg(unix)]
#[test]
fn transient_faults_are_retried() {
    let (_file, path) = file_of(b"0123456789");
    let faults = Faults::of(&path);
    faults.inject(Operation::Open, Fault::Fails(libc::ESTALE), 0, 4);
    faults.inject(Operation::State, Fault::Fails(libc::EIO), 0, 4);
    let file = DataFile::open(&path).expect("it opens at the fifth attempt");
    assert_eq!(faults.left(), 0);
    faults.inject(Operation::State, Fault::Fails(libc::EINTR), 0, 50);
    assert_eq!(file.size().expect("a size"), 10);
    faults.inject(Operation::Read, Fault::Fails(libc::EAGAIN), 0, 4);
    faults.inject(Operation::Read, Fault::Reads(3), 0, 2);
    faults.inject(Operation::Read, Fault::Fails(libc::EINTR), 0, 60);
    let mut buffer = [0; 9];
    file.read_exact_at(1, &mut buffer).expect("it reads");
    assert_eq!(&buffer, b"123456789");
    assert_eq!(faults.left(), 0);
    faults.inject(Operation::Read, Fault::Fails(libc::EIO), 0, 3);
    faults.inject(Operation::Read, Fault::Reads(1), 0, 4);
    let mut memory = [MaybeUninit::uninit(); 6];
    file.fill_at(4, &mut memory).expect("it reads");
    // SAFETY: `fill_at` has succeeded, so all six bytes are initialized.
    assert_eq!(memory.map(|byte| unsafe { byte.assume_init() }), *b"456789");
    faults.inject(Operation::Read, Fault::Fails(libc::EIO), 0, 4);
    let mut text = String::new();
    file.sequential_from(0).read_to_string(&mut text).expect("it reads");
    assert_eq!((text.as_str(), faults.left()), ("0123456789", 0));
}

#[cfg(unix)]
#[test]
fn errors_name_path_offset_and_advice() {
    let (_file, path) = file_of(b"0123456789");
    let file = DataFile::open(&path).expect("a file");
    let faults = Faults::of(&path);
    faults.inject(Operation::Read, Fault::Reads(4), 0, 1);
    faults.inject(Operation::Read, Fault::Fails(libc::EIO), 0, 5);
    let error = file.read_at(2, &mut [0; 8]).expect_err("it fails five times");
    let reason = crate::testing::system_message(libc::EIO);
    assert_eq!(error.message(), format!("Error reading file '{path}': {reason}."));
    assert!(error.to_string().contains("five attempts"), "{error}");
    let place = error.location();
    assert_eq!((place.file.as_deref(), place.offset), (Some(path.as_str()), Some(6)));

    let error = file.read_exact_at(7, &mut [0; 8]).expect_err("it is too short");
    assert_eq!((error.location().offset, error.kind()), (Some(10), crate::ErrorKind::Data));
    assert!(error.to_string().contains("5 more bytes were expected"), "{error}");
    let error = file.fill_at(10, &mut [MaybeUninit::uninit()]).expect_err("it is too short");
    assert_eq!(error.location().offset, Some(10));

    let missing = format!("{path}.missing");
    let error = DataFile::open(&missing).expect_err("no file");
    assert_eq!(error.message(), format!("Error opening file '{missing}': No such file or directory."));
    let error = DataFile::open("/").expect_err("a directory");
    assert_eq!(error.message(), "Error reading file '/': Is a directory.");
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_refused_without_blocking() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe").display().to_string();
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success());
    let error = DataFile::open(&pipe).expect_err("a pipe");
    assert_eq!(error.message(), format!("Error opening file '{pipe}': It is a pipe."));
    assert!(error.detail().contains("write the data to a file first"), "{error}");
    let error = DataFile::open("/dev/null").expect_err("a device");
    assert_eq!(error.message(), "Error opening file '/dev/null': It is a device.");
    let cause = read_whole(OsStr::new(&pipe), 10, &mut Vec::new()).expect_err("a pipe");
    assert_eq!(cause.kind(), IoErrorKind::NotSeekable);
}

#[test]
fn lines_count_from_1() {
    let (_file, path) = file_of(b"a\nb\n\nc");
    let file = DataFile::open(&path).expect("a file");
    assert_eq!([0, 1, 2, 4, 5, 99].map(|offset| file.line_at(offset)), [1, 1, 2, 3, 4, 4].map(Some));
}
