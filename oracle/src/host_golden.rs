//! Runs the golden cases through modules in CNTK's place, together with CNTK's own libraries.

use crate::golden;
use crate::install::{self, Installed};
use crate::replay::compare;
use anyhow::{Context, Result, bail};
use dropin::{self, Flavor, Host, MODULES, script};
use lexopt::Parser;
use lexopt::prelude::*;
use std::path::{Path, PathBuf};
use tooling::Tally;
use tooling::portable::text as text_of;
use tooling::project::{Project, empty_folder};

/// Maximum number of differences shown.
const SHOWN: usize = 20;

/// Part of the names of cases in which CNTK's composite module reads chunks that do not exist: its
/// output is random, or it crashes.
const LOST_CHUNKS: &str = "bundle-missing";

/// CNTK's libraries, and libraries that they need but the system lacks.
pub struct Libraries {
    /// The version of the host.
    pub host: Host,
    /// The folder with libCntk.Math.
    pub folder: PathBuf,
    /// The loader's search path.
    path: String,
}

impl Libraries {
    /// Finds CNTK in a search path of folders separated by colons.
    pub fn find(project: &Project, path: &str) -> Result<Libraries> {
        let mut folders = Vec::new();
        for folder in path.split(':').filter(|folder| !folder.is_empty()) {
            let folder = Path::new(folder);
            folders.push(folder.canonicalize().with_context(|| format!("there is no {}", folder.display()))?);
        }
        let host = folders.iter().find_map(|folder| {
            let host = script::host_of(project, folder).ok()?;
            folder.join(host.library()).is_file().then(|| (host, folder.clone()))
        });
        let Some((host, folder)) = host else { bail!("There is no CNTK in {path}.") };
        let path = folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(":");
        Ok(Libraries { host, folder, path })
    }

    /// Returns the search path with folders in front.
    pub fn path(&self, before: &[&Path]) -> String {
        let before = before.iter().map(|folder| format!("{}:", folder.display())).collect::<String>();
        before + &self.path
    }
}

/// Combinations of modules.
#[derive(Clone, Copy)]
enum Setup {
    /// This project's composite module.
    Composite,
    /// CNTK's composite module over this project's modules of deserializers.
    Deserializers,
    /// CNTK's modules, to see whether the records hold for this version of the host.
    Original,
}

/// `--libs DIRS [--originals]`: runs the cases with both combinations of this project's modules,
/// and optionally with CNTK's own.
pub fn command(project: &Project, mut parser: Parser) -> Result<()> {
    let (mut path, mut originals) = (None, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("libs") => path = Some(parser.value()?.string()?),
            Long("originals") => originals = true,
            option => return Err(option.unexpected().into()),
        }
    }
    let path = path.context("Where is CNTK? --libs DIRS says it, folders separated by colons.")?;
    let libraries = Libraries::find(project, &path)?;
    let engine = dropin::engine(project)?;
    let version = libraries.host.version;
    project.part(&format!("modules for CNTK {version}"), || {
        dropin::build(project, libraries.host, &engine)?;
        dropin::driver(project, "host_replay", libraries.host).map(drop)
    })?;
    let mut setups = vec![(Setup::Composite, "this project's composite module")];
    if libraries.host.exchanges_sequences() {
        setups.push((
            Setup::Deserializers,
            "CNTK's composite module over this project's modules of deserializers",
        ));
    }
    if originals {
        setups.push((Setup::Original, "CNTK's own modules"));
    }
    let mut failed = 0;
    for (setup, what) in setups {
        say!("CNTK {version}, {what}:");
        let tally = check(project, &libraries, setup, Flavor::Release)?;
        say!("  {} cases as recorded, {} otherwise", tally.passed, tally.failed);
        // A difference of CNTK's own modules comes from the host's version, and is not a failure.
        failed += if matches!(setup, Setup::Original) { 0 } else { tally.failed };
    }
    if failed > 0 { bail!("{failed} cases differ.") } else { Ok(()) }
}

