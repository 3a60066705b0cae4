//! An output file that gets its name when it is complete.

use super::frame_writer::FrameWriter;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::file::{NewFile, address};
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::{Error, ErrorKind, Result};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// Size of the write buffer in bytes.
const BUFFER: usize = 1 << 20;

/// An output file. If it is dropped without [`Output::commit`], no file is left.
pub struct Output {
    path: String,
    file: NewFile,
    buffer: Vec<u8>,
    /// Bytes written so far, before compression.
    at: u64,
    /// Compresses the bytes, if requested.
    packer: Option<FrameWriter>,
}

impl Output {
    /// Creates an output that will get this path.
    pub fn create(path: &str) -> Result<Output> {
        Self::open(path, "", false)
    }

    /// Creates an output that is compressed with zstd, if a level is given.
    pub fn create_packed(path: &str, level: Option<u32>) -> Result<Output> {
        let mut output = Self::create(path)?;
        output.packer = level.map(FrameWriter::new).transpose()?;
        Ok(output)
    }

    /// Creates a temporary file in the folder of an output, whose contents will be copied into the
    /// output. `part` distinguishes several of them.
    pub(super) fn part(path: &str, part: &str) -> Result<Output> {
        Self::open(path, part, false)
    }

    /// Opens a file. `named`: use a temporary name even if the system supports files without names.
    pub(super) fn open(path: &str, part: &str, named: bool) -> Result<Output> {
        let exact = address::exact(path);
        let target = Path::new(&exact);
        if target.file_name().is_none() {
            return Err(Error::argument(format!("'{path}' does not name a file.")));
        }
        let file = NewFile::open(target, part, named).map_err(|cause| match cause.kind() {
            io::ErrorKind::ResourceBusy => {
                let message = format!("The file '{path}' is being written by another conversion.");
                let error = Error::new(ErrorKind::Io, ExceptionClass::Runtime, message);
                error.with_detail("Wait until it has finished, or choose another output.").in_file(path)
            }
            io::ErrorKind::Unsupported => no_file(path, &cause),
            _ => Error::io("Error opening file", path, &cause),
        })?;
        let buffer = room::with_capacity(BUFFER, room::CONVERSION)?;
        Ok(Output { path: path.to_owned(), file, buffer, at: 0, packer: None })
    }

    /// Returns the number of bytes written so far, before compression.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.at += bytes.len() as u64;
        match &mut self.packer {
            None => self.store(bytes),
            Some(packer) => packer.add(bytes)?.iter().try_for_each(|frame| self.store(frame)),
        }
    }

    /// Compresses and writes the remaining bytes. Nothing can be added afterwards.
    fn end_packing(&mut self) -> Result<()> {
        let Some(packer) = self.packer.take() else { return Ok(()) };
        packer.finish()?.iter().try_for_each(|part| self.store(part))
    }

    fn store(&mut self, bytes: &[u8]) -> Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        if bytes.len() >= BUFFER {
            return self.file.file().write_all(bytes).map_err(|cause| self.error(&cause));
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.file.file().write_all(&self.buffer).map_err(|cause| self.error(&cause))?;
        self.buffer.clear();
        Ok(())
    }

    fn error(&self, cause: &io::Error) -> Error {
        Error::io("Error writing file", &self.path, cause)
    }

    /// Passes all written bytes to `take` in order, block by block.
    pub(super) fn read_back(&mut self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.flush()?;
        self.file.file().rewind().map_err(|cause| self.error(&cause))?;
        let mut block = room::zeroed(BUFFER, room::CONVERSION)?;
        loop {
            match self.file.file().read(&mut block).map_err(|cause| self.error(&cause))? {
                0 => return Ok(()),
                count => take(&block[..count])?,
            }
        }
    }

    /// Reads the output before it has its name: `read` gets a path by which this process can open
    /// it. Errors name the output's own path.
    pub fn read_again<R>(&mut self, read: impl FnOnce(&str) -> Result<R>) -> Result<R> {
        let readable = self.readable_path()?;
        read(&readable).map_err(|error| renamed(&error, &readable, &self.path))
    }

    /// Returns a path by which this process can read the output. Users do not know it: errors must
    /// not show it.
    fn readable_path(&mut self) -> Result<String> {
        self.end_packing()?;
        self.flush()?;
        Ok(self.file.readable_path())
    }

    /// Gives the complete file its name. An existing file is replaced.
    pub fn commit(mut self) -> Result<()> {
        self.end_packing()?;
        self.flush()?;
        let Output { path, file, .. } = self;
        file.replace().map_err(|cause| match cause.kind() {
            io::ErrorKind::Unsupported => no_file(&path, &cause),
            _ => Error::io("Error writing file", &path, &cause),
        })
    }
}

