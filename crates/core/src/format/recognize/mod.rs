//! Recognizes a file by its first bytes, for messages, and for tools that open a file without a
//! configuration.

use crate::Result;
use crate::file::DataFile;
use crate::file::text::{MARK, with_line_breaks};
use crate::option::FrontEnd;
use byteorder::{ByteOrder, LittleEndian};
use std::borrow::Cow;

/// The apparent format of a file, judged by its content only, never by its name or extension.
///
/// ```
/// # use cntk_reader_core::format::recognize as cntk_reader;
/// use cntk_reader::FileFormat;
///
/// assert_eq!(FileFormat::of_bytes(b"|labels 3:1 |features 0.5 0.25\n", 31), FileFormat::CtfLines);
/// assert_eq!(FileFormat::of_bytes(b"\x1f\x8b\x08\0", 9000), FileFormat::Gzip);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileFormat {
    /// No bytes at all, or only white space.
    Empty,
    /// CNTK text format without ids: each line is a sequence.
    CtfLines,
    /// CNTK text format whose lines begin with numeric sequence ids.
    CtfIds,
    /// CNTK text format whose lines begin with textual sequence ids.
    CtfTextIds,
    /// CNTK binary format.
    Cbf,
    /// A file of HTK features.
    HtkFeatures,
    /// HTK labels (master label file).
    Mlf,
    /// A Kaldi archive of binary objects.
    KaldiArchive,
    /// A Kaldi archive of objects as text.
    KaldiText,
    /// A list of utterances and their locations: a script file of HTK or Kaldi.
    Script,
    /// A configuration in CNTK's language.
    Configuration,
    /// A list of images and their classes: lines of `path<tab>class`.
    ImageMap,
    /// Images as Base64: lines of `class<tab>image`, or `key<tab>class<tab>image`.
    Base64Images,
    /// Fields separated by commas or semicolons.
    Csv,
    /// Fields separated by tabs.
    Tsv,
    /// Numbers separated by blanks, with the same count in each line.
    Numbers,
    /// Lines of a label and `index:value` pairs (SVMlight, LIBSVM).
    LibSvm,
    /// Vowpal Wabbit's text format: lines of a label and namespaces, `1 'tag|name feature:value`,
    /// which look like CTF.
    VowpalWabbit,
    /// JSON, or one JSON object per line.
    Json,
    /// Compressed by gzip.
    Gzip,
    /// Compressed by Zstandard.
    Zstd,
    /// Compressed by bzip2.
    Bzip2,
    /// Compressed by xz.
    Xz,
    /// Compressed in a format that this library does not read: LZMA, LZ4, compress.
    OtherCompressed,
    /// An archive of files: tar, 7z, RAR.
    Archive,
    /// A ZIP archive, which includes NumPy's `.npz`.
    Zip,
    /// A JPEG image.
    Jpeg,
    /// A PNG image.
    Png,
    /// A BMP image.
    Bmp,
    /// A GIF image.
    Gif,
    /// A TIFF image.
    Tiff,
    /// A WebP image.
    Webp,
    /// An audio recording: WAVE, FLAC, NIST SPHERE, Ogg.
    Audio,
    /// A NumPy array (`.npy`).
    Npy,
    /// A Parquet file.
    Parquet,
    /// An Arrow IPC file, also called Feather.
    Arrow,
    /// An HDF5 file.
    Hdf5,
    /// An HTML page, such as a server's response in place of a file.
    Html,
    /// A Git LFS pointer in place of the file.
    GitLfs,
    /// Text with 16 bits per character.
    Utf16,
    /// Text with 32 bits per character.
    Utf32,
    /// Text in no known format.
    Text,
    /// Bytes in no known format.
    Bytes,
}

/// File name extensions of images that can be decoded.
pub const IMAGE_ENDINGS: [&str; 11] =
    ["jpg", "jpeg", "png", "bmp", "tif", "tiff", "webp", "ppm", "pgm", "pbm", "pnm"];

/// Number of leading bytes that are examined.
pub(crate) const HEAD: usize = 4096;

/// Maximum number of lines that are examined.
const LINES: usize = 16;

