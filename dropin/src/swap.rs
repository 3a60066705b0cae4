//! Swaps the modules into an installed CNTK, and restores the originals.
//!
//! An original is kept next to the module as `<name>.original`; that file marks a swapped module.
//! Each step is a rename, so an interruption leaves one of the two modules under the name, never
//! half of one. Running programs keep the module that they have loaded.

use crate::{BETA_LIBRARY, HOSTS, Host, MODULES, Module};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use tooling::project::{Project, empty_folder};

/// Returns the host whose libraries are in a folder.
pub fn host_of(folder: &Path) -> Result<Host> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let version = name.strip_prefix("libCntk.Math-").and_then(|name| name.strip_suffix(".so"));
        found.extend(version.map(str::to_owned).or_else(|| (name == BETA_LIBRARY).then_some(name)));
    }
    let known = HOSTS.map(|host| host.version).join(", ");
    match &found[..] {
        [] => {
            bail!(
                "{} has neither libCntk.Math-<version>.so nor {BETA_LIBRARY}: it is not CNTK's folder of libraries.",
                folder.display()
            )
        }
        [found] => {
            let library = |host: &Host| host.library() == *found || host.version == found;
            let host = HOSTS.into_iter().find(library).with_context(|| {
                format!(
                    "{} belongs to CNTK {found}; there are modules for {known} only. Nothing was changed.",
                    folder.display()
                )
            })?;
            as_built(host, &folder.join(host.library()))
        }
        several => bail!("{} has libraries of several CNTKs: {}.", folder.display(), several.join(", ")),
    }
}

/// A symbol in the library of betas from beta 12 on, whose interface the modules support:
/// `GPUMatrix<float>::AbsoluteMax`.
const SINCE_BETA_12: &str = "_ZNK9Microsoft3MSR4CNTK9GPUMatrixIfE11AbsoluteMaxEv";

/// Returns the host with the strings that its library was built with, which varies for old
/// versions.
fn as_built(host: Host, path: &Path) -> Result<Host> {
    if host.built_anew() == host {
        return Ok(host);
    }
    let library = std::fs::read(path).with_context(|| path.display().to_string())?;
    ensure!(
        !host.is_beta() || has(&library, SINCE_BETA_12),
        "{} belongs to a CNTK before 2.0 beta 12, which there are no modules for. Nothing was changed.",
        path.display()
    );
    Ok(if has_new_strings(&library) { host.built_anew() } else { host })
}

/// Returns whether a library uses the strings of GCC 5.
fn has_new_strings(library: &[u8]) -> bool {
    has(library, "_ZN9Microsoft3MSR4CNTK12ConfigParser5ParseERKNSt7__cxx1112basic_string")
}

/// Returns whether a file contains the name of a symbol or its prefix.
fn has(library: &[u8], symbol: &str) -> bool {
    memchr::memmem::find(library, symbol.as_bytes()).is_some()
}

/// The files of one module in CNTK's folder.
struct ModuleFiles {
    /// The file that CNTK loads.
    module: PathBuf,
    /// CNTK's module, while this project's is in its place.
    original: PathBuf,
}

impl ModuleFiles {
    fn new(folder: &Path, module: &Module, host: Host) -> ModuleFiles {
        let name = module.file(host);
        ModuleFiles { original: folder.join(format!("{name}.original")), module: folder.join(name) }
    }

    /// Copies a file to a name atomically: the name never has a partial file.
    fn put(from: &Path, to: &Path) -> Result<()> {
        let new = to.with_extension("so.new");
        let what = || format!("writing {}", to.display());
        std::fs::copy(from, &new).with_context(what)?;
        std::fs::rename(&new, to).with_context(what)
    }

    fn swap(&self, ours: &Path) -> Result<()> {
        if !self.original.exists() {
            ensure!(self.module.is_file(), "{} does not exist.", self.module.display());
            // A copy, not a rename: the name must always exist. `cp` keeps times and permissions.
            let copy = self.original.with_extension("original.new");
            let copied = std::process::Command::new("cp").arg("-p").arg(&self.module).arg(&copy).status()?;
            ensure!(copied.success(), "{} could not be copied.", self.module.display());
            std::fs::rename(&copy, &self.original)?;
        }
        Self::put(ours, &self.module)
    }

    /// Restores the original. Returns whether there was one.
    fn restore(&self) -> Result<bool> {
        if !self.original.exists() {
            return Ok(false);
        }
        std::fs::rename(&self.original, &self.module)
            .with_context(|| format!("restoring {}", self.module.display()))?;
        Ok(true)
    }
}

