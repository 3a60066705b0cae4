//! The steps of `cargo xtask test`, quick ones first. Each builds what it needs, so each can
//! run alone.

use crate::packages::{self, BENCHES, ORACLE};
use crate::{
    abi, api, attack, build, consumers, deny, differences, docs_site, fmt, guide, header, layers, lint,
    platforms, python_tests, repository, rust_tests, sanitize, schedules, shells, shipped, symbols, torch,
    trust, workflows,
};
use anyhow::Result;
use examples::{csharp, demo, ends, images, mpi, speech};
use tooling::project::Project;
use tooling::tools::{self, Tool};
use tooling::{Tally, dist, drivers, joint};

/// The forms of a run of steps. Each has the steps of those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// `cargo xtask test`.
    Short,
    /// `cargo xtask test --all`.
    All,
    /// `cargo xtask test --long`.
    Long,
}

impl Form {
    /// Its name in the list of steps.
    pub fn name(self) -> &'static str {
        match self {
            Form::Short => "short",
            Form::All => "all",
            Form::Long => "long",
        }
    }
}

/// A step.
pub struct Step {
    /// Its name.
    pub name: &'static str,
    /// Description of the check, in lower case.
    pub what: &'static str,
    /// Runs it. An error counts as one failed check.
    pub work: fn(&Project) -> Result<Tally>,
    /// The shortest run that it is part of.
    pub form: Form,
    /// May run beside other steps: it needs none of their products but the library, and they need
    /// none of its.
    pub is_apart: bool,
}

const fn step(name: &'static str, what: &'static str, work: fn(&Project) -> Result<Tally>) -> Step {
    Step { name, what, work, form: Form::All, is_apart: false }
}

const fn short(name: &'static str, what: &'static str, work: fn(&Project) -> Result<Tally>) -> Step {
    Step { form: Form::Short, ..step(name, what, work) }
}

const fn long(name: &'static str, what: &'static str, work: fn(&Project) -> Result<Tally>) -> Step {
    Step { form: Form::Long, ..step(name, what, work) }
}

const fn apart(name: &'static str, what: &'static str, work: fn(&Project) -> Result<Tally>) -> Step {
    Step { is_apart: true, ..step(name, what, work) }
}

/// All steps, in order. Steps marked as apart run one after the other on a second thread, from the
/// time when the first of them is due.
pub const ALL: &[Step] = &[
    short("rustfmt", "the Rust code is formatted", |project| {
        fmt::rust(project, true).and_then(|()| Tally::passed(1))
    }),
    short("clang-format", "the C++ code is formatted", clang_format),
    short("links", "no link of a document is broken", repository::links),
    short("differences", "each way in which CNTK 2.7 fails has a test of what happens here", |project| {
        let kept = differences::check(project)?;
        say!("      {kept}");
        Tally::passed(kept.kills())
    }),
    short("paths", "no file names a machine's paths", |project| {
        repository::machine_paths(project).and_then(|_| Tally::passed(1))
    }),
    short(
        "layers",
        "crates import only those below them, and no folders of a crate each other",
        layers::step,
    ),
    short("trust", "docs/trust.md has each promise", |project| Tally::passed(trust::check(project)?)),
    step(
        "deny",
        "licences, versions, sources and reasons of the crates that the project is built from",
        deny::step,
    ),
    step(
        "workflows",
        "actionlint and zizmor find no mistakes in the workflows under .github",
        workflows::step,
    ),
    step("clippy", "clippy reports nothing", clippy),
    step(
        "platforms",
        "the library, the tool and the Python extension module compile for musl, Windows and macOS",
        platforms::step,
    ),
    step("rustdoc", "the Rust documentation builds without warnings", rustdoc),
    step("site", "the documentation site: its pages in a browser, its links, its search", |project| {
        with_luxuries(project, &[Tool::Doxygen, Tool::Chromium], docs_site::step)
    }),
    step("api", "the public API of the Rust library is the committed one", api::step),
    short("header", "the C header is that of the Rust code", |project| {
        header::check(project).and_then(|()| Tally::passed(1))
    }),
    short("rust", "Rust tests: units, golden records, integration", rust_tests::step),
    short("tool", "the command-line tool: its commands, in a pipe", rust_tests::tool),
    step("shells", "completions in bash, zsh and fish, on a pseudo-terminal", |project| {
        with_luxuries(project, &[Tool::Shells], shells::step)
    }),
    apart("python-lint", "style and types of the Python package", lint::step),
    apart(
        "torch",
        "what needs PyTorch: tests of the package, the guide's page, the example on 1 to 3 ranks, killed and resumed",
        torch::step,
    ),
    short("symbols", "the shared library's exported symbols, and one ABI number everywhere", library_symbols),
    short("abi", "the ABI is the committed one", |project| {
        with_luxuries(project, &[Tool::Abigail], abi::check)
    }),
    short(
        "consumers",
        "the programs of the README and of the C header, by CMake and by pkg-config",
        use_installed,
    ),
    short("replay", "golden records through the C++ header", |project| {
        let dist = dist::build(project)?;
        project.part("drivers", || drivers::build(project, &dist))?;
        packages::replay(project, 1, &project.target.join("drivers"), &[])
    }),
    short(
        "python",
        "the Python package, in the checkout and as its wheel installs it in each Python",
        python_tests::step,
    ),
    step(
        "edges",
        "Python's edges: interrupts, garbage collection, forks, ends of threads",
        python_tests::edges,
    ),
    step("attack", "random cases against models that are written in Python", attack::step),
    step("oracle", "golden and random cases against real CNTK", |project| {
        built(project)?;
        packages::step(project, ORACLE, &["oracle"])
    }),
    step(
        "dropin",
        "golden and random cases inside real CNTK, by the modules in place of all or some of its own",
        |project| {
            built(project)?;
            packages::step(project, ORACLE, &["dropin"])
        },
    ),
    step(
        "operator",
        "the scripts that install the modules without Rust, in made-up CNTKs, killed at each step",
        dropin::operator::step,
    ),
    step("old-cntk", "the same inside CNTK 2.0 to 2.4, where CNTK_OLD_HOST has one", |project| {
        packages::step(project, ORACLE, &["old-cntk"])
    }),
    step(
        "cntk-python",
        "reading and training in Python under real CNTK, with the modules in its modules' place",
        |project| {
            built(project)?;
            packages::step(project, ORACLE, &["cntk-python"])
        },
    ),
    step("resume", "the digits example learns, and resumes to the same weights", |project| {
        demo::build(project)?;
        demo::resume(project).and_then(|_| Tally::passed(1))
    }),
    step(
        "speech",
        "the speech example: its corpus is made, its classifier learns, and resumes",
        speech::step,
    ),
    step(
        "images",
        "the examples of images: a classifier learns and resumes, contact sheets; the guide's programs and pictures",
        images::step,
    ),
    step(
        "ends",
        "the examples end by signals, stops, damaged and missing data, and closed output",
        ends::step,
    ),
    step("guide", "the pages of the guide: files saved, commands run, their output compared", guide::step),
    step("mpi", "the MPI example on 1 to 4 ranks, resumed by others, and with an error on one", |project| {
        with_luxuries(project, &[Tool::Mpi], mpi::check)
    }),
    step("csharp", "the C# example", |project| with_luxuries(project, &[Tool::Mono], csharp::check)),
    step("cpp", "C++ tests under two sanitizers, and CMake projects that use the library", cpp),
    step("valgrind", "every tenth golden record under Valgrind", |project| sanitize::valgrind(project, 10)),
    step("bench", "the benchmarks on small data, answers checked", |project| {
        packages::step(project, BENCHES, &[])
    }),
    long(
        "fuzz",
        "inputs that coverage finds, for all formats, calls and ways to the same result",
        fuzz_runs::step,
    ),
    long(
        "schedules",
        "protocols between threads, each under thousands of orders of their steps",
        schedules::step,
    ),
    long("shipped", "golden records by the library as it is shipped", shipped::step),
];

