//! Times reading of a generated corpus of speech features and labels, and checks the features.
//!
//! `cargo xtask bench --speech` generates the corpus and runs each measurement in a separate
//! process:
//!
//! ```text
//! speech generate FOLDER UTTERANCES FRAMES VALUES [files]
//!     writes a corpus in all formats, with `files` also as a file for each utterance, and its sums
//!     when it is complete
//! speech measure CONFIG MINIBATCH TRUNCATION [check]
//!     prints times of opening and of two sweeps, and counts, as one line of JSON; `check` reads
//!     the stream `features` once more and adds its sums, for data in the order of the corpus
//! speech open CONFIG
//!     prints the time of opening, and the memory of the open reader, as one line of JSON
//! ```

mod generate;
mod live;
mod measure;
#[path = "../sweeps/random.rs"]
mod random;
mod sums;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: speech generate FOLDER UTTERANCES FRAMES VALUES [files] | measure CONFIG MINIBATCH TRUNCATION [check] |
       open CONFIG
(`cargo xtask bench --speech` runs this program)";

fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    match arguments {
        ["generate", folder, utterances, frames, values, flags @ ..] => {
            let size = generate::Size {
                utterances: utterances.parse()?,
                frames: frames.parse()?,
                values: values.parse()?,
            };
            generate::generate(Path::new(folder), size, flags.contains(&"files"))?;
        }
        ["measure", config, minibatch, truncation, flags @ ..] => {
            let (minibatch, truncation) = (minibatch.parse()?, truncation.parse()?);
            let is_checked = flags.contains(&"check");
            println!("{}", measure::measure(Path::new(config), minibatch, truncation, is_checked)?);
        }
        ["open", config] => println!("{}", measure::open(Path::new(config))?),
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
