//! Images in zip files.
//!
//! The directories of zip files are read when the reader is opened. Nothing is unpacked to disk, so
//! member names are plain bytes that are only compared.

use super::map::Map;
use super::{paths, too_large};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::limits::BEST_RATIO;
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::{Error, Result, system};
use flate2::{Decompress, FlushDecompress, Status};
use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ReaderAt, ZipArchive};
use std::borrow::Cow;
use std::collections::HashMap;
use std::io;

/// Length of the fixed part of a member's local header.
const LOCAL_HEADER: usize = 30;

/// Signature of a local header.
const LOCAL_SIGNATURE: &[u8] = b"PK\x03\x04";

/// Bytes searched at the end of a file for the end-of-directory record: its own length plus the
/// longest comment.
const SEARCHED: u64 = 22 + 65535;

/// Maximum number of log lines about missing members.
const MAX_LOGGED: usize = 100;

/// The images of a map that are in zip files.
#[derive(Default)]
pub(super) struct Members {
    archives: Vec<DataFile>,
    /// Sorted by line.
    members: Vec<Member>,
    /// Lines whose members are missing or unreadable, sorted, with the reason.
    missing: Vec<(u32, String)>,
}

/// The location of an image in a zip file.
#[derive(Debug, Clone, Copy)]
struct Member {
    /// Offset of the local header.
    offset: u64,
    /// The line of the map.
    line: u32,
    archive: u32,
    place: Place,
}

/// The reason why a member cannot be read.
type Unreadable = String;

/// A member's entry in the directory of a zip file.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Compressed size in bytes.
    stored: u32,
    /// Uncompressed size in bytes. The highest bit is [`PLAIN`].
    size: u32,
    crc: u32,
}

/// Flag in [`Place::size`]: the member is stored uncompressed.
const PLAIN: u32 = 1 << 31;

/// Decompressor state and memory for the compressed data.
pub(super) struct Inflater {
    stored: Vec<u8>,
    state: Decompress,
}

impl Default for Inflater {
    fn default() -> Inflater {
        Inflater { stored: Vec::new(), state: Decompress::new(false) }
    }
}

impl Members {
    /// Finds the images of a map that are in zip files. Missing members are an error here, or with
    /// `is_tolerant` when they are read. With `as_cntk`, member names must match the directory
    /// exactly.
    pub fn find(map: &Map, as_cntk: bool, is_tolerant: bool) -> Result<Members> {
        let mut found = Members::default();
        let mut numbers: HashMap<Vec<u8>, u32> = HashMap::new();
        // Zip files in the order of the map, each with its lines.
        let mut wanted: Vec<(Vec<u8>, Vec<u32>)> = Vec::new();
        let mut path = Vec::new();
        for line in 0..map.len() as u32 {
            path.clear();
            map.expand_path(line, &mut path);
            let Some((archive, _)) = paths::split_member(&path) else { continue };
            let number = match numbers.get(archive) {
                Some(&number) => number,
                None => {
                    let number = wanted.len() as u32;
                    room::reserve(&mut numbers, 1, room::INDEX)?;
                    numbers.insert(archive.to_vec(), number);
                    room::push(&mut wanted, (archive.to_vec(), Vec::new()), room::INDEX)?;
                    number
                }
            };
            room::push(&mut wanted[number as usize].1, line, room::INDEX)?;
        }
        let mut lacking = 0;
        let mut first_lacking = None;
        for (archive, lines) in &wanted {
            let at = |error: Error| error.in_file(map.file()).in_line(u64::from(lines[0]) + 1);
            let (file, directory) = open(archive, as_cntk).map_err(at)?;
            let number = found.archives.len() as u32;
            for &line in lines {
                path.clear();
                map.expand_path(line, &mut path);
                let name = paths::split_member(&path).map_or(Cow::Borrowed(&[][..]), |(_, name)| name);
                match directory.get(&*name) {
                    Some((offset, Ok(place))) => {
                        let (offset, place) = (*offset, *place);
                        let member = Member { offset, line, archive: number, place };
                        room::push(&mut found.members, member, room::INDEX)?;
                    }
                    other => {
                        lacking += 1;
                        let name = quoted(&name);
                        let message = match other {
                            Some((_, Err(why))) => {
                                format!("Sequence {name} in container {} cannot be read: {why}.", file.path())
                            }
                            _ => format!("Sequence {name} is not found in container {}.", file.path()),
                        };
                        if is_tolerant {
                            room::push(&mut found.missing, (line, message), room::INDEX)?;
                            continue;
                        }
                        if lacking <= MAX_LOGGED {
                            Logger::log_always(Level::Error, &message);
                        }
                        first_lacking.get_or_insert((line, message));
                    }
                }
            }
            room::push(&mut found.archives, file, room::INDEX)?;
        }
        if let Some((line, detail)) = first_lacking {
            let message =
                "Cannot retrieve image data for some sequences. For more detail, please see the log file.";
            let error = Error::data(message).as_cntk().with_detail(detail).in_file(map.file());
            return Err(error.in_line(u64::from(line) + 1).with_detail(format!(
                "{lacking} lines of the map name images that are missing from their zip file or cannot be read. The name after \
                 '@' and one more character must match the zip file's directory. With ‹max_errors› above 0, such \
                 images are left out and counted."
            )));
        }
        found.members.sort_unstable_by_key(|member| member.line);
        found.missing.sort_unstable_by_key(|(line, _)| *line);
        Ok(found)
    }

