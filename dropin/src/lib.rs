//! Builds the modules that unmodified CNTK loads in place of its own, gathers them with the scripts
//! that install them, and tests these scripts.

#[macro_use]
extern crate tooling;

pub mod operator;
pub mod script;
pub mod stand_in;

use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tooling::cmake::install;
use tooling::dist;
use tooling::portable::{self, Age, Library, text};
use tooling::project::{Project, alone};
use tooling::run::Run;
use tooling::tools::{self, Tool};

/// A version of the host.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// The version as in the host's file names; the file names of betas have none.
    pub version: &'static str,
    /// The value of `CNTK_DROPIN_HOST` in the C++ code: the first version with the same interface.
    number: u32,
    /// The compiler whose C++ library it uses.
    pub age: Age,
    /// Whether the modules were tested in this version. For the others, they were only built for
    /// the layout of its interface.
    pub is_tried: bool,
}

/// The supported hosts.
pub const HOSTS: [Host; 12] = [
    Host { version: "2.7", number: 20700, age: Age::Gcc5, is_tried: true },
    Host { version: "2.6", number: 20600, age: Age::Gcc5, is_tried: true },
    Host { version: "2.5.1", number: 20500, age: Age::Gcc5, is_tried: true },
    Host { version: "2.5", number: 20500, age: Age::Gcc5, is_tried: false },
    Host { version: "2.4", number: 20400, age: Age::Gcc5, is_tried: true },
    Host { version: "2.3.1", number: 20200, age: Age::Gcc48, is_tried: true },
    Host { version: "2.3", number: 20200, age: Age::Gcc48, is_tried: false },
    Host { version: "2.2", number: 20200, age: Age::Gcc48, is_tried: false },
    Host { version: "2.1", number: 20100, age: Age::Gcc48, is_tried: true },
    Host { version: "2.0", number: 20000, age: Age::Gcc48, is_tried: true },
    Host { version: "2.0rc3", number: 20000, age: Age::Gcc48, is_tried: false },
    Host { version: "2.0.beta15", number: BETA, age: Age::Gcc48, is_tried: true },
];

/// The betas of CNTK 2.0, whose modules have the names of the first readers.
const BETA: u32 = 19900;
/// The first host whose other modules can be used.
const FOREIGN_MODULES: u32 = 20100;

impl Host {
    /// Returns the host with this version or name.
    pub fn by_version(version: &str) -> Result<Host> {
        let hosts = HOSTS.into_iter().flat_map(|host| [host, host.built_anew()]);
        let host = hosts.into_iter().find(|host| host.name() == version);
        host.with_context(|| {
            let known = HOSTS.map(|host| host.version).join(", ");
            format!("There are no modules for CNTK {version}; there are for {known}.")
        })
    }

    /// Returns the host's library that its modules link to.
    pub fn library(self) -> String {
        match self.number {
            BETA => BETA_LIBRARY.to_owned(),
            _ => format!("libCntk.Math-{}.so", self.version),
        }
    }

    /// Returns compiler options for code that shares types with it.
    pub fn options(self) -> Vec<String> {
        let mut options = vec![format!("-DCNTK_DROPIN_HOST={}", self.number)];
        if self.age == Age::Gcc48 {
            // Its C++ library has the old strings, and no sized `operator delete`.
            options.extend(["-D_GLIBCXX_USE_CXX11_ABI=0", "-fno-sized-deallocation"].map(str::to_owned));
        }
        options
    }

    /// Whether its interface is older than `number`.
    pub fn is_before(self, number: u32) -> bool {
        self.number < number
    }

    /// Whether it is a beta of CNTK 2.0.
    pub fn is_beta(self) -> bool {
        self.number == BETA
    }

    /// Whether it needs separate drivers.
    pub fn has_own_driver(self) -> bool {
        self.age == Age::Gcc48 || self.number < SHARED_DRIVER
    }

    /// Whether its other modules can be used, and this project's modules by them.
    pub fn exchanges_sequences(self) -> bool {
        self.number >= FOREIGN_MODULES
    }

    /// Returns the host as rebuilt with a newer compiler, if that makes a difference.
    pub fn built_anew(self) -> Host {
        Host { age: Age::Gcc5, ..self }
    }

    /// Returns the name of its folders.
    pub fn name(self) -> String {
        match HOSTS.contains(&self) {
            true => self.version.to_owned(),
            false => format!("{}-{:?}", self.version, self.age).to_lowercase(),
        }
    }

    /// Returns the folder of its modules.
    pub fn folder(self, project: &Project) -> PathBuf {
        Flavor::Release.folder(project, self)
    }
}

/// A way to compile modules.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flavor {
    /// As released.
    Release,
    /// Undefined behaviour traps, because modules may only need the system's and the host's
    /// libraries.
    Undefined,
}

