//! Unpacks compressed files into the cache folder, once, if their format only allows unpacking from
//! front to back.
//!
//! An unpacked file is looked up by the compressed file's path, size, modification times and
//! identity, so it is never used for a different or changed file. A line next to it holds its size,
//! its checksum and a digest of some pieces of the compressed file; they are compared when a
//! process first opens it. If a compressed file is written to while it is being unpacked, that is
//! an error and leaves nothing: otherwise a mix of old and new data would be served later. A file
//! lock makes other processes that need the same file wait instead of unpacking it too, and the
//! leftover of a killed process is overwritten by the next one. The library never removes unpacked
//! files from the folder; users may do so at any time.

use super::cache_folder;
use super::mounted;
use super::new_file::{NewFile, is_named};
use super::packed::{Compression, damaged};
use super::xxh64::Xxh64;
use super::{DataFile, FileSource, Sequential};
use crate::limits::LARGEST_UNPACKED;
use crate::memory::room;
use crate::runtime::lock::Mutex;
use crate::runtime::log::{Level, Logger};
use crate::{Error, Result, system};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::PathBuf;

/// Environment variable that names the folder.
const VARIABLE: &str = "CNTK_READER_CACHE";

/// Bytes unpacked or compared at a time.
const BLOCK: usize = 1 << 20;

/// Number of pieces of a compressed file that are compared, and the bytes of each.
const PIECES: u128 = 8;
const PIECE: u64 = 64 << 10;

/// Upper bound on the length of the line of sums.
const LONGEST_LINE: u64 = 1 << 10;

/// Unpacked files whose checksums this process has verified.
static VERIFIED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);

/// Opens the unpacked data of a compressed file, unpacking it first if the cache folder does not
/// have it.
pub fn open(packed: &DataFile, compression: Compression) -> Result<File> {
    let entry = CacheEntry::of(packed)?;
    entry.prepare_folder()?;
    match entry.open(packed)? {
        Lookup::File(file) => Ok(file),
        Lookup::Nothing | Lookup::Unfit => entry.make(packed, compression),
    }
}

/// Returns the cache folder: the one that the environment names, or else the user's cache folder.
fn folder() -> Option<PathBuf> {
    let named = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    named.or_else(|| system::user_caches().map(|folder| folder.join("cntk-reader")))
}

/// The paths of an unpacked file.
struct CacheEntry {
    data: PathBuf,
    /// Line with the sizes and checksums, as text.
    sum: PathBuf,
    /// The file to unpack to before the data get their name.
    part: PathBuf,
    /// Time of the last change of any kind to the compressed file (`ctime`), if it is local.
    changed: (i64, i64),
}

/// The result of a look-up in the folder.
enum Lookup {
    Nothing,
    /// The unpacked file does not match its line of sums.
    Unfit,
    File(File),
}

impl CacheEntry {
    fn of(packed: &DataFile) -> Result<CacheEntry> {
        let Some(folder) = folder() else {
            let message = format!("There is no folder to unpack '{}' into.", packed.path());
            let error = Error::state(message)
                .with_detail(format!("Set the environment variable {VARIABLE} to a folder with space."));
            return Err(error.in_file(packed.path()));
        };
        let mut key = Xxh64::default();
        let state = packed.state()?;
        let (place, device, inode, changed) = match &packed.0.source {
            FileSource::Local(file) => {
                let metadata = packed.metadata_of(file)?;
                let place = fs::canonicalize(super::address::exact(packed.path())).unwrap_or_default();
                let (device, number) =
                    super::with_retry(|| system::identity(file)).map_err(|cause| packed.error(&cause))?;
                (place, device, number, system::changed(&metadata))
            }
            _ => (PathBuf::from(packed.path()), 0, 0, (0, 0)),
        };
        key.update(place.as_os_str().as_encoded_bytes());
        let times = [state.modified.0, state.modified.1, changed.0, changed.1].map(i64::cast_unsigned);
        for number in [1, state.size, device, inode].into_iter().chain(times) {
            key.update(&number.to_le_bytes());
        }
        let name = packed.path().rsplit(std::path::is_separator).next().unwrap_or_default();
        let name = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let stem: String = name.chars().take(60).map(plain).collect();
        let name = format!("{stem}-{:016x}", key.finish());
        Ok(CacheEntry {
            data: folder.join(&name),
            sum: folder.join(format!("{name}.sum")),
            part: folder.join(format!("{name}.part")),
            changed,
        })
    }

    fn prepare_folder(&self) -> Result<()> {
        let remedy = format!(
            "Compressed files are unpacked to this folder; the environment variable {VARIABLE} names another."
        );
        self.data.parent().map_or(Ok(()), |folder| cache_folder::prepare(folder, &remedy))
    }