    /// Returns whether the image of a line is in a zip file.
    pub fn has(&self, line: u32) -> bool {
        self.find_member(line).is_some() || self.why_missing(line).is_some()
    }

    /// Returns the reason why the member of a line is missing, if it is.
    fn why_missing(&self, line: u32) -> Option<&str> {
        let found = self.missing.binary_search_by_key(&line, |(line, _)| *line).ok()?;
        self.missing.get(found).map(|(_, why)| why.as_str())
    }

    fn find_member(&self, line: u32) -> Option<&Member> {
        let found = self.members.binary_search_by_key(&line, |member| member.line).ok()?;
        self.members.get(found)
    }

    /// Reads the image of a line into `file`. Fails if it has more than `most` bytes. `None` if it
    /// is not in a zip file.
    pub fn read(
        &self,
        line: u32,
        most: u64,
        inflater: &mut Inflater,
        file: &mut Vec<u8>,
    ) -> Option<Result<()>> {
        if let Some(why) = self.why_missing(line) {
            return Some(Err(Error::data(why)));
        }
        self.find_member(line).map(|member| {
            let archive = &self.archives[member.archive as usize];
            archive.if_unchanged(self.read_member(member, most, inflater, file))
        })
    }

    fn read_member(
        &self,
        member: &Member,
        most: u64,
        inflater: &mut Inflater,
        file: &mut Vec<u8>,
    ) -> Result<()> {
        let Member { offset, place, .. } = *member;
        let archive = &self.archives[member.archive as usize];
        let damaged = |what: &str| {
            let message = format!("The zip file '{}' is damaged: {what}.", archive.path());
            Error::data(message).with_detail("Copy it again, or pack the images again.")
        };
        let (size, stored) = (u64::from(place.size & !PLAIN), u64::from(place.stored));
        let is_plain = place.size & PLAIN != 0;
        if size > most {
            return Err(too_large(size, most));
        }
        if is_plain && size != stored || size > stored.saturating_mul(BEST_RATIO) {
            return Err(damaged(&format!("a member cannot have {size} bytes in {stored}")));
        }
        let mut header = [0; LOCAL_HEADER];
        archive.read_exact_at(offset, &mut header)?;
        if !header.starts_with(LOCAL_SIGNATURE) {
            return Err(damaged("there is no member at the offset in its directory"));
        }
        let length = |at: usize| u64::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let data = offset + LOCAL_HEADER as u64 + length(26) + length(28);
        // A directory can claim 4 GB in an archive of a few bytes.
        if data.checked_add(stored).is_none_or(|end| archive.size().is_ok_and(|size| end > size)) {
            return Err(damaged("a member extends past the end of the file"));
        }
        let buffer = if is_plain { &mut *file } else { &mut inflater.stored };
        buffer.clear();
        buffer.try_reserve(stored as usize).map_err(|_| too_large(stored, most))?;
        buffer.resize(stored as usize, 0);
        archive.read_exact_at(data, buffer)?;
        if !is_plain {
            file.clear();
            file.try_reserve(size as usize).map_err(|_| too_large(size, most))?;
            inflater.state.reset(false);
            let state = &mut inflater.state;
            let status = state.decompress_vec(&inflater.stored, file, FlushDecompress::Finish);
            // A member longer than its directory entry does not reach its end in the reserved
            // memory.
            if !matches!(status, Ok(Status::StreamEnd)) || file.len() as u64 != size {
                return Err(damaged("a member cannot be decompressed"));
            }
        }
        if crc32fast::hash(file) != place.crc {
            return Err(damaged("the checksum of a member does not match"));
        }
        Ok(())
    }

