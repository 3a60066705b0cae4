//! `cargo xtask dropin`: the modules that unmodified CNTK loads in place of its own.

use crate::cmake::install;
use crate::dist;
use crate::host_golden;
use crate::portable::{self, Library, compiler, text};
use crate::project::Project;
use crate::swap;
use crate::tools::{self, Tool};
use anyhow::{Context, Result, bail, ensure};
use lexopt::Parser;
use lexopt::prelude::*;
use std::path::{Path, PathBuf};

/// A version of the host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// The version as in the host's file names.
    pub version: &'static str,
    /// The version as a number, `CNTK_DROPIN_HOST` in the C++ code.
    number: u32,
}

/// The hosts that modules are made for.
pub const HOSTS: [Host; 3] = [
    Host { version: "2.7", number: 20700 },
    Host { version: "2.6", number: 20600 },
    Host { version: "2.5.1", number: 20501 },
];

impl Host {
    /// The host with this version.
    pub fn by_version(version: &str) -> Result<Host> {
        let host = HOSTS.into_iter().find(|host| host.version == version);
        host.with_context(|| {
            let known = HOSTS.map(|host| host.version).join(", ");
            format!("There are no modules for CNTK {version}; there are for {known}.")
        })
    }

    /// The library of the host that its modules are bound to.
    pub fn library(self) -> String {
        format!("libCntk.Math-{}.so", self.version)
    }

    /// Where its modules are built to.
    pub fn folder(self, project: &Project) -> PathBuf {
        project.target.join("dropin").join(self.version)
    }
}

/// A module.
pub struct Module {
    /// The first part of its file's name.
    pub stem: &'static str,
    /// Its sources besides [`SHARED`].
    sources: &'static [&'static str],
    exports: &'static [&'static str],
}

/// Sources of every module.
const SHARED: [&str; 7] = ["reader", "layout", "distances", "data_reader", "engine", "exception", "text"];

/// All modules, the composite one first.
pub const MODULES: [Module; 5] = [
    Module {
        stem: "Cntk.Composite",
        sources: &[
            "composite",
            "foreign",
            "transforms",
            "plugin",
            "corpus",
            "module_config",
            "deserializer",
            "sequences",
            "image_chunk",
            "image_transforms",
        ],
        exports: &["CreateCompositeDataReader", "GetReaderD", "GetReaderF"],
    },
    Module {
        stem: "Cntk.Deserializers.TextFormat",
        sources: &["text_module", "deserializer_module", "deserializer", "sequences", "image_chunk"],
        exports: &DESERIALIZER_EXPORTS,
    },
    Module {
        stem: "Cntk.Deserializers.Binary",
        sources: &["binary_module", "deserializer_module", "deserializer", "sequences", "image_chunk"],
        exports: &DESERIALIZER_EXPORTS,
    },
    Module {
        stem: "Cntk.Deserializers.HTK",
        sources: &["htk_module", "deserializer_module", "deserializer", "sequences", "image_chunk"],
        exports: &DESERIALIZER_EXPORTS,
    },
    Module {
        stem: "Cntk.Deserializers.Image",
        sources: &[
            "image_module",
            "deserializer_module",
            "deserializer",
            "sequences",
            "image_chunk",
            "image_transforms",
        ],
        exports: &["CreateDeserializer", "CreateTransformer", "GetReaderD", "GetReaderF"],
    },
];

/// What a module of deserializers exports.
const DESERIALIZER_EXPORTS: [&str; 3] = ["CreateDeserializer", "GetReaderD", "GetReaderF"];

impl Module {
    fn sources(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.sources.iter().chain(&SHARED).copied()
    }

    /// Its file's name.
    pub fn file(&self, host: Host) -> String {
        format!("{}-{}.so", self.stem, host.version)
    }
}

/// The beginnings of the names of the host's symbols.
const HOST_SYMBOLS: [&str; 4] =
    ["_ZN9Microsoft3MSR4CNTK", "_ZNK9Microsoft3MSR4CNTK", "_ZTVN9Microsoft3MSR4CNTK", "_ZN4CNTK"];