    /// Opens the unpacked file if it exists, and its size, checksum and the digest of the
    /// compressed file match.
    fn open(&self, packed: &DataFile) -> Result<Lookup> {
        let own = |path| cache_folder::open(path).map_err(|cause| self.error(&cause));
        let (Some(file), Some(sum)) = (own(&self.data)?, own(&self.sum)?) else { return Ok(Lookup::Nothing) };
        let mut text = String::new();
        // The line is short; anything longer, or not UTF-8, does not match.
        let sum = match sum.take(LONGEST_LINE).read_to_string(&mut text) {
            Ok(_) => text,
            Err(_) => return Ok(Lookup::Unfit),
        };
        let is_verified = || VERIFIED.lock().as_ref().is_some_and(|all| all.contains(&self.data));
        let size = file.metadata().map_err(|cause| self.error(&cause))?.len();
        let stated = sum.split_once(' ').and_then(|(size, _)| size.parse().ok());
        if stated != Some(size) || !is_verified() && !self.is_right(&sum, &file, packed)? {
            return Ok(Lookup::Unfit);
        }
        self.note_verified();
        Ok(Lookup::File(file))
    }

    /// Returns whether the line of sums matches the data and the compressed file.
    fn is_right(&self, line: &str, file: &File, packed: &DataFile) -> Result<bool> {
        let digest = sampled(packed)?;
        let (size, sum) = sum_of(file).map_err(|cause| self.error(&cause))?;
        Ok(line == sums(size, &sum, digest))
    }

    fn note_verified(&self) {
        VERIFIED.lock().get_or_insert_default().insert(self.data.clone());
    }

    /// Unpacks the file, or waits until another process or thread has done so.
    fn make(&self, packed: &DataFile, compression: Compression) -> Result<File> {
        let part = loop {
            let part = self.lock_part().map_err(|cause| self.error(&cause))?;
            match self.open(packed)? {
                Lookup::File(file) => return Ok(file),
                Lookup::Nothing => {}
                Lookup::Unfit => {
                    let line = format!(
                        "The unpacked file '{}' does not match its checksums: it is unpacked again.",
                        self.data.display()
                    );
                    Logger::log_always(Level::Warning, &line);
                }
            }
            // The previous holder of the lock may have given the file its name.
            if is_named(&part, &self.part).map_err(|cause| self.error(&cause))? {
                break part;
            }
        };
        let line = format!(
            "Unpacking '{}' once to '{}': it can only be unpacked from front to back.",
            packed.path(),
            self.data.display()
        );
        Logger::log_always(Level::Info, &line);
        let sum = self.unpack(packed, compression, &part)?;
        let name = || {
            // Remove anything that this library did not create, such as a link.
            match fs::remove_file(&self.sum) {
                Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(cause),
                _ => {}
            }
            let mut line = NewFile::create_private(&self.sum)?;
            line.file().write_all(sum.as_bytes())?;
            line.replace()?;
            fs::rename(&self.part, &self.data)?;
            cache_folder::open(&self.data)
        };
        let file = name().map_err(|cause| self.error(&cause))?;
        self.note_verified();
        // If a user emptied the folder in the meantime, the open file is still there.
        Ok(file.unwrap_or(part))
    }

    /// Opens the file to unpack to, and locks it until it is closed.
    fn lock_part(&self) -> io::Result<File> {
        let part = cache_folder::create(&self.part)?;
        // A signal may interrupt the wait for another process.
        super::with_retry(|| part.lock())?;
        Ok(part)
    }

    /// Unpacks into the file and returns its line of sums. A failure leaves nothing.
    fn unpack(&self, packed: &DataFile, compression: Compression, part: &File) -> Result<String> {
        let unpacked = part
            .set_len(0)
            .map_err(|cause| self.error(&cause))
            .and_then(|()| packed.if_unchanged(self.unpack_into(packed, compression, part)))
            .and_then(|(line, read)| self.check_unchanged(packed, read).map(|()| line));
        if unpacked.is_err() {
            let _ = fs::remove_file(&self.part);
        }
        unpacked
    }

    /// Fails if the compressed file has changed after the bytes in `read` were read. Writing to a
    /// file updates its time, but clocks are coarse, and stores need not tell versions apart: in
    /// these cases the bytes are read again.
    fn check_unchanged(&self, packed: &DataFile, read: Digest) -> Result<()> {
        let changed = |size| {
            let path = packed.path();
            let detail = format!(
                "It has {size} bytes now. Nothing was kept of it: wait until it is complete, and open the reader again."
            );
            let error = Error::data(format!("The file '{path}' was changed while it was unpacked."));
            Err(error.with_detail(detail).in_file(path))
        };
        let state = packed.state()?;
        // If unpacking ended before the stated size, the rest must be readable.
        if read.bytes < state.size {
            packed.read_exact_at(read.bytes, &mut [0])?;
        }
        let is_read_again = match &packed.0.source {
            FileSource::Local(file) => {
                let now = packed.metadata_of(file)?;
                if system::changed(&now) != self.changed {
                    return changed(state.size);
                }
                true
            }
            _ => mounted::has_no_identity(&state),
        };
        if !is_read_again {
            return Ok(());
        }
        let mut again = Digest::default();
        let mut buffer = room::zeroed(BLOCK, room::FILE)?;
        while again.bytes < read.bytes {
            let most = (read.bytes - again.bytes).min(BLOCK as u64) as usize;
            match packed.read_at(again.bytes, &mut buffer[..most])? {
                0 => break,
                count => again.add(&buffer[..count]),
            }
        }
        match (again.bytes, again.sum.finish()) == (read.bytes, read.sum.finish()) {
            true => Ok(()),
            false => changed(state.size),
        }
    }