/// Refuses to install untested modules unless `untried` is set.
fn allow(host: Host, untried: bool) -> Result<()> {
    ensure!(
        host.is_tried || untried,
        "The modules for CNTK {} have never run: they follow from the layout of its interface alone. --untried installs \
         them all the same; small files are read with both, and the originals come back if anything differs. Nothing was changed.",
        host.version
    );
    Ok(())
}

/// Swaps the modules of the CNTK in a folder and reads a small file with them; restores the
/// originals if that fails.
pub fn install(project: &Project, folder: &Path, untried: bool) -> Result<()> {
    let folder = folder.canonicalize().with_context(|| format!("there is no {}", folder.display()))?;
    let host = host_of(&folder)?;
    let version = host.version;
    allow(host, untried)?;
    let engine = crate::engine(project)?;
    project.part(&format!("modules for CNTK {version}"), || {
        crate::build(project, host, &engine)?;
        crate::driver(project, "host_replay", host).map(drop)
    })?;
    let place = |module: &Module| ModuleFiles::new(&folder, module, host);
    ensure!(place(&MODULES[0]).module.is_file(), "{} does not exist.", place(&MODULES[0]).module.display());
    // A CNTK that was built without a library lacks the module that needs it.
    let (there, missing): (Vec<_>, Vec<_>) =
        MODULES.iter().partition(|module| place(module).module.is_file());
    let swapped = project.part(&format!("swapping the modules in {}", folder.display()), || {
        there.iter().try_for_each(|module| place(module).swap(&host.folder(project).join(module.file(host))))
    });
    let tried = swapped.and_then(|()| {
        project.part("reading with the new modules, and with the originals", || smoke(project, &folder, host))
    });
    if let Err(error) = tried {
        put_back(&folder, host)?;
        return Err(
            error.context("The modules did not work there, and the originals are back in their place")
        );
    }
    say!(
        "\nCNTK {version} in {} now reads with cntk-reader. The originals are beside the modules, as *.original.\n\
         To go back: cargo xtask dropin restore --libs {0}",
        folder.display()
    );
    for module in missing {
        say!("This CNTK has no {}; skipped.", module.file(host));
    }
    Ok(())
}

/// Restores the originals.
pub fn restore(_project: &Project, folder: &Path) -> Result<()> {
    let folder = folder.canonicalize().with_context(|| format!("there is no {}", folder.display()))?;
    let host = host_of(&folder)?;
    match put_back(&folder, host)? {
        0 => bail!("{} has no originals to restore.", folder.display()),
        count => say!("{count} modules of CNTK {} are back in {}.", host.version, folder.display()),
    }
    Ok(())
}

fn put_back(folder: &Path, host: Host) -> Result<usize> {
    let mut count = 0;
    for module in &MODULES {
        count += usize::from(ModuleFiles::new(folder, module, host).restore()?);
    }
    Ok(count)
}

/// Reads small files through the modules in the folder and through the originals; both must deliver
/// equal data. CNTK's module for images may need missing libraries, so its test uses the new one
/// under CNTK's composite module.
fn smoke(project: &Project, folder: &Path, host: Host) -> Result<()> {
    let scratch = project.target.join("xtask/smoke");
    empty_folder(&scratch)?;
    let lines = (0..40).map(|i| format!("{} |x {}.5 -{i}e-3 |s {}:1 7:0.25\n", i / 3, i, i % 7));
    std::fs::write(scratch.join("data.ctf"), lines.collect::<String>())?;
    let images = project.path("tests/images/files/images");
    let lines = ["p13x9.bmp", "s420.jpg"].repeat(4).into_iter().enumerate();
    let lines = lines.map(|(i, name)| format!("{}\t{i}\n", images.join(name).display()));
    std::fs::write(scratch.join("images.map"), lines.collect::<String>())?;
    let mut configs = vec![("text", SMOKE)];
    if host.exchanges_sequences() {
        configs.push(("images", SMOKE_OF_IMAGES));
    }
    for (name, config) in configs {
        same_data(project, folder, host, &scratch, config).with_context(|| format!("reading {name}"))?;
    }
    Ok(())
}

