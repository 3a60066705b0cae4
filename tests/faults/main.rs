//! File errors, killed processes, and long runs: every fault at every system call, `kill -9` at
//! every call that writes, and many concurrent readers for any length of time.
#![cfg(all(feature = "compression", feature = "images"))]
#![cfg(all(target_os = "linux", target_env = "gnu"))]

mod calls;
#[path = "../common/mod.rs"]
mod common;
mod data;
mod every_call;
#[path = "../naive/mod.rs"]
mod naive;
mod soak;
mod watchdog;
mod writing;

use cntk_reader_core::testing;
use every_call::Report;
use std::sync::{Mutex, MutexGuard, PoisonError};
use watchdog::Watchdog;

/// Lets one test run at a time, because faults affect the whole process.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    common::quiet();
    calls::skip_pauses(true);
    turn
}

/// The short form tests one in this many combinations of data, fault and call.
const STRIDE: usize = 17;

fn stride() -> usize {
    if testing::is_long() { 1 } else { STRIDE }
}

#[test]
fn every_fault_at_every_call_of_reading() {
    let _turn = turn();
    let watchdog = Watchdog::new(1);
    let mut report = Report::default();
    data::ALL.iter().for_each(|kind| every_call::faults(kind, stride(), &mut report, &watchdog));
    report.finish("reading");
}

#[test]
fn every_fault_at_every_call_of_writing() {
    let _turn = turn();
    let watchdog = Watchdog::new(1);
    let mut report = Report::default();
    writing::faults(stride(), &mut report, &watchdog);
    report.finish("writing");
}

/// Processes that are killed while they write: 10, and 500 in the long form.
#[test]
fn kills_at_any_moment() {
    let _turn = turn();
    let watchdog = Watchdog::new(1);
    writing::kills(if testing::is_long() { 500 } else { 10 }, &watchdog);
}

/// The program of a child that is killed. Does nothing unless the test above started this process.
#[test]
fn child_writes() {
    writing::child_writes();
}

#[test]
fn every_change_of_data_at_every_call() {
    let _turn = turn();
    let watchdog = Watchdog::new(1);
    let mut report = Report::default();
    data::ALL.iter().for_each(|kind| every_call::changes(kind, stride(), &mut report, &watchdog));
    report.finish("changed files");
}

/// Eight readers for 20 seconds; `cargo xtask soak` runs them for any length of time.
#[test]
fn many_readers_for_a_while() {
    soak::soak();
}

/// The program of the child in which they read. Does nothing unless the test above started this
/// process.
#[test]
fn child_soaks() {
    common::quiet();
    calls::skip_pauses(true);
    soak::child_soaks();
}
