//! Runs a case through this library and through CNTK.

use crate::compare::Positions;
use crate::golden::Case;
use crate::install::Cntk;
use anyhow::{Context, Result, ensure};
use dropin::{self, Host};
use serde_json::Value;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tooling::project::{Project, empty_folder};

/// Time without output after which CNTK's driver counts as hung: steps take milliseconds.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Time without output after which this library's driver counts as hung. A hang of this library is
/// a failure, so the time is long enough for a very busy machine.
const OWN_PATIENCE: Duration = Duration::from_secs(60);
/// Number of runs of CNTK's driver if it hangs: on a busy machine it may just be slow.
const ATTEMPTS_IF_HUNG: usize = 3;
/// Time limit for a driver's first line, before which it loads CNTK's libraries, hundreds of
/// megabytes.
const PATIENCE_AT_FIRST: Duration = Duration::from_secs(120);

/// Number of minibatches, and samples of each, that together exceed a sweep of any case.
const SWEEP_MINIBATCHES: usize = 100;
const SWEEP_MINIBATCH: u64 = 4096;

/// How a driver ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, after the last step.
    Done,
    /// With an exit code other than 0.
    Failed(i32),
    /// By a signal.
    Crashed(i32),
    /// It did not end, and was stopped.
    Hung,
}

/// The output of a driver, and how it ended.
pub struct Output {
    /// Lines of JSON: the creation, then one line for each completed step.
    pub lines: Vec<String>,
    /// How it ended.
    pub end: End,
    /// Its standard error.
    pub messages: String,
}

/// Both drivers, ready to run.
pub struct Drivers {
    /// This library's driver, or the host's with this project's module.
    ours: PathBuf,
    /// The driver with the converters.
    converter: PathBuf,
    own_module: Option<PathBuf>,
    host: PathBuf,
    module: PathBuf,
    /// CNTK's modules that read old-style sections of speech, and of images.
    htk_module: PathBuf,
    image_module: PathBuf,
    library_path: String,
    /// The version and ABI of CNTK.
    pub cntk: Host,
}

impl Drivers {
    /// Returns the drivers built by `cargo xtask build`, with this CNTK. With `own_module`, this
    /// library is driven through the host's interface, too.
    pub fn new(project: &Project, cntk: &Cntk, own_module: Option<PathBuf>) -> Drivers {
        let folder = project.target.join("drivers");
        let host = dropin::driver_file(project, "host_replay", cntk.host);
        Drivers {
            ours: if own_module.is_some() { host.clone() } else { folder.join("replay") },
            converter: folder.join("replay"),
            own_module,
            host,
            module: cntk.module(),
            htk_module: cntk.libraries().join(dropin::HTK.file(cntk.host)),
            image_module: cntk.libraries().join(dropin::IMAGES.file(cntk.host)),
            library_path: cntk.library_path(),
            cntk: cntk.host,
        }
    }

