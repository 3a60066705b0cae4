//! An output file that appears under its name only when it is complete.
//!
//! It is written without a name (`O_TMPFILE`), so that the system removes it when the process ends, however that
//! happens. File systems that cannot do this get a file with a temporary name beside the output, which is removed on
//! every way out but a kill. What a kill leaves is replaced by the next conversion to that output.

use super::frame_writer::FrameWriter;
use crate::error::ExceptionClass;
use crate::{Error, ErrorKind, Result};
use std::ffi::CString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes gathered for one write.
const BUFFER: usize = 1 << 20;

/// Where this process finds the files that it has open.
const DESCRIPTORS: &str = "/proc/self/fd";

/// The output. If it is dropped without [`Output::commit`], no file is left.
pub struct Output {
    path: String,
    file: File,
    buffer: Vec<u8>,
    /// Bytes written so far, before they are compressed.
    at: u64,
    /// What compresses the bytes, if they are to be.
    packer: Option<FrameWriter>,
    /// The temporary name ...
    temporary: PathBuf,
    /// ... and whether the file has it; otherwise the file has no name.
    named: bool,
}

impl Output {
    /// Begins an output that will get this path.
    pub fn create(path: &str) -> Result<Output> {
        Self::open(path, "", false)
    }

    /// An output whose bytes are compressed by zstd, if a level is given.
    pub fn create_packed(path: &str, level: Option<u32>) -> Result<Output> {
        let mut output = Self::create(path)?;
        output.packer = level.map(FrameWriter::new).transpose()?;
        Ok(output)
    }

    /// A file in the folder of an output, for what is going to be copied into the output. `part` distinguishes the parts.
    pub(super) fn part(path: &str, part: &str) -> Result<Output> {
        Self::open(path, part, false)
    }

