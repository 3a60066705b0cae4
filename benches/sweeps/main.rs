//! Times sweeps over generated text data, and checks the data.
//!
//! `cargo xtask bench` generates the data and runs each measurement in a separate process:
//!
//! ```text
//! sweeps family SEED
//!     prints the name and description of each shape of the family, separated by a tab
//! sweeps generate SHAPE MEGABYTES DATA
//!     writes DATA and, when it is complete, DATA.sums
//! sweeps binary SHAPE DATA OUTPUT
//!     converts DATA to CNTK's binary format
//! sweeps table SHAPE DATA OUTPUT
//!     converts DATA to CSV or the libsvm format, and prints its sums as one line of JSON
//! sweeps config SHAPE DATA [in-order] [cache-index]
//!     prints the reader configuration
//! sweeps measure SHAPE DATA MINIBATCH
//!     prints times, counts, allocations and peak memory as one line of JSON
//! ```

mod allocations;
mod convert;
mod family;
mod generate;
mod measure;
mod member;
mod random;
mod shapes;
mod sums;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: sweeps family SEED | generate SHAPE MEGABYTES DATA | binary SHAPE DATA OUTPUT | table SHAPE DATA OUTPUT |
       config SHAPE DATA [in-order] [cache-index] | measure SHAPE DATA MINIBATCH
(`cargo xtask bench` runs this program)";

fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    match arguments {
        ["family", seed] => {
            for name in family::names(seed.parse()?) {
                let (_, description) = family::find(&name).ok_or("The family has no such shape.")?;
                println!("{name}\t{description}");
            }
        }
        ["generate", shape, megabytes, data] => {
            generate::generate(&shapes::find(shape)?, megabytes.parse()?, Path::new(data))?;
        }
        ["binary", shape, data, output] => convert::binary(&shapes::find(shape)?, data, output)?,
        ["table", shape, data, output] => {
            println!("{}", convert::table(&shapes::find(shape)?, Path::new(data), Path::new(output))?);
        }
        ["config", shape, data, flags @ ..] => {
            let (in_order, cache_index) = (flags.contains(&"in-order"), flags.contains(&"cache-index"));
            print!("{}", shapes::find(shape)?.config(data, in_order, cache_index));
        }
        ["measure", shape, data, minibatch] => {
            println!("{}", measure::measure(&shapes::find(shape)?, Path::new(data), minibatch.parse()?)?);
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
