//! Copies of the contents of minibatches, for comparison after their buffers have returned to the
//! pool.

use cntk_reader::Result;
use cntk_reader_core::stream::{Storage, StreamInfo};
use cntk_reader_engine::pack::Minibatch;
use cntk_reader_engine::pack::layout::Layout;
use cntk_reader_engine::reader::Reader;
use std::fmt::Write;

/// One minibatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub end_of_sweep: bool,
    pub end_of_epoch: bool,
    pub keys: Vec<u64>,
    pub streams: Vec<SeenStream>,
}

/// One stream of a minibatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenStream {
    pub layout: Layout,
    /// Dense: the bytes of the columns that hold data, in column order. Sparse: the whole block.
    pub data: Vec<u8>,
}

impl Seen {
    pub fn of(minibatch: &Minibatch, streams: &[StreamInfo]) -> Self {
        let stream = |(info, stream): (&StreamInfo, &cntk_reader_engine::pack::StreamMinibatch)| {
            let bytes = stream.block();
            let data = match info.storage {
                Storage::Dense => {
                    // The shape of images may only be known after loading.
                    let samples =
                        if info.has_late_shape() { stream.sample_size() } else { info.sample_size() };
                    let size = samples * info.element.size();
                    assert_eq!(
                        bytes.len(),
                        stream.layout.columns() * size,
                        "size of the data of {}",
                        info.name
                    );
                    let gaps = gaps(&stream.layout);
                    let columns = bytes.chunks(size.max(1)).zip(gaps).filter(|&(_, gap)| !gap);
                    columns.flat_map(|(column, _)| column.iter().copied()).collect()
                }
                _ => bytes.to_vec(),
            };
            SeenStream { layout: stream.layout.clone(), data }
        };
        Seen {
            end_of_sweep: minibatch.end_of_sweep,
            end_of_epoch: minibatch.end_of_epoch,
            keys: minibatch.keys.clone(),
            streams: streams.iter().zip(&minibatch.streams).map(stream).collect(),
        }
    }

    /// Returns whether this is the minibatch without data past the end of the epoch.
    pub fn is_end(&self) -> bool {
        self.end_of_epoch && self.streams.is_empty()
    }

    /// Returns one line that differs if anything in the minibatch differs (except for hash
    /// collisions).
    pub fn digest(&self) -> String {
        let mut line = format!("{}{} {:?}", self.end_of_sweep as u8, self.end_of_epoch as u8, self.keys);
        for stream in &self.streams {
            let hash = stream.data.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
            write!(line, " {:?} {hash:016x}", stream.layout).expect("writing to a string");
        }
        line
    }
}

/// Returns for each column whether it is a gap.
pub fn gaps(layout: &Layout) -> Vec<bool> {
    let mut gaps = vec![false; layout.columns()];
    for record in layout.records.iter().filter(|record| record.is_gap()) {
        for step in record.begin.max(0) as usize..record.end.min(layout.steps as u64) as usize {
            gaps[step * layout.lanes + record.lane as usize] = true;
        }
    }
    gaps
}

/// Reads one minibatch.
pub fn read(reader: &mut Reader) -> Result<Seen> {
    let minibatch = reader.read()?;
    Ok(Seen::of(&minibatch, reader.streams()))
}

/// Reads to the end of the epoch, including the last minibatch, which has no data.
///
/// # Panics
/// If the epoch has not ended after `limit` minibatches.
pub fn read_all(reader: &mut Reader, limit: usize) -> Result<Vec<Seen>> {
    let mut all = Vec::new();
    loop {
        let seen = read(reader)?;
        let end = seen.is_end();
        all.push(seen);
        if end {
            return Ok(all);
        }
        assert!(all.len() < limit, "the epoch does not end");
    }
}
