//! The image examples: pictures that a script creates, a classifier of them, stopped and resumed,
//! and contact sheets; and the code blocks of the guide, which read the same pictures.

use crate::demo::Training;
use crate::example;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use tooling::dist::{self, Dist};
use tooling::document::{Block, blocks};
use tooling::project::{Project, empty_folder};
use tooling::run::Run;
use tooling::{Tally, drivers, python, tools};

/// Files that the script writes, except the single pictures.
const FILES: [&str; 8] = [
    "shapes.zip",
    "train.txt",
    "test.txt",
    "mean.xml",
    "intensity.xml",
    "scenes.txt",
    "scenes.b64",
    "scenes/0.png",
];

/// Percentage of the pictures of the test part that the trained classifier must recognize. The
/// program has the same limit.
const ACCURACY: f64 = 95.0;

/// The guide, and the pictures in it.
const GUIDE: &str = "docs/images.md";
const PICTURES: &str = "docs/images";

/// Creates the pictures twice, trains on them, and again with a stop in the middle; then runs the
/// guide.
pub fn step(project: &Project) -> Result<Tally> {
    if tools::on_path("python3").is_none() {
        return Tally::skipped("python3, which creates the pictures, was not found");
    }
    tools::need(project, &drivers::TOOLS)?;
    let folder = project.target.join("xtask/images");
    let (corpus, again) = (folder.join("corpus"), folder.join("again"));
    make(project, &corpus)?;
    make(project, &again)?;
    for file in FILES {
        let [first, second] = [&corpus, &again].map(|folder| std::fs::read(folder.join(file)));
        ensure!(first? == second?, "The script wrote two different files `{file}`.");
    }
    let dist = dist::build(project)?;
    for program in ["train_shapes", "contact_sheet"] {
        example(project, &dist, "images", program)?;
    }
    example(project, &dist, "c", "print_minibatches")?;
    // An epoch has 50 minibatches.
    let training = Training {
        program: "train_shapes",
        data: &corpus,
        stop: ("100", "510"),
        samples: "pictures",
        accuracy: ACCURACY,
    };
    training.resume(project)?;
    let guide = Guide { project, dist: &dist, folder: &folder };
    Ok(Tally::passed(2)?.and(guide.run()?))
}

/// Returns the folder of the pictures; creates them unless the step has.
pub fn corpus(project: &Project) -> Result<PathBuf> {
    let folder = project.target.join("xtask/images/corpus");
    if !FILES.iter().all(|file| folder.join(file).is_file()) {
        make(project, &folder)?;
    }
    Ok(folder)
}

/// Creates the pictures in an empty folder.
fn make(project: &Project, folder: &Path) -> Result<()> {
    empty_folder(folder)?;
    project.run("python3").arg("examples/images/make_images.py").arg(folder).go().map(drop)
}

/// The guide's code blocks, run in a folder that has the pictures in `corpus`.
struct Guide<'a> {
    project: &'a Project,
    dist: &'a Dist,
    folder: &'a Path,
}

impl Guide<'_> {
    /// Runs all blocks in order, except Rust blocks, which are doc tests. All programs must print
    /// the same.
    fn run(&self) -> Result<Tally> {
        let text = std::fs::read_to_string(self.project.path(GUIDE))?;
        // The sheet in the example's README.
        self.sheet("sheet.png", None)?;
        let mut tally = Tally { passed: 1, ..Tally::default() };
        let mut programs: Vec<String> = Vec::new();
        let mut configurations = 0;
        for block in blocks(&text) {
            let Block { language, text, .. } = block;
            match language {
                "cntk" if text.trim_start().starts_with("transforms") => self.show(&block)?,
                "cntk" => {
                    configurations += 1;
                    self.read(text, configurations)?;
                }
                "cpp" => programs.push(self.compile(text)?),
                "python" if !python::is_installed(self.project) => {
                    let reason =
                        "a Python program of the guide: `cargo xtask test python` installs what it needs";
                    tally = tally.and(Tally::skipped(reason)?);
                    continue;
                }
                "python" => programs.push(self.python(text)?),
                _ => continue,
            }
            tally.passed += 1;
        }
        let wrong = programs
            .iter()
            .find(|&printed| !printed.starts_with("1600 pictures, ") || printed != &programs[0]);
        if let Some(printed) = wrong {
            bail!("A program of the guide printed\n{printed}\nthe first one\n{}", programs[0]);
        }
        ensure!(!programs.is_empty() && configurations > 0, "{GUIDE} has no programs.");
        Ok(tally)
    }

    fn program(&self, name: &str) -> Run {
        let program = self.project.target.join("examples").join(name);
        self.project.run(&program.to_string_lossy()).folder(self.folder)
    }

    /// Applies a block of transforms to the scenes. The picture below the block in the document
    /// must have the same pixels.
    fn show(&self, block: &Block<'_>) -> Result<()> {
        let name = block.after.split_once("](images/").and_then(|(_, rest)| rest.split_once(')'));
        let (name, _) = name.with_context(|| format!("{GUIDE} has no picture below\n{}", block.text))?;
        let transforms = format!("{name}.cntk");
        std::fs::write(self.folder.join(&transforms), block.text)?;
        self.sheet(name, Some(&transforms))
    }

    /// Creates the contact sheet of the scenes and some transforms, and compares its pixels with
    /// the picture in the document.
    fn sheet(&self, name: &str, transforms: Option<&str>) -> Result<()> {
        let (sheet, picture) = (self.folder.join(name), self.project.path(PICTURES).join(name));
        self.program("contact_sheet").arg("corpus/scenes.txt").arg(&sheet).args(transforms).go()?;
        let script = "xtask/scripts/picture.py";
        let same = self.project.run("python3").arg(script).arg("same").arg(&sheet).arg(&picture).go();
        let fix = format!("python3 {script} pack {} {PICTURES}/{name}", sheet.display());
        same.map(drop).with_context(|| format!("If the new picture is right: {fix}"))
    }

    /// Reads one minibatch of a configuration. The first configuration gets the name that programs
    /// of the guide use.
    fn read(&self, text: &str, number: u32) -> Result<()> {
        let name = if number == 1 { "images.cntk".to_owned() } else { format!("images-{number}.cntk") };
        std::fs::write(self.folder.join(&name), text)?;
        self.program("print_minibatches").args(["-n", "1", "-m", "2", &name]).go().map(drop)
    }

    /// Compiles and runs a C++ program.
    fn compile(&self, text: &str) -> Result<String> {
        std::fs::write(self.folder.join("guide.cpp"), text)?;
        let program = self.folder.join("guide").to_string_lossy().into_owned();
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
        let flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "guide.cpp", "-o", &program];
        let run = self.project.run(&compiler).folder(self.folder).args(flags);
        let run = run.arg("-I").arg(self.dist.folder.join("include"));
        run.arg("-L").arg(self.dist.folder.join("lib")).arg("-lcntk_reader").go()?;
        let library = self.dist.folder.join("lib");
        self.project.run(&program).folder(self.folder).env("LD_LIBRARY_PATH", library).output()
    }

    /// Runs a Python program.
    fn python(&self, text: &str) -> Result<String> {
        std::fs::write(self.folder.join("guide.py"), text)?;
        let python = self.project.target.join("python/venv/bin/python");
        let run = self.project.run(&python.to_string_lossy()).folder(self.folder);
        let run = run.envs(&python::variables(self.project)?);
        run.arg("guide.py").output()
    }
}