/// Formats whose files begin with fixed bytes.
const SIGNATURES: &[(&[u8], FileFormat)] = &[
    (b"nib_ktnc", FileFormat::Cbf),
    (b"#!MLF!#", FileFormat::Mlf),
    (b"\x1f\x8b", FileFormat::Gzip),
    (b"\x28\xb5\x2f\xfd", FileFormat::Zstd),
    (b"BZh", FileFormat::Bzip2),
    (b"\xfd7zXZ\0", FileFormat::Xz),
    (b"\x5d\0\0", FileFormat::OtherCompressed),
    (b"\x04\x22\x4d\x18", FileFormat::OtherCompressed),
    (b"\x1f\x9d", FileFormat::OtherCompressed),
    (b"7z\xbc\xaf\x27\x1c", FileFormat::Archive),
    (b"Rar!\x1a\x07", FileFormat::Archive),
    (b"PK\x03\x04", FileFormat::Zip),
    (b"PK\x05\x06", FileFormat::Zip),
    (b"\xff\xd8\xff", FileFormat::Jpeg),
    (b"\x89PNG\r\n\x1a\n", FileFormat::Png),
    (b"GIF87a", FileFormat::Gif),
    (b"GIF89a", FileFormat::Gif),
    (b"II*\0", FileFormat::Tiff),
    (b"MM\0*", FileFormat::Tiff),
    (b"fLaC", FileFormat::Audio),
    (b"NIST_1A", FileFormat::Audio),
    (b"OggS", FileFormat::Audio),
    (b"\x93NUMPY", FileFormat::Npy),
    (b"PAR1", FileFormat::Parquet),
    (b"ARROW1", FileFormat::Arrow),
    (b"\x89HDF\r\n\x1a\n", FileFormat::Hdf5),
    (b"version https://git-lfs", FileFormat::GitLfs),
    (b"\xff\xfe\0\0", FileFormat::Utf32),
    (b"\0\0\xfe\xff", FileFormat::Utf32),
    (b"\xff\xfe", FileFormat::Utf16),
    (b"\xfe\xff", FileFormat::Utf16),
];

impl FileFormat {
    /// Reads the start of a file and recognizes its format. Fails if the file cannot be read.
    pub fn of_file(path: &str) -> Result<FileFormat> {
        FileFormat::of_data(&DataFile::open(path)?)
    }

    /// Like [`FileFormat::of_file`], for an open file.
    #[doc(hidden)]
    pub fn of_data(file: &DataFile) -> Result<FileFormat> {
        let mut head = vec![0; HEAD];
        let count = file.read_at(0, &mut head)?;
        Ok(FileFormat::of_bytes(&head[..count], file.size()?))
    }

    /// Returns two sentences for the error of a deserializer that expected another format: what the
    /// file is, and what to do with it. Returns none if the format is unknown, or if `expected`
    /// accepts it.
    #[doc(hidden)]
    pub fn explain(file: &DataFile, expected: impl Fn(FileFormat) -> bool) -> Option<(String, &'static str)> {
        match FileFormat::of_data(file) {
            Ok(FileFormat::Text | FileFormat::Bytes) | Err(_) => None,
            Ok(format) if expected(format) => None,
            Ok(format) => {
                Some((format!("The file looks like {}.", format.describe()), format.remedy_for(file.path())))
            }
        }
    }