    /// Opens a file; if `named`, under its temporary name in any case.
    pub(super) fn open(path: &str, part: &str, named: bool) -> Result<Output> {
        let target = Path::new(path);
        let Some(name) = target.file_name() else {
            return Err(Error::argument(format!("'{path}' does not name a file.")));
        };
        let folder = match target.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let temporary = folder.join(format!(".{}{part}.tmp", name.display()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o666);
        let nameless = options.clone().custom_flags(libc::O_TMPFILE).open(folder);
        let (file, named) = match nameless {
            // Through this folder `commit` gives the file its name.
            Ok(file) if !named && Path::new(DESCRIPTORS).exists() => (file, false),
            _ => (claim(options.create(true), &temporary, path)?, true),
        };
        Ok(Output {
            path: path.to_owned(),
            file,
            buffer: Vec::with_capacity(BUFFER),
            at: 0,
            packer: None,
            temporary,
            named,
        })
    }

    /// Bytes written so far; of a compressed output those before they are compressed.
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

    /// Writes what is left to be compressed. Nothing can be added any more.
    fn end_packing(&mut self) -> Result<()> {
        let Some(packer) = self.packer.take() else { return Ok(()) };
        packer.finish()?.iter().try_for_each(|part| self.store(part))
    }

    fn store(&mut self, bytes: &[u8]) -> Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        if bytes.len() >= BUFFER {
            return self.file.write_all(bytes).map_err(|cause| self.error(&cause));
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.file.write_all(&self.buffer).map_err(|cause| self.error(&cause))?;
        self.buffer.clear();
        Ok(())
    }

    fn error(&self, cause: &io::Error) -> Error {
        Error::io("Error writing file", &self.path, cause)
    }

    /// Hands all bytes that were written, in their order, to `take`, a block at a time.
    pub(super) fn read_back(&mut self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.flush()?;
        self.file.rewind().map_err(|cause| self.error(&cause))?;
        let mut block = vec![0; BUFFER];
        loop {
            match self.file.read(&mut block).map_err(|cause| self.error(&cause))? {
                0 => return Ok(()),
                count => take(&block[..count])?,
            }
        }
    }

    /// A path by which this process can read what was written. The system's name of the open file is preferred, because the temporary
    /// name does not say that the file is compressed.
    pub fn readable_path(&mut self) -> Result<String> {
        self.end_packing()?;
        self.flush()?;
        Ok(match self.named && !Path::new(DESCRIPTORS).exists() {
            true => self.temporary.display().to_string(),
            false => format!("{DESCRIPTORS}/{}", self.file.as_raw_fd()),
        })
    }

    /// Gives the complete file its name. An earlier file of this name is replaced.
    pub fn commit(mut self) -> Result<()> {
        self.end_packing()?;
        self.flush()?;
        // Otherwise a crash of the machine could leave the name without the data.
        self.file.sync_data().map_err(|cause| self.error(&cause))?;
        if !self.named {
            self.named = true;
            if let Err(cause) = link(&self.file, &self.temporary) {
                self.named = false;
                // A conversion that was killed here has left its file.
                let left = cause.kind() == io::ErrorKind::AlreadyExists;
                let linked = if left { self.replace_left() } else { Err(cause) };
                linked.map_err(|cause| self.error(&cause))?;
                self.named = true;
            }
        }
        fs::rename(&self.temporary, &self.path).map_err(|cause| self.error(&cause))?;
        self.named = false;
        Ok(())
    }

    /// Links the file in the place of one that was left under its temporary name.
    fn replace_left(&self) -> io::Result<()> {
        fs::remove_file(&self.temporary)?;
        link(&self.file, &self.temporary)
    }
}

/// As [`Output::write`]; flushing does nothing before the output is complete.
impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Output::write(self, bytes).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.named {
            // A failure leaves the temporary file; there is nothing else to try.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Opens the file with the temporary name for this process alone, and empties it: a conversion that was killed may have left it.
fn claim(options: &OpenOptions, temporary: &Path, path: &str) -> Result<File> {
    let failed = |cause: &io::Error| Error::io("Error opening file", path, cause);
    loop {
        let file = options.open(temporary).map_err(|cause| failed(&cause))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = format!("The file '{path}' is being written by another conversion.");
                let error = Error::new(ErrorKind::Io, ExceptionClass::Runtime, message);
                return Err(error.with_detail("Wait for its end, or choose another output.").in_file(path));
            }
            // File systems without locks do without this check.
            Err(TryLockError::Error(_)) => {}
        }
        let own = file.metadata().map_err(|cause| failed(&cause))?;
        // Whoever held the lock before may have renamed the file to its final name.
        if fs::metadata(temporary).is_ok_and(|named| (named.dev(), named.ino()) == (own.dev(), own.ino())) {
            file.set_len(0).map_err(|cause| failed(&cause))?;
            return Ok(file);
        }
    }
}

/// Gives a file without a name the name `name`.
fn link(file: &File, name: &Path) -> io::Result<()> {
    let from = CString::new(format!("{DESCRIPTORS}/{}", file.as_raw_fd()))?;
    let to = CString::new(name.as_os_str().as_bytes())?;
    let (here, flags) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
    // SAFETY: `from` and `to` are `CString`s, so NUL-terminated, and live until the end of this function; the call reads
    // them and keeps neither.
    match unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_conversion_left_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out").display().to_string();
        for named in [true, false] {
            fs::write(folder.path().join(".out.tmp"), "half of").expect("writing");
            let mut output = Output::open(&path, "", named).expect("an output");
            output.write(b"all").expect("writing");
            assert_eq!(fs::read(output.readable_path().expect("a path")).expect("readable"), b"all");
            output.commit().expect("committing");
            assert_eq!(fs::read(&path).expect("the output"), b"all");
            assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
        }
    }

    #[test]
    fn two_conversions_to_one_file_are_kept_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out").display().to_string();
        let first = Output::open(&path, "", true).expect("an output");
        let Err(error) = Output::open(&path, "", true) else { panic!("the file is locked") };
        assert_eq!(error.kind(), ErrorKind::Io);
        drop(first);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }
}
