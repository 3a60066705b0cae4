//! Parses the options of `cargo xtask bench`.

use crate::data;
use anyhow::{Result, bail, ensure};
use lexopt::Parser;
use lexopt::prelude::*;
use oracle::install;

/// Options that take a value.
const VALUES: [&str; 7] = ["size", "first-size", "minibatch", "repetitions", "shape", "threads", "version"];
/// Options without a value, besides the modes.
const FLAGS: [&str; 2] = ["no-record", "dirty"];

/// A set of measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// This library alone, from Rust.
    Sweeps,
    /// Instructions of this library alone.
    Counts,
    /// This library and CNTK's own modules, both through CNTK's native interface.
    Cntk,
    /// Random shapes and look-alikes of public corpora, as in [`Mode::Cntk`].
    Family,
    /// One thread of this library's parser, and its lower bounds.
    Parser,
    /// This library beside other libraries' readers of other formats.
    Peers,
    /// User-defined deserializers in Python and Rust, and in CNTK.
    Csv,
    /// Speech features with labels, beside CNTK and other readers.
    Speech,
    /// Images, beside CNTK, decoders and PyTorch.
    Images,
    /// Token ids in Python, beside other loaders.
    Python,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 10] = [
        Mode::Sweeps,
        Mode::Counts,
        Mode::Parser,
        Mode::Cntk,
        Mode::Family,
        Mode::Peers,
        Mode::Csv,
        Mode::Speech,
        Mode::Images,
        Mode::Python,
    ];

    /// Returns the command that runs this mode.
    pub fn command(self) -> String {
        format!("cargo xtask bench {}", self.flag()).trim_end().to_owned()
    }

    /// Finds a mode by its flag, given without the dashes.
    fn by_flag(name: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.flag().strip_prefix("--") == Some(name))
    }

    fn flag(self) -> &'static str {
        match self {
            Mode::Sweeps => "",
            Mode::Counts => "--counts",
            Mode::Cntk => "--against-cntk",
            Mode::Family => "--family",
            Mode::Parser => "--parser",
            Mode::Peers => "--peers",
            Mode::Csv => "--csv",
            Mode::Speech => "--speech",
            Mode::Images => "--images",
            Mode::Python => "--python",
        }
    }

    /// Whether this mode takes an option.
    fn takes(self, option: &str) -> bool {
        match option {
            "--minibatch" => matches!(self, Mode::Sweeps | Mode::Counts | Mode::Cntk | Mode::Family),
            "--threads" => {
                matches!(self, Mode::Sweeps | Mode::Cntk | Mode::Family | Mode::Speech | Mode::Images)
            }
            "--first-size" => self == Mode::Cntk,
            "--version" => matches!(self, Mode::Cntk | Mode::Family | Mode::Speech | Mode::Images),
            "--shape" => {
                matches!(self, Mode::Sweeps | Mode::Counts | Mode::Cntk | Mode::Parser | Mode::Peers)
            }
            "--repetitions" => self != Mode::Counts,
            _ => true,
        }
    }

    /// Default size of each data set in megabytes.
    fn size(self) -> u64 {
        match self {
            Mode::Sweeps => 200,
            Mode::Counts => 4,
            Mode::Cntk | Mode::Family | Mode::Peers | Mode::Python => 100,
            Mode::Parser => 32,
            // 200 000 rows.
            Mode::Csv => 316,
            // 2000 utterances.
            Mode::Speech => 160,
            // 2000 images.
            Mode::Images => 115,
        }
    }
}

/// The options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The measurements.
    pub mode: Mode,
    /// Seed of the family.
    pub seed: u64,
    /// Maximum number of shapes of a family.
    pub most_shapes: usize,
    /// Size of each data set in megabytes.
    pub size: u64,
    /// Size in megabytes of the data whose first minibatch is timed.
    pub first_size: u64,
    /// Numbers of loading threads.
    pub threads: Vec<usize>,
    /// Names of the shapes.
    pub shapes: Vec<String>,
    /// Minibatch size in samples.
    pub minibatch: u64,
    /// Number of runs of each measurement; their medians are reported.
    pub repetitions: usize,
    /// CNTK's version.
    pub version: String,
    /// Whether to write a record.
    pub record: bool,
    /// Whether to write a record of a tree with uncommitted changes.
    pub dirty: bool,
}

impl Options {
    fn new(mode: Mode) -> Options {
        Options {
            mode,
            seed: 1,
            most_shapes: usize::MAX,
            size: mode.size(),
            first_size: mode.size(),
            threads: vec![1, 2],
            shapes: data::SHAPES.map(str::to_owned).to_vec(),
            minibatch: 256,
            repetitions: match mode {
                Mode::Sweeps | Mode::Counts => 1,
                Mode::Family | Mode::Speech | Mode::Python => 3,
                _ => 5,
            },
            version: install::VERSIONS[0].to_owned(),
            record: true,
            dirty: false,
        }
    }

