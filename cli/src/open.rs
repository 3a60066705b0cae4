//! Opens the data that a path names, with options from the command line.

use crate::args::Global;
use crate::exit::Failure;
use crate::input::Input;
use crate::progress::Progress;
use cntk_reader::{Builder, CbfDeserializer, ErrorKind, FrontEnd, Reader, ReaderOptions};
use cntk_reader_tools::Look;
use cntk_reader_tools::inspect::{CheckOptions, TextOutline};
use std::ops::ControlFlow;

/// How much of a text file without a configuration is searched for streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scan {
    /// Some places: enough to locate sequences.
    Sample,
    /// The whole file: needed to read values.
    Whole,
}

/// Returns a builder for the data of a configuration or a data file. Options set by `adjust`
/// override the configuration's.
pub fn open(
    input: &Input,
    scan: Scan,
    global: &Global,
    adjust: impl Fn(ReaderOptions) -> ReaderOptions,
) -> Result<Builder, Failure> {
    let builder = || Reader::builder().front_end(FrontEnd::Configuration);
    if let Some(config) = input.config() {
        return Ok(builder().config(config.clone()).options(adjust(ReaderOptions::new())));
    }
    if !input.is_text() {
        let cbf = || CbfDeserializer::new(&input.path);
        let float = builder().cbf(cbf()).options(adjust(ReaderOptions::new()));
        // A binary file states the type of its values: if float does not fit, try double.
        let is_float = !float.inspect()?.members().iter().any(|member| {
            member.error().is_some_and(|error| matches!(error.kind(), ErrorKind::Config | ErrorKind::Data))
        });
        let element =
            if is_float { cntk_reader::ElementType::Float } else { cntk_reader::ElementType::Double };
        return Ok(builder().cbf(cbf()).options(adjust(ReaderOptions::new().precision(element))));
    }
    let outline = TextOutline::of_sample(input.name())?;
    let (outline, ctf) = match scan {
        Scan::Sample => {
            let ctf = outline.deserializer();
            (outline, ctf)
        }
        Scan::Whole => {
            let progress = Progress::bytes(global, "Looking for streams");
            let found = outline.complete(
                &CheckOptions::default(),
                &mut |_| ControlFlow::Continue(()),
                &mut |at| progress.set(at.bytes, at.total),
            )?;
            let ctf = found.0.deserializer();
            (found.0, ctf)
        }
    };
    Ok(builder().ctf(ctf).options(adjust(outline.options())))
}