    /// Like [`FileFormat::advice`], for a file with this path: one that is named like a compressed
    /// file has been decompressed already.
    pub fn advice_on(self, path: &str) -> Cow<'static, str> {
        FrontEnd::Configuration.say(self.remedy_for(path))
    }

    /// Like [`FileFormat::advice_on`], with the ids of options.
    #[doc(hidden)]
    pub fn remedy_for(self, path: &str) -> &'static str {
        let is_unpacked = [".gz", ".gzip", ".zst", ".zstd"].iter().any(|ending| path.ends_with(ending));
        match self {
            FileFormat::Gzip | FileFormat::Zstd if is_unpacked => {
                "It was compressed twice: decompress it once (gunzip, or zstd -d), and keep the ending of its name."
            }
            FileFormat::Gzip if path.ends_with(".tgz") || path.contains(".tar.") => {
                "It is an archive of files: unpack it first (tar -xf FILE), and name the files in it."
            }
            _ => self.remedy(),
        }
    }

    /// Whether files of other formats hardly ever look like this one: true for all formats with
    /// fixed leading bytes, and for CNTK's text format.
    #[doc(hidden)]
    pub fn is_certain(self) -> bool {
        let has_header = matches!(
            self,
            FileFormat::HtkFeatures
                | FileFormat::KaldiArchive
                | FileFormat::Bmp
                | FileFormat::Webp
                | FileFormat::Audio
        );
        has_header || self.is_ctf() || SIGNATURES.iter().any(|&(_, format)| format == self)
    }

    /// Whether it is CNTK's text format, with or without ids.
    #[doc(hidden)]
    pub fn is_ctf(self) -> bool {
        matches!(self, FileFormat::CtfLines | FileFormat::CtfIds | FileFormat::CtfTextIds)
    }

    /// Recognizes the format of a file of `size` bytes by its first bytes, of which 4096 are
    /// enough.
    pub fn of_bytes(head: &[u8], size: u64) -> FileFormat {
        // A byte order mark is part of neither the text nor its signature.
        let start = head.strip_prefix(MARK).unwrap_or(head);
        if let Some(&(_, format)) = SIGNATURES.iter().find(|(signature, _)| start.starts_with(signature)) {
            return format;
        }
        if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") {
            return FileFormat::Webp;
        }
        if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WAVE") {
            return FileFormat::Audio;
        }
        if head.starts_with(b"BM") && head.get(6..10) == Some(&[0; 4]) {
            return FileFormat::Bmp;
        }
        if head.get(257..262) == Some(b"ustar") {
            return FileFormat::Archive;
        }
        if is_documented_cbf(head, size) {
            return FileFormat::Cbf;
        }
        if is_htk(head, size) {
            return FileFormat::HtkFeatures;
        }
        let is_whole = head.len() as u64 >= size;
        let head = &head[..head.len().min(HEAD)];
        let text = head.strip_prefix(MARK).unwrap_or(head);
        let text = &*with_line_breaks(text, is_whole);
        let token = text.iter().take_while(|byte| !byte.is_ascii_whitespace()).count();
        if text.get(token..).is_some_and(|rest| rest.starts_with(b" \0B")) && !text[..token].contains(&0) {
            return FileFormat::KaldiArchive;
        }
        if let Some(zero) = memchr::memchr(0, text) {
            return of_zeros(text, zero);
        }
        of_text(text, is_whole)
    }

    /// A noun phrase for the format, with its article, to follow "is".
    pub fn describe(self) -> &'static str {
        match self {
            FileFormat::Empty => "an empty file",
            FileFormat::CtfLines => "a text file in CNTK's format (CTF) without sequence ids",
            FileFormat::CtfIds => "a text file in CNTK's format (CTF) with numbers as sequence ids",
            FileFormat::CtfTextIds => "a text file in CNTK's format (CTF) with textual sequence ids",
            FileFormat::Cbf => "a file in CNTK's binary format (CBF)",
            FileFormat::HtkFeatures => "a file of HTK features",
            FileFormat::Mlf => "a file of HTK labels (MLF)",
            FileFormat::KaldiArchive => "a Kaldi archive",
            FileFormat::KaldiText => "a Kaldi archive as text",
            FileFormat::Script => "a script of utterances (.scp)",
            FileFormat::Configuration => "a CNTK configuration",
            FileFormat::ImageMap => "a list of images and their classes",
            FileFormat::Base64Images => "a list of images as Base64",
            FileFormat::Csv => "a table with commas or semicolons between its fields (CSV)",
            FileFormat::Tsv => "a table with tabs between its fields (TSV)",
            FileFormat::Numbers => "a table of numbers with blanks between them",
            FileFormat::LibSvm => "a text file in LIBSVM's format",
            FileFormat::VowpalWabbit => "a text file in Vowpal Wabbit's format",
            FileFormat::Json => "a JSON file",
            FileFormat::Gzip => "a file compressed by gzip",
            FileFormat::Zstd => "a file compressed by zstd",
            FileFormat::Bzip2 => "a file compressed by bzip2",
            FileFormat::Xz => "a file compressed by xz",
            FileFormat::OtherCompressed => "a file compressed by LZMA, LZ4 or compress",
            FileFormat::Archive => "an archive of files (tar, 7z or RAR)",
            FileFormat::Zip => "a ZIP archive (or NumPy's .npz)",
            FileFormat::Jpeg => "a JPEG image",
            FileFormat::Png => "a PNG image",
            FileFormat::Bmp => "a BMP image",
            FileFormat::Gif => "a GIF image",
            FileFormat::Tiff => "a TIFF image",
            FileFormat::Webp => "a WebP image",
            FileFormat::Audio => "an audio recording",
            FileFormat::Npy => "a NumPy array (.npy)",
            FileFormat::Parquet => "a Parquet file",
            FileFormat::Arrow => "an Arrow (Feather) file",
            FileFormat::Hdf5 => "an HDF5 file",
            FileFormat::Html => "an HTML page, perhaps a server's response in place of the file",
            FileFormat::GitLfs => "a Git LFS pointer, not the file itself",
            FileFormat::Utf16 => "a text file in UTF-16",
            FileFormat::Utf32 => "a text file in UTF-32",
            FileFormat::Text => "a text file of an unknown format",
            FileFormat::Bytes => "a binary file of an unknown format",
        }
    }

    /// Says in whole sentences what to do with a file of this format so that the library can read
    /// it. Empty for unknown formats.
    pub fn advice(self) -> Cow<'static, str> {
        FrontEnd::Configuration.say(self.remedy())
    }

    /// Like [`FileFormat::advice`], with the ids of options.
    #[doc(hidden)]
    pub fn remedy(self) -> &'static str {
        match self {
            FileFormat::Empty => "Check how it was written.",
            FileFormat::CtfLines | FileFormat::CtfIds | FileFormat::CtfTextIds => "A ‹ctf_type› reads it.",
            FileFormat::Cbf => "A ‹cbf_type› reads it.",
            FileFormat::HtkFeatures => {
                "List the files of features in a script, and name that as ‹script_file› of an ‹htk_type›."
            }
            FileFormat::Mlf => "Name it as ‹label_file› of an ‹mlf_type›.",
            FileFormat::KaldiArchive | FileFormat::KaldiText => "A ‹kaldi_type› reads it.",
            FileFormat::Script => "Name it as ‹script_file› of an ‹htk_type› or of a ‹kaldi_type›.",
            FileFormat::ImageMap => "Name it as ‹file› of an ‹image_type›.",
            FileFormat::Base64Images => "Name it as ‹file› of a ‹base64_type›.",
            FileFormat::Configuration => "Open it as the configuration, not as the data.",
            FileFormat::Csv | FileFormat::Tsv | FileFormat::Numbers => {
                "The command-line tool converts it to CNTK's text format: cntk-reader convert FILE NEW.ctf; or read the table with \
                 ‹table_reader›."
            }
            FileFormat::Json | FileFormat::LibSvm | FileFormat::VowpalWabbit => {
                "The command-line tool converts it to CNTK's text format: cntk-reader convert FILE NEW.ctf."
            }
            FileFormat::Arrow | FileFormat::Parquet => {
                "The command-line tool, built with its feature 'arrow', converts it to CNTK's text format: cntk-reader convert FILE \
                 NEW.ctf; or read it with ‹columns_reader›."
            }
            FileFormat::Npy => {
                "A ‹array_type› reads it; the command-line tool converts it to CNTK's text format: cntk-reader convert FILE NEW.ctf"
            }
            FileFormat::Hdf5 => "Convert it to CNTK's text format first, or read it with ‹columns_reader›.",
            FileFormat::Gzip => {
                "Give it a name that ends in '.gz': it is then unpacked into the cache folder and read."
            }
            FileFormat::Zstd => "Give it a name that ends in '.zst': it is then unpacked while it is read.",
            FileFormat::Bzip2 => "Decompress it first: bunzip2 FILE.",
            FileFormat::Xz => "Decompress it first: unxz FILE.",
            FileFormat::OtherCompressed => {
                "Decompress it first; files compressed by zstd or gzip are read as they are."
            }
            FileFormat::Archive => "Unpack it first, and name the files in it.",
            FileFormat::Html => {
                "Open it in a browser to see what the server says, and download the file again."
            }
            FileFormat::GitLfs => "Fetch the file first: git lfs pull.",
            FileFormat::Zip => {
                "The command-line tool converts NumPy archives to CNTK's text format: cntk-reader convert FILE NEW.ctf. Unpack \
                 others first: unzip FILE."
            }
            FileFormat::Jpeg
            | FileFormat::Png
            | FileFormat::Bmp
            | FileFormat::Gif
            | FileFormat::Tiff
            | FileFormat::Webp => {
                "List the images in a map file, with a line 'path<tab>class' for each, and name that as 'file' of an \
                 ‹image_type›."
            }
            FileFormat::Audio => {
                "Features are read, not sound: compute them first, with Kaldi (compute-mfcc-feats) or HTK (HCopy), and name the \
                 script of the features."
            }
            FileFormat::Utf16 => "Convert it to UTF-8 first: iconv -f UTF-16 -t UTF-8 FILE > NEW.",
            FileFormat::Utf32 => "Convert it to UTF-8 first: iconv -f UTF-32 -t UTF-8 FILE > NEW.",
            FileFormat::Text => {
                "A line of CNTK's text format has samples such as '|x 0.5 0.25 |y 3:1', perhaps after a number, the id of \
                 its sequence."
            }
            FileFormat::Bytes => "If it should be text, it is damaged.",
        }
    }
}

