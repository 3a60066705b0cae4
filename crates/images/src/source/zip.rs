//! Zip files that images lie in.
//!
//! The directories of zip files are read when the reader is opened. Nothing is unpacked to disk, so names of members are mere
//! bytes that are compared.

use super::map::Map;
use super::{paths, too_large};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::limits::BEST_RATIO;
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::{Error, Result};
use flate2::{Decompress, FlushDecompress, Status};
use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ReaderAt, ZipArchive};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Bytes of the fixed part of the header before a member's data.
const LOCAL_HEADER: usize = 30;

/// Its first bytes.
const LOCAL_SIGNATURE: &[u8] = b"PK\x03\x04";

/// Bytes at the end of a file in which the end of a directory is looked for: its own, and those of the longest comment.
const SEARCHED: u64 = 22 + 65535;

/// Lines that name members which do not exist are logged, up to this many.
const MOST_LOGGED: usize = 100;

/// The images that lie in zip files.
#[derive(Default)]
pub(super) struct Members {
    archives: Vec<DataFile>,
    /// In the order of their lines.
    members: Vec<Member>,
    /// Lines whose members are missing or cannot be read, in their order, and why.
    missing: Vec<(u32, String)>,
}

/// Where the data of an image lie.
#[derive(Debug, Clone, Copy)]
struct Member {
    /// Offset of the header before the data.
    offset: u64,
    /// The line of the map.
    line: u32,
    archive: u32,
    place: Place,
}

/// Reads, from the directory of a zip file, why its reader cannot read a member.
type Unreadable = String;

/// What the directory of a zip file says of a member.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Bytes in the zip file.
    stored: u32,
    /// Bytes of the image file. The highest bit: they are stored as they are.
    size: u32,
    crc: u32,
}

/// The highest bit of [`Place::size`].
const PLAIN: u32 = 1 << 31;

/// Memory for unpacking, and the state of the decompressor.
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
    /// Finds the images of a map that lie in zip files. All of these must be there, unless missing
    /// ones are tolerated: then they are errors when they are read. With `as_cntk`, members have
    /// exactly the names that their directory has.
    pub fn find(map: &Map, as_cntk: bool, is_tolerant: bool) -> Result<Members> {
        let mut found = Members::default();
        let mut numbers: HashMap<Vec<u8>, u32> = HashMap::new();
        // Zip files in the order in which the map names them, each with its lines.
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
                        if lacking <= MOST_LOGGED {
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
            let error = Error::data(message).with_detail(detail).in_file(map.file());
            return Err(error.in_line(u64::from(line) + 1).with_detail(format!(
                "{lacking} lines of the map name images that their zip file does not have, or that cannot be read there. The \
                 name after '@' and one more character must be that of the zip file's directory. With ‹max_errors› above 0, such \
                 images are left out and counted."
            )));
        }
        found.members.sort_unstable_by_key(|member| member.line);
        found.missing.sort_unstable_by_key(|(line, _)| *line);
        Ok(found)
    }

    /// Whether the image of a line lies in a zip file.
    pub fn has(&self, line: u32) -> bool {
        self.find_member(line).is_some() || self.why_missing(line).is_some()
    }

    /// Why the member of a line is missing, if it is.
    fn why_missing(&self, line: u32) -> Option<&str> {
        let found = self.missing.binary_search_by_key(&line, |(line, _)| *line).ok()?;
        self.missing.get(found).map(|(_, why)| why.as_str())
    }

    fn find_member(&self, line: u32) -> Option<&Member> {
        let found = self.members.binary_search_by_key(&line, |member| member.line).ok()?;
        self.members.get(found)
    }

    /// Reads the image file of a line into `file`, at most `most` bytes. `None` if it does not lie in a zip file.
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
            return Err(damaged("no member begins where its directory says"));
        }
        let length = |at: usize| u64::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let data = offset + LOCAL_HEADER as u64 + length(26) + length(28);
        // A directory can claim 4 GB of an archive of a few bytes.
        if data.checked_add(stored).is_none_or(|end| archive.size().is_ok_and(|size| end > size)) {
            return Err(damaged("a member does not end within the file"));
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
            // A member that is longer than its directory says does not come to its end in the memory that is reserved.
            if !matches!(status, Ok(Status::StreamEnd)) || file.len() as u64 != size {
                return Err(damaged("a member cannot be unpacked"));
            }
        }
        if crc32fast::hash(file) != place.crc {
            return Err(damaged("the checksum of a member does not match"));
        }
        Ok(())
    }

    /// Number of images that lie in zip files.
    pub fn len(&self) -> usize {
        self.members.len() + self.missing.len()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(self.members.as_slice())
    }
}

