//! Debian in a folder: the version of this machine, as mmdebstrap installs it. Programs run there
//! by chroot, so all this needs root.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use tooling::consumers::{CMAKE_PROJECT, Readme};
use tooling::project::{Project, empty_folder};
use tooling::run::Run;
use tooling::tools::{self, Tool};

/// Debian with a C++ compiler and CMake.
pub const CXX: (&str, &str) = ("cxx", "g++,make,cmake,pkg-config");
/// Only what every Debian has.
pub const EMPTY: (&str, &str) = ("empty", "");
/// Debian with Python and NumPy.
pub const PYTHON: (&str, &str) = ("python", "python3-venv,python3-numpy");

/// Paths that apt, dpkg and the dynamic linker keep for themselves, and the trial's.
const OWN: [&str; 6] =
    ["/trial", "/var/lib/dpkg", "/var/lib/apt", "/var/cache", "/var/log", "/etc/ld.so.cache"];

/// The folder of the trial's own files, below the root.
const TRIAL: &str = "trial";

/// A root folder.
pub struct Debian<'a> {
    project: &'a Project,
    root: PathBuf,
}

impl<'a> Debian<'a> {
    /// Unpacks a Debian with these packages into an empty folder. The archive stays under
    /// target/packaging.
    pub fn unpack(project: &'a Project, (name, packages): (&str, &str)) -> Result<Debian<'a>> {
        tools::need(project, &[Tool::Mmdebstrap])?;
        let folder = project.target.join("packaging");
        let archive = folder.join(format!("debian-{name}.tar"));
        if !archive.exists() {
            let new = folder.join(format!("debian-{name}.new.tar"));
            // apt verifies signatures with it.
            let include = if packages.is_empty() { "gpgv".to_owned() } else { format!("gpgv,{packages}") };
            let run = project.run("mmdebstrap").args(["--variant=minbase", "--quiet"]);
            let run = run.arg(format!("--include={include}")).arg(release()?);
            project.part(&format!("Debian with {}", include.replace(',', ", ")), || run.arg(&new).go())?;
            std::fs::rename(new, &archive)?;
        }
        let root = folder.join("root");
        empty_folder(&root)?;
        project
            .run("tar")
            .args(["--extract", "--numeric-owner", "--file"])
            .arg(archive)
            .folder(&root)
            .go()?;
        let debian = Debian { project, root };
        let data = debian.trial().join("examples");
        std::fs::create_dir_all(&data)?;
        project.run("cp").arg("-r").arg(project.path("examples/data")).arg(data).go()?;
        Ok(debian)
    }

    /// Returns the folder of the trial's files, seen from outside. Programs start there.
    pub fn trial(&self) -> PathBuf {
        self.root.join(TRIAL)
    }

    /// Returns the root, seen from outside.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Prepares to run a program inside, with `/proc`, and without this machine's environment.
    pub fn run(&self, program: &str) -> Run {
        // The mount ends with the program, because nothing else has its namespace.
        let inside = "mount -t proc proc \"$0/proc\" && cd \"$0\" && exec env -i \
                      PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root \
                      DEBIAN_FRONTEND=noninteractive \
                      chroot \"$0\" env --chdir=/trial \"$@\"";
        let run = self.project.run("unshare").named(program).arg("--mount").args(["sh", "-c", inside]);
        run.arg(&self.root).arg(program)
    }

    /// Runs a shell script inside.
    pub fn sh(&self, script: &str) -> Result<String> {
        self.run("sh").args(["-e", "-c", script]).output()
    }

    /// Installs packages that lie in the trial's folder, as a user would.
    pub fn install(&self, packages: &[PathBuf]) -> Result<()> {
        let mut names = Vec::new();
        for package in packages {
            let name = package.file_name().context("a package has a name")?;
            std::fs::copy(package, self.trial().join(name))?;
            names.push(format!("./{}", name.to_string_lossy()));
        }
        let run = self.run("apt-get").args(["install", "--yes", "--no-install-recommends", "-q"]);
        run.args(names).go().map(drop)
    }

    /// Lists all files, except those of the trial and of the package managers.
    pub fn files(&self) -> Result<Vec<String>> {
        // Sizes and times of folders depend on their history.
        let format = "%y %m %U:%G /%P %l\\n";
        let find = self.project.run("find").args([".", "-mindepth", "1", "-xdev"]);
        let find = find.args(["-type", "d", "-printf", format, "-o"]);
        let printed = find.args(["-printf", &format.replace("\\n", " %s\\n")]).folder(&self.root).output()?;
        let mut files: Vec<String> = printed
            .lines()
            .filter(|line| !OWN.iter().any(|path| line.contains(&format!(" {path}"))))
            .map(str::to_owned)
            .collect();
        files.sort();
        Ok(files)
    }

    /// Fails if the files differ from an earlier list.
    pub fn expect_files(&self, before: &[String]) -> Result<()> {
        let after = self.files()?;
        let only = |one: &[String], other: &[String]| {
            one.iter().filter(|file| other.binary_search(file).is_err()).cloned().collect::<Vec<_>>()
        };
        let (left, gone) = (only(&after, before), only(before, &after));
        ensure!(
            left.is_empty() && gone.is_empty(),
            "Removal left\n{}\nand took\n{}",
            left.join("\n"),
            gone.join("\n")
        );
        Ok(())
    }

    /// Builds the README's C++ program with CMake, with pkg-config and statically, and compares
    /// what they print. `cmake` are options for CMake, `variables` the environment of pkg-config.
    pub fn build_readme(&self, cmake: &str, variables: &str) -> Result<()> {
        let (project, readme) = (self.project, Readme::read(self.project)?);
        let trial = self.trial();
        std::fs::write(trial.join("readme.cpp"), &readme.cpp)?;
        project.run("cp").arg("-r").arg(project.path(CMAKE_PROJECT)).arg(trial.join("consumers")).go()?;
        let by_cmake = |folder: &str, option: &str| {
            format!(
                "cmake -S consumers -B {folder} -DREADME_PROGRAM=/trial/readme.cpp {option} {cmake} >&2; \
                 cmake --build {folder} >&2; ./{folder}/readme"
            )
        };
        let by_pkg_config = format!(
            "flags=$({variables} pkg-config --cflags --libs cntk_reader); \
             c++ -std=c++17 readme.cpp -o by_pkg_config $flags; ./by_pkg_config"
        );
        for (way, script) in [
            ("The program by CMake", by_cmake("shared", "")),
            ("The program by pkg-config", by_pkg_config),
            ("The static program by CMake", by_cmake("static", "-DCNTK_READER_USE_STATIC=ON")),
        ] {
            readme.expect(way, &self.sh(&script).with_context(|| way.to_owned())?)?;
        }
        let linked = self.sh("for file in shared/readme by_pkg_config static/readme; do ldd $file; done")?;
        let count = linked.matches("libcntk_reader.so.1 =>").count();
        ensure!(count == 2, "Two of the three programs must need the shared library:\n{linked}");
        Ok(())
    }

    /// Runs the tool, and looks for its manual page.
    pub fn try_tool(&self, version: &str) -> Result<()> {
        let shown = self.sh("cntk-reader --version; cntk-reader info examples/data/digits.train.ctf")?;
        for part in [version, "1,437 sequences"] {
            ensure!(shown.contains(part), "'{part}' is not in what the tool printed:\n{shown}");
        }
        let page = self.sh("gzip -dc /usr/share/man/man1/cntk-reader.1.gz")?;
        ensure!(page.contains(".TH cntk-reader"), "The manual page is:\n{page}");
        Ok(())
    }

    /// Lets the installer of CNTK's modules check, change and restore a made-up CNTK.
    pub fn try_dropin(&self) -> Result<()> {
        let cntk = self.trial().join("cntk");
        dropin::stand_in::make(self.project, "2.7", &cntk)?;
        let shown = self.sh("cntk-reader-dropin check cntk")?;
        for part in ["The modules load on this system.", "They can be installed."] {
            ensure!(shown.contains(part), "'{part}' is not in what the installer printed:\n{shown}");
        }
        let list = || self.sh("cd cntk; sha256sum *");
        let before = list()?;
        let installed = self.sh("cntk-reader-dropin install cntk; cntk-reader-dropin status cntk")?;
        ensure!(installed.contains("CNTK reads with cntk-reader."), "The installer printed:\n{installed}");
        self.sh("cntk-reader-dropin restore cntk")?;
        ensure!(list()? == before, "CNTK differs after `restore`.");
        let path = self.sh("with-cntk-reader sh -c 'echo $LD_LIBRARY_PATH'")?;
        ensure!(path.contains("/usr/lib/cntk-reader-dropin/2.7"), "The wrapper sets {path}");
        Ok(())
    }
}

/// Returns the name of this machine's Debian.
fn release() -> Result<String> {
    let text = std::fs::read_to_string("/etc/os-release").context("reading /etc/os-release")?;
    ensure!(text.lines().any(|line| line == "ID=debian"), "Trials of packages need Debian.");
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    Ok(name.context("/etc/os-release has no VERSION_CODENAME")?.to_owned())
}
