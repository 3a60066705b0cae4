//! Results on standard output: as tables for people, or as JSON for programs.

use crate::args::{Form, Global};
use cntk_reader::Storage;
use serde::Serialize;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

/// Version of the JSON of all commands. Increases when a member changes its meaning or disappears,
/// not when one is added. Part of the program's interface, described in `docs/tool.md`.
pub const SCHEMA: u32 = 1;

/// Standard output.
pub struct Output {
    out: BufWriter<StdoutLock<'static>>,
    /// The form of the results.
    pub form: Form,
    has_colors: bool,
}

impl Output {
    /// Opens standard output in the requested form; by default a table on a terminal and the form
    /// `piped` elsewhere.
    pub fn new(global: &Global, piped: Form) -> Output {
        let stdout = io::stdout();
        let is_terminal = stdout.is_terminal();
        let form = global.format.unwrap_or(if is_terminal { Form::Table } else { piped });
        // https://no-color.org: any non-empty value counts.
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Output { out: BufWriter::new(stdout.lock()), form, has_colors: is_terminal && !unwanted && !is_dumb }
    }

    /// Returns the text in bold.
    pub fn bold(&self, text: &str) -> String {
        self.colored("1", text)
    }

    /// Returns the text in an ANSI color, such as "31" for red.
    pub fn colored(&self, color: &str, text: &str) -> String {
        if self.has_colors { format!("\x1b[{color}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Writes a line.
    pub fn line(&mut self, line: &str) -> io::Result<()> {
        self.out.write_all(line.as_bytes())?;
        self.out.write_all(b"\n")
    }

    /// Writes a value as JSON: indented in the form `json`, else on one line.
    pub fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        match self.form {
            Form::Json => serde_json::to_writer_pretty(&mut self.out, value)?,
            _ => serde_json::to_writer(&mut self.out, value)?,
        }
        self.out.write_all(b"\n")
    }

    /// Writes a table; all columns but the first are right-aligned.
    pub fn table(&mut self, heading: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.max().unwrap_or(0).max(heading.get(column).map_or(0, |name| name.chars().count()))
        };
        let widths: Vec<usize> = (0..heading.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let cells = cells.zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            });
            format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end().to_owned()
        };
        let heading = line(&mut heading.iter().copied());
        let heading = self.bold(&heading);
        self.line(&heading)?;
        rows.iter().try_for_each(|row| self.line(&line(&mut row.iter().map(String::as_str))))
    }

    /// Flushes the buffer. Call it at the end, so that a failure is noticed.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns the name of a storage.
pub fn storage_name(storage: Storage) -> &'static str {
    if storage == Storage::Dense { "dense" } else { "sparse" }
}

/// Formats a number with thousands separators.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count of things: `1 error`, `2,000 errors`.
pub fn count(number_of: u64, thing: &str) -> String {
    format!("{} {thing}{}", number(number_of), if number_of == 1 { "" } else { "s" })
}

/// Formats a number of bytes with a decimal unit, as all of the tool does.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    // 999.95 would be rounded to 1000.0.
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// Formats an amount with the time that it took, and the rate: `1.2 GB in 0.6 s, 2.0 GB/s`.
pub fn bytes_in(amount: u64, seconds: f64) -> String {
    format!("{} in {seconds:.1} s, {}/s", bytes(amount), bytes((amount as f64 / seconds.max(1e-9)) as u64))
}

/// Rounds a measured number to three significant digits.
pub fn rounded(value: f64) -> String {
    let digits = if value > 0.0 { value.log10().floor() as i32 - 2 } else { 0 };
    match digits {
        0.. => number((value / 10f64.powi(digits)).round() as u64 * 10u64.saturating_pow(digits as u32)),
        _ => format!("{value:.*}", digits.unsigned_abs().min(9) as usize),
    }
}

/// Width of lines where the terminal's is unknown, or standard output is no terminal.
const WIDTH: usize = 110;

/// Returns the number of columns that lines should fit into: of `COLUMNS` or the terminal, if
/// standard output is one.
pub fn width() -> usize {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return WIDTH;
    }
    let variable = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let terminal = || terminal_size::terminal_size_of(&stdout).map(|(width, _)| usize::from(width.0));
    variable.or_else(terminal).filter(|&width| width > 0).unwrap_or(WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!([0, 12, 123, 1234, 1_234_567].map(number), ["0", "12", "123", "1,234", "1,234,567"]);
        assert_eq!(
            [0, 1, 2000].map(|errors| count(errors, "error")),
            ["0 errors", "1 error", "2,000 errors"]
        );
        assert_eq!(
            [0, 999, 1000, 999_949, 999_950, 5 << 30].map(bytes),
            ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "5.4 GB"]
        );
        assert_eq!(bytes_in(1_200_000_000, 0.6), "1.2 GB in 0.6 s, 2.0 GB/s");
        assert_eq!(
            [0.0, 0.000_123_4, 0.5, 6.8853, 74.4, 999.6, 49_690_726.0].map(rounded),
            ["0", "0.000123", "0.500", "6.89", "74.4", "1,000", "49,700,000"]
        );
    }
}
