//! Real CNTK, installed or built under target/oracle by scripts of their own.

use crate::console;
use crate::dropin::{Host, MODULES};
use crate::portable::Age;
use crate::project::Project;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The versions that can be installed, the one that the golden cases come from first.
pub const VERSIONS: [&str; 3] = ["2.7", "2.6", "2.5.1"];

/// The versions that can be built from CNTK's history: one of each generation of its interface that was never published as a package,
/// or only as one for old systems.
pub const BUILT: [&str; 5] = ["2.0.beta15", "2.0", "2.1", "2.3.1", "2.4"];

/// The scripts' exit status when this machine cannot have what they install.
const CANNOT: i32 = 3;

/// In the folder of an installed CNTK, the file that says how the libraries of its image module were built.
const IMAGES: &str = "mpi/ready-for-images";

/// An installed CNTK.
pub struct Cntk {
    folder: PathBuf,
    /// What its modules are.
    pub host: Host,
}

/// Whether there is a CNTK to compare with.
pub enum Installed {
    /// There is.
    Yes(Cntk),
    /// There cannot be one, for this reason.
    No(String),
}

/// Whether a version is there.
pub fn is_installed(project: &Project, version: &str) -> bool {
    folder(project, version).join("ready").exists()
}

/// Whether a version is there whose image module can be loaded.
pub fn has_images(project: &Project, version: &str) -> bool {
    is_installed(project, version) && folder(project, version).join(IMAGES).exists()
}

fn folder(project: &Project, version: &str) -> PathBuf {
    project.target.join("oracle").join(version)
}

/// Installs a version unless it is there already.
pub fn install(project: &Project, version: &str) -> Result<Installed> {
    ensure!(VERSIONS.contains(&version), "Versions of CNTK to compare with: {}.", VERSIONS.join(", "));
    let cntk = Cntk { folder: folder(project, version), host: Host::by_version(version)? };
    if is_installed(project, version) {
        return Ok(Installed::Yes(cntk));
    }
    run(project, cntk, "install-cntk.sh", &[])
}

/// [`install`], or builds the version from `git`, a git directory with CNTK's history. A version that ends with `-gcc5` is built with the
/// strings of GCC 5, although its releases were not.
pub fn install_or_build(project: &Project, version: &str, git: Option<&Path>) -> Result<Installed> {
    let host = Host::by_version(version)?;
    if !BUILT.contains(&host.version) {
        return install(project, version);
    }
    let cntk = Cntk { folder: folder(project, &host.name()), host };
    if is_installed(project, &host.name()) {
        return Ok(Installed::Yes(cntk));
    }
    let Some(git) = git else {
        let reason = format!(
            "CNTK {} is not published as a package; --git GIT builds it, where GIT is a git directory with CNTK's history",
            host.version
        );
        return Ok(Installed::No(reason));
    };
    let git = git.canonicalize().with_context(|| format!("there is no {}", git.display()))?;
    let strings = if host.age == Age::Gcc48 { "OLD" } else { "NEW" };
    run(project, cntk, "build-cntk.sh", &[&git.display().to_string(), strings])
}

/// Runs a script that makes a CNTK.
fn run(project: &Project, cntk: Cntk, name: &str, arguments: &[&str]) -> Result<Installed> {
    let mut missing = None;
    project.part(&format!("CNTK {} into {}", cntk.host.name(), cntk.folder.display()), || {
        missing = script(project, name, &cntk, arguments)?;
        Ok(())
    })?;
    Ok(match missing {
        Some(reason) => Installed::No(reason),
        None => Installed::Yes(cntk),
    })
}

/// Makes CNTK's image module loadable; returns the reason if that is impossible.
pub fn images(project: &Project, cntk: &Cntk) -> Result<Option<String>> {
    if BUILT.contains(&cntk.version()) {
        return Ok(Some("this CNTK was built without its image module".to_owned()));
    }
    let mut missing = None;
    project.part("libraries for CNTK's image module", || {
        missing = script(project, "install-image-libs.sh", cntk, &[])?;
        Ok(())
    })?;
    Ok(missing)
}

/// Runs a script that installs something; returns the reason if it says that it cannot.
fn script(project: &Project, name: &str, cntk: &Cntk, arguments: &[&str]) -> Result<Option<String>> {
    let path = project.path("xtask/scripts").join(name);
    let (reader, writer) = std::io::pipe()?;
    let mut command = Command::new("bash");
    command.arg(&path).arg(&cntk.folder).arg(cntk.version()).args(arguments);
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn().with_context(|| format!("starting {}", path.display()))?;
    drop(command);
    let output = std::io::read_to_string(reader)?;
    let status = child.wait()?;
    if project.verbose {
        console::print(format_args!("{output}"));
    }
    match status.code() {
        Some(0) => Ok(None),
        Some(CANNOT) => Ok(Some(output.trim_end().lines().next_back().unwrap_or("no reason").to_owned())),
        _ => bail!("{output}\n{} failed ({status}).", path.display()),
    }
}

impl Cntk {
    /// Its composite reader module.
    pub fn module(&self) -> PathBuf {
        self.libraries().join(MODULES[0].file(self.host))
    }

    /// The BrainScript program of a beta that was built.
    pub fn program(&self) -> PathBuf {
        self.folder.join("bin/cntk")
    }

    /// The folder of its libraries.
    pub fn libraries(&self) -> PathBuf {
        self.folder.join("libs")
    }

    /// The Python that has it as a package; its environment needs [`Cntk::library_path`].
    pub fn python(&self) -> PathBuf {
        self.folder.join("venv/bin/python")
    }

    /// Where the loader finds its libraries.
    pub fn library_path(&self) -> String {
        format!("{0}/mpi:{0}/libs", self.folder.display())
    }

    /// What its image module decodes JPEG with.
    pub fn jpeg_note(&self) -> &'static str {
        let built = std::fs::read_to_string(self.folder.join(IMAGES)).unwrap_or_default();
        if built.trim().ends_with("SIMD ON") {
            "libjpeg-turbo, with vector instructions"
        } else {
            "libjpeg-turbo, without vector instructions, because there was no nasm"
        }
    }

    /// Its version.
    pub fn version(&self) -> &str {
        self.host.version
    }
}