/// Whether a file begins like CNTK's binary format in the layout of its documentation: version,
/// chunks, streams, and the name and kind of the first stream.
fn is_documented_cbf(head: &[u8], size: u64) -> bool {
    let long = |at: usize| head.get(at..at + 8).map(LittleEndian::read_u64);
    let int = |at: usize| head.get(at..at + 4).map(LittleEndian::read_u32);
    let (Some(1), Some(chunks), Some(streams), Some(length)) = (long(0), long(8), int(16), int(20)) else {
        return false;
    };
    // The header has at least 16 bytes for each chunk and each stream.
    let fits = chunks.max(streams.into()) <= size / 16 && streams > 0;
    let name_end = 24 + length as usize;
    let Some(name) = head.get(24..name_end).filter(|name| !name.is_empty()) else { return false };
    fits && std::str::from_utf8(name).is_ok_and(|name| !name.contains(char::is_control))
        && int(name_end).is_some_and(|kind| kind <= 1)
}

/// Whether a file begins with an HTK feature header and has the size that it states.
fn is_htk(head: &[u8], size: u64) -> bool {
    let Some(header) = head.get(..12) else { return false };
    let number = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let (frames, frame_bytes, kind) = (number(0), half(8), half(10));
    let is_known = frames > 0 && frame_bytes > 0 && kind & 0o77 <= 12;
    // A checksum of two bytes may follow the frames.
    let end = 12 + u64::from(frames) * u64::from(frame_bytes);
    is_known && (end == size || end + 2 == size)
}

