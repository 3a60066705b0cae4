//! The cache folder: compressed files that are read from any place, but can only be unpacked from front to back, are unpacked
//! into it once.
//!
//! What is there is found again by the compressed file's path, size, time of change and identity, so an unpacked file is
//! never used for another or a changed one. Its size and checksum lie beside it, and are compared when a process first opens
//! it. A file lock has other processes wait that need the same file, instead of unpacking it too, and what a process leaves
//! that was killed is overwritten by the next one. Nothing is ever removed from the folder: users may, at any time.

use super::new_file::is_named;
use super::packed::{Compression, damaged};
use super::xxh64::Xxh64;
use super::{DataFile, Source};
use crate::limits::LARGEST_UNPACKED;
use crate::lock::Mutex;
use crate::log::{Level, Logger};
use crate::memory::room;
use crate::{Error, Result};
use flate2::bufread::MultiGzDecoder;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

/// The environment variable that names the folder.
const VARIABLE: &str = "CNTK_READER_CACHE";

/// Bytes that are unpacked, or compared, at a time.
const BLOCK: usize = 1 << 20;

/// Unpacked files that this process has compared with their checksums.
static VERIFIED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);

/// The unpacked data of a compressed file. They are unpacked first if the cache folder does not have them.
pub fn open(packed: &DataFile, compression: Compression) -> Result<File> {
    let entry = Entry::of(packed)?;
    match entry.open()? {
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
        let (place, device, inode) = match &packed.0.source {
            Source::Local(file) => {
                let metadata = packed.metadata_of(file)?;
                let place = fs::canonicalize(super::address::exact(packed.path())).unwrap_or_default();
                (place, metadata.dev(), metadata.ino())
            }
            _ => (PathBuf::from(packed.path()), 0, 0),
        };
        key.update(place.as_os_str().as_encoded_bytes());
        for number in [0, state.size, state.modified.0 as u64, state.modified.1 as u64, device, inode] {
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
        })
    }

    /// Opens the unpacked file if it is there and its size and checksum are right.
    fn open(&self) -> Result<Found> {
        let (Ok(file), Ok(sum)) = (File::open(&self.data), fs::read_to_string(&self.sum)) else {
            return Ok(Found::Nothing);
        };
        let is_verified = || VERIFIED.lock().as_ref().is_some_and(|all| all.contains(&self.data));
        let size = file.metadata().map_err(|cause| self.error(&cause))?.len();
        let stated = sum.split_once(' ').and_then(|(size, _)| size.parse().ok());
        if stated != Some(size)
            || !is_verified() && sum != sum_line(&file).map_err(|cause| self.error(&cause))?
        {
            return Ok(Found::Unfit);
        }
        self.note_verified();
        Ok(Found::File(file))
    }

    fn note_verified(&self) {
        VERIFIED.lock().get_or_insert_default().insert(self.data.clone());
    }

    /// Unpacks the file, or waits until another process or thread has.
    fn make(&self, packed: &DataFile, compression: Compression) -> Result<File> {
        let part = loop {
            let part = self.lock_part().map_err(|cause| self.error(&cause))?;
            match self.open()? {
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
            fs::write(&self.sum, sum)?;
            fs::rename(&self.part, &self.data)?;
            super::with_retry(|| File::open(&self.data))
        };
        let file = name().map_err(|cause| self.error(&cause))?;
        self.note_verified();
        Ok(file)
    }

    /// The file to unpack to, locked until it is closed.
    fn lock_part(&self) -> io::Result<File> {
        if let Some(folder) = self.part.parent() {
            match fs::create_dir_all(folder) {
                // It is there, and could not be looked at for a moment. If it is no folder, opening the file fails.
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        let part = File::options().read(true).write(true).create(true).truncate(false).open(&self.part)?;
        // Waiting for another process may be interrupted by a signal.
        super::with_retry(|| part.lock())?;
        Ok(part)
    }

    /// Unpacks into the file, and gives the line with its size and checksum. A file that cannot be unpacked whole leaves nothing.
    fn unpack(&self, packed: &DataFile, compression: Compression, part: &File) -> Result<String> {
        let unpacked = part
            .set_len(0)
            .map_err(|cause| self.error(&cause))
            .and_then(|()| self.unpack_into(packed, compression, part));
        if unpacked.is_err() {
            let _ = fs::remove_file(&self.part);
        }
        unpacked
    }

    fn unpack_into(&self, packed: &DataFile, compression: Compression, part: &File) -> Result<String> {
        let mut input = BufReader::with_capacity(BLOCK, packed.sequential_from(0));
        match compression {
            Compression::Gzip => {
                let mut decoder = MultiGzDecoder::new(&mut input);
                let copied = self.copy(&mut decoder, packed, part);
                drop(decoder);
                copied?.map_err(|cause| {
                    let at = input.get_ref().at() - input.buffer().len() as u64;
                    broken(packed, "gzip data are damaged", at, &cause)
                })
            }
            Compression::Zstd => {
                let mut unpacker = super::zstd::StreamUnpacker::new(input);
                let copied = self.copy(&mut unpacker, packed, part)?;
                copied.map_err(|cause| broken(packed, "a zstd frame is damaged", unpacker.frame(), &cause))
            }
        }
    }

    /// Copies all data, and gives their size and checksum. The outer result is about writing, the inner one about the input.
    fn copy(&self, input: &mut impl Read, packed: &DataFile, mut part: &File) -> Result<io::Result<String>> {
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
        Ok(Ok(line(size, &sum)))
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

fn line(size: u64, sum: &Xxh64) -> String {
    format!("{size} {:016x}\n", sum.finish())
}

/// Size and checksum of a file.
fn sum_line(file: &File) -> io::Result<String> {
    let mut buffer = room::zeroed(BLOCK, room::FILE).map_err(io::Error::other)?;
    let (mut at, mut sum) = (0, Xxh64::default());
    loop {
        match super::with_retry(|| file.read_at(&mut buffer, at))? {
            0 => return Ok(line(at, &sum)),
            count => {
                sum.update(&buffer[..count]);
                at += count as u64;
            }
        }
    }
}
