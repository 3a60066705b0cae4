//! Runs a case through this library and through CNTK.

use super::install::Cntk;
use crate::golden::Case;
use crate::project::{Project, empty_folder};
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A driver that prints nothing for so long will not go on: steps take milliseconds.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Before its first line a driver loads CNTK's libraries, hundreds of megabytes.
const PATIENCE_AT_FIRST: Duration = Duration::from_secs(120);

/// How a driver ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, all done.
    Done,
    /// With an exit code that is no success.
    Failed(i32),
    /// By a signal.
    Crashed(i32),
    /// It did not, and was stopped.
    Hung,
}

/// What a driver printed, and how it ended.
pub struct Output {
    /// Lines of JSON: the creation, then one line for each step that was done.
    pub lines: Vec<String>,
    /// How it ended.
    pub end: End,
}

/// Both drivers, ready to run.
pub struct Drivers {
    /// This library's driver, or the host's with this project's module.
    ours: PathBuf,
    /// The driver that has the converters.
    converter: PathBuf,
    own_module: Option<PathBuf>,
    host: PathBuf,
    module: PathBuf,
    library_path: String,
    /// CNTK's version.
    pub version: String,
}

impl Drivers {
    /// The drivers that `cargo xtask build` made, over this CNTK. With `own_module`, this library is driven through the
    /// host's interface, too.
    pub fn new(project: &Project, cntk: &Cntk, own_module: Option<PathBuf>) -> Drivers {
        let folder = project.target.join("drivers");
        Drivers {
            ours: folder.join(if own_module.is_some() { "host_replay" } else { "replay" }),
            converter: folder.join("replay"),
            own_module,
            host: folder.join("host_replay"),
            module: cntk.module(),
            library_path: cntk.library_path(),
            version: cntk.version().to_owned(),
        }
    }

    /// Runs a case in a folder of its own, which then holds everything: data, configuration, script, and the output of
    /// both (ours.jsonl, cntk.jsonl, and messages beside them).
    pub fn run(&self, case: &Case, folder: &Path) -> Result<(Output, Output)> {
        empty_folder(folder)?;
        let (config, script) = case.unpack(folder)?;
        if let (Some(rewritten), Some((file, _))) = (&case.rewritten, case.files.first()) {
            let mut convert = Command::new(&self.converter);
            convert.arg("--rewrite").arg(folder.join(file)).arg(&rewritten.streams);
            convert.arg(rewritten.chunk_size.to_string()).arg(rewritten.flags);
            let status = convert.status().with_context(|| format!("starting {convert:?}"))?;
            ensure!(status.success(), "{convert:?} failed ({status}).");
        }
        let mut cntk = Command::new(&self.host);
        cntk.arg(&self.module).arg(&config).arg(&script).env("LD_LIBRARY_PATH", &self.library_path);
        let cntk = run(cntk, folder, "cntk", PATIENCE)?;
        let mut ours = Command::new(&self.ours);
        if let Some(module) = &self.own_module {
            ours.arg(module).env("LD_LIBRARY_PATH", &self.library_path);
        }
        ours.arg(&config).arg(&script);
        Ok((run(ours, folder, "ours", PATIENCE)?, cntk))
    }
}

/// Runs a driver with its output into files; one that prints nothing for longer than `patience` is stopped.
pub fn run(mut command: Command, folder: &Path, name: &str, patience: Duration) -> Result<Output> {
    let path = folder.join(format!("{name}.jsonl"));
    let messages = File::create(folder.join(format!("{name}.messages.txt")))?;
    command.stdin(Stdio::null()).stdout(File::create(&path)?).stderr(messages);
    let mut child = command.spawn().with_context(|| format!("starting {command:?}"))?;
    let (mut clock, mut printed) = (Instant::now(), 0);
    let end = loop {
        if let Some(status) = child.try_wait()? {
            break match status.code() {
                Some(0) => End::Done,
                Some(code) => End::Failed(code),
                None => End::Crashed(status.signal().unwrap_or_default()),
            };
        }
        let length = std::fs::metadata(&path)?.len();
        if length > printed {
            (clock, printed) = (Instant::now(), length);
        }
        if clock.elapsed() > if printed == 0 { PATIENCE_AT_FIRST } else { patience } {
            child.kill()?;
            child.wait()?;
            break End::Hung;
        }
        sleep(Duration::from_millis(2));
    };
    let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
    // CNTK prints to standard output now and then.
    let lines = text.lines().filter(|line| line.starts_with('{')).map(str::to_owned).collect();
    Ok(Output { lines, end })
}
