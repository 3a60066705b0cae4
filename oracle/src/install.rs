//! Real CNTK: installed under target/oracle by scripts, or an existing old one.

use anyhow::{Context, Result, bail, ensure};
use dropin::{Host, MODULES};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tooling::console;
use tooling::project::Project;

/// The versions that can be installed, the version of the golden cases first.
pub const VERSIONS: [&str; 3] = ["2.7", "2.6", "2.5.1"];

/// Versions that cannot be installed: one of each generation of CNTK's interface that was never
/// published as a package, or only for old systems.
const OLD: [&str; 5] = ["2.0.beta15", "2.0", "2.1", "2.3.1", "2.4"];

/// The environment variable with a folder of old CNTKs. Each has a subfolder of its name, with its
/// libraries in `libs` and, for a beta, the BrainScript program in `bin`.
pub const OLD_HOSTS: &str = "CNTK_OLD_HOST";

/// The scripts' exit status if this machine cannot have what they install.
const CANNOT: i32 = 3;

/// In the folder of an installed CNTK, the file that records how the libraries of its image module
/// were built.
const IMAGES: &str = "mpi/ready-for-images";

/// An installed CNTK.
pub struct Cntk {
    folder: PathBuf,
    /// Its version and ABI.
    pub host: Host,
}

/// The result of an installation.
pub enum Installed {
    /// CNTK is installed.
    Yes(Cntk),
    /// CNTK cannot be installed, for this reason.
    No(String),
}

/// Whether a version is installed.
pub fn is_installed(project: &Project, version: &str) -> bool {
    folder(project, version).join("ready").exists()
}

/// Whether a version is installed whose image module can be loaded.
pub fn has_images(project: &Project, version: &str) -> bool {
    is_installed(project, version) && folder(project, version).join(IMAGES).exists()
}

fn folder(project: &Project, version: &str) -> PathBuf {
    project.target.join("oracle").join(version)
}

/// Installs a version unless it is already installed.
pub fn install(project: &Project, version: &str) -> Result<Installed> {
    ensure!(VERSIONS.contains(&version), "Versions of CNTK to compare with: {}.", VERSIONS.join(", "));
    let cntk = Cntk { folder: folder(project, version), host: Host::by_version(version)? };
    if is_installed(project, version) {
        return Ok(Installed::Yes(cntk));
    }
    let mut missing = None;
    project.part(&format!("CNTK {} into {}", cntk.host.name(), cntk.folder.display()), || {
        missing = script(project, "install-cntk.sh", &cntk)?;
        Ok(())
    })?;
    Ok(match missing {
        Some(reason) => Installed::No(reason),
        None => Installed::Yes(cntk),
    })
}

/// Like [`install`], or finds an old CNTK in the subfolder of its name in [`OLD_HOSTS`]. A version
/// that ends with `-gcc5` was built with the strings of GCC 5, although its releases were not.
pub fn find_or_install(project: &Project, version: &str) -> Result<Installed> {
    let host = Host::by_version(version)?;
    if !OLD.contains(&host.version) {
        return install(project, version);
    }
    Ok(match old_folder(&host.name()) {
        Some(folder) => Installed::Yes(Cntk { folder, host }),
        None => {
            let name = host.name();
            Installed::No(format!(
                "CNTK {name} is not published as a package, and there is no folder {name}/libs with its libraries in ${OLD_HOSTS}"
            ))
        }
    })
}

/// Returns the names of the available old CNTKs.
pub fn old_hosts() -> Vec<String> {
    let names = OLD.into_iter().flat_map(|version| [version.to_owned(), format!("{version}-gcc5")]);
    names.filter(|name| old_folder(name).is_some()).collect()
}

/// Returns the folder of an old CNTK.
fn old_folder(name: &str) -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os(OLD_HOSTS)?).join(name);
    folder.join("libs").is_dir().then_some(folder)
}

/// Makes CNTK's image module loadable, or returns the reason why that is impossible.
pub fn images(project: &Project, cntk: &Cntk) -> Result<Option<String>> {
    if cntk.is_old() {
        return Ok(Some("old CNTKs are used without their image module".to_owned()));
    }
    let mut missing = None;
    project.part("libraries for CNTK's image module", || {
        missing = script(project, "install-image-libs.sh", cntk)?;
        Ok(())
    })?;
    Ok(missing)
}

/// Runs an installation script. Returns the reason if it reports that this machine cannot have the
/// software.
fn script(project: &Project, name: &str, cntk: &Cntk) -> Result<Option<String>> {
    let path = project.path("oracle/scripts").join(name);
    let (reader, writer) = std::io::pipe()?;
    let mut command = Command::new("bash");
    command.arg(&path).arg(&cntk.folder).arg(cntk.version());
    command.envs(project.installing()).stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
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
    /// Whether it is a version that cannot be installed.
    pub fn is_old(&self) -> bool {
        OLD.contains(&self.version())
    }

    /// Returns the path of its composite reader module.
    pub fn module(&self) -> PathBuf {
        self.libraries().join(MODULES[0].file(self.host))
    }

    /// Returns the path of a beta's BrainScript program.
    pub fn program(&self) -> PathBuf {
        self.folder.join("bin/cntk")
    }

    /// Returns the folder of its libraries.
    pub fn libraries(&self) -> PathBuf {
        self.folder.join("libs")
    }

    /// Returns the Python that has it as a package; its environment needs [`Cntk::library_path`].
    pub fn python(&self) -> PathBuf {
        self.folder.join("venv/bin/python")
    }

    /// Returns the loader's search path for its libraries.
    pub fn library_path(&self) -> String {
        format!("{0}/mpi:{0}/libs", self.folder.display())
    }

    /// Describes the JPEG decoder of its image module.
    pub fn jpeg_note(&self) -> &'static str {
        let built = std::fs::read_to_string(self.folder.join(IMAGES)).unwrap_or_default();
        if built.trim().ends_with("SIMD ON") {
            "libjpeg-turbo, with vector instructions"
        } else {
            "libjpeg-turbo, without vector instructions, because there was no nasm"
        }
    }

    /// Returns its version.
    pub fn version(&self) -> &str {
        self.host.version
    }
}
