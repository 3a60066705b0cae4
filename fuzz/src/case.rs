//! One input: the decisions that it makes, the content of its files, and a folder for them.

use crate::choices::Choices;
use crate::common::reading::{check_errors, epoch, use_it};
use cntk_reader::language::from_text;
use cntk_reader_engine::reader::Epoch;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of an input that are decisions. The rest is content.
pub const HEAD: usize = 16;

/// What separates the files of an input that has several.
const SEPARATOR: &[u8] = b"\n--8<--\n";

/// An input.
pub struct Case<'a> {
    /// Its decisions.
    pub choices: Choices<'a>,
    /// What follows them.
    pub content: &'a [u8],
    folder: Folder,
}

/// A folder that is removed with all that is in it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The decisions of an input, and its content.
pub fn split(input: &[u8]) -> (Choices<'_>, &[u8]) {
    let (head, content) = input.split_at(HEAD.min(input.len()));
    (Choices::new(head), content)
}

impl<'a> Case<'a> {
    /// An input that begins with decisions.
    pub fn new(input: &'a [u8]) -> Case<'a> {
        let (choices, content) = split(input);
        Case { choices, ..Case::of_content(content) }
    }

    /// An input without decisions, with an empty folder of its own.
    pub fn of_content(content: &'a [u8]) -> Case<'a> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        // Of equal length for all cases, and another one for each: nothing that is known of a path holds for the next case.
        let folder = scratch().join(format!("{:08}", NUMBER.fetch_add(1, Ordering::Relaxed)));
        std::fs::create_dir(&folder).expect("a folder for the case");
        Case { choices: Choices::new(&[]), content, folder: Folder(folder) }
    }

    /// The folder, where nothing is yet.
    pub fn folder(&self) -> &Path {
        &self.folder.0
    }

    /// Two files of the content; the second one is empty if nothing separates them.
    pub fn two_files(&self) -> (&'a [u8], &'a [u8]) {
        let at = self.content.windows(SEPARATOR.len()).position(|bytes| bytes == SEPARATOR);
        at.map_or((self.content, &[]), |at| (&self.content[..at], &self.content[at + SEPARATOR.len()..]))
    }

    /// The path of a file as configurations have it.
    pub fn path(&self, name: &str) -> String {
        self.folder.0.join(name).display().to_string()
    }

    /// Writes a file; returns its path.
    pub fn write(&self, name: &str, content: &[u8]) -> String {
        let path = self.folder.0.join(name);
        std::fs::write(&path, content).expect("writing a file of the case");
        path.display().to_string()
    }

    /// An epoch of two sweeps, with few minibatches.
    pub fn epoch(&mut self) -> Epoch {
        let workers = self.choices.range(1, 3);
        epoch(workers, self.choices.range(0, workers - 1), 4 * workers)
    }

    /// Lines for the reader: how it reads, the same for all formats.
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

    /// Opens a reader of a configuration without fault, and reads. What fails must say where.
    pub fn read(&mut self, deserializers: &str) {
        let config = self.mode() + &format!("deserializers = ( {deserializers} )\n");
        let epoch = self.epoch();
        let options = match from_text(&config) {
            Ok(options) => options,
            // Some choices are refused beside others.
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

/// The folder for the folders of all cases: in memory where that can be.
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
