//! Tests the guide under docs/guide, page by page in an empty folder, as a reader would follow it:
//! saves files, runs commands, and compares their output with the page. Its pictures are compared
//! with the output of readers.

use crate::python_tests;
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tooling::document::{Block, blocks};
use tooling::project::{Project, empty_folder};
use tooling::tools::{self, Tool};
use tooling::{Tally, dist, python};

const FOLDER: &str = "docs/guide";

/// The page that links to all others, in reading order.
const INDEX: &str = "README.md";

/// The page of messages. A library test provokes each message and compares it with the page.
const MESSAGES: &str = "troubleshooting.md";

/// Pages that need PyTorch; the step `torch` runs them.
pub const WITH_TORCH: [&str; 3] = ["models.md", "recipes.md", "distributed.md"];

/// Pages of which some commands need PyTorch. The step `guide` runs the others; the step `torch`
/// runs all of them.
pub const PARTLY_WITH_TORCH: [&str; 2] = ["python.md", "workers.md"];

/// The begin of a command that installs the package. The step `torch` uses the package in the
/// checkout.
const INSTALLS: &str = "python3 -m pip install ";

/// Commands that take longer than this are listed.
const SLOW: Duration = Duration::from_secs(5);

/// The script that draws or compares the pictures.
const PICTURES: &str = "xtask/scripts/guide_pictures.py";

/// Runs all pages and checks the pictures.
pub fn step(project: &Project) -> Result<Tally> {
    if project.target != project.path("target") {
        return Tally::skipped("the guide's commands expect the library in the checkout's own folder target");
    }
    tools::need(project, &[Tool::Cxx, Tool::CMake, Tool::PkgConfig])?;
    let environment = python_tests::environment_with_wheel(project)?;
    let pictures = match &environment {
        Err(reason) => Tally::skipped(format!("the pictures: {reason}"))?,
        Ok(python) => {
            let run = project.run(&python.to_string_lossy());
            let run = run.envs(&python::variables(project)?);
            run.arg(PICTURES).arg("check").go()?;
            Tally::passed(1)?
        }
    };
    let python = environment.as_ref().ok().map(PathBuf::as_path);
    let result = in_shell(project, python, false, |shell| {
        let mut tally = Tally::default();
        for page in pages(project)?.into_iter().filter(|page| !WITH_TORCH.contains(&page.as_str())) {
            let text = std::fs::read_to_string(project.path(FOLDER).join(&page))?;
            let wants_python = blocks(&text).iter().any(|block| block.language == "python");
            tally = tally.and(match &environment {
                Err(reason) if wants_python => Tally::skipped(format!("{page}: {reason}"))?,
                _ => run(shell, &page, &text)?,
            });
        }
        Ok(tally)
    })?;
    Ok(pictures.and(result))
}

/// Runs one page, with this Python that has PyTorch.
pub fn page(project: &Project, page: &str, python: &Path) -> Result<Tally> {
    if project.target != project.path("target") {
        return Tally::skipped("the guide's commands expect the library in the checkout's own folder target");
    }
    let text = std::fs::read_to_string(project.path(FOLDER).join(page))?;
    in_shell(project, Some(python), true, |shell| run(shell, page, &text))
}

/// Calls `work` with a shell in an empty folder.
fn in_shell(
    project: &Project,
    python: Option<&Path>,
    with_torch: bool,
    work: impl FnOnce(&Shell<'_>) -> Result<Tally>,
) -> Result<Tally> {
    // Outside of the checkout, because a Cargo package in it would join its workspace.
    static SHELLS: AtomicU32 = AtomicU32::new(0);
    let number = SHELLS.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("cntk-reader-guide-{}-{number}", std::process::id()));
    empty_folder(&folder)?;
    let result = Shell::new(project, &folder, python, with_torch).and_then(|shell| work(&shell));
    std::fs::remove_dir_all(&folder)?;
    result
}

/// Returns the pages in the order of the index.
fn pages(project: &Project) -> Result<Vec<String>> {
    let index = std::fs::read_to_string(project.path(FOLDER).join(INDEX))?;
    let mut pages: Vec<String> = Vec::new();
    for link in index.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        let is_page = link.ends_with(".md") && !link.contains('/') && link != MESSAGES;
        if is_page && !pages.iter().any(|page| page == link) {
            pages.push(link.to_owned());
        }
    }
    for entry in std::fs::read_dir(project.path(FOLDER))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_page = name.ends_with(".md") && name != INDEX && name != MESSAGES;
        ensure!(!is_page || pages.contains(&name), "{FOLDER}/{INDEX} does not lead to {name}.");
    }
    ensure!(!pages.is_empty(), "{FOLDER}/{INDEX} leads to no page.");
    Ok(pages)
}