/// Recognizes bytes that contain zeros, the first one at `first`. 16-bit text has zeros in every
/// other place. A damaged text file still begins with lines of its format.
fn of_zeros(bytes: &[u8], first: usize) -> FileFormat {
    let zeros = |first: usize| bytes.iter().skip(first).step_by(2).filter(|&&byte| byte == 0).count();
    let half = bytes.len() / 2;
    let is_utf16 = |zero: usize| half >= 2 && zeros(zero) * 10 >= half * 9 && zeros(1 - zero) * 10 <= half;
    if is_utf16(0) || is_utf16(1) {
        return FileFormat::Utf16;
    }
    let lines = memchr::memrchr(b'\n', &bytes[..first]).map_or(&[][..], |end| &bytes[..end]);
    Some(of_text(lines, false)).filter(|format| format.is_ctf()).unwrap_or(FileFormat::Bytes)
}

/// Recognizes bytes that are not UTF-8, which CNTK's text format allows in comments: the first line
/// decides.
fn of_other_encoding(bytes: &[u8]) -> FileFormat {
    let mut lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
    let is_text = first.iter().all(|&byte| byte >= b' ' || byte == b'\t');
    is_text.then(|| of_ctf_line(&String::from_utf8_lossy(first))).flatten().unwrap_or(FileFormat::Bytes)
}

