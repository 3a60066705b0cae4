//! Runs other programs: silently if they succeed, with their output if they fail.

use crate::Tally;
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Number of lines shown of a failed program's output.
const SHOWN_LINES: usize = 100;

/// A program to run.
pub struct Run {
    command: Command,
    shown: String,
    verbose: bool,
}

impl Run {
    /// Prepares to run a program in a folder.
    pub fn new(program: &str, folder: &Path, verbose: bool) -> Run {
        let mut command = Command::new(program);
        command.current_dir(folder).stdin(Stdio::null());
        Run { command, shown: program.to_owned(), verbose }
    }

    /// Shows the program under another name in messages. Call it before adding arguments.
    pub fn named(mut self, name: &str) -> Run {
        name.clone_into(&mut self.shown);
        self
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Run {
        self.shown += " ";
        self.shown += &argument.as_ref().to_string_lossy();
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = A>) -> Run {
        arguments.into_iter().fold(self, Run::arg)
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Run {
        self.command.env(name, value);
        self
    }

    /// Sets environment variables.
    pub fn envs<V: AsRef<OsStr>>(self, variables: &[(&str, V)]) -> Run {
        variables.iter().fold(self, |run, (name, value)| run.env(name, value))
    }

    /// Runs in another folder.
    pub fn folder(mut self, folder: &Path) -> Run {
        self.command.current_dir(folder);
        self
    }

    /// Never shows the output, even for verbose commands.
    pub fn silent(mut self) -> Run {
        self.verbose = false;
        self
    }

    /// Runs the program, and returns its standard output and standard error. Fails if the program
    /// fails.
    pub fn go(mut self) -> Result<String> {
        if self.verbose {
            say!("$ {}", self.shown);
        }
        let (mut from, to) = std::io::pipe()?;
        self.command.stdout(to.try_clone()?).stderr(to);
        let mut child = self.command.spawn().with_context(|| format!("starting `{}`", self.shown))?;
        // The command holds the write end of the pipe; reading ends only once it is closed.
        drop(self.command);
        let mut output = Vec::new();
        let mut block = [0; 1 << 16];
        loop {
            let size = from.read(&mut block)?;
            if size == 0 {
                break;
            }
            output.extend_from_slice(&block[..size]);
            if self.verbose {
                std::io::stdout().write_all(&block[..size])?;
            }
        }
        let status = child.wait()?;
        let output = String::from_utf8_lossy(&output).into_owned();
        if !status.success() {
            bail!("{}\n\n`{}` failed ({status}).", last_lines(&output), self.shown);
        }
        Ok(output)
    }

    /// Runs the program with its output on the terminal. Fails if the program fails.
    pub fn live(mut self) -> Result<()> {
        let status = self.command.status().with_context(|| format!("starting `{}`", self.shown))?;
        if !status.success() {
            bail!("`{}` failed ({status}).", self.shown);
        }
        Ok(())
    }

    /// Replaces this process with the program. Returns only if it cannot be started.
    pub fn replace(mut self) -> Result<()> {
        Err(self.command.exec()).with_context(|| format!("starting `{}`", self.shown))
    }

    /// Runs the program and prints its lines as they appear, except the last one, which is its
    /// result. Fails if the program fails.
    pub fn relay(mut self) -> Result<Tally> {
        let child = self.command.stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("starting `{}`", self.shown))?;
        let mut last: Option<String> = None;
        for line in BufReader::new(child.stdout.take().context("the output is a pipe")?).lines() {
            if let Some(line) = last.replace(line?) {
                say!("{line}");
            }
        }
        let status = child.wait()?;
        let last = last.unwrap_or_default();
        if !status.success() {
            bail!("{last}\n`{}` failed ({status}).", self.shown);
        }
        last.parse()
    }

    /// Runs the program, and returns its standard output. Fails if the program fails.
    pub fn output(mut self) -> Result<String> {
        let result = self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).output();
        let output = result.with_context(|| format!("starting `{}`", self.shown))?;
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            bail!("{}\n\n`{}` failed ({}).", last_lines(&errors), self.shown, output.status);
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Returns the end of a program's output, and the earlier lines about failed tests, which may be
/// far from the end.
fn last_lines(output: &str) -> String {
    let lines: Vec<&str> = output.trim_end().lines().collect();
    let first = lines.len().saturating_sub(SHOWN_LINES);
    let mut shown = if first > 0 { format!("... {first} lines\n") } else { String::new() };
    for (number, line) in lines[..first].iter().enumerate() {
        let panicked = line.contains("panicked at");
        if panicked || line.ends_with("... FAILED") {
            // The line after the location of a panic is its message.
            let said = &lines[number..=number + usize::from(panicked)];
            shown += &format!("{}\n", said.join("\n"));
        }
    }
    shown += &lines[first..].join("\n");
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_always_shown() {
        let begin = "test a ... ok\ntest b ... FAILED\nthread 'b' panicked at b.rs:1:\nno\nmore\n";
        let end = "end\n".repeat(SHOWN_LINES);
        let shown = last_lines(&format!("{begin}{end}"));
        let expected = "... 5 lines\ntest b ... FAILED\nthread 'b' panicked at b.rs:1:\nno\n";
        assert_eq!(shown, format!("{expected}{}", end.trim_end()));
        assert_eq!(last_lines("one\ntwo\n"), "one\ntwo");
    }
}
