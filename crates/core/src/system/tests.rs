//! Tests of what holds on every system.

use super::*;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

fn bytes_at(file: &File, at: u64, size: usize) -> Vec<u8> {
    let mut target = vec![MaybeUninit::new(9); size];
    let count = read_at(file, at, &mut target).expect("a read");
    // SAFETY: `read_at` has initialized this many bytes.
    target[..count].iter().map(|byte| unsafe { byte.assume_init() }).collect()
}

#[test]
fn reads_at_offsets_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a");
    std::fs::write(&path, b"0123456789").expect("a file");
    let file = open_data(path.as_os_str()).expect("a file");
    assert_eq!(bytes_at(&file, 7, 2), b"78");
    assert_eq!(bytes_at(&file, 0, 3), b"012");
    assert_eq!(bytes_at(&file, 8, 9), b"89");
    assert_eq!(bytes_at(&file, 10, 9), b"");
}

#[test]
fn identity_belongs_to_the_file_not_to_its_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("a"), "1").expect("a file");
    std::fs::write(path("b"), "1").expect("a file");
    let file = open_data(path("a").as_os_str()).expect("a file");
    assert_eq!(identity(&file).expect("numbers"), identity_of(&path("a")).expect("numbers"));
    assert_ne!(identity(&file).expect("numbers"), identity_of(&path("b")).expect("numbers"));
    // Data in use can be replaced; the open file stays what it was. Wine 8 cannot do this.
    match std::fs::rename(path("b"), path("a")) {
        Err(cause) if cfg!(windows) && cause.kind() == std::io::ErrorKind::PermissionDenied => return,
        renamed => renamed.expect("replacing"),
    }
    assert_ne!(identity(&file).expect("numbers"), identity_of(&path("a")).expect("numbers"));
    assert_eq!(bytes_at(&file, 0, 2), b"1");
    std::fs::remove_file(path("a")).expect("removing");
    assert!(identity_of(&path("a")).is_err_and(|cause| cause.kind() == std::io::ErrorKind::NotFound));
}

#[test]
fn only_one_writer_has_an_exclusive_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a");
    let open = || {
        let mut options = OpenOptions::new();
        let options = make_exclusive(options.read(true).write(true).create(true));
        open_no_link(options, &path).map(|file| file.filter(try_lock))
    };
    let mut first = open().expect("a file").expect("no other writer");
    first.write_all(b"data").expect("writing");
    // Either it cannot be opened, or it cannot be locked.
    let second = open();
    assert!(
        second.is_err_and(|cause| cause.kind() == std::io::ErrorKind::ResourceBusy) || {
            open().is_ok_and(|file| file.is_none())
        }
    );
    assert_eq!(std::fs::read(&path).expect("readers are let in"), b"data");
    drop(first);
    assert!(open().expect("a file").is_some());
}

#[test]
fn folders_are_no_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let opened = open_data(folder.path().as_os_str());
    let is_refused = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::IsADirectory;
    // Linux opens folders, and refuses to read them.
    assert!(opened.as_ref().is_err_and(is_refused) || opened.is_ok_and(|file| bytes_or_error(&file)));
    assert_eq!(is_a_folder().kind(), std::io::ErrorKind::IsADirectory);
}

fn bytes_or_error(file: &File) -> bool {
    read_at(file, 0, &mut [MaybeUninit::new(0)]).is_err()
}

#[test]
fn times_are_those_of_the_standard_library() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a");
    std::fs::write(&path, "").expect("a file");
    let metadata = path.metadata().expect("metadata");
    let time =
        metadata.modified().expect("a time").duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let (seconds, nanoseconds) = modified(&metadata);
    assert_eq!((seconds.cast_unsigned(), nanoseconds), (time.as_secs(), i64::from(time.subsec_nanos())));
}

#[test]
fn powers_of_ten_are_those_of_glibc() {
    for exponent in -400..=400 {
        let exponent = f64::from(exponent);
        assert_eq!(plain::power_of_ten(exponent), power_of_ten(exponent), "{exponent}");
    }
    for exponent in [401.0, 1e300, f64::INFINITY] {
        assert_eq!([exponent, -exponent].map(plain::power_of_ten), [f64::INFINITY, 0.0]);
        assert_eq!([exponent, -exponent].map(power_of_ten), [f64::INFINITY, 0.0]);
    }
}

#[test]
fn bytes_of_paths_round_trip() {
    for text in ["a", "b/\u{e4}\u{1f600}", "C:\\d\\a.ctf", ""] {
        assert_eq!(path_from_bytes(text.as_bytes()), OsStr::new(text));
        assert_eq!(path_from_bytes(text.as_bytes()).as_encoded_bytes(), text.as_bytes());
    }
    // A lone surrogate in UTF-8, as Windows may have in a name, and as Linux has any bytes.
    let surrogate = b"a\xed\xa0\xbdb";
    assert_eq!(path_from_bytes(surrogate).as_encoded_bytes(), surrogate);
    assert!(!path_from_bytes(b"a\xffb").is_empty());
}

#[test]
fn memory_is_zeroed_and_keeps_its_content_when_it_grows() {
    check_memory(allocate_pages, grow_pages, free_pages);
    check_memory(plain::allocate_pages, plain::grow_pages, plain::free_pages);
    assert!(physical_memory().is_none_or(|bytes| bytes > 64 << 20));
}

fn check_memory(
    allocate_pages: fn(usize) -> Option<NonNull<u8>>,
    grow_pages: unsafe fn(NonNull<u8>, usize, usize) -> Option<NonNull<u8>>,
    free_pages: unsafe fn(NonNull<u8>, usize),
) {
    let start = allocate_pages(1 << 20).expect("memory");
    // SAFETY: each range is within the block, whose bytes are initialized; the block is not used by
    // anything else, and not after it is freed.
    unsafe {
        let bytes = std::slice::from_raw_parts_mut(start.as_ptr(), 1 << 20);
        assert!(bytes.iter().all(|&byte| byte == 0));
        bytes.fill(7);
        let start = grow_pages(start, 1 << 20, 5 << 20).expect("memory");
        let bytes = std::slice::from_raw_parts(start.as_ptr(), 5 << 20);
        assert!(bytes[..1 << 20].iter().all(|&byte| byte == 7));
        assert!(bytes[1 << 20..].iter().all(|&byte| byte == 0));
        free_pages(start, 5 << 20);
    }
    assert!(allocate_pages(0).is_none() && allocate_pages(usize::MAX).is_none());
}
