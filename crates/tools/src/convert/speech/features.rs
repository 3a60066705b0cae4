//! Reads features from HTK files and Kaldi archives, utterance by utterance.

use super::htk::HtkWriter;
use super::kaldi::ArchiveWriter;
use super::numpy::NpzWriter;
use super::{Listener, Progress, SpeechConversion, check_output, report};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::loading::Loads;
use cntk_reader_core::format::{ChunkSource, Deserializer, Loaded};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::{FrameEncoding, SequenceId, SequenceView, ViewKind};
use cntk_reader_core::stream::Storage;
use cntk_reader_core::{Error, Result};
use cntk_reader_speech::htk::HtkFeatureDeserializer;
use cntk_reader_speech::htk::HtkFeatureOptions;
use cntk_reader_speech::kaldi::KaldiDeserializer;
use std::sync::Arc;

/// The frames of an utterance.
pub struct Utterance<'a> {
    pub key: &'a [u8],
    /// Number of values of a frame.
    pub columns: usize,
    /// The values, frame by frame.
    pub values: &'a [f32],
}

/// Converts HTK features, listed by a script, to a Kaldi archive of matrices, and a script if
/// requested. Utterances with a repeated key are all left out, as in training.
pub fn htk_to_kaldi(conversion: &SpeechConversion, listener: &mut Listener<'_>) -> Result<Progress> {
    to_kaldi(&FeatureSource::htk(&conversion.input)?, conversion, listener)
}

/// Converts HTK features, listed by a script, to a NumPy archive (`.npz`): for each utterance an
/// array of `float32` under its key, with the shape frames times values.
pub fn htk_to_numpy(conversion: &SpeechConversion, listener: &mut Listener<'_>) -> Result<Progress> {
    to_numpy(&FeatureSource::htk(&conversion.input)?, conversion, listener)
}

/// Converts features of a Kaldi script or archive to one big-endian HTK archive, 10 ms per frame,
/// and a script with its ranges. In the script each key gets the extension `.mfc`, which is not
/// part of the key when the script is read.
pub fn kaldi_to_htk(conversion: &SpeechConversion, listener: &mut Listener<'_>) -> Result<Progress> {
    let Some(script) = &conversion.script else {
        let error = Error::argument("An HTK archive needs a script, which lists its utterances.");
        return Err(error.with_detail("Set the path of the script to write."));
    };
    let source = FeatureSource::kaldi(&conversion.input)?;
    check_output(conversion)?;
    let mut writer = HtkWriter::create(&conversion.output, script, source.frames(), source.columns)?;
    let progress = source.each(listener, |utterance| writer.write(&utterance))?;
    writer.commit()?;
    Ok(progress)
}

/// Converts features of a Kaldi script or archive to a NumPy archive, like [`htk_to_numpy`].
pub fn kaldi_to_numpy(conversion: &SpeechConversion, listener: &mut Listener<'_>) -> Result<Progress> {
    to_numpy(&FeatureSource::kaldi(&conversion.input)?, conversion, listener)
}

fn to_kaldi(
    source: &FeatureSource,
    conversion: &SpeechConversion,
    listener: &mut Listener<'_>,
) -> Result<Progress> {
    check_output(conversion)?;
    let mut writer = ArchiveWriter::create(&conversion.output, conversion.script.as_deref())?;
    let progress = source.each(listener, |utterance| writer.matrix(&utterance))?;
    writer.commit()?;
    Ok(progress)
}

fn to_numpy(
    source: &FeatureSource,
    conversion: &SpeechConversion,
    listener: &mut Listener<'_>,
) -> Result<Progress> {
    check_output(conversion)?;
    let mut writer = NpzWriter::create(&conversion.output)?;
    let progress = source.each(listener, |utterance| writer.matrix(&utterance))?;
    writer.commit()?;
    Ok(progress)
}

/// An input of features.
struct FeatureSource {
    pool: Pool,
    corpus: Arc<Corpus>,
    utterances: Arc<dyn Deserializer>,
    columns: usize,
}

impl FeatureSource {
    fn htk(path: &str) -> Result<FeatureSource> {
        let options = HtkFeatureOptions::of_frames(path);
        Self::open(|corpus| Ok(Arc::new(HtkFeatureDeserializer::open_frames(&options, corpus)?)))
    }