/// The members of a zip file, by name: where each begins, and what its directory says.
type Directory = HashMap<Box<[u8]>, (u64, std::result::Result<Place, Unreadable>)>;

/// The names of the members of a zip file, in no order.
pub(super) fn names(path: &str) -> Result<Vec<Box<[u8]>>> {
    let members = open(path.as_bytes(), false)?.1;
    Ok(members.into_iter().filter_map(|(name, (_, place))| place.is_ok().then_some(name)).collect())
}

/// Opens a zip file, and reads its directory.
fn open(path: &[u8], as_cntk: bool) -> Result<(DataFile, Directory)> {
    let shown = String::from_utf8_lossy(path);
    let refused = |why: &str| format!("Failed to open {shown}, zip library error: {why}");
    let file = DataFile::open_shown(OsStr::from_bytes(path), &shown, |cause| {
        let why = if cause.kind() == io::ErrorKind::NotFound { "No such file" } else { "Can't open file" };
        Error::io("Error opening file", &shown, cause).reworded(refused(why)).with_detail(AT_SIGN)
    })?;
    let directory = file.if_unchanged(read_directory(&file, refused, as_cntk))?;
    Ok((file, directory))
}

/// The meaning of a path with an `@`.
const AT_SIGN: &str = "A path with '@' names a zip file before the first '@', and an image in it after it. Files whose own path has an \
                       '@' have to be renamed, or reached by a link without one.";

fn read_directory(file: &DataFile, refused: impl Fn(&str) -> String, as_cntk: bool) -> Result<Directory> {
    let not_a_zip = |error: &dyn std::fmt::Display| {
        Error::data(refused("Not a zip archive")).with_detail(format!("{error}.")).with_detail(AT_SIGN)
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
            Err("it is encrypted, and only plain members are read; pack the images again without a password"
                .to_owned())
        } else if !is_plain && method != CompressionMethod::DEFLATE {
            Err(format!(
                "it is compressed by {}, where stored or deflated members are read; pack the images again, with 'zip -0' for example",
                method_name(method)
            ))
        } else if let (Ok(stored), Some(size)) = sizes {
            let size = if is_plain { size | PLAIN } else { size };
            Ok(Place { stored, size, crc: entry.crc32() })
        } else {
            let size = entry.uncompressed_size_hint();
            Err(format!("it has {size} bytes, where members below 2147483648 bytes are read"))
        };
        let name: Box<[u8]> = entry.file_path().as_bytes().into();
        room::reserve(&mut directory, 2, room::INDEX)?;
        let found = (entry.local_header_offset(), place);
        // Tools on Windows write backslashes, which maps cannot name: theirs become slashes.
        if !as_cntk && name.contains(&b'\\') {
            let slashed = name.iter().map(|&byte| if byte == b'\\' { b'/' } else { byte }).collect();
            with_backslashes.push((slashed, found));
        } else {
            directory.entry(name).or_insert(found);
        }
    }
    // Where both spellings are there, a map means the one with slashes.
    for (name, found) in with_backslashes {
        directory.entry(name).or_insert(found);
    }
    Ok(directory)
}

/// The name of a method of compression.
fn method_name(method: CompressionMethod) -> String {
    match method {
        CompressionMethod::DEFLATE64 => "deflate64".to_owned(),
        CompressionMethod::BZIP2 => "bzip2".to_owned(),
        CompressionMethod::LZMA => "lzma".to_owned(),
        CompressionMethod::ZSTD | CompressionMethod::ZSTD_DEPRECATED => "zstd".to_owned(),
        CompressionMethod::XZ => "xz".to_owned(),
        CompressionMethod::AES => "a method that AES encrypts".to_owned(),
        other => format!(
            "method {}{}",
            other.as_u16(),
            other.name().map_or(String::new(), |name| format!(" ({name})"))
        ),
    }
}

/// A file as the reader of zip files reads it.
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

    /// A zip file with one member of three bytes, whose directory claims these sizes.
    fn archive(stored: u32, size: u32, is_plain: bool) -> Vec<u8> {
        let method = if is_plain { 0u16 } else { 8 };
        // From the version to the length of the extra field, as the member and the directory have it.
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
    fn nothing_is_reserved_for_members_that_the_file_does_not_have() {
        let folder = tempfile::tempdir().expect("a folder");
        let [zip, map] = ["a.zip", "a.map"].map(|name| folder.path().join(name).display().to_string());
        std::fs::write(&map, format!("{zip}@/a\t0\n")).expect("writing");
        for (stored, size, is_plain) in [(600 << 20, 10, false), (4, 10, false), (600 << 20, 600 << 20, true)]
        {
            // Larger than all claims, so that they do not exceed it.
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
