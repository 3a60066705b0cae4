//! One side of the comparison: Python with an unmodified CNTK, and the reader modules that CNTK
//! loads.

use crate::drive::{self, End, Output};
use crate::install::Cntk;
use anyhow::{Context, Result, bail, ensure};
use dropin::MODULES;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tooling::project::{Project, empty_folder};

/// Time without output after which Python counts as hung. CNTK tries to read bad files five times,
/// with pauses of a second.
const PATIENCE: Duration = Duration::from_secs(40);

/// The modules that CNTK loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modules {
    /// CNTK's own.
    Original,
    /// This project's.
    Ours,
    /// CNTK's composite module over this project's others.
    BelowOriginal,
}

/// A side of the comparison.
pub struct Side {
    python: PathBuf,
    scripts: PathBuf,
    library_path: String,
    modules: Modules,
    /// The composite module that must be loaded.
    composite: PathBuf,
    /// The folder in which its cases run.
    pub folder: PathBuf,
}

impl Side {
    /// Prepares a side: the loader finds the modules in a folder in front of CNTK's.
    pub fn new(project: &Project, cntk: &Cntk, modules: Modules) -> Result<Side> {
        let host = cntk.host;
        let name = if modules == Modules::Original { "cntk" } else { "ours" };
        let folder = project.target.join("cntk-python").join(cntk.version()).join(name);
        let own = folder.join("modules");
        empty_folder(&own)?;
        for (number, module) in MODULES.iter().enumerate() {
            let file = module.file(host);
            let ours = match modules {
                Modules::Original => false,
                Modules::Ours => true,
                Modules::BelowOriginal => number > 0,
            };
            if ours {
                link(&host.folder(project).join(&file), &own.join(&file))?;
            }
        }
        let file = MODULES[0].file(host);
        let composite = if own.join(&file).exists() { own.join(&file) } else { cntk.libraries().join(&file) };
        Ok(Side {
            composite: composite.canonicalize()?,
            python: cntk.python(),
            scripts: project.path("oracle/python"),
            library_path: format!("{}:{}", own.display(), cntk.library_path()),
            modules,
            folder,
        })
    }

    /// Runs cases, and returns the output of each. If a case ends its process, or prints nothing
    /// for too long, the remaining cases run in a new process.
    pub fn cases(&self, names: &[String]) -> Result<BTreeMap<String, Output>> {
        let mut outputs = BTreeMap::new();
        let mut rest = names.to_vec();
        while !rest.is_empty() {
            let mut command = self.script("dump.py");
            command.arg(self.folder.join("cases")).args(&rest);
            let output = drive::run(command, &self.folder, "dump", PATIENCE)?;
            let before = outputs.len();
            let end = output.end;
            self.check_modules(&output.lines)?;
            let is_last = output.lines.last().is_some_and(|line| line.starts_with(LAST));
            let cases = split(output.lines);
            let last = cases.last().map(|(name, ..)| name.clone()).filter(|_| is_last);
            for (name, lines, complete) in cases {
                let end = if complete { End::Done } else { end };
                outputs.insert(name, Output { lines, end, messages: String::new() });
            }
            // All cases are done, and the interpreter exits while their sources read. CNTK's own
            // may crash at that point.
            if !self.is_composed_by_cntk()
                && let Some(case) = last.and_then(|name| outputs.get_mut(&name))
            {
                case.end = end;
            }
            if outputs.len() == before {
                bail!("Python printed nothing ({end:?}):\n{}", self.messages("dump")?);
            }
            rest.retain(|name| !outputs.contains_key(name));
            ensure!(rest.is_empty() || end != End::Done, "Python left out {}.", rest.join(", "));
        }
        Ok(outputs)
    }

    /// Checks that the right module was loaded. A comparison of CNTK's module with itself would
    /// always succeed.
    fn check_modules(&self, lines: &[String]) -> Result<()> {
        let last: Value = lines.last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
        let loaded: Vec<&str> =
            last["modules"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let composite = self.composite.to_str().context("a path in UTF-8")?;
        let right = loaded.contains(&composite) || !loaded.iter().any(|file| file.contains("Cntk.Composite"));
        ensure!(right, "CNTK has loaded {} instead of {composite}.", loaded.join(", "));
        Ok(())
    }

    /// Returns the properties of all cases.
    pub fn list(&self) -> Result<Vec<Value>> {
        let mut command = self.script("dump.py");
        command.arg("--list");
        let output = drive::run(command, &self.folder, "list", PATIENCE)?;
        ensure!(output.end == End::Done, "Python cannot list the cases:\n{}", self.messages("list")?);
        output.lines.iter().map(|line| serde_json::from_str(line).context("a case")).collect()
    }

    /// Returns CNTK's Python.
    pub fn python(&self) -> &Path {
        &self.python
    }

    /// Prepares to run a script with CNTK's Python, with one compute thread, so that sums are
    /// reproducible.
    pub fn script(&self, name: &str) -> Command {
        let mut command = Command::new(&self.python);
        command.args(["-W", "ignore"]).arg(self.scripts.join(name));
        command.env("LD_LIBRARY_PATH", &self.library_path).env("OMP_NUM_THREADS", "1");
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    }

    /// Whether the composite module is CNTK's.
    pub fn is_composed_by_cntk(&self) -> bool {
        self.modules != Modules::Ours
    }

    /// Returns the loader's search path for modules and libraries.
    pub fn library_path(&self) -> &str {
        &self.library_path
    }

    fn messages(&self, name: &str) -> Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(self.folder.join(format!("{name}.messages.txt")))?)
            .into_owned())
    }
}

fn link(from: &Path, to: &Path) -> Result<()> {
    ensure!(from.is_file(), "{} is not there", from.display());
    std::os::unix::fs::symlink(from, to).with_context(|| format!("linking {}", to.display()))
}

/// The beginning of the scripts' last line.
const LAST: &str = "{\"modules\"";

/// Splits the output into the lines of each case, with a flag whether the case reached its end.
fn split(lines: Vec<String>) -> Vec<(String, Vec<String>, bool)> {
    let mut cases: Vec<(String, Vec<String>, bool)> = Vec::new();
    for line in lines {
        let name = |key: &str| {
            let marker = line.strip_prefix(&format!("{{\"{key}\": \""))?;
            marker.strip_suffix("\"}").map(str::to_owned)
        };
        if let Some(name) = name("case") {
            cases.push((name, Vec::new(), false));
        } else if let Some(last) = cases.last_mut() {
            if name("end").is_some() {
                last.2 = true;
            } else if !line.starts_with(LAST) {
                last.1.push(line);
            }
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_belong_to_cases() {
        let lines = [r#"{"case": "a"}"#, r#"{"step": 1}"#, r#"{"end": "a"}"#, r#"{"case": "b"}"#];
        let cases = split(lines.iter().map(|&line| line.to_owned()).collect());
        assert_eq!(cases[0], ("a".to_owned(), vec![r#"{"step": 1}"#.to_owned()], true));
        assert_eq!(cases[1], ("b".to_owned(), vec![], false));
    }
}
