//! Made-up CNTKs and modules, and runs of the scripts.

use crate::script::{INSTALLER, WRAPPER, mark};
use crate::{BETA_LIBRARY, Host, MODULES};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tooling::project::Project;

/// A symbol in libraries of betas from beta 12 on, as the installer expects it.
const SINCE_BETA_12: &str = "_ZNK9Microsoft3MSR4CNTK9GPUMatrixIfE11AbsoluteMaxEv";
/// A symbol in libraries with the strings of GCC 5, as the installer expects it.
pub const NEW_STRINGS: &str = "_ZN9Microsoft3MSR4CNTK12ConfigParser5ParseERKNSt7__cxx1112basic_string";

/// Places of one case.
pub struct Bench {
    /// A folder for the case's files.
    pub folder: PathBuf,
    /// The scripts with stand-ins of modules, as an operator gets them.
    pub kit: PathBuf,
    /// The C++ compiler.
    pub compiler: String,
    shell: &'static [&'static str],
    /// A folder with stand-ins of programs, first in the search path.
    tools: PathBuf,
}

/// A file: its mode with its content, or the target of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    File(u32, Vec<u8>),
    Link(PathBuf),
}

/// The result of a script.
#[derive(Debug)]
pub struct Output {
    /// The exit status; negative if a signal has ended the script.
    pub status: i32,
    /// Standard output, then standard error.
    pub text: String,
}

impl Output {
    /// Checks status and text.
    pub fn expect(&self, status: i32, parts: &[&str]) -> Result<()> {
        ensure!(self.status == status, "Status {} instead of {status}:\n{}", self.status, self.text);
        for part in parts {
            ensure!(self.text.contains(part), "'{part}' is not in:\n{}", self.text);
        }
        Ok(())
    }
}

impl Bench {
    /// Makes a kit with modules for a few releases in a folder.
    pub fn new(project: &Project, folder: PathBuf, shell: &'static [&'static str]) -> Result<Bench> {
        let kit = folder.join("the kit");
        for release in ["2.7", "2.6", "2.5", "2.3.1", "2.3.1-gcc5", "2.0.beta15"] {
            make_modules(&kit, release, "0.1.0")?;
        }
        for name in [INSTALLER, WRAPPER] {
            std::fs::copy(project.path("dropin").join(name), kit.join(name))?;
        }
        let tools = folder.join("tools");
        std::fs::create_dir(&tools)?;
        let bench = Bench { folder, kit, compiler: project.compiler(), shell, tools };
        // Stand-ins of modules are no libraries.
        bench.tool("ldd", "exit 0")?;
        Ok(bench)
    }

    /// Makes a program that the scripts find before the system's.
    pub fn tool(&self, name: &str, body: &str) -> Result<()> {
        write(&self.tools.join(name), 0o755, &format!("#!/bin/sh\n{body}\n"))
    }

    /// Lets scripts use the system's program again.
    pub fn without_tool(&self, name: &str) -> Result<()> {
        Ok(std::fs::remove_file(self.tools.join(name))?)
    }

    /// Prepares to run a script of the kit.
    pub fn command(&self, script: &str) -> Command {
        // A shell cannot trap a signal that its parent ignores, as a shell's background jobs do.
        let mut command = Command::new("env");
        command.arg("--default-signal").args(self.shell);
        command.arg(self.kit.join(script)).current_dir(&self.folder);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.tools.display())).env_remove("LD_LIBRARY_PATH");
        command.env("HERE", &self.folder);
        command
    }

    /// Runs the installer.
    pub fn installer(&self, arguments: &[&str], cntk: &Path) -> Result<Output> {
        run(self.command(INSTALLER).args(arguments).arg(cntk))
    }

    /// Runs the installer as another user, if this is root.
    pub fn installer_as_user(&self, arguments: &[&str], cntk: &Path) -> Result<Output> {
        let mut command = self.command(INSTALLER);
        // Root may write to every folder.
        if is_root()? {
            command.uid(65534).gid(65534);
        }
        run(command.args(arguments).arg(cntk))
    }

    /// Makes a CNTK in a subfolder, and returns the folder of its libraries.
    pub fn cntk(&self, name: &str, release: &str) -> Result<PathBuf> {
        let libraries = self.folder.join(name);
        std::fs::create_dir_all(&libraries)?;
        let host = Host::by_version(release)?;
        let library = host.library();
        let symbol = if library == BETA_LIBRARY { SINCE_BETA_12 } else { "" };
        write(&libraries.join(&library), 0o755, &format!("CNTK's library\n{symbol}"))?;
        for (number, module) in MODULES.iter().enumerate() {
            let file = module.file(host);
            let path = libraries.join(&file);
            let text = format!("CNTK's {file}");
            if number == 3 {
                // Some package managers install links.
                let store = self.folder.join("store").join(&file);
                std::fs::create_dir_all(self.folder.join("store"))?;
                write(&store, 0o644, &text)?;
                symlink(&store, &path)?;
            } else {
                write(&path, [0o755, 0o644, 0o444, 0, 0o750][number], &text)?;
            }
        }
        Ok(libraries)
    }
}

