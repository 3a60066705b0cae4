//! Ways out of the example programs: a signal in the middle of an epoch, a stop between
//! checkpoints, damaged or missing data, and output that nobody reads. Each program ends with the
//! exit code that its user expects, and none hangs.

use crate::{images, speech};
use anyhow::{Context, Result, ensure};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tooling::cmake::Build;
use tooling::dist::{self, Dist};
use tooling::project::{Project, empty_folder};
use tooling::{Tally, drivers, tools};

/// Seconds before a program gets its signal, and seconds after which one that is still there is
/// killed, which shows in its exit code.
const DELAY: &str = "0.7";
const PATIENCE: &str = "30";

/// The exit code that a shell reports for a program which a signal has ended.
const SIGNALS: [(&str, i32); 3] = [("INT", 130), ("TERM", 143), ("KILL", 137)];

/// Builds the examples and ends them in each way. In the long form they are built with sanitizers,
/// whose findings, leaks included, change the exit code.
pub fn step(project: &Project) -> Result<Tally> {
    tools::need(project, &drivers::TOOLS)?;
    let dist = dist::build(project)?;
    let scratch = project.target.join("xtask/ends");
    empty_folder(&scratch)?;
    let digits = project.path("examples/data");
    let mut trainings = vec![(program(project, &dist, "cpp", "train_digits")?, digits.clone())];
    if tools::on_path("python3").is_some() {
        trainings.push((program(project, &dist, "speech", "train_phones")?, speech::corpus(project)?));
        trainings.push((program(project, &dist, "images", "train_shapes")?, images::corpus(project)?));
    }
    let mut passed = 0;
    for (program, data) in &trainings {
        passed += by_signals(program, data)?;
        passed += by_stop(program, data, &scratch)?;
        passed += by_missing_data(program, &scratch.join("nowhere"))?;
    }
    let print = program(project, &dist, "c", "print_minibatches")?;
    passed += by_damage(&trainings[0].0, &digits, &scratch)?;
    passed += by_closed_output(&print, &digits)?;
    Tally::passed(passed)
}

/// An example program, under sanitizers in the long form.
fn program(project: &Project, dist: &Dist, language: &str, name: &str) -> Result<PathBuf> {
    if !project.long {
        crate::example(project, dist, language, name)?;
        return Ok(project.target.join("examples").join(name));
    }
    let flags = "-O1 -g -fsanitize=address,undefined -fno-omit-frame-pointer";
    let options = ["C", "CXX"].map(|kind| format!("-DCMAKE_{kind}_FLAGS={flags}"));
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let folder = format!("cmake/ends-{language}");
    let build = Build::configure(project, dist, &format!("examples/{language}"), &folder, &options)?;
    build.build(None)?;
    Ok(build.file(name))
}

/// Training without end is stopped by each signal.
fn by_signals(program: &Path, data: &Path) -> Result<usize> {
    for (signal, code) in SIGNALS {
        let mut command = Command::new("timeout");
        command.args(["--preserve-status", "-k", PATIENCE, "-s", signal, DELAY]).arg(program);
        command.arg("--data").arg(data).args(["--epochs", "1000000"]).stdout(Stdio::null());
        expect(&mut command, code, &format!("SIG{signal} while it trains"))?;
    }
    Ok(SIGNALS.len())
}

/// The program returns from the middle of an epoch, while minibatches are prefetched.
fn by_stop(program: &Path, data: &Path, scratch: &Path) -> Result<usize> {
    let mut command = patient(program);
    command.arg("--data").arg(data).arg("--checkpoint").arg(scratch.join("checkpoint"));
    expect(command.args(["--stop-after", "7"]), 0, "a stop after 7 minibatches")?;
    Ok(1)
}

fn by_missing_data(program: &Path, nowhere: &Path) -> Result<usize> {
    let output = expect(patient(program).arg("--data").arg(nowhere), 1, "missing data")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(said.contains("nowhere"), "The message does not name the missing data:\n{said}");
    Ok(1)
}

/// A number in the last line but one is damaged: reading fails long after training has begun.
fn by_damage(program: &Path, digits: &Path, scratch: &Path) -> Result<usize> {
    let damaged = scratch.join("damaged");
    std::fs::create_dir(&damaged)?;
    std::fs::copy(digits.join("digits.test.ctf"), damaged.join("digits.test.ctf"))?;
    let text = std::fs::read_to_string(digits.join("digits.train.ctf"))?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let count = lines.len();
    let line = lines.get_mut(count.wrapping_sub(2)).context("the digits have lines")?;
    line.push('x');
    std::fs::write(damaged.join("digits.train.ctf"), lines.join("\n") + "\n")?;
    let output = expect(patient(program).arg("--data").arg(&damaged), 1, "a damaged line")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let place = format!("line {}", count - 1);
    ensure!(said.contains(&place), "The message does not name {place}:\n{said}");
    Ok(1)
}

/// The reader of the program's output has gone: SIGPIPE ends a C program.
fn by_closed_output(program: &Path, digits: &Path) -> Result<usize> {
    let (reading, writing) = std::io::pipe()?;
    drop(reading);
    let mut command = patient(program);
    command.args(["-n", "1000"]).arg(digits.join("digits.train.ctf"));
    command.args(["labels:10:sparse", "features:64:dense"]).stdout(writing);
    expect(&mut command, 141, "closed output")?;
    Ok(1)
}

/// A program that is killed if it hangs.
fn patient(program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "1", PATIENCE]).arg(program).stdout(Stdio::null());
    command
}

/// Runs a command, and fails unless it ends with an exit code.
fn expect(command: &mut Command, code: i32, way: &str) -> Result<Output> {
    command.stdin(Stdio::null()).stderr(Stdio::piped());
    let output = command.spawn().context("starting `timeout`")?.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    // As in a shell. `timeout` kills itself with the signal SIGKILL.
    let ended = output.status.code().or_else(|| output.status.signal().map(|signal| 128 + signal));
    ensure!(ended == Some(code), "{way}: {}, not {code}: {command:?}\n{said}", output.status);
    Ok(output)
}