/// Returns the error with `path` in place of every `readable`, a name that only this process knows.
fn renamed(error: &Error, readable: &str, path: &str) -> Error {
    let (cause, rest) = error.explained();
    let place = error.location();
    if !cause.contains(readable) && !rest.contains(readable) && place.file.as_deref() != Some(readable) {
        return error.clone();
    }
    let new = Error::new(error.kind(), error.class(), cause.replace(readable, path));
    let new = new.with_detail(rest.replace(readable, path)).in_file(path);
    let new = match (place.offset, place.line) {
        (Some(offset), line) => new.at(offset, line),
        (None, Some(line)) => new.in_line(line),
        (None, None) => new,
    };
    let new = place.stream.iter().fold(new, |new, stream| new.in_stream(stream));
    place.key.iter().fold(new, |new, key| new.for_key(key.as_str()))
}

/// The error for an output that is not a plain file.
fn no_file(path: &str, cause: &io::Error) -> Error {
    let shown = quoted(path.as_bytes());
    let error = Error::new(
        ErrorKind::Io,
        ExceptionClass::Runtime,
        format!("The output '{shown}' cannot be written: {cause}."),
    );
    let detail = "An output gets its name when it is complete, in place of an earlier file, and this one would be destroyed. Name a plain \
                  file, and copy it to where it is needed.";
    error.with_detail(detail).in_file(path)
}

/// Like [`Output::write`]; `flush` does nothing, because the output is flushed when it is complete.
impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Output::write(self, bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn leftovers_of_a_killed_conversion_are_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out").display().to_string();
        for named in [true, false] {
            fs::write(folder.path().join(".out.tmp"), "half of").expect("writing");
            let mut output = Output::open(&path, "", named).expect("an output");
            output.write(b"all").expect("writing");
            let all = output.read_again(|path| Ok(fs::read(path).expect("readable")));
            assert_eq!(all.expect("the content"), b"all");
            output.commit().expect("committing");
            assert_eq!(fs::read(&path).expect("the output"), b"all");
            assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
        }
    }

    #[test]
    fn errors_name_the_path_of_the_output() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out").display().to_string();
        let mut output = Output::create(&path).expect("an output");
        let read = |readable: &str| -> Result<()> {
            let message = format!("The file '{readable}' is wrong.");
            let error = Error::data(message).with_detail(format!("Look at {readable}."));
            Err(error.in_file(readable).at(7, Some(2)).in_stream("x").for_key("k"))
        };
        let error = output.read_again(read).expect_err("an error");
        assert!(!error.to_string().contains("/proc/"), "{error}");
        let place = error.location();
        assert_eq!(place.file.as_deref(), Some(&*path));
        assert_eq!((place.offset, place.line, place.key.as_deref()), (Some(7), Some(2), Some("k")));
        assert_eq!(error.message(), format!("The file '{path}' is wrong."));
        assert_eq!(error.detail(), format!("Look at {path}."));
    }

    #[test]
    fn concurrent_conversions_to_one_file_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out").display().to_string();
        let first = Output::open(&path, "", true).expect("an output");
        let Err(error) = Output::open(&path, "", true) else { panic!("the file is locked") };
        assert_eq!(error.kind(), ErrorKind::Io);
        drop(first);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }
}