fn of_text(bytes: &[u8], is_whole: bool) -> FileFormat {
    let Some(text) = utf8_start(bytes) else { return of_other_encoding(bytes) };
    if text.trim().is_empty() {
        return if is_whole { FileFormat::Empty } else { FileFormat::Text };
    }
    // The last line counts only if it is complete.
    let complete = if is_whole { text } else { text.rfind('\n').map_or(text, |end| &text[..end]) };
    let lines: Vec<&str> = complete
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.trim_start().is_empty() && !line.starts_with('#'))
        .take(LINES)
        .collect();
    let Some(&first) = lines.first() else { return FileFormat::Text };
    if is_vowpal_wabbit(&lines) {
        return FileFormat::VowpalWabbit;
    }
    if let Some(format) = of_ctf_line(first.trim_start()) {
        return format;
    }
    let all = |test: &dyn Fn(&str) -> bool| lines.iter().all(|line| test(line));
    if is_html(first) {
        return FileFormat::Html;
    }
    if first.starts_with(['{', '[']) && (first.contains('"') || first == "{" || first == "[") {
        return FileFormat::Json;
    }
    if is_kaldi_text(first) {
        return FileFormat::KaldiText;
    }
    if all(&is_script_line) {
        return FileFormat::Script;
    }
    if is_assignment(first) {
        return FileFormat::Configuration;
    }
    if all(&is_image_line) {
        return FileFormat::ImageMap;
    }
    if all(&is_labelled) && lines.iter().any(|line| is_base64_image(line)) {
        return FileFormat::Base64Images;
    }
    if all(&is_libsvm_line) {
        return FileFormat::LibSvm;
    }
    for (separator, format) in [('\t', FileFormat::Tsv), (',', FileFormat::Csv), (';', FileFormat::Csv)] {
        let fields = first.split(separator).count();
        if fields > 1 && all(&|line| line.split(separator).count() == fields) {
            return format;
        }
    }
    if all(&|line| line.split_ascii_whitespace().all(is_number)) {
        return FileFormat::Numbers;
    }
    FileFormat::Text
}

/// Returns the text, without an incomplete character at its end; `None` if the bytes are not text.
fn utf8_start(bytes: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let is_control = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\x0b' | '\x0c' | '\x1b');
    (!text.contains(is_control)).then_some(text)
}

fn of_ctf_line(line: &str) -> Option<FileFormat> {
    let starts_sample = |rest: &str| {
        let mut rest = rest.chars();
        rest.next() == Some('|') && rest.next().is_some_and(|c| c == '#' || !c.is_whitespace() && c != '|')
    };
    if starts_sample(line) {
        return Some(FileFormat::CtfLines);
    }
    let after_digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    if after_digits.len() < line.len() && starts_sample(after_digits.trim_start()) {
        return Some(FileFormat::CtfIds);
    }
    let (_, rest) = line.split_once([' ', '\t'])?;
    starts_sample(rest.trim_start()).then_some(FileFormat::CtfTextIds)
}

/// Whether the lines have a label, perhaps a weight and a tag, and features after `|`, and at least
/// one of them cannot be a line of CTF.
fn is_vowpal_wabbit(lines: &[&str]) -> bool {
    let mut is_certain = false;
    for line in lines {
        let Some((head, features)) = line.split_once('|') else { return false };
        let words: Vec<&str> = head.split_ascii_whitespace().collect();
        let (numbers, rest) = words.split_at(words.iter().take_while(|word| is_number(word)).count());
        let has_tag = match rest {
            [] => false,
            [tag] => tag.starts_with('\'') || !head.ends_with(char::is_whitespace),
            _ => return false,
        };
        if numbers.is_empty() || numbers.len() > 3 {
            return false;
        }
        let is_signed = numbers[0].starts_with(['+', '-']);
        let mut nameless = features.split('|').next().unwrap_or_default().split_ascii_whitespace().peekable();
        let is_nameless =
            features.starts_with(' ') && nameless.peek().is_some() && nameless.all(|word| word.contains(':'));
        is_certain |= has_tag || is_signed || is_nameless || numbers.len() > 1;
    }
    is_certain
}

/// `key [ 1 2 3`; the numbers may also be in the following lines.
fn is_kaldi_text(line: &str) -> bool {
    let Some((key, rest)) = line.split_once([' ', '\t']) else { return false };
    let numbers = |rest: &str| rest.split_ascii_whitespace().all(|one| is_number(one) || one == "]");
    key != "=" && rest.trim_start().strip_prefix('[').is_some_and(numbers)
}