    /// Returns the options of the shortest run.
    pub fn small(mode: Mode) -> Options {
        let mut options = Options {
            most_shapes: 2,
            size: 2,
            first_size: 2,
            repetitions: 1,
            record: false,
            ..Options::new(mode)
        };
        if matches!(mode, Mode::Cntk | Mode::Counts) {
            // Each run of CNTK first loads its libraries, and Callgrind is slow.
            options.shapes = vec!["words".to_owned()];
        }
        options
    }

    /// Parses a command line.
    pub fn parse(mut parser: Parser) -> Result<Options> {
        let (mut modes, mut flags, mut values) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(argument) = parser.next()? {
            match argument {
                Long(name) if VALUES.contains(&name) => {
                    let option = format!("--{name}");
                    values.push((option, parser.value()?.string()?));
                }
                Long(name) if FLAGS.contains(&name) => flags.push(name.to_owned()),
                Long(name) => match Mode::by_flag(name) {
                    Some(mode) => {
                        modes.push(mode);
                        if mode == Mode::Family {
                            values.push(("--family".to_owned(), parser.value()?.string()?));
                        }
                    }
                    None => return Err(Long(name).unexpected().into()),
                },
                other => return Err(other.unexpected().into()),
            }
        }
        ensure!(
            modes.len() < 2,
            "bench takes only one of --counts, --against-cntk, --family, --parser, --peers, --csv, --speech, --images and --python."
        );
        let mut options = Options::new(modes.first().copied().unwrap_or(Mode::Sweeps));
        options.record = !flags.iter().any(|flag| flag == "no-record");
        options.dirty = flags.iter().any(|flag| flag == "dirty");
        let mut first_size = None;
        for (option, value) in &values {
            let mode = options.mode;
            ensure!(mode.takes(option), "`{}` does not take {option}. See cargo xtask help.", mode.command());
            match option.as_str() {
                "--family" => options.seed = positive(value)?,
                "--size" => options.size = positive(value)?,
                "--first-size" => first_size = Some(positive(value)?),
                "--minibatch" => options.minibatch = positive(value)?,
                "--repetitions" => options.repetitions = usize::try_from(positive(value)?)?,
                "--shape" => options.shapes = vec![data::check_shape(value)?],
                "--threads" => {
                    let numbers = value.split(',').map(|number| Ok(usize::try_from(positive(number)?)?));
                    options.threads = numbers.collect::<Result<_>>()?;
                }
                _ => value.clone_into(&mut options.version),
            }
        }
        options.first_size = first_size.unwrap_or(options.size);
        Ok(options)
    }

    /// Returns the command line of these options.
    pub fn command(&self) -> String {
        let threads: Vec<String> = self.threads.iter().map(usize::to_string).collect();
        let mut command = self.mode.command();
        if self.mode == Mode::Family {
            command += &format!(" {}", self.seed);
        }
        let usual = Options::new(self.mode);
        let mut add = |differs: bool, option: &str, value: String| {
            if differs {
                command += &format!(" {option} {value}");
            }
        };
        add(true, "--size", self.size.to_string());
        add(self.first_size != self.size, "--first-size", self.first_size.to_string());
        add(self.threads != usual.threads, "--threads", threads.join(","));
        add(self.shapes != usual.shapes, "--shape", self.shapes.join(","));
        add(self.minibatch != usual.minibatch, "--minibatch", self.minibatch.to_string());
        add(self.mode.takes("--repetitions"), "--repetitions", self.repetitions.to_string());
        add(self.version != usual.version, "--version", self.version.clone());
        command
    }
}

fn positive(text: &str) -> Result<u64> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => bail!("'{text}' is not a positive whole number."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(Parser::from_args(line.split_whitespace()))
    }

    #[test]
    fn command_round_trips() {
        for line in [
            "",
            "--peers --size 3",
            "--counts --size 2 --shape words",
            "--csv --repetitions 3",
            "--speech --threads 1",
            "--images --size 20 --threads 2",
            "--python --repetitions 1",
            "--family 7 --size 3 --threads 2",
            "--against-cntk --shape words --first-size 1000 --threads 1,4 --version 2.6",
        ] {
            let options = parse(line).expect("options");
            let command = options.command();
            let again =
                parse(command.strip_prefix("cargo xtask bench").expect("a command")).expect("options");
            assert_eq!(again.command(), command);
            assert_eq!(again.shapes, options.shapes);
            assert_eq!((again.size, again.first_size), (options.size, options.first_size));
        }
    }

    #[test]
    fn rejects_unknown_and_conflicting_options() {
        for line in [
            "--sizes 3",
            "--size 0",
            "--size",
            "--shape round",
            "--parser --peers",
            "--family",
            "--family 3 --shape words",
            "--counts --repetitions 2",
            "--csv --shape words",
            "--speech --minibatch 8",
            "--images --shape words",
            "--python --threads 2",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
