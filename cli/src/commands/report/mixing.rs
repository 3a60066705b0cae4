//! How well minibatches are mixed, and how much of them is padding.

use crate::args::Global;
use crate::exit::Failure;
use crate::input::Input;
use crate::open::{Scan, open};
use cntk_reader::Epoch;
use cntk_reader_tools::Look;
use cntk_reader_tools::order::Shuffle;

/// The first sweep with one minibatch size.
pub struct Mixing {
    pub minibatch_size: u64,
    pub minibatches: u64,
    /// Mean distance between the place of a sequence in the data and its place in the sweep, as a
    /// fraction of the samples. A perfect shuffle has a third.
    pub displacement: f64,
    /// Mean number of chunks that a minibatch has sequences from.
    pub chunks: f64,
    /// Mean number of sequences of a minibatch.
    pub sequences: f64,
    /// The fraction of the cells of minibatches of whole sequences that is padding.
    pub padding: f64,
}

/// Measures the first sweep for each size. Returns why the order is not known, if it is not.
pub fn measure(input: &Input, sizes: &[u64], global: &Global) -> Result<Vec<Mixing>, String> {
    if input.has_bare_files() {
        return Err("The order of these files depends on a configuration: 'cntk-reader info FILE --config' \
                    prints one."
            .to_owned());
    }
    sizes.iter().map(|&size| one(input, size, global).map_err(|failure| failure.to_string())).collect()
}

fn one(input: &Input, minibatch_size: u64, global: &Global) -> Result<Mixing, Failure> {
    let epoch = Epoch::sweeps(1).minibatch_size(minibatch_size);
    let mut order = open(input, Scan::Sample, global, |reader| reader)?.order(&epoch)?;
    let mut shuffle = Shuffle::default();
    let (mut minibatches, mut cells, mut samples) = (0, 0, 0);
    while let Some(minibatch) = order.next_minibatch()? {
        shuffle.add(minibatch);
        let lengths = || minibatch.sequences.iter().map(|sequence| u64::from(sequence.samples));
        minibatches += u64::from(!minibatch.sequences.is_empty());
        cells += lengths().max().unwrap_or(0) * minibatch.sequences.len() as u64;
        samples += lengths().sum::<u64>();
    }
    let share = |part: f64, whole: u64| part / whole.max(1) as f64;
    Ok(Mixing {
        minibatch_size,
        minibatches,
        displacement: share(shuffle.displacement().mean(), order.samples()),
        chunks: shuffle.chunks().mean(),
        sequences: share(shuffle.sequences() as f64, minibatches),
        padding: share((cells - samples) as f64, cells),
    })
}
