//! Markdown tables that are also aligned in plain text.

use std::fmt;

/// A table.
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Number of columns from the left that hold text; the others hold numbers.
    words: usize,
}

impl Table {
    /// Creates a table without rows. The first `words` columns hold text.
    pub fn new(words: usize, headings: &[&str]) -> Table {
        Table {
            headings: headings.iter().map(|&heading| heading.to_owned()).collect(),
            rows: Vec::new(),
            words,
        }
    }

    /// Adds a row, which must have a cell for each heading.
    pub fn add(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.headings.len(), "a row has a cell for each heading");
        self.rows.push(row);
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, widths: &[usize], cells: &[String]) -> fmt::Result {
        for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
            if column < self.words {
                write!(f, "| {cell:<width$} ")?
            } else {
                write!(f, "| {cell:>width$} ")?
            }
        }
        writeln!(f, "|")
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |column: usize| {
            let cells = self.rows.iter().chain([&self.headings]).map(|row| row[column].chars().count());
            cells.max().unwrap_or(0).max(3)
        };
        let widths: Vec<usize> = (0..self.headings.len()).map(width).collect();
        self.line(f, &widths, &self.headings)?;
        let rule = |(column, &width): (usize, &usize)| {
            if column < self.words { "-".repeat(width) } else { format!("{}:", "-".repeat(width - 1)) }
        };
        let rules: Vec<String> = widths.iter().enumerate().map(rule).collect();
        self.line(f, &widths, &rules)?;
        self.rows.iter().try_for_each(|row| self.line(f, &widths, row))
    }
}

/// Formats a number with three significant digits, without an exponent.
pub fn number(value: f64) -> String {
    match value.abs() {
        magnitude if magnitude >= 99.5 => format!("{value:.0}"),
        magnitude if magnitude >= 9.95 => format!("{value:.1}"),
        magnitude if magnitude >= 0.995 || magnitude == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligns_words_and_numbers() {
        let mut table = Table::new(1, &["shape", "MB/s"]);
        table.add(vec!["words".to_owned(), number(1234.5)]);
        table.add(vec!["x".to_owned(), number(7.0)]);
        let text = "| shape | MB/s |\n| ----- | ---: |\n| words | 1234 |\n| x     | 7.00 |\n";
        assert_eq!(table.to_string(), text);
    }
}