/// Tools that building takes.
pub const TOOLS: [Tool; 2] = [Tool::Cxx, Tool::Binutils];

/// Builds, checks, installs or restores, as the arguments say.
pub fn command(project: &Project, mut parser: Parser) -> Result<()> {
    let (mut word, mut host, mut libraries, mut originals) = (None, None, None, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Value(value) if word.is_none() => word = Some(value.string()?),
            Long("host") => host = Some(parser.value()?.string()?),
            Long("libs") => libraries = Some(parser.value()?.string()?),
            Long("originals") => originals = true,
            other => return Err(other.unexpected().into()),
        }
    }
    match (word.as_deref(), host, libraries, originals) {
        (None, None, None, false) => everything(project),
        (None, Some(version), None, false) => build_for(project, &version),
        (Some("check"), None, Some(path), _) => host_golden::command(project, &path, originals),
        (Some("install"), None, Some(folder), false) => swap::install(project, Path::new(&folder)),
        (Some("restore"), None, Some(folder), false) => swap::restore(project, Path::new(&folder)),
        _ => bail!(
            "dropin takes --host VERSION, check --libs DIRS, install --libs DIR, or restore --libs DIR. See cargo xtask help."
        ),
    }
}

/// The composite module for a host, as built.
pub fn composite(project: &Project, version: &str) -> Result<PathBuf> {
    let host = Host::by_version(version)?;
    Ok(host.folder(project).join(MODULES[0].file(host)))
}

/// Builds the modules for all hosts, and the driver that tries them.
fn everything(project: &Project) -> Result<()> {
    modules(project)?;
    project.part("driver host_replay", || driver(project, "host_replay").map(drop))
}

/// Builds the modules for all hosts.
pub fn modules(project: &Project) -> Result<()> {
    let engine = engine(project)?;
    for host in HOSTS {
        project.part(&format!("modules for CNTK {}", host.version), || build(project, host, &engine))?;
    }
    Ok(())
}

/// Builds the modules for one version.
pub fn build_for(project: &Project, version: &str) -> Result<()> {
    let host = Host::by_version(version)?;
    let engine = engine(project)?;
    project.part(&format!("modules for CNTK {version}"), || build(project, host, &engine))
}

/// The library that the modules contain.
pub fn engine(project: &Project) -> Result<PathBuf> {
    tools::need(project, &TOOLS)?;
    project.part("library, release mode", || {
        dist::release(project, "build").args(["--package", "cntk-reader", "--lib"]).go()
    })?;
    Ok(project.target.join("release/libcntk_reader.a"))
}

/// Builds the modules for one host into target/dropin/<version>, unless they are newer than all that they are made of.
pub fn build(project: &Project, host: Host, engine: &Path) -> Result<()> {
    let built = MODULES.iter().map(|module| host.folder(project).join(module.file(host)));
    let mut inputs = vec![engine.to_owned()];
    // How modules are compiled and linked is part of them. The rest of this program is not.
    inputs.extend(["dropin", "portable"].map(|source| project.path(&format!("xtask/src/{source}.rs"))));
    for folder in ["dropin", "dropin/compat", "include"] {
        for entry in std::fs::read_dir(project.path(folder))? {
            inputs.push(entry?.path());
        }
    }
    // A missing file counts as older than everything.
    let changed = |path: &PathBuf| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    if built.map(|path| changed(&path)).min() > inputs.iter().map(changed).max() {
        return Ok(());
    }
    let scratch = project.target.join("xtask/dropin").join(host.version);
    std::fs::create_dir_all(&scratch)?;
    let mut sources: Vec<&str> = MODULES.iter().flat_map(Module::sources).collect();
    sources.push(COMPAT);
    sources.sort_unstable();
    sources.dedup();
    compile_all(project, host, &sources, &scratch)?;
    for module in &MODULES {
        let mut inputs = Vec::new();
        for source in module.sources() {
            inputs.push(text(&object(&scratch, source))?);
        }
        inputs.extend([text(engine)?, text(&object(&scratch, COMPAT))?]);
        // The host's library is found beside the module, too, where nothing has loaded it yet.
        inputs.extend(["-Wl,-rpath,$ORIGIN".to_owned(), "-Wl,--enable-new-dtags".to_owned()]);
        let exports: Vec<String> = module.exports.iter().map(|&name| name.to_owned()).collect();
        let name = module.file(host);
        let file = scratch.join(&name);
        let library = host.library();
        let linked =
            Library { file: &file, inputs, exports: &exports, host: Some((&library, &HOST_SYMBOLS)) };
        linked.link(project, &compiler(), &scratch.join(module.stem))?;
        // The module with its symbols stays where it was linked, for debuggers and profilers.
        let stripped = scratch.join(module.stem).join(&name);
        project.run("strip").arg("--strip-unneeded").arg("-o").arg(&stripped).arg(&file).go()?;
        portable::check(project, &stripped, Some(&library))?;
        check_exports(project, &stripped, module)?;
        install(&stripped, &host.folder(project).join(&name))?;
    }
    Ok(())
}