impl Flavor {
    fn options(self, project: &Project) -> &'static [&'static str] {
        match (self, project.quick) {
            (Flavor::Release, false) => &["-O2"],
            (Flavor::Release, true) => &["-Og"],
            // Without `vptr`, which needs the type information of the host's classes.
            (Flavor::Undefined, _) => &[
                "-O1",
                "-g",
                "-fsanitize=undefined",
                "-fno-sanitize=vptr",
                "-fsanitize-undefined-trap-on-error",
            ],
        }
    }

    fn name(self, project: &Project) -> &'static str {
        match (self, project.quick) {
            (Flavor::Release, false) => "dropin",
            (Flavor::Release, true) => "dropin-quick",
            (Flavor::Undefined, _) => "dropin-undefined",
        }
    }

    /// Returns the folder of the modules for a host.
    pub fn folder(self, project: &Project, host: Host) -> PathBuf {
        project.target.join(self.name(project)).join(host.name())
    }
}

/// The library of betas that their modules link to.
pub const BETA_LIBRARY: &str = "libcntkmath.so";

/// A module.
pub struct Module {
    /// First part of its file name.
    stem: &'static str,
    /// Its file name in betas.
    beta: &'static str,
    /// Its sources besides [`SHARED`].
    sources: &'static [&'static str],
    /// Additional sources for hosts with whose modules it exchanges sequences.
    exchange: &'static [&'static str],
    exports: &'static [&'static str],
}

/// Sources of every module.
const SHARED: [&str; 9] = [
    "announce",
    "host_reader",
    "reader",
    "layout",
    "distances",
    "data_reader",
    "engine",
    "exception",
    "text",
];

/// All modules, the composite one first.
pub const MODULES: [Module; 5] = [COMPOSITE, TEXT, BINARY, HTK, IMAGES];

const COMPOSITE: Module = Module {
    stem: "Cntk.Composite",
    beta: "CompositeDataReader",
    sources: &["composite"],
    exchange: &[
        "foreign",
        "interpreter",
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
};

const TEXT: Module = Module {
    stem: "Cntk.Deserializers.TextFormat",
    beta: "CNTKTextFormatReader",
    sources: &["text_module", "deserializer_module"],
    exchange: &DESERIALIZERS,
    exports: &DESERIALIZER_EXPORTS,
};

const BINARY: Module = Module {
    stem: "Cntk.Deserializers.Binary",
    beta: "CNTKBinaryReader",
    sources: &["binary_module", "deserializer_module"],
    exchange: &DESERIALIZERS,
    exports: &DESERIALIZER_EXPORTS,
};

/// The module for speech.
pub const HTK: Module = Module {
    stem: "Cntk.Deserializers.HTK",
    beta: "HTKDeserializers",
    sources: &["htk_module", "deserializer_module"],
    exchange: &DESERIALIZERS,
    exports: &DESERIALIZER_EXPORTS,
};

/// The module for images.
pub const IMAGES: Module = Module {
    stem: "Cntk.Deserializers.Image",
    beta: "ImageReader",
    sources: &["image_module", "deserializer_module"],
    exchange: &["deserializer", "sequences", "image_chunk", "image_transforms"],
    exports: &["CreateDeserializer", "CreateTransformer", "GetReaderD", "GetReaderF"],
};

/// Sources of the engine's deserializers with the host's interface.
const DESERIALIZERS: [&str; 3] = ["deserializer", "sequences", "image_chunk"];

/// Exports of a module of deserializers.
const DESERIALIZER_EXPORTS: [&str; 3] = ["CreateDeserializer", "GetReaderD", "GetReaderF"];

impl Module {
    fn sources(&self, host: Host) -> impl Iterator<Item = &'static str> + use<> {
        let exchange = if host.exchanges_sequences() { self.exchange } else { &[] };
        self.sources.iter().chain(exchange).chain(&SHARED).copied()
    }

    /// Returns its file name.
    pub fn file(&self, host: Host) -> String {
        match host.number {
            BETA => format!("{}.so", self.beta),
            _ => format!("{}-{}.so", self.stem, host.version),
        }
    }
}

/// Prefixes of the host's symbols.
const HOST_SYMBOLS: [&str; 4] =
    ["_ZN9Microsoft3MSR4CNTK", "_ZNK9Microsoft3MSR4CNTK", "_ZTVN9Microsoft3MSR4CNTK", "_ZN4CNTK"];

/// Tools required for building.
pub const TOOLS: [Tool; 2] = [Tool::Cxx, Tool::Binutils];

/// Returns the path of the composite module for a host.
pub fn composite(project: &Project, host: Host) -> PathBuf {
    host.folder(project).join(COMPOSITE.file(host))
}