    /// Returns the number of images in zip files.
    pub fn len(&self) -> usize {
        self.members.len() + self.missing.len()
    }

    /// Returns the memory use in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(self.members.as_slice())
    }
}

/// The members of a zip file by name: local header offset and directory entry.
type Directory = HashMap<Box<[u8]>, (u64, std::result::Result<Place, Unreadable>)>;

/// Returns the names of the readable members of a zip file, in arbitrary order.
pub(super) fn names(path: &str) -> Result<Vec<Box<[u8]>>> {
    let members = open(path.as_bytes(), false)?.1;
    Ok(members.into_iter().filter_map(|(name, (_, place))| place.is_ok().then_some(name)).collect())
}

/// Opens a zip file and reads its directory.
fn open(path: &[u8], as_cntk: bool) -> Result<(DataFile, Directory)> {
    let shown = String::from_utf8_lossy(path);
    let refused = |why: &str| format!("Failed to open {shown}, zip library error: {why}");
    let file = DataFile::open_shown(&system::path_from_bytes(path), &shown, |cause| {
        let why = if cause.kind() == io::ErrorKind::NotFound { "No such file" } else { "Can't open file" };
        Error::io("Error opening file", &shown, cause).reworded(refused(why)).with_detail(AT_SIGN)
    })?;
    let directory = file.if_unchanged(read_directory(&file, refused, as_cntk))?;
    Ok((file, directory))
}

/// Advice about paths with `@`.
const AT_SIGN: &str = "A path with '@' names a zip file before the first '@', and an image in it after it. A file whose own path contains \
                       '@' must be renamed, or reached through a link without it.";

fn read_directory(file: &DataFile, refused: impl Fn(&str) -> String, as_cntk: bool) -> Result<Directory> {
    let not_a_zip = |error: &dyn std::fmt::Display| {
        Error::data(refused("Not a zip archive"))
            .as_cntk()
            .with_detail(format!("'{}' is not a zip file: {error}.", file.path()))
            .with_detail(AT_SIGN)
    };
    let mut buffer = room::zeroed(RECOMMENDED_BUFFER_SIZE, room::FILE)?;
    let size = file.size()?;
    let archive = ZipArchive::with_max_search_space(SEARCHED)
        .locate_in_reader(Bytes(file.clone()), &mut buffer, size)
        .map_err(|(_, error)| not_a_zip(&error))?;
    let mut directory = Directory::new();
    let mut with_backslashes: Vec<(Box<[u8]>, _)> = Vec::new();
    let mut entries = archive.entries(&mut buffer);
    while let Some(entry) = entries.next_entry().map_err(|error| not_a_zip(&error))? {
        let method = entry.compression_method();
        let is_plain = method == CompressionMethod::STORE;
        let sizes = (
            u32::try_from(entry.compressed_size_hint()),
            u32::try_from(entry.uncompressed_size_hint()).ok().filter(|&size| size < PLAIN),
        );
        let place = if entry.flags().is_encrypted() {
            Err("it is encrypted, which is not supported; pack the images again without a password"
                .to_owned())
        } else if !is_plain && method != CompressionMethod::DEFLATE {
            Err(format!(
                "it is compressed by {}, but only stored or deflated members are supported; pack the images again, with 'zip -0' for example",
                method_name(method)
            ))
        } else if let (Ok(stored), Some(size)) = sizes {
            let size = if is_plain { size | PLAIN } else { size };
            Ok(Place { stored, size, crc: entry.crc32() })
        } else {
            let size = entry.uncompressed_size_hint();
            Err(format!("it has {size} bytes, but only members below 2147483648 bytes are supported"))
        };
        let name: Box<[u8]> = entry.file_path().as_bytes().into();
        room::reserve(&mut directory, 2, room::INDEX)?;
        let found = (entry.local_header_offset(), place);
        // Windows tools may write backslashes, which maps cannot name: they become slashes.
        if !as_cntk && name.contains(&b'\\') {
            let slashed = name.iter().map(|&byte| if byte == b'\\' { b'/' } else { byte }).collect();
            with_backslashes.push((slashed, found));
        } else {
            directory.entry(name).or_insert(found);
        }
    }
    // If both spellings exist, the name with slashes takes precedence.
    for (name, found) in with_backslashes {
        directory.entry(name).or_insert(found);
    }
    Ok(directory)
}