/// Definitions of names that old systems lack.
const COMPAT: &str = "compat/newer_names";

fn object(scratch: &Path, source: &str) -> PathBuf {
    scratch.join(format!("{}.o", source.replace('/', "-")))
}

/// Compiles sources, as many at once as there are CPUs.
fn compile_all(project: &Project, host: Host, sources: &[&str], scratch: &Path) -> Result<()> {
    let share = sources.len().div_ceil(crate::machine::cores().max(1));
    std::thread::scope(|scope| {
        let work =
            |share: &[&str]| share.iter().try_for_each(|source| compile(project, host, source, scratch));
        let threads: Vec<_> = sources.chunks(share).map(|share| scope.spawn(move || work(share))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| bail!("a thread that ran the compiler has panicked"))
        })
    })
}

/// Compiles one source.
fn compile(project: &Project, host: Host, source: &str, scratch: &Path) -> Result<()> {
    let run = project.run(&compiler()).args(["-std=c++17", "-O2", "-fPIC", "-Wall", "-Wextra", "-Werror"]);
    let run = run.args(["-fvisibility=hidden", "-fvisibility-inlines-hidden", "-ffunction-sections"]);
    let run = run.arg(format!("-DCNTK_DROPIN_HOST={}", host.number)).arg("-I").arg(project.path("include"));
    let run = run.arg("-c").arg(project.path(&format!("dropin/{source}.cpp")));
    run.arg("-o").arg(object(scratch, source)).go().map(drop)
}

/// Checks that a module exports the symbols of the module it replaces, and no others, which could shadow symbols elsewhere.
fn check_exports(project: &Project, file: &Path, module: &Module) -> Result<()> {
    let symbols = project.run("nm").args(["-D", "--defined-only", "--format=posix"]).arg(file).output()?;
    let mut names: Vec<&str> = symbols.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.sort_unstable();
    ensure!(names == module.exports, "{} exports {}", file.display(), names.join(", "));
    Ok(())
}

/// Builds a driver of CNTK's native interfaces, for any host; returns its path.
pub fn driver(project: &Project, name: &str) -> Result<PathBuf> {
    tools::need(project, &TOOLS)?;
    let file = project.target.join("drivers").join(name);
    std::fs::create_dir_all(project.target.join("drivers"))?;
    let run = project.run(&compiler()).args(["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror"]);
    // The standard conversions between strings are deprecated since C++17 and have no successor.
    let run = run.args(["-Wno-deprecated-declarations"]).arg("-o").arg(&file);
    // CNTK's modules must find the driver's `sleep`.
    let run = run.arg("-rdynamic").arg(project.path(&format!("cpp_tests/{name}.cpp")));
    run.args(["-ldl", "-lpthread"]).go()?;
    Ok(file)
}
