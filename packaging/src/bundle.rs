//! Folders that work wherever they are unpacked, as one archive each, with bills of materials.

use crate::{Packages, archives, tools};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use tooling::project::{Project, empty_folder};
use tooling::{dist, licences};

/// The library for C.
pub const LIBRARY: &str = "cntk-reader-clib";

/// The command-line tool.
pub const TOOL: &str = "cntk-reader-cli";

/// Documents in each bundle.
const DOCUMENTS: [&str; 3] = ["LICENSE", "CHANGELOG.md", "README.md"];

/// A bundle.
pub struct Bundle<'a> {
    /// The system in its name.
    pub platform: &'a str,
    /// The ending of the archive: `tar.gz` or `zip`.
    pub ending: &'a str,
    /// The target in Rust's spelling.
    pub target: &'a str,
    /// The packages that are compiled into it.
    pub crates: &'a [&'a str],
}

/// A packed bundle.
pub struct Packed {
    /// Name of the folder in the archive.
    pub name: String,
    /// The archive.
    pub archive: PathBuf,
    /// All files to publish, the archive first.
    pub files: Vec<PathBuf>,
}

impl Bundle<'_> {
    /// Packs folders, with licences and bills of materials.
    pub fn pack(&self, project: &Project, packages: &Packages, folders: &[PathBuf]) -> Result<Packed> {
        let name = format!("cntk-reader-{}-{}", dist::version(project)?, self.platform);
        let stage = project.target.join("packaging").join(self.platform);
        empty_folder(&stage)?;
        let folder = stage.join(&name);
        std::fs::create_dir(&folder)?;
        for part in folders {
            project.run("cp").arg("-a").arg(part).arg(&folder).go()?;
        }
        for file in DOCUMENTS {
            std::fs::copy(project.path(file), folder.join(file))?;
        }
        let licences = licences::text(project, self.target, self.crates, "The compiled files contain")?;
        std::fs::write(folder.join("THIRD-PARTY.txt"), licences)?;
        let archive = packages.folder.join(format!("{name}.{}", self.ending));
        project.part(&name, || archives::pack(project, &folder, &archive))?;
        let mut files = vec![archive.clone()];
        for bill in project.part("bills of materials", || self.bills(project))? {
            let package = bill.file_name().context("a bill has a name")?.to_string_lossy().into_owned();
            let file = packages.folder.join(format!("{name}.{package}"));
            std::fs::copy(&bill, &file)?;
            files.push(file);
        }
        Ok(Packed { name, archive, files })
    }

    /// Writes the bills of materials of the crates, in CycloneDX's format. cargo-cyclonedx writes
    /// one beside each manifest of the workspace, so it runs in a copy of the sources.
    fn bills(&self, project: &Project) -> Result<Vec<PathBuf>> {
        let program = tools::from_crates(project, "cargo-cyclonedx", "0.5.9")?;
        let copy = project.target.join("packaging/sources");
        empty_folder(&copy)?;
        let is_source = |file: &String| {
            file.starts_with("Cargo.") || file.ends_with("/Cargo.toml") || file.ends_with(".rs")
        };
        let sources = project.files()?.into_iter().filter(is_source);
        project.run("cp").args(["--parents", "--target-directory"]).arg(&copy).args(sources).go()?;
        let run = project.run(&program.to_string_lossy()).args(["cyclonedx", "--quiet", "--format", "json"]);
        let run = run.args(["--spec-version", "1.5", "--target", self.target, "--no-build-deps"]);
        run.folder(&copy).env("SOURCE_DATE_EPOCH", crate::commit(project)?.seconds).go()?;
        let mut bills = Vec::new();
        for name in self.crates {
            let folder = copy.join(name.trim_start_matches("cntk-reader-"));
            let made = folder.join(format!("{name}.cdx.json"));
            let text =
                std::fs::read_to_string(&made).with_context(|| format!("reading {}", made.display()))?;
            // The project's own crates are named by their folders.
            let text = text.replace(&copy.to_string_lossy().into_owned(), "/cntk-reader");
            ensure!(
                !text.contains(&*project.root.to_string_lossy()),
                "{} names the checkout",
                made.display()
            );
            let bill: serde_json::Value = serde_json::from_str(&text)?;
            let parts = bill["components"].as_array().context("a bill has components")?;
            ensure!(parts.iter().any(|part| part["name"] == "memchr"), "{} lacks memchr", made.display());
            std::fs::write(&made, text)?;
            bills.push(made);
        }
        Ok(bills)
    }
}

impl Packed {
    /// Unpacks the archive into a temporary folder. `trial` gets the folder of the bundle, and a
    /// folder for its own files.
    pub fn elsewhere(&self, project: &Project, trial: impl FnOnce(&Path, &Path) -> Result<()>) -> Result<()> {
        let folder = std::env::temp_dir().join(format!("cntk-reader-bundle-{}", std::process::id()));
        empty_folder(&folder)?;
        let is_zip = self.archive.extension().is_some_and(|extension| extension == "zip");
        let result = (|| {
            match is_zip {
                true => project.run("unzip").arg("-q").arg(&self.archive).folder(&folder).go()?,
                false => project
                    .run("tar")
                    .arg("--extract")
                    .arg("--file")
                    .arg(&self.archive)
                    .folder(&folder)
                    .go()?,
            };
            let (bundle, scratch) = (folder.join(&self.name), folder.join("trial"));
            for file in DOCUMENTS.into_iter().chain(["THIRD-PARTY.txt"]) {
                ensure!(bundle.join(file).is_file(), "{} has no {file}", self.name);
            }
            std::fs::create_dir(&scratch)?;
            trial(&bundle, &scratch)
        })();
        std::fs::remove_dir_all(&folder)?;
        result
    }
}
