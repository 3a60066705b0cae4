//! What to measure, as the command line says it.

use super::data;
use crate::oracle::install;
use anyhow::{Context, Result, bail, ensure};

/// What is measured beside what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// This library alone, from Rust.
    Sweeps,
    /// This library and CNTK's own modules, both through CNTK's native interface.
    Cntk,
    /// One thread of this library's parser and what bounds it.
    Parser,
    /// This library and other readers of other formats.
    Peers,
    /// Users' deserializers in Python and Rust, and in CNTK.
    Csv,
}

impl Mode {
    /// All modes.
    pub const ALL: [Mode; 5] = [Mode::Sweeps, Mode::Parser, Mode::Cntk, Mode::Peers, Mode::Csv];

    /// The command that runs it.
    pub fn command(self) -> String {
        format!("cargo xtask bench {}", self.flag()).trim_end().to_owned()
    }

    fn flag(self) -> &'static str {
        match self {
            Mode::Sweeps => "",
            Mode::Cntk => "--against-cntk",
            Mode::Parser => "--parser",
            Mode::Peers => "--peers",
            Mode::Csv => "--csv",
        }
    }

    /// Whether an option means anything to it.
    fn takes(self, option: &str) -> bool {
        match option {
            "--threads" | "--minibatch" => matches!(self, Mode::Sweeps | Mode::Cntk),
            "--first-size" | "--version" => self == Mode::Cntk,
            "--shape" => self != Mode::Csv,
            _ => true,
        }
    }

    /// Megabytes of each shape.
    fn size(self) -> u64 {
        match self {
            Mode::Sweeps => 200,
            Mode::Cntk | Mode::Peers => 100,
            Mode::Parser => 32,
            // 200 000 rows.
            Mode::Csv => 316,
        }
    }
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// What beside what.
    pub mode: Mode,
    /// Megabytes of each shape.
    pub size: u64,
    /// Megabytes of the data on which the time to the first minibatch is taken.
    pub first_size: u64,
    /// Numbers of loading threads.
    pub threads: Vec<usize>,
    /// The shapes.
    pub shapes: Vec<String>,
    /// Minibatch size in samples.
    pub minibatch: u64,
    /// How often everything is measured; medians count.
    pub repetitions: usize,
    /// CNTK's version.
    pub version: String,
    /// Keep the result.
    pub record: bool,
}

impl Options {
    fn new(mode: Mode) -> Options {
        Options {
            mode,
            size: mode.size(),
            first_size: mode.size(),
            threads: vec![1, 2],
            shapes: data::SHAPES.map(str::to_owned).to_vec(),
            minibatch: 256,
            repetitions: if mode == Mode::Sweeps { 1 } else { 5 },
            version: install::VERSIONS[0].to_owned(),
            record: true,
        }
    }

    /// As quick as can be.
    pub fn small(mode: Mode) -> Options {
        let mut options =
            Options { size: 2, first_size: 2, repetitions: 1, record: false, ..Options::new(mode) };
        if mode == Mode::Cntk {
            // Each of CNTK's runs begins with the loading of its libraries.
            options.shapes = vec!["words".to_owned()];
        }
        options
    }

    /// What the command line asks for.
    pub fn parse(arguments: &[String]) -> Result<Options> {
        let is_mode = |argument: &String| {
            Mode::ALL.into_iter().find(|mode| !mode.flag().is_empty() && argument == mode.flag())
        };
        let modes: Vec<Mode> = arguments.iter().filter_map(is_mode).collect();
        ensure!(modes.len() < 2, "bench does one of --against-cntk, --parser, --peers and --csv at a time.");
        let mut options = Options::new(modes.first().copied().unwrap_or(Mode::Sweeps));
        let mut arguments = arguments.iter().filter(|argument| is_mode(argument).is_none());
        let mut first_size = None;
        while let Some(argument) = arguments.next() {
            if argument == "--no-record" {
                options.record = false;
                continue;
            }
            let mode = options.mode;
            ensure!(
                mode.takes(argument),
                "`{}` does not take {argument}. See cargo xtask help.",
                mode.command()
            );
            let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--size" => options.size = positive(value()?)?,
                "--first-size" => first_size = Some(positive(value()?)?),
                "--minibatch" => options.minibatch = positive(value()?)?,
                "--repetitions" => options.repetitions = usize::try_from(positive(value()?)?)?,
                "--shape" => options.shapes = vec![data::check_shape(value()?)?],
                "--version" => value()?.clone_into(&mut options.version),
                "--threads" => {
                    let numbers = value()?.split(',').map(|number| Ok(positive(number)? as usize));
                    options.threads = numbers.collect::<Result<_>>()?;
                }
                unknown => bail!("bench does not know '{unknown}'. See cargo xtask help."),
            }
        }
        options.first_size = first_size.unwrap_or(options.size);
        Ok(options)
    }

    /// The command that measures this.
    pub fn command(&self) -> String {
        let threads: Vec<String> = self.threads.iter().map(usize::to_string).collect();
        let mut command = self.mode.command();
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
        add(true, "--repetitions", self.repetitions.to_string());
        add(self.version != usual.version, "--version", self.version.clone());
        command
    }
}

fn positive(text: &str) -> Result<u64> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => bail!("'{text}' is not a whole number above 0."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_command_gives_its_options_again() {
        for line in [
            "",
            "--peers --size 3",
            "--csv --repetitions 3",
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
    fn refuses_what_it_does_not_know() {
        for line in
            ["--sizes 3", "--size 0", "--size", "--shape round", "--parser --peers", "--csv --shape words"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
