//! Generates the data, and builds the programs of `benches/`.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tooling::dist;
use tooling::programs::executables;
use tooling::project::Project;
use tooling::run::Run;

/// The shapes that `benches/sweeps` generates.
pub const SHAPES: [&str; 4] = ["integers", "floats", "words", "bags"];

/// Checks that there is a shape with this name.
pub fn check_shape(name: &str) -> Result<String> {
    if SHAPES.contains(&name) {
        return Ok(name.to_owned());
    }
    bail!("There is no shape '{name}'; the shapes are {}.", SHAPES.join(", "))
}

/// A data file.
#[derive(Debug, Clone)]
pub struct Data {
    /// The name of its shape.
    pub shape: String,
    /// Its path.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
}

impl Data {
    /// Describes an existing file.
    pub fn new(shape: &str, path: PathBuf) -> Result<Data> {
        let bytes = std::fs::metadata(&path).with_context(|| path.display().to_string())?.len();
        Ok(Data { shape: shape.to_owned(), path, bytes })
    }

    /// Returns the samples of generated text: the largest count of any stream.
    pub fn samples(&self) -> Result<u64> {
        let sums = std::fs::read_to_string(self.path.with_extension("sums"))?;
        let samples =
            sums.split('|').skip(1).filter_map(|stream| stream.split_whitespace().next()?.parse().ok());
        samples.max().context("the sums of the data name no samples")
    }

    /// Returns the size in megabytes.
    pub fn megabytes(&self) -> f64 {
        self.bytes as f64 / 1e6
    }
}

/// Builds a program of `benches/`, and returns its path.
pub fn program(project: &Project, name: &str) -> Result<String> {
    project.part(&format!("the program {name}, release mode"), || {
        let build = dist::release(project, "build");
        let build = build.args(["--package", "cntk-reader-bench-programs", "--bin", name]);
        let messages = build.arg("--message-format=json-render-diagnostics").output()?;
        let own = executables(&messages).filter(|program| program.name == name);
        own.map(|program| program.path).last().context("cargo built no program")
    })
}

/// Generates and converts data. Existing files are reused.
pub struct Generator<'a> {
    project: &'a Project,
    /// The program `sweeps`.
    pub program: String,
    /// The folder of the data.
    pub folder: PathBuf,
}

impl<'a> Generator<'a> {
    /// Builds the program `sweeps`.
    pub fn new(project: &'a Project) -> Result<Generator<'a>> {
        let folder = project.target.join("bench-data");
        std::fs::create_dir_all(&folder)?;
        Ok(Generator { project, program: program(project, "sweeps")?, folder })
    }

    fn run(&self) -> Run {
        self.project.run(&self.program)
    }

    /// Returns the names of the shapes of a family, with their descriptions.
    pub fn family(&self, seed: u64) -> Result<Vec<(String, String)>> {
        let lines = self.run().args(["family", &seed.to_string()]).output()?;
        let shape = |line: &str| {
            line.split_once('\t')
                .map(|(name, description)| (name.to_owned(), description.to_owned()))
                .context("a shape")
        };
        lines.lines().map(shape).collect()
    }

    /// Returns text of `size` megabytes. The file of sums beside it is written last, and marks the
    /// text as complete.
    pub fn text(&self, shape: &str, size: u64) -> Result<Data> {
        let path = self.folder.join(format!("{shape}-{size}.ctf"));
        if !path.with_extension("sums").exists() || !path.exists() {
            self.project.part(&format!("{shape}: generating {size} MB"), || {
                self.run().args(["generate", shape, &size.to_string()]).arg(&path).go()
            })?;
        }
        Data::new(shape, path)
    }

    /// Returns text converted to CNTK's binary format. The library gives the file its name only
    /// when it is complete.
    pub fn binary(&self, text: &Data) -> Result<Data> {
        let path = text.path.with_extension("cbf");
        if !is_newer(&path, &text.path) {
            self.project.part(&format!("{}: converting {:.0} MB", text.shape, text.megabytes()), || {
                self.run().args(["binary", &text.shape]).arg(&text.path).arg(&path).go()
            })?;
        }
        Data::new(&text.shape, path)
    }

    /// Returns text converted to a table, and the sums that a reader of it must find.
    pub fn table(&self, text: &Data, extension: &str) -> Result<(Data, Value)> {
        let path = text.path.with_extension(extension);
        let sums = text.path.with_extension(format!("{extension}.sums"));
        if !is_newer(&sums, &text.path) {
            self.project.part(&format!("{}: writing {extension}", text.shape), || {
                let line = self.run().args(["table", &text.shape]).arg(&text.path).arg(&path).output()?;
                Ok(std::fs::write(&sums, line)?)
            })?;
        }
        Ok((Data::new(&text.shape, path)?, serde_json::from_str(&std::fs::read_to_string(&sums)?)?))
    }

    /// Writes a reader configuration for some data, and returns its path.
    pub fn config(&self, data: &Data, flags: &[&str]) -> Result<PathBuf> {
        let name = data.path.file_name().context("data have a name")?.to_string_lossy().into_owned();
        let path = self.folder.join(format!("{name}{}.config", flags.concat()));
        let text = self.run().args(["config", &data.shape]).arg(&data.path).args(flags).output()?;
        std::fs::write(&path, text)?;
        Ok(path)
    }
}

fn is_newer(file: &Path, than: &Path) -> bool {
    let modified = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified());
    matches!((modified(file), modified(than)), (Ok(file), Ok(than)) if file >= than)
}
