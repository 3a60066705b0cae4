//! `cargo xtask package` and `cargo xtask release`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tooling::cli::main(packaging::run)
}
