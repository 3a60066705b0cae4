//! The cache folder: compressed files that are read from any place, but can only be unpacked from front to back, are unpacked
//! into it once.
//!
//! An unpacked file is found again by the compressed file's path, size, times of change and
//! identity, so it is never used for another or a changed one. Its size and checksum lie beside it,
//! with a digest of some pieces of the compressed file, and are compared when a process first opens
//! it. A compressed file that is written to while it is unpacked is an error, and leaves nothing:
//! otherwise a mix of old and new data would be served from then on. A file lock has other
//! processes wait that need the same file, instead of unpacking it too, and what a process leaves
//! that was killed is overwritten by the next one. Nothing is ever removed from the folder: users
//! may, at any time.

use super::cache_folder;
use super::mounted;
use super::new_file::{NewFile, is_named};
use super::packed::{Compression, damaged};
use super::xxh64::Xxh64;
use super::{DataFile, Sequential, Source};
use crate::limits::LARGEST_UNPACKED;
use crate::memory::room;
use crate::runtime::lock::Mutex;
use crate::runtime::log::{Level, Logger};
use crate::{Error, Result};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

/// The environment variable that names the folder.
const VARIABLE: &str = "CNTK_READER_CACHE";

/// Bytes that are unpacked, or compared, at a time.
const BLOCK: usize = 1 << 20;

/// Pieces of a compressed file that are compared, and the bytes of each.
const PIECES: u128 = 8;
const PIECE: u64 = 64 << 10;

/// Bytes that the line of sums cannot have.
const LONGEST_LINE: u64 = 1 << 10;

/// Unpacked files that this process has compared with their checksums.
static VERIFIED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);

/// The unpacked data of a compressed file. They are unpacked first if the cache folder does not have them.
pub fn open(packed: &DataFile, compression: Compression) -> Result<File> {
    let entry = Entry::of(packed)?;
    entry.prepare_folder()?;
    match entry.open(packed)? {
        Found::File(file) => Ok(file),
        Found::Nothing | Found::Unfit => entry.make(packed, compression),
    }
}