fn is_root() -> Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata("/proc/self")?.uid() == 0)
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Result<Output> {
    use std::os::unix::process::ExitStatusExt;
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    let status = output.status;
    let status = status.code().or_else(|| Some(-status.signal()?)).context("a status")?;
    let text = [output.stdout, output.stderr].concat();
    Ok(Output { status, text: String::from_utf8_lossy(&text).into_owned() })
}

/// Returns the line of a module in this version, as the modules' code has it.
pub fn line(version: &str, file: &str, release: &str) -> String {
    format!("cntk-reader {version} reads in place of {file} (serves CNTK {release})")
}

/// Makes stand-ins of modules for a release of CNTK.
pub fn make_modules(kit: &Path, release: &str, version: &str) -> Result<()> {
    let host = Host::by_version(release)?;
    std::fs::create_dir_all(kit.join(release))?;
    mark(&kit.join(release), host)?;
    for module in &MODULES {
        let file = module.file(host);
        let line = line(version, &file, host.version);
        write(&kit.join(release).join(&file), 0o644, &format!("\x7fELF\0{line}\0\n"))?;
    }
    Ok(())
}

/// Returns the module files of a release.
pub fn names(release: &str) -> Result<Vec<String>> {
    let host = Host::by_version(release)?;
    Ok(MODULES.iter().map(|module| module.file(host)).collect())
}

/// Writes a file with this mode.
pub fn write(path: &Path, mode: u32, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(std::fs::set_permissions(path, PermissionsExt::from_mode(mode))?)
}

/// Returns all files of a folder.
pub fn snapshot(folder: &Path) -> Result<BTreeMap<String, Kept>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let metadata = std::fs::symlink_metadata(&path)?;
        let kept = match metadata.is_symlink() {
            true => Kept::Link(std::fs::read_link(&path)?),
            false => Kept::File(metadata.permissions().mode(), std::fs::read(&path)?),
        };
        files.insert(entry.file_name().to_string_lossy().into_owned(), kept);
    }
    Ok(files)
}

/// Checks that a folder has exactly these files.
pub fn expect_files(folder: &Path, expected: &BTreeMap<String, Kept>) -> Result<()> {
    let found = snapshot(folder)?;
    ensure!(found == *expected, "{} has\n{found:#?}\ninstead of\n{expected:#?}", folder.display());
    Ok(())
}

/// Checks that the modules of a kit are in place, and the originals beside them.
pub fn expect_installed(
    folder: &Path,
    kit: &Path,
    release: &str,
    before: &BTreeMap<String, Kept>,
) -> Result<()> {
    let mut expected = before.clone();
    for name in names(release)? {
        if let Some(original) = expected.remove(&name) {
            let ours = std::fs::read(kit.join(release).join(&name))?;
            expected.insert(format!("{name}.original"), original);
            expected.insert(name, Kept::File(0o100_755, ours));
        }
    }
    expect_files(folder, &expected)
}