/// Runs the cases through modules compiled so that undefined behaviour ends the program, in the
/// installed CNTK: all modules, and CNTK's composite module over the deserializer modules.
pub fn undefined(project: &Project) -> Result<Tally> {
    let cntk = match install::install(project, install::VERSIONS[0])? {
        Installed::Yes(cntk) => cntk,
        Installed::No(reason) => return Tally::without_cntk(reason),
    };
    let libraries = Libraries::find(project, &cntk.library_path())?;
    let engine = dropin::engine(project)?;
    let (host, flavor) = (cntk.host, Flavor::Undefined);
    project.part("instrumented modules", || dropin::build_as(project, host, &engine, flavor))?;
    dropin::driver(project, "host_replay", host)?;
    let composite = check(project, &libraries, Setup::Composite, flavor)?;
    Ok(composite.and(check_below(project, &libraries, flavor)?))
}

/// Runs the cases with CNTK's composite module over this project's deserializer modules as built.
pub fn check_below(project: &Project, libraries: &Libraries, flavor: Flavor) -> Result<Tally> {
    check(project, libraries, Setup::Deserializers, flavor)
}

fn check(project: &Project, libraries: &Libraries, setup: Setup, flavor: Flavor) -> Result<Tally> {
    let scratch = project.target.join("xtask/host-golden");
    empty_folder(&scratch)?;
    let host = libraries.host;
    let own = flavor.folder(project, host);
    let composite = match setup {
        Setup::Composite => own.join(MODULES[0].file(host)),
        Setup::Deserializers | Setup::Original => original(&libraries.folder, &MODULES[0].file(host)),
    };
    // CNTK finds deserializer modules by their names, so each kind gets its own folder.
    let (modules, originals) = (scratch.join("modules"), scratch.join("originals"));
    std::fs::create_dir_all(&modules)?;
    std::fs::create_dir_all(&originals)?;
    for module in &MODULES {
        let name = module.file(host);
        std::os::unix::fs::symlink(original(&libraries.folder, &name), originals.join(&name))?;
    }
    for module in &MODULES[1..] {
        let name = module.file(host);
        let from = match setup {
            Setup::Original => original(&libraries.folder, &name),
            Setup::Composite | Setup::Deserializers => own.join(&name),
        };
        std::os::unix::fs::symlink(from, modules.join(&name))?;
    }
    let driver = text_of(&dropin::driver_file(project, "host_replay", libraries.host))?;
    let (mut passed, mut failures) = (0, Vec::new());
    for case in golden::load(project)? {
        if case.name == LOST_CHUNKS && !matches!(setup, Setup::Composite) {
            say!("  {}: not compared, CNTK's composite module reads chunks that are not there", case.name);
            continue;
        }
        let (config, script) = case.unpack(&scratch.join(&case.name))?;
        let read = |composite: &Path, before: &[&Path]| {
            let run = project.run(&driver).arg(composite).arg(&config).arg(&script);
            run.env("LD_LIBRARY_PATH", libraries.path(before)).output()
        };
        let outcome = read(&composite, &[&modules]).and_then(|output| {
            compare(&case, &output).or_else(|difference| {
                // The records are of 2.7. For an older host, its own output counts.
                let theirs = read(&originals.join(MODULES[0].file(host)), &[&originals])?;
                let same = !matches!(setup, Setup::Original) && output == theirs;
                if same { Ok(()) } else { Err(difference) }
            })
        });
        match outcome {
            Ok(()) => passed += 1,
            Err(error) => failures.push(format!("  {}: {error:#}", case.name)),
        }
    }
    for failure in failures.iter().take(SHOWN) {
        say!("{failure}");
    }
    Ok(Tally { passed, failed: failures.len(), ..Tally::default() })
}

/// Returns the path of CNTK's own module, even if this project's has replaced it.
fn original(folder: &Path, name: &str) -> PathBuf {
    let kept = folder.join(format!("{name}.original"));
    if kept.exists() { kept } else { folder.join(name) }
}
