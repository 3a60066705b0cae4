//! `cntk-reader index`: builds and checks index caches.

use crate::args::{Form, Global};
use crate::exit::{Exit, Failure, Outcome};
use crate::input::Input;
use crate::open::{Scan, open};
use crate::output::{Output, SCHEMA, bytes_in, count};
use cntk_reader_tools::Look;
use cntk_reader_tools::index::{CacheState, IndexCache};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

/// Make the index caches of text files, or check them
///
/// An index cache is a file beside a text file (CTF) that says where each sequence lies, in CNTK's
/// format. With it, data are opened without scanning them, if the configuration says `cacheIndex =
/// true`. A cache that fits its data is kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cntk-reader index train.cntk            make the caches that are missing or do not fit
  cntk-reader index train.ctf --check     exit code 1 if the cache is missing or does not fit
  cntk-reader index train.ctf --force     rebuild the cache")]
pub struct Index {
    /// A configuration, or a text file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Make no cache; exit with 1 if one is missing or does not fit its data
    #[arg(long, conflicts_with = "force")]
    check: bool,

    /// Rebuild the caches, even if they fit
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Report {
    schema: u32,
    command: &'static str,
    caches: Vec<CacheReport>,
}

#[derive(Serialize)]
struct CacheReport {
    file: String,
    cache: String,
    /// The state before this command: `fits`, `missing`, `outdated` or `unfit`.
    state: &'static str,
    reason: Option<&'static str>,
    is_made: bool,
    sequences: Option<u64>,
    samples: Option<u64>,
    bytes: Option<u64>,
    seconds: Option<f64>,
}

pub fn run(options: &Index, global: &Global) -> Outcome {
    let input = Input::recognize(&options.file, global)?;
    let caches = open(&input, Scan::Sample, global, |reader| reader)?.index_caches()?;
    if caches.is_empty() {
        return Err(Failure::Usage(format!(
            "'{}' has no text file. Only text files have index caches.",
            options.file.display()
        )));
    }
    let mut report = Report { schema: SCHEMA, command: "index", caches: Vec::new() };
    for cache in &caches {
        report.caches.push(make(cache, options)?);
    }
    let mut output = Output::new(global, Form::Table);
    match output.form {
        Form::Table => report.caches.iter().try_for_each(|made| output.line(&made.line()))?,
        Form::Json | Form::Ndjson => output.json(&report)?,
    }
    output.finish()?;
    let all_fit = report.caches.iter().all(|made| made.state == "fits" || made.is_made);
    Ok(if all_fit { Exit::Good } else { Exit::WrongData })
}

fn make(cache: &IndexCache, options: &Index) -> cntk_reader::Result<CacheReport> {
    let found = cache.state()?;
    let reason = if let CacheState::Unfit(reason) = found { Some(reason) } else { None };
    let is_made = !options.check && (options.force || found != CacheState::Fits);
    let begun = Instant::now();
    let size = if is_made { Some(cache.build()?) } else { None };
    Ok(CacheReport {
        file: cache.file().to_owned(),
        cache: cache.path()?,
        state: found.name(),
        reason,
        is_made,
        sequences: size.map(|size| size.sequences),
        samples: size.map(|size| size.samples),
        bytes: size.map(|size| size.bytes),
        seconds: is_made.then(|| begun.elapsed().as_secs_f64()),
    })
}

impl CacheReport {
    fn line(&self) -> String {
        let CacheReport { cache, state, .. } = self;
        let reason = self.reason.map_or_else(String::new, |reason| format!(": {reason}"));
        match (self.bytes, self.sequences, self.seconds) {
            (Some(size), Some(sequences), Some(seconds)) => {
                format!("made     {cache}  {}, {}", count(sequences, "sequence"), bytes_in(size, seconds))
            }
            _ => format!("{state:<8} {cache}{reason}"),
        }
    }
}