/// Reads with the composite modules of the folder, the new one and the original; both must deliver
/// equal data.
fn same_data(
    project: &Project,
    folder: &Path,
    host: Host,
    scratch: &Path,
    configuration: &str,
) -> Result<()> {
    let (config, script) = (scratch.join("config.cntk"), scratch.join("script.txt"));
    std::fs::write(&config, configuration.replace("@DIR@", &scratch.display().to_string()))?;
    std::fs::write(&script, "start 1 0 8 0 0 1 inf 2 0\n".to_owned() + &"read\nstate\n".repeat(READS))?;
    let driver = crate::driver_file(project, "host_replay", host);
    let read = |module: &Path, before: String| {
        let run = project.run(driver.to_str().context("a path in UTF-8")?);
        let mut path = before + &folder.display().to_string();
        // CNTK's libraries may need others from the caller's search path.
        if let Ok(inherited) = std::env::var("LD_LIBRARY_PATH") {
            path += &format!(":{inherited}");
        }
        run.arg(module).arg(&config).arg(&script).env("LD_LIBRARY_PATH", path).output()
    };
    let place = ModuleFiles::new(folder, &MODULES[0], host);
    // If CNTK's composite module cannot use the new modules, it finds the originals first.
    let originals = if host.exchanges_sequences() { None } else { Some(originals(folder, host, scratch)?) };
    let before = originals.map_or_else(String::new, |folder| format!("{}:", folder.display()));
    let (ours, theirs) = (read(&place.module, String::new())?, read(&place.original, before)?);
    ensure!(ours.lines().count() == 2 * READS + 2, "Reading ended early:\n{ours}");
    ensure!(!ours.contains("\"error\""), "Reading failed:\n{ours}");
    ensure!(ours == theirs, "The new module reads this:\n{ours}\nCNTK's own module this:\n{theirs}");
    Ok(())
}

/// Creates a folder in which the original modules have their own names.
fn originals(folder: &Path, host: Host, scratch: &Path) -> Result<PathBuf> {
    let links = scratch.join("originals");
    empty_folder(&links)?;
    for module in &MODULES {
        let original = ModuleFiles::new(folder, module, host).original;
        if original.exists() {
            std::os::unix::fs::symlink(original, links.join(module.file(host)))?;
        }
    }
    Ok(links)
}

/// Number of minibatches to read, more than there are.
const READS: usize = 14;

const SMOKE: &str = r#"
randomize = true
traceLevel = 0
deserializers = ( [
    type = "CNTKTextFormatDeserializer" ; module = "CNTKTextFormatReader" ; file = "@DIR@/data.ctf"
    input = [ x = [ dim = 2 ; format = "dense" ] ; s = [ dim = 8 ; format = "sparse" ] ]
] )
"#;

const SMOKE_OF_IMAGES: &str = r#"
randomize = true
traceLevel = 0
deserializers = ( [
    type = "ImageDeserializer" ; module = "ImageReader" ; file = "@DIR@/images.map"
    input = [
        x = [ transforms = (
            [ type = "Crop" ; cropType = "RandomSide" ; sideRatio = 0.7 ; seed = 5 ] :
            [ type = "Scale" ; width = 5 ; height = 4 ; channels = 3 ] :
            [ type = "Color" ; brightnessRadius = 0.2 ; contrastRadius = 0.1 ] : [ type = "Transpose" ] ) ]
        y = [ labelDim = 8 ]
    ]
] )
"#;

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str, files: &[&str]) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("cntk-reader-swap-{}-{name}", std::process::id()));
        empty_folder(&folder).expect("a folder");
        files.iter().for_each(|file| std::fs::write(folder.join(file), file).expect("a file"));
        folder
    }

    #[test]
    fn hosts_are_recognized_by_their_library() {
        let known = folder("known", &["libCntk.Math-2.6.so"]);
        assert_eq!(host_of(&known).expect("known").version, "2.6");
        for (name, files) in
            [("none", &[][..]), ("old", &["libCntk.Math-1.9.so"]), ("beta", &["libcntkmath.so"])]
        {
            let folder = folder(name, files);
            assert!(host_of(&folder).is_err(), "{name}");
            std::fs::remove_dir_all(folder).expect("a folder");
        }
        std::fs::remove_dir_all(known).expect("a folder");
    }

    #[test]
    fn untried_modules_require_consent() {
        for (version, is_tried) in [("2.7", true), ("2.5", false), ("2.3", false), ("2.2", false)] {
            let folder = folder(version, &[&format!("libCntk.Math-{version}.so")]);
            let host = host_of(&folder).expect(version);
            std::fs::remove_dir_all(folder).expect("a folder");
            assert_eq!(allow(host, false).is_ok(), is_tried, "{version}");
            assert!(allow(host, true).is_ok(), "{version}");
        }
    }

    #[test]
    fn swapped_modules_are_restored() {
        let folder = folder("swap", &["Cntk.Composite-2.7.so", "ours"]);
        let place = ModuleFiles::new(&folder, &MODULES[0], HOSTS[0]);
        let content = || std::fs::read_to_string(&place.module).expect("a module");
        // The second time, this project's module is already in place, and must not be mistaken for
        // the original.
        for _ in 0..2 {
            place.swap(&folder.join("ours")).expect("swapping");
            assert_eq!(content(), "ours");
        }
        assert!(place.restore().expect("restoring"));
        assert_eq!(content(), "Cntk.Composite-2.7.so");
        assert!(!place.restore().expect("nothing to do"));
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 2);
        std::fs::remove_dir_all(folder).expect("a folder");
    }
}
