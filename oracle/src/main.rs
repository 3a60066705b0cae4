//! `cargo xtask oracle`, `cargo xtask cntk-python` and other comparisons with real CNTK.

use std::process::ExitCode;

fn main() -> ExitCode {
    tooling::cli::main(oracle::run)
}
