//! The tool on a terminal, in a pipe, and in a pipe that is closed early.

#![cfg(unix)]
#![allow(unsafe_code, reason = "openpty")]

mod common;

use common::{data, run, tool};
use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;

/// Columns of the pseudo-terminal.
const COLUMNS: u16 = 80;

/// Opens a pseudo-terminal. Returns the end for programs, and the other end.
fn terminal() -> (OwnedFd, File) {
    let (mut ours, mut theirs) = (0, 0);
    let size = libc::winsize { ws_row: 30, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
    let nothing = std::ptr::null_mut();
    // SAFETY: `ours` and `theirs` are integers that live until the end of the function; `openpty`
    // accepts NULL for the name and the settings, and only reads `size`.
    let opened =
        unsafe { libc::openpty(&mut ours, &mut theirs, nothing, nothing.cast(), &raw const size as *mut _) };
    assert_eq!(opened, 0, "a pseudo-terminal");
    // SAFETY: `openpty` succeeded, so both are open descriptors, and nothing else owns them.
    unsafe { (OwnedFd::from_raw_fd(theirs), File::from_raw_fd(ours)) }
}

/// Runs the tool on a terminal, and returns its exit code and everything it wrote there.
fn on_terminal(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
    let (theirs, mut ours) = terminal();
    let copy = || Stdio::from(theirs.try_clone().expect("a descriptor"));
    let mut command = tool(folder, arguments);
    command.envs(variables.iter().copied()).stdin(copy()).stdout(copy()).stderr(copy());
    let mut child = command.spawn().expect("the tool runs");
    // Both hold the terminal open in this process.
    drop(command);
    drop(theirs);
    let (mut bytes, mut block) = (Vec::new(), [0; 4096]);
    // Reading fails once no process has the terminal open.
    while let Ok(count @ 1..) = ours.read(&mut block) {
        bytes.extend_from_slice(&block[..count]);
    }
    let status = child.wait().expect("its end");
    (status.code().expect("an exit code"), String::from_utf8_lossy(&bytes).into_owned())
}

const BOLD: &str = "\x1b[1m";

#[test]
fn a_terminal_gets_tables_and_colors() {
    let (folder, _) = data(100);
    let folder = folder.path();
    let (code, text) = on_terminal(folder, &["order", "data.cntk", "--report"], &[]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains(BOLD) && text.contains("displacement (samples)"), "{text:?}");
    for variables in [&[("NO_COLOR", "1")], &[("TERM", "dumb")]] {
        let (_, text) = on_terminal(folder, &["order", "data.cntk", "--report"], variables);
        assert!(!text.contains('\x1b') && text.contains("displacement"), "{variables:?} {text:?}");
    }
    let (_, text) = on_terminal(folder, &["order", "data.cntk", "-n", "2"], &[]);
    assert!(text.contains("minibatch") && !text.contains('{'), "{text:?}");
    let (_, text) = on_terminal(folder, &["order", "data.cntk", "-n", "2", "--format", "ndjson"], &[]);
    assert!(text.contains("\"schema\":1") && !text.contains('\x1b'), "{text:?}");
}

#[test]
fn tables_fit_the_terminal() {
    let (folder, _) = data(100);
    let folder = folder.path();
    let line: String = (0..100).map(|number| format!(" {number}.25")).collect();
    std::fs::write(folder.join("wide.ctf"), format!("|x{line} |y 1:1\n")).expect("writing");
    let longest = |text: &str| text.lines().map(|line| line.trim_end().len()).max();
    let (_, text) = on_terminal(folder, &["head", "wide.ctf"], &[("NO_COLOR", "1")]);
    // Words of 6 bytes are cut so that " ..." fits.
    assert!(text.contains(" ...") && longest(&text).is_some_and(|most| (74..=80).contains(&most)), "{text}");
    let (_, text) = on_terminal(folder, &["head", "wide.ctf"], &[("NO_COLOR", "1"), ("COLUMNS", "60")]);
    assert!(text.contains(" ...") && longest(&text).is_some_and(|most| (54..=60).contains(&most)), "{text}");
    let (_, piped, _) = run(folder, &["head", "wide.ctf", "--format", "table"]);
    assert!(longest(&piped) > Some(100), "{piped}");
    for arguments in
        [&["info", "data.ctf"][..], &["order", "data.cntk"], &["bench", "data.cntk", "--repetitions", "1"]]
    {
        let (code, text) = on_terminal(folder, arguments, &[("NO_COLOR", "1")]);
        // The progress line is rewritten in place.
        let shown = text.lines().map(|line| line.rsplit('\r').find(|part| !part.is_empty()).unwrap_or(line));
        let longest = shown.filter(|line| !line.contains("load")).map(|line| line.len()).max();
        assert!(code == 0 && longest <= Some(80), "{text}");
    }
}

#[test]
fn order_reports_on_a_terminal_unless_a_list_is_requested() {
    let (folder, _) = data(100);
    let folder = folder.path();
    let (code, text) = on_terminal(folder, &["order", "data.cntk"], &[]);
    assert!(code == 0 && text.contains("displacement") && !text.contains("minibatch  sweep"), "{text}");
    let (_, text) = on_terminal(folder, &["order", "data.cntk", "-n", "2"], &[]);
    assert!(text.contains("minibatch  sweep") && !text.contains("displacement"), "{text}");
    let (_, text) = on_terminal(folder, &["order", "data.cntk", "--digest"], &[]);
    assert!(text.contains("100 sequences") && text.lines().count() == 1, "{text}");
}

#[test]
fn bench_has_one_progress_line() {
    let (folder, _) = data(100);
    let bench = ["bench", "data.cntk", "--repetitions", "1", "--threads-list", "1"];
    let (code, text) = on_terminal(folder.path(), &bench, &[]);
    assert!(code == 0 && text.contains("Timing 'pack' with 1 thread"), "{text}");
    let (code, _, errors) = run(folder.path(), &bench);
    assert_eq!((code, errors.as_str()), (0, ""));
}

#[test]
fn a_pipe_gets_neither_colors_nor_progress() {
    let (folder, _) = data(100);
    let (code, text, errors) = run(folder.path(), &["order", "data.cntk", "-n", "2"]);
    assert_eq!((code, errors.as_str(), text.lines().count()), (0, "", 3));
    assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
    for arguments in [&["order", "data.cntk", "--report"][..], &["convert", "data.cntk", "data.cbf"]] {
        let (code, text, errors) = run(folder.path(), arguments);
        assert_eq!((code, errors.as_str()), (0, ""));
        assert!(!text.contains('\x1b') && !text.is_empty());
    }
}

#[test]
fn progress_is_shown_on_a_terminal_unless_it_is_unwanted() {
    let (folder, _) = data(60_000);
    let folder = folder.path();
    let convert = ["convert", "data.cntk", "out.ctf"];
    let (code, text) = on_terminal(folder, &convert, &[]);
    assert!(code == 0 && text.contains("Converting") && text.contains("sequences in"), "{text:?}");
    let (code, text) = on_terminal(folder, &[&convert[..], &["-q"]].concat(), &[]);
    assert!(code == 0 && !text.contains("Converting") && text.contains("sequences in"), "{text:?}");
}

#[test]
fn closed_pipe_ends_the_tool_silently() {
    let (folder, _) = data(20_000);
    let mut child = tool(folder.path(), &["order", "data.cntk"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the tool runs");
    let mut first = [0; 10];
    let mut out = child.stdout.take().expect("a pipe");
    out.read_exact(&mut first).expect("some of the list");
    drop(out);
    let ended = child.wait_with_output().expect("its end");
    assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""));
}
