//! An output file that appears under its name only when it is complete.
//!
//! It is written without a name (`O_TMPFILE`), so that the system removes it when the process ends, however that
//! happens. File systems that cannot do this get a file with a temporary name beside the output, which is removed on
//! every way out but a kill.

use crate::{Error, Result};
use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes gathered for one write.
const BUFFER: usize = 1 << 20;

/// Distinguishes the temporary names of one process.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// The output. If it is dropped without [`Output::commit`], no file is left.
pub struct Output {
    path: String,
    file: File,
    buffer: Vec<u8>,
    /// Bytes written so far.
    at: u64,
    /// The temporary name ...
    temporary: PathBuf,
    /// ... and whether the file has it; otherwise the file has no name.
    named: bool,
}

impl Output {
    pub fn create(path: &str) -> Result<Output> {
        let target = Path::new(path);
        let Some(name) = target.file_name() else {
            return Err(Error::argument(format!("'{path}' does not name a file.")));
        };
        let folder = match target.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(format!(".{}.{}-{number}.tmp", name.display(), std::process::id()));
        let nameless = OpenOptions::new().write(true).mode(0o666).custom_flags(libc::O_TMPFILE).open(folder);
        let (file, named) = match nameless {
            // Through this folder `commit` gives the file its name.
            Ok(file) if Path::new("/proc/self/fd").exists() => (file, false),
            _ => {
                let file = OpenOptions::new().write(true).create_new(true).open(&temporary);
                (file.map_err(|cause| Error::io("Error opening file", path, &cause))?, true)
            }
        };
        Ok(Output {
            path: path.to_owned(),
            file,
            buffer: Vec::with_capacity(BUFFER),
            at: 0,
            temporary,
            named,
        })
    }

    /// Bytes written so far.
    pub fn at(&self) -> u64 {
        self.at
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.at += bytes.len() as u64;
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

    /// Gives the complete file its name. An earlier file of this name is replaced.
    pub fn commit(mut self) -> Result<()> {
        self.flush()?;
        // Otherwise a crash of the machine could leave the name without the data.
        self.file.sync_data().map_err(|cause| self.error(&cause))?;
        if !self.named {
            link(&self.file, &self.temporary).map_err(|cause| self.error(&cause))?;
            self.named = true;
        }
        fs::rename(&self.temporary, &self.path).map_err(|cause| self.error(&cause))?;
        self.named = false;
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

/// Gives a file without a name the name `name`.
fn link(file: &File, name: &Path) -> io::Result<()> {
    let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let to = CString::new(name.as_os_str().as_bytes())?;
    let (here, flags) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
    // SAFETY: `from` and `to` are `CString`s, so NUL-terminated, and live until the end of this function; the call reads
    // them and keeps neither.
    match unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