/// Builds the modules for all hosts with the scripts that install them, and the driver that tests
/// them.
pub fn everything(project: &Project) -> Result<()> {
    modules_for(project, &HOSTS)?;
    project.part("driver host_replay", || driver(project, "host_replay", HOSTS[0]).map(drop))
}

/// Builds the modules for the hosts in which they are tested, with the scripts that install them.
pub fn modules(project: &Project) -> Result<()> {
    if !project.quick {
        return modules_for(project, &tried().collect::<Vec<_>>());
    }
    let (linked, checked): (Vec<_>, Vec<_>) = tried().partition(|host| QUICK.contains(&host.version));
    modules_for(project, &linked)?;
    project.part("modules for other versions of CNTK, syntax check only", || {
        checked.into_iter().try_for_each(|host| check_sources(project, host))
    })
}

/// The hosts whose modules are linked in quick mode: the newest, the oldest that exchanges
/// sequences, and the oldest.
const QUICK: [&str; 3] = ["2.7", "2.1", "2.0.beta15"];

/// The hosts in which modules were tested.
fn tried() -> impl Iterator<Item = Host> {
    HOSTS.into_iter().filter(|host| host.is_tried)
}

fn modules_for(project: &Project, hosts: &[Host]) -> Result<()> {
    let engine = engine(project)?;
    for &host in hosts {
        project.part(&format!("modules for CNTK {}", host.version), || build(project, host, &engine))?;
    }
    script::gather(project)
}

/// Builds the modules for one host, with the scripts that install them.
pub fn build_for(project: &Project, host: Host) -> Result<()> {
    let engine = engine(project)?;
    project.part(&format!("modules for CNTK {}", host.name()), || build(project, host, &engine))?;
    script::gather(project)
}

/// Builds the library that the modules contain.
pub fn engine(project: &Project) -> Result<PathBuf> {
    tools::need(project, &TOOLS)?;
    project.part("library, release mode", || dist::archive(project))
}

/// Builds the modules for one host into `target/dropin/<version>`, unless they are newer than all
/// of their inputs.
pub fn build(project: &Project, host: Host, engine: &Path) -> Result<()> {
    build_as(project, host, engine, Flavor::Release)
}

/// [`build`] in a flavor, into [`Flavor::folder`].
pub fn build_as(project: &Project, host: Host, engine: &Path, flavor: Flavor) -> Result<()> {
    static BUILDING: Mutex<()> = Mutex::new(());
    let _alone = alone(&BUILDING);
    let folder = flavor.folder(project, host);
    script::mark(&folder, host)?;
    let built: Vec<PathBuf> = MODULES.iter().map(|module| folder.join(module.file(host))).collect();
    let mut inputs = sources(project)?;
    inputs.push(engine.to_owned());
    if are_newer(&built, &inputs) {
        return Ok(());
    }
    let scratch = scratch(project, host, flavor)?;
    for_each_source(host, |source| {
        let run = compiler(project, host, source).args(flavor.options(project));
        run.arg("-c").arg("-o").arg(object(&scratch, source)).go()
    })?;
    for module in &MODULES {
        let mut inputs = Vec::new();
        for source in module.sources(host) {
            inputs.push(text(&object(&scratch, source))?);
        }
        inputs.extend([text(engine)?, text(&object(&scratch, COMPAT))?]);
        // If nothing has loaded the host's library yet, it is found next to the module.
        inputs.extend(["-Wl,-rpath,$ORIGIN".to_owned(), "-Wl,--enable-new-dtags".to_owned()]);
        let exports: Vec<String> = module.exports.iter().map(|&name| name.to_owned()).collect();
        let name = module.file(host);
        let file = scratch.join(&name);
        let library = host.library();
        let linked = Library {
            file: &file,
            inputs,
            exports: &exports,
            host: Some((&library, &HOST_SYMBOLS)),
            age: host.age,
            has_lines: !project.quick || flavor == Flavor::Undefined,
        };
        linked.link(project, &project.compiler(), &scratch.join(module.stem))?;
        // The unstripped module stays where it was linked, for debuggers and profilers.
        let stripped = scratch.join(module.stem).join(&name);
        project.run("strip").arg("--strip-unneeded").arg("-o").arg(&stripped).arg(&file).go()?;
        portable::check(project, &stripped, Some(&library), host.age)?;
        check_exports(project, &stripped, module)?;
        install(&stripped, &folder.join(&name))?;
    }
    Ok(())
}

/// Definitions of names that old systems lack.
const COMPAT: &str = "compat/newer_names";

fn object(scratch: &Path, source: &str) -> PathBuf {
    scratch.join(format!("{}.o", source.replace('/', "-")))
}

