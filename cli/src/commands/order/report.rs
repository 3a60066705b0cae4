//! Measures of how well an order mixes the data.

use super::Heading;
use crate::args::{Form, Global};
use crate::exit::{Exit, Outcome};
use crate::output::{Output, count, number};
use cntk_reader_tools::order::{Distribution, SequenceOrder, Shuffle};
use serde::Serialize;

/// The report. Distances are in samples.
#[derive(Serialize)]
pub struct Report {
    #[serde(flatten)]
    heading: Heading,
    /// Number of sequences read.
    pub read: u64,
    pub digest: String,
    /// Distances between the time at which sequences are read and their place in the data.
    pub displacement: Spread,
    /// Distances in the data between sequences that are read one after the other.
    pub neighbours: Spread,
    /// Fraction of the pairs of sequences read one after the other that also follow each other in
    /// the data.
    pub successions: f64,
    pub minibatch_size: u64,
    /// Numbers of chunks that a minibatch has sequences from.
    pub chunks_in_minibatch: Spread,
}

/// A distribution, beside the mean of a perfect shuffle.
#[derive(Serialize)]
pub struct Spread {
    pub mean: f64,
    pub p5: u64,
    pub p50: u64,
    pub p95: u64,
    pub max: u64,
    /// The mean of a perfect shuffle.
    pub perfect: f64,
}

impl Spread {
    fn new(of: &Distribution, perfect: f64) -> Spread {
        Spread {
            mean: of.mean(),
            p5: of.quantile(0.05),
            p50: of.quantile(0.5),
            p95: of.quantile(0.95),
            max: of.max(),
            perfect,
        }
    }
}

impl Report {
    pub(super) fn new(
        heading: Heading,
        order: &SequenceOrder,
        shuffle: &Shuffle,
        minibatch_size: u64,
    ) -> Report {
        let third = order.samples() as f64 / 3.0;
        // A minibatch draws from chunks of about equal size: the probability that all of its
        // sequences miss a given chunk is (1 - 1 / chunks) ^ drawn.
        let chunks = order.chunks().max(1) as f64;
        let minibatches = shuffle.chunks().count().max(1) as f64;
        let drawn = shuffle.sequences() as f64 / minibatches;
        let met = chunks * (1.0 - (1.0 - 1.0 / chunks).powf(drawn));
        let pairs = shuffle.neighbours().count().max(1) as f64;
        Report {
            heading,
            read: shuffle.sequences(),
            digest: format!("{:016x}", shuffle.digest()),
            displacement: Spread::new(shuffle.displacement(), third),
            neighbours: Spread::new(shuffle.neighbours(), third),
            successions: shuffle.successions() as f64 / pairs,
            minibatch_size,
            chunks_in_minibatch: Spread::new(shuffle.chunks(), met),
        }
    }

    /// Writes the report to standard output.
    pub(super) fn write(&self, global: &Global) -> Outcome {
        let mut output = Output::new(global, Form::Table);
        if output.form == Form::Table {
            self.table(&mut output)?;
        } else {
            output.json(self)?;
        }
        output.finish()?;
        Ok(Exit::Good)
    }

    fn table(&self, output: &mut Output) -> std::io::Result<()> {
        let Heading { file, sequences, samples, chunks, .. } = &self.heading;
        let title = output.bold(file);
        output.line(&format!(
            "{title}  {}, {}, {}",
            count(*sequences, "sequence"),
            count(*samples, "sample"),
            count(*chunks, "chunk")
        ))?;
        output.line(&format!("  {} read, digest {}", count(self.read, "sequence"), self.digest))?;
        let row = |name: &str, spread: &Spread, digits: usize| {
            let mean = |value: f64| match digits {
                0 => number(value.round() as u64),
                _ => format!("{value:.digits$}"),
            };
            vec![
                name.to_owned(),
                mean(spread.mean),
                number(spread.p5),
                number(spread.p50),
                number(spread.p95),
                number(spread.max),
                mean(spread.perfect),
            ]
        };
        output.table(
            &["", "mean", "5 %", "50 %", "95 %", "max", "perfect"],
            &[
                row("displacement (samples)", &self.displacement, 0),
                row("neighbours (samples)", &self.neighbours, 0),
                row(&format!("chunks in {} samples", self.minibatch_size), &self.chunks_in_minibatch, 1),
            ],
        )?;
        output.line("  perfect: the mean of a perfect shuffle; neighbours: their distance in the data")?;
        output.line(&format!(
            "  {:.3} % of the sequences follow the same sequence as in the data.",
            100.0 * self.successions
        ))
    }
}
