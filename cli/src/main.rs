//! The program `cntk-reader`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(cntk_reader_cli::run(std::env::args_os()))
}