/// Runs the blocks of a page in order. Returns the number of commands; those that need a Python
/// package that is not installed are skipped.
fn run(shell: &Shell<'_>, page: &str, text: &str) -> Result<Tally> {
    // The output of the previous block.
    let mut printed: Option<String> = None;
    let (mut passed, mut skipped, mut is_left_out) = (0, Tally::default(), false);
    shell.enter(&shell.folder)?;
    for block in blocks(text) {
        let place = format!("{FOLDER}/{page}, line {}", block.line);
        let missing = needed(&block).filter(|module| !shell.has_module(module));
        printed = match (block.language, printed) {
            ("sh", _) if missing.is_some() => {
                let module = missing.unwrap_or_default();
                if shell.with_torch || !PARTLY_WITH_TORCH.contains(&page) {
                    skipped = skipped.and(Tally::skipped(format!("{place}: {module} is not installed"))?);
                }
                is_left_out = true;
                None
            }
            ("text", None) if is_left_out => None,
            ("sh", _) => {
                is_left_out = false;
                passed += 1;
                let clock = Instant::now();
                let printed = shell.run(block.text).with_context(|| place.clone())?;
                let time = clock.elapsed();
                if time >= SLOW {
                    say!("      {place}: {:.0} s", time.as_secs_f64());
                }
                Some(printed)
            }
            ("text", Some(printed)) => {
                let same = printed.trim_end() == block.text.trim_end();
                ensure!(same, "{place}: the command printed\n{printed}\ninstead of\n{}", block.text);
                None
            }
            _ => {
                let Some(name) = file_name(&block) else {
                    bail!("{place}: neither a command nor what one prints, and no file to save it as");
                };
                std::fs::write(shell.place()?.join(name), block.text).with_context(|| place)?;
                None
            }
        };
    }
    Ok(Tally::passed(passed)?.and(skipped))
}

/// Returns the Python module that a command needs: `<!-- needs: NAME -->` before its block.
fn needed<'a>(block: &Block<'a>) -> Option<&'a str> {
    block.before.rsplit_once("<!-- needs: ")?.1.split(" -->").next()
}

/// Returns the file name for a block: the last "as `NAME`" in the paragraph above, which ends with
/// a colon.
fn file_name<'a>(block: &Block<'a>) -> Option<&'a str> {
    let paragraph = block.before.trim_end().rsplit("\n\n").next()?.strip_suffix(':')?;
    paragraph.rsplit_once("as `")?.1.split('`').next()
}

/// A shell that keeps variables and the current folder from command to command.
struct Shell<'a> {
    project: &'a Project,
    folder: PathBuf,
    /// `PATH`; begins with Python's folder, if there is a Python.
    path: OsString,
    /// Whether Python has PyTorch and the checkout's package.
    with_torch: bool,
}

impl Shell<'_> {
    fn new<'a>(
        project: &'a Project,
        folder: &Path,
        python: Option<&Path>,
        with_torch: bool,
    ) -> Result<Shell<'a>> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let first = python.and_then(Path::parent).map(Path::to_owned);
        let path = std::env::join_paths(first.into_iter().chain(std::env::split_paths(&path)))?;
        let shell = Shell { project, folder: folder.join("work"), path, with_torch };
        std::fs::create_dir(&shell.folder)?;
        std::fs::write(shell.state("variables"), "")?;
        Ok(shell)
    }

    fn state(&self, name: &str) -> PathBuf {
        self.folder.with_file_name(name)
    }

    /// The folder in which the next command starts.
    fn place(&self) -> Result<PathBuf> {
        Ok(std::fs::read_to_string(self.state("place"))?.trim_end().into())
    }

    fn enter(&self, folder: &Path) -> Result<()> {
        Ok(std::fs::write(self.state("place"), folder.as_os_str().as_encoded_bytes())?)
    }

    /// Returns whether Python finds a module.
    fn has_module(&self, module: &str) -> bool {
        self.run(&format!("python3 -c 'import {module}'")).is_ok()
    }

    /// Runs commands. Returns their standard output.
    fn run(&self, commands: &str) -> Result<String> {
        let (variables, place) = (self.state("variables"), self.state("place"));
        let is_run = |line: &&str| !self.with_torch || !line.starts_with(INSTALLS);
        let commands = commands.lines().filter(is_run).collect::<Vec<_>>().join("\n");
        let script = format!(
            "set -e\n. '{variables}'\n{commands}\nexport -p > '{variables}'\npwd > '{place}'\n",
            variables = variables.display(),
            place = place.display()
        );
        let run = self.project.run("bash").folder(&self.place()?).env("PATH", &self.path);
        let run = run.env("CNTK_READER", &self.project.root);
        let run = run.envs(&python::bytecode(self.project));
        let run = match self.with_torch {
            true => run.env("PYTHONPATH", self.project.path("python")),
            false => run,
        };
        // Cargo packages come from the library's build, compiled once.
        let run = run.env("CARGO_TARGET_DIR", &self.project.target).env("CARGO_NET_OFFLINE", "true");
        let run = run.envs(&dist::release_variables(self.project));
        run.named("bash").arg("-c").arg(script).output()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needed_modules_come_from_comments() {
        let module = |document| needed(&blocks(document)[0]);
        assert_eq!(module("Text.\n\n<!-- needs: datasets -->\n\n```sh\npython3 a.py\n```"), Some("datasets"));
        assert_eq!(module("Text.\n\n```sh\npython3 a.py\n```\n\n<!-- needs: datasets -->"), None);
    }

    #[test]
    fn file_names_come_from_the_paragraph_above() {
        let name = |document| file_name(&blocks(document)[0]);
        assert_eq!(name("Save this as `a.c`:\n\n```c\n```"), Some("a.c"));
        assert_eq!(name("As `x`.\n\nSave your data as `b.ctf`; three\nlines:\n```ctf\n```"), Some("b.ctf"));
        assert_eq!(name("Save this as `a.c`:\n\nOther text:\n\n```c\n```"), None);
        assert_eq!(name("Save this as `a.c`.\n\n```c\n```"), None);
    }
}