    fn kaldi(path: &str) -> Result<FeatureSource> {
        Self::open(|corpus| Ok(Arc::new(KaldiDeserializer::open_frames(path, Storage::Dense, corpus)?)))
    }

    fn open(
        open: impl FnOnce(&Arc<Corpus>) -> Result<Arc<dyn Deserializer>> + Send,
    ) -> Result<FeatureSource> {
        let (pool, corpus) = (Pool::shared()?, Arc::new(Corpus::symbolic()));
        let utterances = pool.install(|| open(&corpus))?;
        let columns = utterances.streams()[0].sample_size();
        Ok(FeatureSource { pool, corpus, utterances, columns })
    }

    /// Returns the number of frames of all utterances.
    fn frames(&self) -> u64 {
        self.utterances.chunks().iter().map(|chunk| chunk.samples).sum()
    }

    /// Calls `write` with each utterance, in their order.
    fn each(
        &self,
        listener: &mut Listener<'_>,
        mut write: impl FnMut(Utterance<'_>) -> Result<()>,
    ) -> Result<Progress> {
        let frame = (self.columns * size_of::<f32>()) as u64;
        let mut progress = Progress { bytes: 0, total: self.frames() * frame, sequences: 0 };
        let mut values = Vec::new();
        let source = Arc::clone(&self.utterances) as Arc<dyn ChunkSource>;
        let loads = Loads::of_this_call(source, self.pool.clone());
        for (number, info) in (0..).zip(self.utterances.chunks()) {
            let chunk = loads.load(number)?;
            let ids = (0..info.sequences).map(|index| SequenceId { chunk: number, index });
            let ids = room::collect(ids, room::CONVERSION)?;
            let mut keys = room::with_capacity(ids.len(), room::CONVERSION)?;
            self.utterances.keys(&ids, &mut keys);
            for (id, key) in ids.iter().zip(keys) {
                let Loaded::Data(view) = chunk.sequence(0, id.index) else {
                    return Err(Error::internal("A chunk of features has an utterance without data."));
                };
                values.clear();
                decode(&view, &mut values)?;
                let Corpus::Symbolic(symbols) = &*self.corpus else {
                    return Err(Error::internal("The keys of a conversion are not text."));
                };
                let symbols = symbols.read();
                let key = symbols.text_of(key).unwrap_or_default();
                write(Utterance { key, columns: self.columns, values: &values })?;
            }
            progress.bytes += info.samples * frame;
            progress.sequences += u64::from(info.sequences);
            report(listener, progress)?;
        }
        Ok(progress)
    }
}

/// Appends the values of an utterance.
fn decode(view: &SequenceView<'_>, out: &mut Vec<f32>) -> Result<()> {
    let floats = || view.values.as_chunks().0.iter();
    let encoding = match view.kind {
        ViewKind::Frames(frames) => &frames.spec.encoding,
        ViewKind::Dense => &FrameEncoding::Float,
        ViewKind::Sparse(_) => return Err(Error::internal("Features are sparse.")),
    };
    let value = match encoding {
        FrameEncoding::Float | FrameEncoding::SwappedFloat => size_of::<f32>(),
        FrameEncoding::Double => size_of::<f64>(),
        FrameEncoding::Linear { .. } => size_of::<i16>(),
    };
    room::reserve(out, view.values.len() / value, room::CONVERSION)?;
    match encoding {
        FrameEncoding::Float => out.extend(floats().map(|&bytes| f32::from_ne_bytes(bytes))),
        FrameEncoding::SwappedFloat => {
            out.extend(floats().map(|&bytes| f32::from_bits(u32::from_ne_bytes(bytes).swap_bytes())));
        }
        FrameEncoding::Double => {
            let doubles = view.values.as_chunks().0.iter();
            out.extend(doubles.map(|&bytes| f64::from_ne_bytes(bytes) as f32));
        }
        FrameEncoding::Linear { swapped, scale, offset } => {
            for frame in view.values.chunks_exact(2 * scale.len()) {
                let frame = frame.as_chunks().0.iter().zip(scale).zip(offset);
                out.extend(frame.map(|((&bytes, scale), offset)| {
                    let stored = i16::from_ne_bytes(bytes);
                    let stored = if *swapped { stored.swap_bytes() } else { stored };
                    (f32::from(stored) + offset) / scale
                }));
            }
        }
    }
    Ok(())
}