    /// Runs a case in its own folder, which afterwards contains everything: data, configuration,
    /// script, and the output of both (ours.jsonl, cntk.jsonl, and messages beside them).
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
        let cntk = || {
            let mut cntk = Command::new(&self.host);
            let module = match is_old_style(case) {
                true if reads_images(case) => &self.image_module,
                true => &self.htk_module,
                false => &self.module,
            };
            cntk.arg(module).arg(&config).arg(&script).env("LD_LIBRARY_PATH", &self.library_path);
            run(cntk, folder, "cntk", PATIENCE)
        };
        let mut by_cntk = cntk()?;
        for _ in 1..ATTEMPTS_IF_HUNG {
            if by_cntk.end == End::Hung {
                by_cntk = cntk()?;
            }
        }
        if is_old_style(case) {
            // The module in CNTK's place has no entry point that creates such a reader alone.
            let mut ours = Command::new(&self.converter);
            ours.arg(&config).arg(&script);
            let mut ours = run(ours, folder, "ours", OWN_PATIENCE)?;
            ours.lines.iter_mut().for_each(|line| *line = without_keys(line));
            return Ok((ours, by_cntk));
        }
        Ok((self.run_own(&config, &script, folder, "ours")?, by_cntk))
    }

    /// Whether this library is driven through the host's interface, as a module in CNTK's place.
    pub fn are_of_modules(&self) -> bool {
        self.own_module.is_some()
    }

    /// Runs this library's driver alone, on a script in the folder.
    pub fn run_own(&self, config: &Path, script: &Path, folder: &Path, name: &str) -> Result<Output> {
        run(self.own(config, script), folder, name, OWN_PATIENCE)
    }

    /// Prepares to run this library's driver on a script.
    fn own(&self, config: &Path, script: &Path) -> Command {
        let mut ours = Command::new(&self.ours);
        if let Some(module) = &self.own_module {
            ours.arg(module).env("LD_LIBRARY_PATH", &self.library_path);
        }
        ours.arg(config).arg(script);
        ours
    }

    /// Returns the reader's positions before and after each step of a case that ran in `folder`.
    /// `None` if the size of a sweep is unknown, because no sweep can be read to its end.
    pub fn positions(&self, case: &Case, folder: &Path) -> Result<Option<Positions>> {
        let run_steps = |name: &str, steps: &[&str]| -> Result<Vec<Value>> {
            let script = folder.join(format!("{name}.txt"));
            std::fs::write(&script, steps.join("\n") + "\n")?;
            let output = self.run_own(&folder.join("config.cntk"), &script, folder, name)?;
            // The first line is the creation.
            let lines = output.lines.iter().skip(1);
            Ok(lines
                .filter_map(|line| Some(serde_json::from_str::<Value>(line).ok()?["result"].take()))
                .collect())
        };
        let position = |result: &Value| result["state"]["minibatchSourcePosition"].as_u64();

        // One sweep in a few large minibatches, with the case's truncation length.
        let first = case.steps.first().map(String::as_str).unwrap_or_default();
        let words: Vec<&str> = first.split(' ').collect();
        let Some([_, _, _, _, truncation, right_splice, ..]) = words.get(..) else { return Ok(None) };
        let start = format!("start 1 0 {SWEEP_MINIBATCH} {truncation} {right_splice} 1 sweep inf 0");
        let mut steps = vec![start.as_str()];
        steps.extend([["read", "state"]; SWEEP_MINIBATCHES].concat());
        let results = run_steps("sweep", &steps)?;
        let end = results.iter().position(|result| result["end_of_epoch"] == true);
        let sweep = end.and_then(|end| position(results.get(end + 1)?)).filter(|&sweep| sweep > 0);
        let Some(sweep) = sweep else { return Ok(None) };

        let mut steps = vec!["state"];
        steps.extend(case.steps.iter().flat_map(|step| [step.as_str(), "state"]));
        let results = run_steps("positions", &steps)?;
        Ok(Some(Positions { sweep, before: results.iter().step_by(2).map(position).collect() }))
    }
}

/// Whether a case needs CNTK's image module.
pub fn reads_images(case: &Case) -> bool {
    case.config.contains("ImageReader\"")
}

/// Whether a case has an old-style section of speech or images, whose sequences have no keys in
/// CNTK.
pub fn is_old_style(case: &Case) -> bool {
    case.config.starts_with("readerType")
}

/// Returns a line without the keys of sequences, which contain no brackets.
fn without_keys(line: &str) -> String {
    const KEYS: &str = "\"keys\":[";
    let mut parts = line.split(KEYS);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(']').unwrap_or(part.len());
        out.push_str(KEYS);
        out.push_str(&part[end..]);
    }
    out
}

/// Runs a driver with its output in files. A driver that prints nothing for longer than `patience`
/// is killed.
pub fn run(mut command: Command, folder: &Path, name: &str, patience: Duration) -> Result<Output> {
    let path = folder.join(format!("{name}.jsonl"));
    let messages = folder.join(format!("{name}.messages.txt"));
    command.stdin(Stdio::null()).stdout(File::create(&path)?).stderr(File::create(&messages)?);
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
    // CNTK itself sometimes prints to standard output.
    let lines = text.lines().filter(|line| line.starts_with('{')).map(str::to_owned).collect();
    let messages = String::from_utf8_lossy(&std::fs::read(&messages)?).into_owned();
    Ok(Output { lines, end, messages })
}