/// The folder: what the environment names, else the folder that users' caches are in.
fn folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable(VARIABLE)
        .or_else(|| variable("XDG_CACHE_HOME").map(|folder| folder.join("cntk-reader")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/cntk-reader")))
}

/// The place of an unpacked file.
struct Entry {
    data: PathBuf,
    /// Size and checksum of the data, as text.
    sum: PathBuf,
    /// What the data are unpacked to before they get their name.
    part: PathBuf,
    /// When the compressed file was changed last in any way, if it is local.
    changed: (i64, i64),
}

/// What the folder has.
enum Found {
    Nothing,
    /// A file that is not what was unpacked.
    Unfit,
    File(File),
}

impl Entry {
    fn of(packed: &DataFile) -> Result<Entry> {
        let Some(folder) = folder() else {
            let message = format!("There is no folder to unpack '{}' into.", packed.path());
            let error = Error::state(message)
                .with_detail(format!("Set the environment variable {VARIABLE} to a folder with space."));
            return Err(error.in_file(packed.path()));
        };
        let mut key = Xxh64::default();
        let state = packed.state()?;
        let (place, device, inode, changed) = match &packed.0.source {
            Source::Local(file) => {
                let metadata = packed.metadata_of(file)?;
                let place = fs::canonicalize(super::address::exact(packed.path())).unwrap_or_default();
                // Programs can set the time of the last change of the content back, but not that of
                // the file's facts.
                (place, metadata.dev(), metadata.ino(), (metadata.ctime(), metadata.ctime_nsec()))
            }
            _ => (PathBuf::from(packed.path()), 0, 0, (0, 0)),
        };
        key.update(place.as_os_str().as_encoded_bytes());
        let times = [state.modified.0, state.modified.1, changed.0, changed.1].map(i64::cast_unsigned);
        for number in [1, state.size, device, inode].into_iter().chain(times) {
            key.update(&number.to_le_bytes());
        }
        let name = packed.path().rsplit('/').next().unwrap_or_default();
        let name = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let plain = |c: char| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let stem: String = name.chars().take(60).map(plain).collect();
        let name = format!("{stem}-{:016x}", key.finish());
        Ok(Entry {
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

    /// Opens the unpacked file if it is there, and its size and checksum, and the digest of the
    /// compressed file, are right.
    fn open(&self, packed: &DataFile) -> Result<Found> {
        let own = |path| cache_folder::open(path).map_err(|cause| self.error(&cause));
        let (Some(file), Some(sum)) = (own(&self.data)?, own(&self.sum)?) else { return Ok(Found::Nothing) };
        let mut text = String::new();
        // The line is short; what is longer, or no text, is none.
        let sum = match sum.take(LONGEST_LINE).read_to_string(&mut text) {
            Ok(_) => text,
            Err(_) => return Ok(Found::Unfit),
        };
        let is_verified = || VERIFIED.lock().as_ref().is_some_and(|all| all.contains(&self.data));
        let size = file.metadata().map_err(|cause| self.error(&cause))?.len();
        let stated = sum.split_once(' ').and_then(|(size, _)| size.parse().ok());
        if stated != Some(size) || !is_verified() && !self.is_right(&sum, &file, packed)? {
            return Ok(Found::Unfit);
        }
        self.note_verified();
        Ok(Found::File(file))
    }

    /// Whether the line of sums is that of the data and of the compressed file.
    fn is_right(&self, line: &str, file: &File, packed: &DataFile) -> Result<bool> {
        let digest = sampled(packed)?;
        let (size, sum) = sum_of(file).map_err(|cause| self.error(&cause))?;
        Ok(line == sums(size, &sum, digest))
    }

    fn note_verified(&self) {
        VERIFIED.lock().get_or_insert_default().insert(self.data.clone());
    }

    /// Unpacks the file, or waits until another process or thread has.
    fn make(&self, packed: &DataFile, compression: Compression) -> Result<File> {
        let part = loop {
            let part = self.lock_part().map_err(|cause| self.error(&cause))?;
            match self.open(packed)? {
                Found::File(file) => return Ok(file),
                Found::Nothing => {}
                Found::Unfit => {
                    let line = format!(
                        "The file '{}' is not what was once unpacked to it: it is unpacked again.",
                        self.data.display()
                    );
                    Logger::log_always(Level::Warning, &line);
                }
            }
            // Whoever had the lock before may have given the file its name.
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
            // Anything that is no file of this library is removed: a link, for example.
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
        // Somebody may have emptied the folder in the meantime; the file is still there.
        Ok(file.unwrap_or(part))
    }

    /// The file to unpack to, locked until it is closed.
    fn lock_part(&self) -> io::Result<File> {
        let part = cache_folder::create(&self.part)?;
        // Waiting for another process may be interrupted by a signal.
        super::with_retry(|| part.lock())?;
        Ok(part)
    }

    /// Unpacks into the file, and gives the line with its size and checksum. A file that cannot be unpacked whole leaves nothing.
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

    /// Fails if the compressed file, of which these bytes were read, is another one now. Whoever
    /// writes to a file that is read gives it a new time, but clocks are coarse, and stores need
    /// not tell versions apart: then the bytes are read again.
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
        // Where unpacking ended before the file says that it does, there must be something.
        if read.bytes < state.size {
            packed.read_exact_at(read.bytes, &mut [0])?;
        }
        let is_read_again = match &packed.0.source {
            Source::Local(file) => {
                let now = packed.metadata_of(file)?;
                if (now.ctime(), now.ctime_nsec()) != self.changed {
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

    /// Copies all data, and gives their size and checksum. The outer result is about writing, the inner one about the input.
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
        // Otherwise a crash of the machine could leave the name without the data.
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

/// The error of input that cannot be unpacked. A failure of reading has its own words.
fn broken(packed: &DataFile, what: &str, at: u64, cause: &io::Error) -> Error {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    match cause.kind() {
        UnexpectedEof => damaged(packed.path(), at, &format!("{what}: the file ends inside of them")),
        InvalidData | InvalidInput => damaged(packed.path(), at, &format!("{what}: {cause}")),
        _ => packed.error(cause).at(at, None),
    }
}

/// The checksum of bytes that were read, and their number.
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

/// Compressed data, with the digest of what was read of them.
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

/// A digest of pieces of a compressed file, among them its beginning and its end: one that was
/// replaced by a file of the same size and time is hardly ever taken for it.
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

/// The line of sums of an unpacked file: its size and checksum, and the digest of the compressed
/// file.
fn sums(size: u64, sum: &Xxh64, digest: u64) -> String {
    format!("{size} {:016x} {digest:016x}\n", sum.finish())
}

/// Size and checksum of a file.
fn sum_of(file: &File) -> io::Result<(u64, Xxh64)> {
    let mut buffer = room::zeroed(BLOCK, room::FILE).map_err(io::Error::other)?;
    let (mut at, mut sum) = (0, Xxh64::default());
    loop {
        match super::with_retry(|| file.read_at(&mut buffer, at))? {
            0 => return Ok((at, sum)),
            count => {
                sum.update(&buffer[..count]);
                at += count as u64;
            }
        }
    }
}