/// `key=path[first,last]`, or `key path:offset`.
fn is_script_line(line: &str) -> bool {
    if let Some((key, offset)) = line.split_once([' ', '\t']) {
        let is_key = !key.contains(['=', ',', ':']);
        return is_key
            && offset.rsplit_once(':').is_some_and(|(path, offset)| {
                !path.is_empty()
                    && !path.contains(char::is_whitespace)
                    && !is_number(path)
                    && !path.contains(':')
                    && offset.bytes().all(|byte| byte.is_ascii_digit())
            });
    }
    line.split_once('=').is_some_and(|(key, path)| {
        !key.is_empty() && path.contains(['/', '.']) && !path.contains(['"', '=']) && !is_number(path)
    })
}

/// `key = value` or `key = [`.
fn is_assignment(line: &str) -> bool {
    line.split_once('=').is_some_and(|(key, _)| {
        let key = key.trim();
        !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
    })
}

/// `path<tab>class`, or `key<tab>path<tab>class`, with the path of an image. Other separators are
/// mistakes that the map file's own errors explain.
fn is_image_line(line: &str) -> bool {
    let is_image = |path: &str| {
        let ending = path.trim_matches('"').rsplit_once('.').map_or("", |(_, ending)| ending);
        IMAGE_ENDINGS.iter().any(|known| known.eq_ignore_ascii_case(ending))
    };
    let is_class = |class: &str| !class.is_empty() && class.bytes().all(|byte| byte.is_ascii_digit());
    let columns: Vec<&str> = line.split('\t').collect();
    match columns[..] {
        [path, class] | [_, path, class, ..] => is_image(path) && is_class(class.trim_end()),
        _ => line.rsplit_once([',', ';', ' ']).is_some_and(|(path, class)| is_image(path) && is_class(class)),
    }
}

/// `class<tab>...`, or `key<tab>class<tab>...`. The image may be cut off.
fn is_labelled(line: &str) -> bool {
    data_of(line).is_some()
}

/// Returns the last column of a line whose preceding column is a class.
fn data_of(line: &str) -> Option<&str> {
    let is_class = |class: &str| !class.is_empty() && class.bytes().all(|byte| byte.is_ascii_digit());
    let (first, rest) = line.split_once('\t')?;
    match rest.split_once('\t') {
        Some((class, data)) if is_class(class) => Some(data),
        _ if is_class(first) => Some(rest),
        _ => None,
    }
}

/// The leading bytes of images as Base64: JPEG, PNG, BMP, WebP, TIFF, GIF.
const BASE64_OF_IMAGES: [&str; 8] =
    ["/9j/", "iVBORw0KGgo", "Qk", "UklGR", "SUkqA", "TU0AK", "R0lGODdh", "R0lGODlh"];

/// A lower bound on the length of an image as Base64.
const LEAST_BASE64: usize = 40;

/// Whether the last column of a line is an image as Base64, perhaps with the quotes or prefix that
/// some programs write around it.
fn is_base64_image(line: &str) -> bool {
    let Some(data) = data_of(line) else { return false };
    // Further columns are errors that the deserializer explains.
    let data = data.split('\t').next().unwrap_or(data);
    let data =
        data.trim().strip_prefix('b').filter(|rest| rest.starts_with(['\'', '"'])).unwrap_or(data.trim());
    let data = data.trim_matches(['\'', '"']);
    if data.get(..11).is_some_and(|start| start.eq_ignore_ascii_case("data:image/")) {
        return true;
    }
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte);
    let begins = BASE64_OF_IMAGES.iter().any(|start| data.replace('_', "/").starts_with(start));
    begins && data.len() >= LEAST_BASE64 && data.trim_end().bytes().all(is_base64)
}

fn is_html(line: &str) -> bool {
    let starts = |start: &str| line.get(..start.len()).is_some_and(|own| own.eq_ignore_ascii_case(start));
    starts("<!doctype html") || starts("<html")
}

/// The group of a line in a ranking: `qid:3`.
fn is_query(field: &str) -> bool {
    field.strip_prefix("qid:").is_some_and(|group| group.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_libsvm_line(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace();
    let is_pair = |field: &str| {
        field.split_once(':').is_some_and(|(index, value)| {
            !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit()) && is_number(value)
        })
    };
    // A comment ends the line; rankings have a group, `qid:3`, after the label.
    let mut fields = fields.by_ref().take_while(|field| !field.starts_with('#'));
    let has_label = fields.next().is_some_and(is_number);
    let mut pairs = fields.filter(|field| !is_query(field)).peekable();
    has_label && pairs.peek().is_some() && pairs.all(is_pair)
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests;
