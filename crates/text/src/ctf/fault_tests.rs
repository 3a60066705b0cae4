//! Transient read errors while a text file is indexed or parsed.

use super::TextDeserializer;
use crate::ctf::{TextOptions, TextStream};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::file::faults::{Fault, Faults, Operation};
use cntk_reader_core::format::{ChunkTable, Loaded};
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::stream::{ElementType, Storage};
use cntk_reader_core::testing::system_message;
use cntk_reader_core::{ErrorKind, Result};
use std::sync::Arc;

/// Writes a file of lines `N |x N` to a temporary folder.
fn lines(count: usize) -> (tempfile::TempDir, TextOptions) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.ctf").to_string_lossy().into_owned();
    let text: String = (0..count).map(|n| format!("{n} |x {n}\n")).collect();
    std::fs::write(&path, text).expect("a file");
    let stream = TextStream {
        name: "x".into(),
        alias: "x".into(),
        dim: 1,
        storage: Storage::Dense,
        defines_mb_size: false,
        element: None,
        ids: None,
    };
    let options = TextOptions {
        files: cntk_reader_core::format::files::Files::one(path),
        streams: vec![stream],
        skip_sequence_ids: false,
        max_errors: 0,
        log: Logger::new(0),
        chunk_size: 64 << 10,
        cache_index: false,
        keep_data_in_memory: false,
        element: ElementType::Float,
        strict_sequences: true,
        shared_ids: false,
        quirks: Default::default(),
    };
    (folder, options)
}

fn open(options: &TextOptions) -> Result<TextDeserializer> {
    let pool = Pool::shared().expect("threads");
    pool.install(|| TextDeserializer::open(options, &Arc::new(Corpus::Numeric)))
}

/// Returns the values of all chunks, in order.
fn values(deserializer: &TextDeserializer) -> Result<Vec<f32>> {
    let mut values = Vec::new();
    for (id, info) in (0..).zip(deserializer.chunks()) {
        let chunk = deserializer.load(id)?;
        for index in 0..info.sequences {
            let Loaded::Data(view) = chunk.sequence(0, index) else { panic!("sequence {index} has no data") };
            values.push(view.values.first_chunk().map_or(f32::NAN, |bytes| f32::from_ne_bytes(*bytes)));
        }
    }
    Ok(values)
}

fn counting(count: usize) -> Vec<f32> {
    (0..count).map(|n| n as f32).collect()
}

#[cfg(unix)]
#[test]
fn indexing_survives_transient_faults() {
    let (_folder, options) = lines(40_000);
    let faults = Faults::of(options.files.name());
    faults.inject(Operation::Open, Fault::Fails(libc::ESTALE), 0, 3);
    faults.inject(Operation::State, Fault::Fails(libc::EIO), 1, 4);
    faults.inject(Operation::Read, Fault::Fails(libc::EINTR), 1, 30);
    // Some at the start of the file, others during the scan.
    for (errno, after) in [(libc::EIO, 0), (libc::ESTALE, 0), (libc::EAGAIN, 1), (libc::EIO, 1)] {
        faults.inject(Operation::Read, Fault::Fails(errno), after, 1);
    }
    faults.inject(Operation::Read, Fault::Reads(1000), 0, 2);
    let deserializer = open(&options).expect("it is indexed");
    assert_eq!(faults.left(), 0);
    assert_eq!(values(&deserializer).expect("it loads"), counting(40_000));
}

#[cfg(unix)]
#[test]
fn indexing_error_has_the_offset_of_the_failed_read() {
    let (_folder, options) = lines(40_000);
    let faults = Faults::of(options.files.name());
    faults.inject(Operation::Read, Fault::Fails(libc::EIO), 2, usize::MAX / 4);
    let error = open(&options).err().expect("the scan fails");
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(
        error.message(),
        format!("Error reading file '{}': {}.", options.files.name(), system_message(libc::EIO))
    );
    assert_eq!(error.location().file.as_deref(), Some(options.files.name()));
    assert!(error.location().offset.is_some_and(|offset| offset > 0), "{error}");
}

#[cfg(unix)]
#[test]
fn cache_survives_transient_faults() {
    let (_folder, options) = lines(2000);
    let options = TextOptions { cache_index: true, ..options };
    assert!(open(&options).is_ok());
    let cache = format!("{}._.0.0.0.v1.cache", options.files.name());
    let faults = Faults::of(&cache);
    faults.inject(Operation::Open, Fault::Fails(libc::EIO), 0, 4);
    faults.inject(Operation::Read, Fault::Fails(libc::ESTALE), 0, 4);
    faults.inject(Operation::Read, Fault::Reads(7), 0, 2);
    let deserializer = open(&options).expect("it is opened");
    // All faults were consumed, so the cache was read.
    assert_eq!(faults.left(), 0);
    assert_eq!(values(&deserializer).expect("it loads"), counting(2000));
}

#[cfg(unix)]
#[test]
fn parsing_survives_transient_faults() {
    let (_folder, options) = lines(40_000);
    let deserializer = open(&options).expect("it is indexed");
    let faults = Faults::of(options.files.name());
    faults.inject(Operation::Read, Fault::Fails(libc::EIO), 0, 4);
    faults.inject(Operation::Read, Fault::Fails(libc::EINTR), 0, 20);
    faults.inject(Operation::Read, Fault::Reads(33), 0, 3);
    assert_eq!(values(&deserializer).expect("it loads"), counting(40_000));
    assert_eq!(faults.left(), 0);
}

#[cfg(unix)]
#[test]
fn unreadable_chunk_has_an_offset_and_can_be_retried() {
    let (_folder, options) = lines(40_000);
    let deserializer = open(&options).expect("it is indexed");
    let faults = Faults::of(options.files.name());
    faults.inject(Operation::Read, Fault::Fails(libc::ETIMEDOUT), 0, 5);
    let error = deserializer.load(1).err().expect("it fails");
    assert_eq!(error.kind(), ErrorKind::Io);
    let start = deserializer.shared.index.spans(1, 0..1).next().map(|span| span.offset);
    assert_eq!(error.location().offset, start);
    assert!(deserializer.load(1).is_ok());
}
