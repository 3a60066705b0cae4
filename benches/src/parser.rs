//! Measures one thread that parses text, beside the minimum work of any reader and beside general
//! number parsers.

use crate::Outcome;
use crate::data::{Generator, program};
use crate::options::Options;
use crate::subject::{Subject, alternate};
use crate::table::{Table, number};
use anyhow::Result;
use tooling::project::Project;
use tooling::run::Run;

const NOTE: &str = "\
Megabytes of text a second on one thread, text in the page cache; the best of three runs in a process. Chunks: this library
reads the file, parses it and fills its arrays. Read: the bytes are copied into a buffer. Newlines: memchr counts them.
fast-float2 and std: every number, row numbers too, is converted to f32, correctly rounded; finding the numbers is not timed,
and results are not stored.";

/// Measures all shapes.
pub fn measure(project: &Project, options: &Options) -> Result<Outcome> {
    let generator = Generator::new(project)?;
    let parser = program(project, "parser")?;
    let mut table = Table::new(
        1,
        &[
            "shape",
            "MB",
            "million numbers",
            "chunks MB/s",
            "read MB/s",
            "newlines MB/s",
            "fast-float2 MB/s",
            "std MB/s",
        ],
    );
    for shape in &options.shapes {
        let data = generator.text(shape, options.size)?;
        let config = generator.config(&data, &[])?;
        let (root, parser) = (project.root.clone(), parser.clone());
        let subject = Subject::new("one thread", move || Run::new(&parser, &root, false).arg(&config));
        let results = alternate(project, shape, &[subject], options.repetitions, &["/bytes", "/numbers"])?;
        for results in results {
            let mut row =
                vec![shape.clone(), number(data.megabytes()), number(results.median("/numbers")? / 1e6)];
            for part in ["/chunks", "/read", "/newlines", "/fast_float", "/standard"] {
                row.push(number(data.megabytes() / results.median(part)?));
            }
            table.add(row);
        }
    }
    let count = table.len();
    Ok(Outcome::Measured(format!("{NOTE}\n\n{table}"), count))
}
