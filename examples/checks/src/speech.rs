//! The speech example: a corpus that a script creates, and a classifier of its phones, stopped and
//! resumed; and the programs of the guide, which read the same corpus.

use crate::demo::Training;
use crate::example;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use tooling::dist::{self, Dist};
use tooling::project::{Project, empty_folder};
use tooling::{Tally, drivers, python, tools};

/// Files that the script writes.
const FILES: [&str; 7] =
    ["train.mfc", "train.scp", "train.mlf", "test.mfc", "test.scp", "test.mlf", "phones.list"];

/// Percentage of the frames of the test part that the trained classifier must recognize. The
/// program has the same limit.
const ACCURACY: f64 = 95.0;

/// Creates the corpus twice, trains on it, and again with a stop in the middle.
pub fn step(project: &Project) -> Result<Tally> {
    if tools::on_path("python3").is_none() {
        return Tally::skipped("python3, which creates the corpus, was not found");
    }
    tools::need(project, &drivers::TOOLS)?;
    let folder = project.target.join("xtask/speech");
    let (corpus, again) = (folder.join("corpus"), folder.join("again"));
    make(project, &corpus)?;
    make(project, &again)?;
    for file in FILES {
        let [first, second] = [&corpus, &again].map(|folder| std::fs::read(folder.join(file)));
        ensure!(first? == second?, "The script wrote two different files `{file}`.");
    }
    let dist = dist::build(project)?;
    example(project, &dist, "speech", "train_phones")?;
    // An epoch has 346 minibatches.
    let training = Training {
        program: "train_phones",
        data: &corpus,
        stop: ("100", "820"),
        samples: "frames",
        accuracy: ACCURACY,
    };
    training.resume(project)?;
    Ok(Tally::passed(2)?.and(guide(project, &dist, &folder)?))
}

/// Runs the programs of the guide in a folder that has the corpus. (The Rust program is a doc
/// test.)
fn guide(project: &Project, dist: &Dist, folder: &Path) -> Result<Tally> {
    let text = std::fs::read_to_string(project.path("docs/speech.md"))?;
    let block = |language: &str| {
        let block = text.split(&format!("```{language}\n")).nth(1).and_then(|rest| rest.split("```").next());
        block.with_context(|| format!("docs/speech.md has no block of {language}."))
    };
    for (language, file) in [("cntk", "speech.cntk"), ("cpp", "guide.cpp"), ("python", "guide.py")] {
        std::fs::write(folder.join(file), block(language)?)?;
    }
    let program = folder.join("guide").to_string_lossy().into_owned();
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let run = project.run(&compiler).folder(folder).args([
        "-std=c++17",
        "-Wall",
        "-Wextra",
        "-Werror",
        "guide.cpp",
    ]);
    let run = run.args(["-o", &program]).arg("-I").arg(dist.folder.join("include"));
    run.arg("-L").arg(dist.folder.join("lib")).arg("-lcntk_reader").go()?;
    let library = dist.folder.join("lib");
    let printed = project.run(&program).folder(folder).env("LD_LIBRARY_PATH", library).output()?;
    ensure!(printed.starts_with("22113 frames, "), "The guide's C++ program printed:\n{printed}");
    if !python::is_installed(project) {
        return Tally::skipped(
            "the guide's Python program: `cargo xtask test python` installs what it needs",
        )
        .map(|skipped| skipped.and(Tally { passed: 1, ..Tally::default() }));
    }
    let run = project.run(&project.target.join("python/venv/bin/python").to_string_lossy()).folder(folder);
    let run = run.envs(&python::variables(project)?);
    let again = run.arg("guide.py").output()?;
    ensure!(again == printed, "The guide's Python program printed\n{again}\ninstead of\n{printed}");
    Tally::passed(2)
}

/// Returns the folder of the corpus; creates it unless the step has.
pub fn corpus(project: &Project) -> Result<PathBuf> {
    let folder = project.target.join("xtask/speech/corpus");
    if !FILES.iter().all(|file| folder.join(file).is_file()) {
        make(project, &folder)?;
    }
    Ok(folder)
}

/// Creates the corpus in an empty folder.
fn make(project: &Project, folder: &Path) -> Result<()> {
    empty_folder(folder)?;
    project.run("python3").arg("examples/speech/make_speech.py").arg(folder).go().map(drop)
}
