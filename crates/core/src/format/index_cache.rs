//! Common parts of the index caches of text files and label files: CNTK's layout, and this
//! library's addition.
//!
//! A cache is a header and one record per sequence, each of four numbers. This library appends one
//! more record with the state of the data file. CNTK 2.7 reads only the number of records in the
//! header, for either kind of cache, and so ignores it. CNTK itself trusts any cache that is not
//! older than its data.

use crate::file::{DataFile, FileState, NewFile, address};
use byteorder::{ByteOrder, LE};
use std::fs::File;
use std::io;
use std::path::Path;

const MAGIC: u64 = 0x636e_746b_5f69_6478;
/// Begins the record of the data file: "dataFile".
const DATA_MAGIC: u64 = 0x656c_6946_6174_6164;
const VERSION: u64 = 1;
/// Size of the header in bytes: magic, version, number of records, offset of the first one.
pub const HEADER: usize = 32;
/// Size of a record in bytes: key, samples, padding, offset, size, padding.
pub const RECORD: usize = 32;

/// Whether this process writes caches: among MPI workers, only rank 0 does.
pub fn is_writer() -> bool {
    std::env::var("OMPI_COMM_WORLD_RANK").map_or(true, |rank| is_first(&rank))
}

pub fn is_first(rank: &str) -> bool {
    rank.trim().parse::<i64>().unwrap_or(0) == 0
}

/// Why a cache is rejected.
pub(crate) type Unfit = &'static str;

/// The header of a cache with `sequences` sequences.
pub fn header(sequences: usize) -> [u64; 4] {
    [MAGIC, VERSION, sequences as u64, HEADER as u64]
}

/// Checks the header of a cache of `size` bytes, and returns the number of sequences.
pub fn read_header(cache: &DataFile, size: u64) -> std::result::Result<usize, Unfit> {
    let mut bytes = [0; HEADER];
    cache.read_exact_at(0, &mut bytes).map_err(|_| "it has no header")?;
    let [magic, version, sequences, offset] = words(&bytes);
    if magic != MAGIC || version != VERSION || offset != HEADER as u64 {
        return Err("it has another format");
    }
    if sequences > size.saturating_sub(HEADER as u64) / RECORD as u64 {
        return Err("it has fewer records than it says");
    }
    Ok(sequences as usize)
}

/// The record of the data file's state.
pub fn data_record(data: &FileState) -> [u64; 4] {
    let (seconds, nanoseconds) = data.modified;
    [DATA_MAGIC, data.size, seconds.cast_unsigned(), nanoseconds.cast_unsigned()]
}

/// Compares the data file with the state recorded in a cache of `size` bytes. Returns whether the
/// cache records a state: those written by CNTK do not.
pub fn check_data(
    cache: &DataFile,
    size: u64,
    sequences: usize,
    data: &FileState,
) -> std::result::Result<bool, Unfit> {
    let at = (HEADER + RECORD * sequences) as u64;
    if size - at != RECORD as u64 {
        return Ok(false);
    }
    let mut bytes = [0; RECORD];
    cache.read_exact_at(at, &mut bytes).map_err(|_| "it cannot be read")?;
    let recorded = words(&bytes);
    if recorded[0] != DATA_MAGIC {
        return Ok(false);
    }
    // Archivers such as tar restore the time in whole seconds.
    let in_seconds = [recorded[0], recorded[1], recorded[2], 0];
    match [recorded, in_seconds].contains(&data_record(data)) {
        true => Ok(true),
        false => Err("the data were replaced or copied since it was written"),
    }
}

/// Decodes a header or a record.
pub fn words(bytes: &[u8; RECORD]) -> [u64; 4] {
    let mut words = [0; 4];
    LE::read_u64_into(bytes, &mut words);
    words
}

/// Encodes a header or a record.
pub fn bytes(words: [u64; 4]) -> [u8; RECORD] {
    let mut bytes = [0; RECORD];
    LE::write_u64_into(&words, &mut bytes);
    bytes
}

/// Writes a cache, replacing an existing one, unless the data changed while they were indexed. An
/// incomplete cache is removed. Fails with [`io::ErrorKind::ResourceBusy`] if another process or
/// thread is writing the cache.
pub fn write(
    path: &str,
    write: impl FnOnce(&mut File) -> io::Result<()>,
    are_unchanged: impl FnOnce() -> bool,
) -> io::Result<()> {
    let mut cache = NewFile::create_cache(Path::new(&address::exact(path)))?;
    write(cache.file())?;
    match are_unchanged() {
        true => cache.replace_cache(),
        false => Err(io::Error::other("the data changed while they were indexed")),
    }
}

/// Whether the cache could not be written only because another process or thread is writing it.
pub fn is_written_by_other(cause: &io::Error) -> bool {
    cause.kind() == io::ErrorKind::ResourceBusy
}
