//! The project's own commands: `cargo xtask COMMAND`.

#[macro_use]
extern crate tooling;

mod abi;
mod ahead;
mod api;
mod attack;
mod build;
mod consumers;
mod coverage;
mod deny;
mod differences;
mod docs_site;
mod fmt;
mod guide;
mod header;
mod layers;
mod lint;
mod modules;
mod mutants;
mod packages;
mod platforms;
mod port;
mod python_tests;
mod repository;
mod reproducible;
mod rust_tests;
mod sanitize;
mod schedules;
mod shells;
mod shipped;
mod soak;
mod steps;
mod symbols;
mod test;
mod torch;
mod trust;
mod wheel;
mod workflows;

use anyhow::{Result, bail};
use examples::demo;
use lexopt::Parser;
use lexopt::prelude::*;
use packages::{BENCHES, ORACLE, PACKAGING};
use std::process::ExitCode;
use tooling::cli::no_more;
use tooling::console;
use tooling::project::Project;

const HELP: &str = "\
cargo xtask COMMAND [OPTIONS]

  build                    everything in release mode: library, headers and CMake package under target/dist,
                           drivers under target/drivers, examples under target/examples
  demo                     trains a digit classifier from C++, stops and resumes it, compares the weights, checks its accuracy
  test [STEP ...]          the short run: Rust, C and C++, Python and the tool, in about a quarter of an hour on two CPUs
      --all                all steps, as before a change is merged: also lints, real CNTK, sanitizers, examples, packages
      --list               lists the steps
      --keep-going         continues after a failed step
      --long               all steps in their long form: ten times as many random cases, faults at every call, 500 kills;
                           examples/distributed under Ray too; each crate with each feature alone, the Python tests in the checkout too,
                           its package built from source, Rust tests as the library is shipped
  bench                    times the reading of generated data, and records the result under benches/record
      --counts             counts its instructions with Callgrind
      --against-cntk       beside CNTK's own modules, which it installs under target/oracle
      --family SEED        like --against-cntk, with 30 shapes of text drawn from the seed, and 6 that resemble public corpora
      --parser             one parsing thread, and what limits it
      --peers              beside polars, pyarrow, DuckDB, xgboost and scikit-learn, which it installs under target/peers
      --csv                a CSV table read by user deserializers in CNTK, in this library's Python, and in Rust
      --speech             features and labels of speech, beside CNTK, kaldi_native_io, kaldiio and NumPy, which it installs
                           under target/oracle and target/speech-peers
      --images             JPEG images and their transforms, beside CNTK, decoders, and PyTorch's DataLoader, which it installs
                           under target/oracle and target/image-peers (5 GB)
      --python             padded token ids in Python, beside PyTorch's DataLoader, HF datasets, mosaicml-streaming and Grain, which it
                           installs under target/torch (7 GB)
      --size MB            size of each data set (default 200; beside others 100, --parser 32, --csv 316, --speech features 160,
                           --images 115)
      --first-size MB      beside CNTK, size of the data whose first minibatch is timed (default: --size)
      --repetitions N      number of measurements (default 5; --speech and --python 3, without others 1); medians are reported
      --threads N,N        numbers of loading threads, and beside CNTK also of CPUs: alone, beside CNTK, --speech, --images (default 1,2)
      --shape NAME         one shape of data instead of all
      --minibatch N        alone and beside CNTK, minibatch size (default 256)
      --version V          beside CNTK 2.7 (default), 2.6 or 2.5.1, also of speech and of images
      --no-record          prints the result only
      --dirty              keeps a record even if files differ from the commit; the record says so
  oracle                   compares with real CNTK, which it installs under target/oracle: the golden cases, and random ones
      --cases N            number of random cases (default 300)
      --seed S             seed of the first one; the next has S + 1 (default 1)
      --kind NAME          random cases of this kind only: text, binary, bundle, htk or image
      --no-golden          random cases only
      --module             this project's composite module in CNTK instead of the C++ header; also a third-party module
      --exits N            with --module, runs of a program that ends while chunks are loaded, each way (default 30)
      --version V          2.7 (default), 2.6 or 2.5.1; with --module also 2.4, 2.3.1, 2.1, 2.0 and 2.0.beta15, if the folder
                           $CNTK_OLD_HOST has a subfolder of this name with its libraries in libs;
                           with the suffix -gcc5 it has the strings of GCC 5
      --write FOLDER       writes the random cases there instead of comparing them
      --threads N          cases at a time (default 3)
  fuzz                     coverage-guided fuzzing with libFuzzer, for 10 minutes; see fuzz/README.md
      --minutes N          time for all targets together
      --target NAME        this target instead of all, may be repeated; --list lists them
      --jobs N             number of targets that run at once (default: one for each CPU)
      --input FILE         reruns one input of a target
      --minimize           adds the best inputs found to the corpora under fuzz/corpus
      --record             adds the runs since the last record to fuzz/record.md
      --sanitizer address  with this sanitizer
      --corpora FOLDER     where found inputs are kept (default target/fuzz/corpus)
  attack                   random cases against models in Python, for 5 minutes, from the seed of the day; see attack/README.md
      --minutes N          for this long
      --kind NAME          cases of this kind only: ctf, order, resume, convert, pack, kaldi, htk or images; may be repeated
      --seed S --cases N   N cases of each kind from this seed on
      --self-check         whether the models notice faults
  sanitize [KIND ...]      the tests under sanitizers: address, thread and memory (Rust, its standard library instrumented, which
                           takes Debian's Rust), undefined (C++ and the modules inside CNTK), valgrind; without names all of them
  mutants [MODULE ...]     finds small changes of the code that the unit tests of its module do not notice, with cargo-mutants
      --share K/N          every Nth of them, from the Kth on
  coverage                 the lines and branches of the library that its Rust tests execute, with cargo-llvm-cov
  schedules                the protocols between the library's threads under many orders of their steps
      --long               100,000 orders of each instead of 1,000, from a fresh seed
      --schedules N        number of orders
      --seed S             seed of the first order (default 1)
  soak                     eight readers in one process, random uses and faults: answers are checked, memory must not grow
      --minutes N          for how long (default 30)
      --seed S             seed of their actions (default: a different one each time)
  dropin                   the modules that CNTK 2.0 to 2.7 load in place of their own, in target/dropin with the scripts that
                           install them on machines without Rust
      --host VERSION       for this version of CNTK alone: 2.0.beta15 to 2.7
      check --libs DIRS    runs the golden cases through them, with the CNTK found in DIRS (a:b:c) around them;
                           --originals: through CNTK's own modules, too
      install --libs DIR   builds them for the CNTK in DIR, and runs the script that puts them into its folder
                           --untried: also where they have never run (CNTK 2.5, 2.3, 2.2, 2.0rc3)
      restore --libs DIR   puts the originals back
  cntk-python [NAME ...]   compares reading and training in Python under real CNTK, which it installs under target/oracle: with
                           CNTK's own reader modules and with this project's; the cases whose names begin with NAME, or
                           all of them and training
      --version V          2.7 (default), 2.6, 2.5.1, or all
      --short              the cases of the step in `cargo xtask test`
      --below-original     CNTK's composite module over this project's others
  wheel                    the Python package as one file under target/wheel, library and command-line tool inside; maturin
                           and Zig, which it takes from PyPI, build it for glibc 2.17 and newer
      --sdist              its sources instead, which pip builds with maturin and cargo
      --target aarch64     for this processor; needs Rust's standard library for it, and an emulator
      --target windows     for Windows on x86-64, with MinGW, under target/windows/wheel; checked, not imported
      --target musl        for Linux with musl on x86-64, under target/musl/wheel; loaded by musl's linker, not imported
      --target musl-aarch64    for Linux with musl on 64-bit ARM, under target/musl-aarch64/wheel; checked, not loaded
      --free-threaded PYTHON   for this free-threaded Python, 3.14 or newer with NumPy, under target/free-threaded;
                           3.14 instead of a path needs no Python, and tries nothing
  package KIND ...         builds packages of these kinds, installs them in an empty place and uses them there; without a kind,
                           lists the kinds
  release --dry-run        from a clean checkout to all files of a release, under target/release-VERSION, with their
                           checksums, and the steps that a maintainer does by hand; publishes nothing
      --only NAME          these packages only, may be repeated; --list lists them
      --reviewed-abi       accepts what abidiff reports besides additions since the last release
  platforms [NAME ...]     other systems: Windows under Wine, Linux with musl, and macOS, which is only linked; builds library and
                           tool with Debian's Rust and its sources, MinGW or Zig, and runs the tests
  port                     other processors: the Rust tests and the golden records on 64-bit ARM under an emulator, and the
                           refusal of processors on which the library would be wrong
      --short              the tests of the library's modules, and every tenth record
  reproducible             builds the library twice, in different folders, and compares the bytes
  trust [NAME ...]         runs the commands that verify the library's promises, those that take seconds or those named, and
                           writes their figures into docs/trust.md
      --all                everything, which takes hours
  docs                     the documentation site under target/site: the Markdown, the references of Python, Rust, C and C++, one search
  header                   writes the C headers in include/ from the Rust code
  api                      writes the list of the Rust library's public items, xtask/api/cntk_reader.txt
  abi                      writes the list of the header's functions and a dump of its ABI, under xtask/abi
  share                    writes the tool's manual pages and completions, which the wheel installs, under
                           python/cntk_reader.data
  fmt                      formats Rust and C++ code

  -v, --verbose            with every command: shows the output of the programs it runs
";

/// Runs the command named by the arguments.
fn run(project: &Project, mut parser: Parser) -> Result<()> {
    let command = match parser.next()? {
        None | Some(Short('h') | Long("help")) => "help".to_owned(),
        Some(Value(command)) => command.string()?,
        Some(option) => return Err(option.unexpected().into()),
    };
    match command.as_str() {
        "attack" => attack::command(project, parser),
        "build" => no_more(&mut parser).and_then(|()| build::command(project)),
        "demo" => no_more(&mut parser).and_then(|()| demo::command(project)),
        "test" => test::command(project, parser),
        "bench" => packages::instead(project, BENCHES, &command, parser),
        "oracle" | "cntk-python" => packages::instead(project, ORACLE, &command, parser),
        "fuzz" => fuzz_runs::command(project, parser),
        "sanitize" => sanitize::command(project, parser),
        "schedules" => schedules::command(project, parser),
        "mutants" => mutants::command(project, parser),
        "coverage" => no_more(&mut parser).and_then(|()| coverage::command(project)),
        "soak" => soak::command(project, parser),
        "docs" => no_more(&mut parser).and_then(|()| docs_site::command(project)),
        "dropin" => modules::command(project, parser),
        "platforms" => platforms::command(project, parser),
        "port" => port::command(project, parser),
        "reproducible" => no_more(&mut parser).and_then(|()| reproducible::command(project)),
        "trust" => trust::command(project, parser),
        "package" | "release" => packages::instead(project, PACKAGING, &command, parser),
        "wheel" => wheel::command(project, parser),
        "header" => no_more(&mut parser).and_then(|()| header::command(project)),
        "api" => no_more(&mut parser).and_then(|()| api::command(project)),
        "abi" => no_more(&mut parser).and_then(|()| abi::command(project)),
        "share" => no_more(&mut parser).and_then(|()| shells::share(project)),
        "fmt" => no_more(&mut parser).and_then(|()| fmt::command(project)),
        "help" => {
            console::print(format_args!("{HELP}"));
            Ok(())
        }
        unknown => bail!("There is no command '{unknown}'.\n\n{HELP}"),
    }
}

fn main() -> ExitCode {
    tooling::cli::main(run)
}