fn clang_format(project: &Project) -> Result<Tally> {
    tools::need(project, &[Tool::ClangFormat])?;
    Tally::passed(fmt::cpp(project, true)?)
}

fn clippy(project: &Project) -> Result<Tally> {
    let all = ["--workspace", "--all-targets", "--features", "cntk-reader-cli/arrow", "--", "-D", "warnings"];
    dist::release(project, "clippy").args(all).go()?;
    // Users may leave out features of the library.
    let library = ["--package", "cntk-reader", "--lib", "--no-default-features", "--", "-D", "warnings"];
    dist::release(project, "clippy").args(library).go()?;
    fuzz_runs::clippy(project)?;
    let passed = Tally::passed(3)?;
    if project.long { Ok(passed.and(each_crate_alone(project)?)) } else { Ok(passed) }
}

/// Tests each crate of the library alone, with each of its features alone: in a workspace, cargo
/// gives a crate all features that any other one asks for.
fn each_crate_alone(project: &Project) -> Result<Tally> {
    if project.cargo("hack").arg("--version").silent().go().is_err() {
        return Tally::skipped("each crate alone: cargo-hack is missing (cargo install cargo-hack)");
    }
    let hack = dist::release(project, "hack").args(["test", "--lib", "--each-feature", "--keep-going"]);
    hack.args(packages::library()).go()?;
    Tally::passed(joint::LIBRARY.len())
}

/// The documentation includes private items, so that links to them are no warnings.
fn rustdoc(project: &Project) -> Result<Tally> {
    let run = dist::release(project, "doc").args(packages::library()).arg("--no-deps");
    let run = run.arg("--document-private-items");
    run.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links")
        .go()
        .and_then(|_| Tally::passed(1))
}

fn library_symbols(project: &Project) -> Result<Tally> {
    tools::need(project, &[Tool::Binutils])?;
    let dist = dist::build(project)?;
    Tally::passed(symbols::check(project, &dist)?)
}

/// Everything that `cargo xtask build` makes.
fn built(project: &Project) -> Result<()> {
    build::everything(project).map(drop)
}

/// Runs a step that needs tools which not every machine can have. The step is skipped, and says
/// why, where they are missing and cannot be installed.
fn with_luxuries(project: &Project, luxuries: &[Tool], work: fn(&Project) -> Result<Tally>) -> Result<Tally> {
    tools::need(project, &drivers::TOOLS)?;
    match tools::need(project, luxuries) {
        Ok(()) => work(project),
        Err(reason) => Tally::skipped(format!("{reason:#}")),
    }
}

/// Runs the C++ tests, among them a project that builds the library itself from the crates already
/// compiled. Rust tests run under sanitizers only in `cargo xtask sanitize`, which compiles the
/// standard library and all crates again.
fn cpp(project: &Project) -> Result<Tally> {
    if let Err(reason) = tools::need(project, &[Tool::Clang]) {
        say!("      without Clang, which the headers are compiled with beside GCC: {reason:#}");
    }
    let cargo_target = format!("-DCNTK_READER_CARGO_TARGET_DIR={}", project.target.display());
    let options = ["-DCNTK_READER_TEST_SUBDIRECTORY=ON", &cargo_target];
    sanitize::cpp(project, "address,undefined", &options)
}

/// Projects that use the installed library.
fn use_installed(project: &Project) -> Result<Tally> {
    tools::need(project, &[&drivers::TOOLS[..], &[Tool::PkgConfig]].concat())?;
    consumers::check(project)
}
