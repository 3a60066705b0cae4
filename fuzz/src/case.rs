//! One input: its choices, the content of its files, and a folder for them.

use crate::choices::Choices;
use crate::common::reading::{check_errors, epoch, use_it};
use cntk_reader::language::from_text;
use cntk_reader_engine::reader::Epoch;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes at the start of an input that are choices. The rest is content.
pub const HEAD: usize = 16;

/// The separator between the files of an input.
const SEPARATOR: &[u8] = b"\n--8<--\n";

/// An input.
pub struct Case<'a> {
    /// Its choices.
    pub choices: Choices<'a>,
    /// The bytes after the choices.
    pub content: &'a [u8],
    folder: Folder,
}

/// A folder that is removed with its contents on drop.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Splits an input into choices and content.
pub fn split(input: &[u8]) -> (Choices<'_>, &[u8]) {
    let (head, content) = input.split_at(HEAD.min(input.len()));
    (Choices::new(head), content)
}

impl<'a> Case<'a> {
    /// Creates a case from an input that begins with choices.
    pub fn new(input: &'a [u8]) -> Case<'a> {
        let (choices, content) = split(input);
        Case { choices, ..Case::of_content(content) }
    }

    /// Creates a case from an input without choices, with its own empty folder.
    pub fn of_content(content: &'a [u8]) -> Case<'a> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        // All names have the same length, but each case has a new one, so that nothing cached for a
        // path applies to the next case.
        let folder = scratch().join(format!("{:08}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        std::fs::create_dir(&folder).expect("a folder for the case");
        Case { choices: Choices::new(&[]), content, folder: Folder(folder) }
    }

    /// Returns the folder, which is empty at first.
    pub fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// Splits the content into two files; the second one is empty without a separator.
    pub fn two_files(&self) -> (&'a [u8], &'a [u8]) {
        let at = self.content.windows(SEPARATOR.len()).position(|bytes| bytes == SEPARATOR);
        at.map_or((self.content, &[]), |at| (&self.content[..at], &self.content[at + SEPARATOR.len()..]))
    }

    /// Returns the path of a file for a configuration.
    pub fn path(&self, name: &str) -> String {
        self.folder.0.join(name).display().to_string()
    }

    /// Writes a file, and returns its path.
    pub fn write(&self, name: &str, content: &[u8]) -> String {
        let path = self.folder.0.join(name);
        std::fs::write(&path, content).expect("writing a file of the case");
        path.display().to_string()
    }

    /// Chooses an epoch of two sweeps with few minibatches.
    pub fn epoch(&mut self) -> Epoch {
        let workers = self.choices.range(1, 3);
        epoch(workers, self.choices.range(0, workers - 1), 4 * workers)
    }

    /// Chooses the lines of a configuration that set the reader's mode, for any format.
    pub fn mode(&mut self) -> String {
        let choices = &mut self.choices;
        let mode =
            ["", "frameMode = true", "truncated = true\ntruncationLength = 2", "precision = \"double\""];
        format!(
            "traceLevel = 0\nrandomize = {}\n{}\n",
            choices.pick(&["false", "true"]),
            choices.pick(&[mode[0], mode[1], mode[2], mode[3], mode[0], mode[0], "maxErrors = 2"])
        )
    }

    /// Opens a reader with a valid configuration, and reads. Errors must have a location.
    pub fn read(&mut self, deserializers: &str) {
        let config = self.mode() + &format!("deserializers = ( {deserializers} )\n");
        let epoch = self.epoch();
        let options = match from_text(&config) {
            Ok(options) => options,
            // Some choices exclude each other.
            Err(error) if error.message().contains("mutually exclusive") => return,
            Err(error) => panic!("{error}"),
        };
        if let Err(errors) = use_it(&options, &epoch) {
            if std::env::var_os("CNTK_READER_FUZZ_SHOW").is_some() {
                errors.iter().for_each(|error| println!("{error}"));
            }
            check_errors(&errors, &config);
        }
    }
}

/// Returns the folder for the folders of all cases, in memory if possible.
pub fn scratch() -> &'static Path {
    static SCRATCH: OnceLock<PathBuf> = OnceLock::new();
    SCRATCH.get_or_init(|| {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let folder = base.join(format!("cntk-reader-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for cases");
        folder
    })
}