/// Checks the syntax of the sources for a host, unless they are unchanged since the last check.
fn check_sources(project: &Project, host: Host) -> Result<()> {
    static CHECKING: Mutex<()> = Mutex::new(());
    let _alone = alone(&CHECKING);
    let checked = scratch(project, host, Flavor::Release)?.join("checked");
    if are_newer(std::slice::from_ref(&checked), &sources(project)?) {
        return Ok(());
    }
    for_each_source(host, |source| compiler(project, host, source).arg("-fsyntax-only").go())?;
    Ok(std::fs::write(checked, "")?)
}

/// The inputs of modules except the library. The code that compiles and links them is one of them;
/// the rest of this program is not.
fn sources(project: &Project) -> Result<Vec<PathBuf>> {
    let mut files =
        ["dropin/src/lib.rs", "tooling/src/portable.rs"].map(|source| project.path(source)).to_vec();
    for folder in ["dropin", "dropin/compat", "include"] {
        for entry in std::fs::read_dir(project.path(folder))? {
            files.push(entry?.path());
        }
    }
    Ok(files)
}

/// Returns whether all files are newer than their inputs. A missing file counts as older than
/// everything.
fn are_newer(built: &[PathBuf], inputs: &[PathBuf]) -> bool {
    let changed = |path: &PathBuf| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    built.iter().map(changed).min() > inputs.iter().map(changed).max()
}

/// Returns the folder in which the modules for a host are linked.
fn scratch(project: &Project, host: Host, flavor: Flavor) -> Result<PathBuf> {
    let folder = project.target.join("xtask").join(flavor.name(project)).join(host.name());
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Runs `work` on each source of the modules for a host, on all CPUs.
fn for_each_source(host: Host, work: impl Fn(&str) -> Result<String> + Sync) -> Result<()> {
    let mut sources: Vec<&str> = MODULES.iter().flat_map(|module| module.sources(host)).collect();
    sources.push(COMPAT);
    sources.sort_unstable();
    sources.dedup();
    let share = sources.len().div_ceil(tooling::machine::cores().max(1));
    let work = |share: &[&str]| share.iter().try_for_each(|source| work(source).map(drop));
    std::thread::scope(|scope| {
        let threads: Vec<_> = sources.chunks(share).map(|share| scope.spawn(move || work(share))).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| bail!("a thread that ran the compiler has panicked"))
        })
    })
}

/// Returns the command that compiles a source.
fn compiler(project: &Project, host: Host, source: &str) -> Run {
    let run = project.run(&project.compiler()).args(["-std=c++17", "-fPIC", "-Wall", "-Wextra", "-Werror"]);
    let run = run.args(["-fvisibility=hidden", "-fvisibility-inlines-hidden", "-ffunction-sections"]);
    let run = run.args(host.options()).arg(format!("-DCNTK_DROPIN_SERVES=\"{}\"", host.version));
    let run = run.arg("-I").arg(project.path("include"));
    run.arg(project.path(&format!("dropin/{source}.cpp")))
}

/// Checks that a module exports exactly the symbols of the module it replaces: others could shadow
/// symbols elsewhere.
fn check_exports(project: &Project, file: &Path, module: &Module) -> Result<()> {
    let symbols = project.run("nm").args(["-D", "--defined-only", "--format=posix"]).arg(file).output()?;
    let mut names: Vec<&str> = symbols.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.sort_unstable();
    ensure!(names == module.exports, "{} exports {}", file.display(), names.join(", "));
    Ok(())
}

/// Builds a driver of CNTK's native interfaces for a host and all others with the same strings;
/// returns its path.
pub fn driver(project: &Project, name: &str, host: Host) -> Result<PathBuf> {
    tools::need(project, &TOOLS)?;
    let file = driver_file(project, name, host);
    std::fs::create_dir_all(project.target.join("drivers"))?;
    let options = if host.has_own_driver() { host.options() } else { Vec::new() };
    let run = project.run(&project.compiler()).args(["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror"]);
    let run = run.args(options);
    // The standard string conversions are deprecated from C++17 on, without a successor.
    let run = run.args(["-Wno-deprecated-declarations"]).arg("-o").arg(&file);
    // CNTK's modules must find the driver's `sleep`.
    let run = run.arg("-rdynamic").arg(project.path(&format!("cpp_tests/{name}.cpp")));
    run.args(["-ldl", "-lpthread"]).go()?;
    Ok(file)
}

/// Returns the path that [`driver`] builds to. Hosts from GCC 5 on share a driver, which finds
/// their differences in the host's library.
pub fn driver_file(project: &Project, name: &str, host: Host) -> PathBuf {
    let drivers = project.target.join("drivers");
    match host.has_own_driver() {
        false => drivers.join(name),
        true => drivers.join(format!("{name}-{}", host.name())),
    }
}

/// The first host that the shared drivers support.
const SHARED_DRIVER: u32 = 20400;
