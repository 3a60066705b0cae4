//! Times reading of generated images, and checks the pixels.
//!
//! `cargo xtask bench --images` generates the images and runs each measurement in a separate
//! process:
//!
//! ```text
//! images generate FOLDER COUNT
//!     writes images, a map file and a mean image, and `sums.json` when they are complete
//! images decode FOLDER THREADS
//!     prints the time to read and decode all files, and sums of all values, as one line of JSON
//! images measure CONFIG MINIBATCH SWEEPS [check]
//!     prints times of opening and of the sweeps, counts, and allocations for each image of the
//!     last sweep as one line of JSON; `check` reads once more and adds sums of all values
//! ```

#[path = "../sweeps/allocations.rs"]
mod allocations;
mod decode;
mod generate;
mod measure;
#[path = "../sweeps/random.rs"]
mod random;
mod sums;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str =
    "usage: images generate FOLDER COUNT | decode FOLDER THREADS | measure CONFIG MINIBATCH SWEEPS [check]
(`cargo xtask bench --images` runs this program)";

fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    match arguments {
        ["generate", folder, count] => generate::generate(Path::new(folder), count.parse()?)?,
        ["decode", folder, threads] => println!("{}", decode::decode(Path::new(folder), threads.parse()?)?),
        ["measure", config, minibatch, sweeps, flags @ ..] => {
            let (minibatch, sweeps) = (minibatch.parse()?, sweeps.parse()?);
            println!("{}", measure::measure(Path::new(config), minibatch, sweeps, flags.contains(&"check"))?);
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
