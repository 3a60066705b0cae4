//! Converts CBF to CTF: every sequence becomes lines that begin with its number.

use super::output::Output;
use super::text::write_sequence;
use super::{Listener, Progress, check_different, report};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::files::Files;
use cntk_reader_core::format::{Chunk, ChunkSource, ChunkTable};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::stream::{ElementType, StreamInfo};
use cntk_reader_core::{Error, Result};
use cntk_reader_text::cbf::BinaryDeserializer;
use cntk_reader_text::cbf::BinaryOptions;
use rayon::prelude::*;

/// Number of sequences that one thread turns into text at a time.
const BATCH: usize = 256;

/// Converts a binary file of either layout. Returns the number of sequences and the bytes of the
/// chunks.
pub fn binary_to_text(input: &str, output: &str, listener: &mut Listener<'_>) -> Result<Progress> {
    let pool = Pool::shared()?;
    let options = BinaryOptions {
        files: Files::one(input.to_owned()),
        shared_ids: false,
        renamed: Vec::new(),
        ids: Vec::new(),
        ignores_unmatched: false,
        keep_data_in_memory: false,
        log: Logger::new(0),
        // Ignored: `open_any` reads streams of any type.
        element: ElementType::Float,
    };
    let source = pool.install(|| BinaryDeserializer::open_any(&options, None))?;
    check_different(&DataFile::open(input)?, output)?;
    source.streams().iter().try_for_each(|stream| check_name(&stream.name).map_err(|e| e.in_file(input)))?;
    let mut out = Output::create(output)?;
    let total = (0..).zip(source.chunks()).map(|(chunk, _)| source.chunk_bytes(chunk)).sum();
    let mut progress = Progress { bytes: 0, total, sequences: 0 };
    for (id, info) in (0..).zip(source.chunks()) {
        let chunk = pool.install(|| source.load(id))?;
        let first = progress.sequences;
        let streams = source.streams();
        let mut done = 0;
        while done < info.sequences {
            // Part by part, because text takes several times the memory of the values.
            let end = info.sequences.min(done + (BATCH * 4 * pool.threads()) as u32);
            let indexes = room::collect(done..end, room::CONVERSION)?;
            let write = |indexes: &[u32]| sequences(&*chunk, streams, first, indexes);
            let texts = pool.install(|| indexes.par_chunks(BATCH).map(write).collect::<Result<Vec<_>>>());
            let texts = texts.map_err(|error| error.in_file(input))?;
            texts.iter().try_for_each(|text| out.write(text))?;
            done = end;
        }
        progress.bytes += source.chunk_bytes(id);
        progress.sequences += u64::from(info.sequences);
        report(listener, progress)?;
    }
    out.commit()?;
    Ok(progress)
}

fn sequences(chunk: &dyn Chunk, streams: &[StreamInfo], first: u64, indexes: &[u32]) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    for &index in indexes {
        write_sequence(chunk, streams, first + u64::from(index), index, &mut text)?;
    }
    Ok(text)
}

/// Rejects names that cannot be written in the text format.
pub(super) fn check_name(name: &str) -> Result<()> {
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'|';
    if !name.is_empty() && !name.starts_with('#') && name.bytes().all(plain) {
        return Ok(());
    }
    let error = Error::data(format!("The stream name '{name}' cannot be written as text."));
    let detail = "A name in the text format has printable ASCII characters, no white space, no '|', and no '#' in front.";
    Err(error.with_detail(detail).in_stream(name))
}