    fn unpack_into(
        &self,
        packed: &DataFile,
        compression: Compression,
        part: &File,
    ) -> Result<(String, Digest)> {
        let digest = sampled(packed)?;
        let source = Digested { input: packed.sequential_from(0), digest: Digest::default() };
        let mut input = BufReader::with_capacity(BLOCK, source);
        match compression {
            Compression::Gzip => {
                let mut members = super::gzip::Members::new(&mut input);
                let copied = self.copy(&mut members, packed, part);
                drop(members);
                let (size, sum) = copied?.map_err(|cause| {
                    let at = input.get_ref().input.at() - input.buffer().len() as u64;
                    broken(packed, "gzip data are damaged", at, &cause)
                })?;
                Ok((sums(size, &sum, digest), input.into_inner().digest))
            }
            Compression::Zstd => {
                let mut unpacker = super::zstd::StreamUnpacker::new(input);
                let copied = self.copy(&mut unpacker, packed, part)?;
                let (size, sum) = copied
                    .map_err(|cause| broken(packed, "a zstd frame is damaged", unpacker.frame(), &cause))?;
                Ok((sums(size, &sum, digest), unpacker.into_input().into_inner().digest))
            }
        }
    }

    /// Copies all data and returns their size and checksum. The outer result is about writing, the
    /// inner one about the input.
    fn copy(
        &self,
        input: &mut impl Read,
        packed: &DataFile,
        mut part: &File,
    ) -> Result<io::Result<(u64, Xxh64)>> {
        let mut buffer = room::zeroed(BLOCK, room::FILE)?;
        let (mut size, mut sum) = (0, Xxh64::default());
        loop {
            let count = match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
                Err(cause) => return Ok(Err(cause)),
            };
            size += count as u64;
            if size > LARGEST_UNPACKED {
                let what = format!("it unpacks to more than {LARGEST_UNPACKED} bytes");
                return Err(damaged(packed.path(), 0, &what));
            }
            sum.update(&buffer[..count]);
            part.write_all(&buffer[..count]).map_err(|cause| self.error(&cause))?;
        }
        // Otherwise a system crash could leave the name without the data.
        part.sync_data().map_err(|cause| self.error(&cause))?;
        Ok(Ok((size, sum)))
    }

    fn error(&self, cause: &io::Error) -> Error {
        let error = Error::io("Error writing file", &self.data.to_string_lossy(), cause);
        error.with_detail(format!(
            "Compressed files are unpacked to this folder; the environment variable {VARIABLE} names another."
        ))
    }
}

/// Returns the error for input that cannot be unpacked. I/O errors keep their own message.
fn broken(packed: &DataFile, what: &str, at: u64, cause: &io::Error) -> Error {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    match cause.kind() {
        UnexpectedEof => damaged(packed.path(), at, &format!("{what}: the file ends too early")),
        InvalidData | InvalidInput => damaged(packed.path(), at, &format!("{what}: {cause}")),
        _ => packed.error(cause).at(at, None),
    }
}

/// The checksum and number of the bytes read.
#[derive(Default)]
struct Digest {
    bytes: u64,
    sum: Xxh64,
}

impl Digest {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.sum.update(bytes);
    }
}

/// A reader of compressed data that maintains a digest of the bytes read.
struct Digested<'a> {
    input: Sequential<'a>,
    digest: Digest,
}

impl Read for Digested<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.digest.add(&buffer[..count]);
        Ok(count)
    }
}

/// Returns a digest of some pieces of a compressed file, including its beginning and its end: a
/// replacement of the same size and time will almost certainly have another digest.
fn sampled(packed: &DataFile) -> Result<u64> {
    let size = packed.size()?;
    let mut piece = room::zeroed(PIECE.min(size) as usize, room::FILE)?;
    let mut digest = Xxh64::default();
    digest.update(&size.to_le_bytes());
    let last = size - piece.len() as u64;
    for number in 0..PIECES {
        let count = packed.read_at((u128::from(last) * number / (PIECES - 1)) as u64, &mut piece)?;
        digest.update(&piece[..count]);
    }
    Ok(digest.finish())
}

/// Returns the line of sums of an unpacked file: its size and checksum, and the digest of the
/// compressed file.
fn sums(size: u64, sum: &Xxh64, digest: u64) -> String {
    format!("{size} {:016x} {digest:016x}\n", sum.finish())
}

/// Returns the size and checksum of a file.
fn sum_of(file: &File) -> io::Result<(u64, Xxh64)> {
    let mut buffer = room::zeroed(BLOCK, room::FILE).map_err(io::Error::other)?;
    let (mut at, mut sum) = (0, Xxh64::default());
    loop {
        match super::with_retry(|| system::read_at(file, at, super::uninitialized(&mut buffer)))? {
            0 => return Ok((at, sum)),
            count => {
                sum.update(&buffer[..count]);
                at += count as u64;
            }
        }
    }
}