/// Returns the name of a compression method.
fn method_name(method: CompressionMethod) -> String {
    match method {
        CompressionMethod::DEFLATE64 => "deflate64".to_owned(),
        CompressionMethod::BZIP2 => "bzip2".to_owned(),
        CompressionMethod::LZMA => "lzma".to_owned(),
        CompressionMethod::ZSTD | CompressionMethod::ZSTD_DEPRECATED => "zstd".to_owned(),
        CompressionMethod::XZ => "xz".to_owned(),
        CompressionMethod::AES => "an AES-encrypted method".to_owned(),
        other => format!(
            "method {}{}",
            other.as_u16(),
            other.name().map_or(String::new(), |name| format!(" ({name})"))
        ),
    }
}

/// Adapter for the zip reader.
struct Bytes(DataFile);

impl ReaderAt for Bytes {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(offset, buffer).map_err(|error| io::Error::other(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::corpus::Corpus;

    /// Builds a zip file with one member of three bytes, whose directory claims these sizes.
    fn archive(stored: u32, size: u32, is_plain: bool) -> Vec<u8> {
        let method = if is_plain { 0u16 } else { 8 };
        // From the version to the extra field length, identical in the local header and the
        // directory.
        let mut facts = [20u16, 0, method, 0, 0].map(u16::to_le_bytes).concat();
        facts.extend([0, stored, size].map(u32::to_le_bytes).concat());
        facts.extend([1u16, 0].map(u16::to_le_bytes).concat());
        let mut bytes = [b"PK\x03\x04", &facts[..], b"a", b"xyz"].concat();
        let start = bytes.len() as u32;
        bytes.extend([b"PK\x01\x02\x14\0", &facts[..], &[0; 14], b"a"].concat());
        let length = bytes.len() as u32 - start;
        bytes.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
        bytes.extend([length, start].map(u32::to_le_bytes).concat());
        bytes.extend([0; 2]);
        bytes
    }

    #[test]
    fn bogus_member_sizes_reserve_no_memory() {
        let folder = tempfile::tempdir().expect("a folder");
        let [zip, map] = ["a.zip", "a.map"].map(|name| folder.path().join(name).display().to_string());
        std::fs::write(&map, format!("{zip}@/a\t0\n")).expect("writing");
        for (stored, size, is_plain) in [(600 << 20, 10, false), (4, 10, false), (600 << 20, 600 << 20, true)]
        {
            // Larger than all claimed sizes, so that this limit does not apply.
            const MOST: u64 = 1 << 31;
            std::fs::write(&zip, archive(stored, size, is_plain)).expect("writing");
            let map = Map::read(&map, 2, &Corpus::Numeric).expect("a map");
            let members = Members::find(&map, false, false).expect("a member");
            let (mut inflater, mut file) = (Inflater::default(), Vec::new());
            let read = members.read(0, MOST, &mut inflater, &mut file).expect("it lies in a zip file");
            let error = read.expect_err("the file ends before");
            assert!(error.message().contains("is damaged"), "{error}");
            assert!(inflater.stored.capacity() < 1000 && file.capacity() < 1000, "{stored} {size}");
        }
    }
}
