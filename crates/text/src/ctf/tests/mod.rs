//! Compares the two parsers with CNTK's recorded behaviour and with each other.

mod checks;
mod chunks;
mod differential;
mod fast;
mod files;
pub mod log;
mod long;
mod messages;
mod segments;
mod tables;
mod types;

use super::index::SequenceSpan;
use super::parse::exact;
use super::parse::fast::{FRONT, Fast, PADDING};
use super::parse::output::Output;
use super::parse::report::{Report, Stop};
use super::parse::rules::{Rules, StreamRule};
use super::{TextStream, segment};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::cpu::processor::Processor;
use cntk_reader_core::memory::compact::Value;
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::stream::{ElementType, Ids, Storage};
use std::sync::Arc;

/// Returns rules for streams written as `x:2` (dense, dimension 2), `s:10s` (sparse), `x:2=int16`
/// (dense, with its own type) or `s:10s=int32` (ids); a `*` after it marks the main stream.
pub fn rules(streams: &str, max_errors: u64) -> Rules {
    let mut main = None;
    let streams: Vec<StreamRule> = streams
        .split_whitespace()
        .enumerate()
        .map(|(i, text)| {
            let (name, dim) = text.split_once(':').expect("name:dim");
            if dim.ends_with('*') {
                main = Some(i);
            }
            let dim = dim.trim_end_matches('*');
            let (dim, element) = dim.split_once('=').map_or((dim, None), |(dim, element)| {
                (dim, Some(ElementType::from_name(element).expect("a type")))
            });
            let sparse = dim.ends_with('s');
            let stream = TextStream {
                name: name.to_owned(),
                alias: name.to_owned(),
                dim: dim.trim_end_matches('s').parse().expect("a dimension"),
                storage: if sparse { Storage::SparseCsc } else { Storage::Dense },
                defines_mb_size: false,
                element: element.filter(|_| !sparse),
                ids: element.filter(|_| sparse).map(|element| Ids { element, padding: 0 }),
            };
            StreamRule::new(&stream, ElementType::Float)
        })
        .collect();
    Rules {
        file: "test.ctf".to_owned(),
        longest_alias: streams.iter().map(|stream| stream.alias.len()).max().unwrap_or(0),
        refuses_long_names: false,
        refuses_text_ids: true,
        streams,
        main,
        strict: true,
        max_errors,
        log: Logger::new(0),
        corpus: Arc::new(Corpus::Numeric),
    }
}

/// Returns a simple index of a text: one sequence per line, or per id if the first line has one.
pub fn spans(rules: &Rules, text: &[u8]) -> Vec<SequenceSpan> {
    let bom = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let white = text[bom..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let by_line = text.get(bom + white) == Some(&b'|');
    let is_counted = |line: &[u8]| {
        rules.main.is_none_or(|main| {
            let mut name = b"|".to_vec();
            name.extend(&rules.streams[main].alias);
            let ends = |&next: &u8| next == b'|' || (next as i8) <= 0x20;
            (0..line.len()).any(|i| line[i..].starts_with(&name) && line.get(i + name.len()).is_none_or(ends))
        })
    };
    let id = |line: &[u8]| {
        let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (digits > 0 && digits < line.len()).then(|| {
            line[..digits].iter().fold(0u64, |key, &b| key.wrapping_mul(10).wrapping_add(u64::from(b - b'0')))
        })
    };
    let mut found: Vec<SequenceSpan> = Vec::new();
    let mut open: Option<SequenceSpan> = None;
    let mut at = 0;
    for (number, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let start = at as u64;
        at += line.len();
        if by_line {
            let blank_head = (start as usize) < bom + white && at <= bom + white;
            if is_counted(line) && !blank_head {
                let skipped = (bom + white).saturating_sub(start as usize) as u64;
                found.push(SequenceSpan {
                    key: number as u64,
                    samples: 1,
                    offset: start + skipped,
                    size: line.len() as u32 - skipped as u32,
                });
            }
            continue;
        }
        let skipped = (bom + white).saturating_sub(start as usize).min(line.len());
        if skipped == line.len() {
            continue;
        }
        let key = id(&line[skipped..]);
        if key.is_some() && open.map(|span| span.key) != key {
            found.extend(open.filter(|span| span.samples > 0));
            let key = key.unwrap_or_default();
            open = Some(SequenceSpan { key, samples: 0, offset: start + skipped as u64, size: 0 });
        }
        if let Some(span) = &mut open {
            span.size = (at as u64 - span.offset) as u32;
            let vanishes = line.iter().all(|byte| byte.is_ascii_digit());
            span.samples += u32::from(is_counted(line) && !vanishes);
        }
    }
    found.extend(open.filter(|span| span.samples > 0));
    found
}

/// One stream of one sequence, as bits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Data {
    pub samples: usize,
    pub values: Vec<u64>,
    pub indices: Vec<i32>,
    pub counts: Vec<u32>,
}

/// Parsed data, by sequence and stream.
pub type Sequences = Vec<Vec<Data>>;

/// Selects a parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The fast parser, then the exact one.
    Fast,
    /// The same with the instructions of another processor.
    FastOn(Processor),
    /// Only the exact parser.
    Exact,
}

/// Types of value with comparable bits.
pub trait Bits: Value {
    fn bits(self) -> u64;
}
impl Bits for f32 {
    fn bits(self) -> u64 {
        u64::from(self.to_bits())
    }
}
impl Bits for f64 {
    fn bits(self) -> u64 {
        self.to_bits()
    }
}

/// Parses a whole text; also returns the number of errors.
pub fn parse<T: Bits>(rules: &Rules, text: &[u8], way: Way) -> Result<(Sequences, u64), Stop> {
    parse_spans::<T>(rules, &spans(rules, text), text, way)
}

/// Like [`parse`], for a text with these sequences.
pub fn parse_spans<T: Bits>(
    rules: &Rules,
    spans: &[SequenceSpan],
    text: &[u8],
    way: Way,
) -> Result<(Sequences, u64), Stop> {
    let mut output = Output::<T>::default();
    let mut report = Report::new(rules, rules.max_errors);
    match way {
        Way::Fast | Way::FastOn(_) => {
            let mut padded = vec![b'7'; FRONT];
            padded.extend(text);
            // A scan that runs into the padding would read digits.
            padded.extend([b'7'; PADDING]);
            let fast =
                if let Way::FastOn(processor) = way { Fast::on(rules, processor) } else { Fast::new(rules) };
            let text = (&padded[..], text.len(), 0);
            segment::parse(rules, &fast, spans.iter().copied(), text, &mut output, &mut report)
                .expect("memory")?;
        }
        Way::Exact => {
            output.reset(rules);
            for span in spans {
                let range = span.offset as usize..span.offset as usize + span.size as usize;
                exact::read_sequence(rules, span, &text[range], &mut output, &mut report)?;
            }
        }
    }
    Ok((unpacked(rules, &output), report.errors()))
}

fn unpacked<T: Bits>(rules: &Rules, output: &Output<T>) -> Sequences {
    let data = |sequence: usize, stream: usize| {
        let column = &output.columns[stream];
        let (first, end) =
            (column.sequence_offsets[sequence] as usize, column.sequence_offsets[sequence + 1] as usize);
        let bits = |values: &[T]| values.iter().map(|value| value.bits()).collect();
        if rules.streams[stream].sparse {
            let starts = &column.offsets[first..=end];
            let range = starts[0] as usize..starts[end - first] as usize;
            Data {
                samples: end - first,
                values: bits(&column.values[range.clone()]),
                indices: column.indices[range].to_vec(),
                counts: starts.windows(2).map(|pair| pair[1] - pair[0]).collect(),
            }
        } else if let Some(typed) = &rules.streams[stream].typed {
            let size = rules.streams[stream].dim * typed.element().size();
            let bytes = column.typed[first * size..end * size].iter();
            Data { samples: end - first, values: bytes.map(|&byte| byte.into()).collect(), ..Data::default() }
        } else {
            let dim = rules.streams[stream].dim;
            let values = bits(&column.values[first * dim..end * dim]);
            Data { samples: end - first, values, ..Data::default() }
        }
    };
    (0..output.sequences() as usize)
        .map(|sequence| (0..rules.streams.len()).map(|stream| data(sequence, stream)).collect())
        .collect()
}

/// Formats sequences as text: samples joined by `;`, streams by `,`, sequences by ` / `.
pub fn shown(rules: &Rules, keys: &[SequenceSpan], sequences: &Sequences) -> String {
    let value = |bits: u64| f64::from_bits(bits).to_string();
    let stream = |rule: &StreamRule, data: &Data| {
        let samples: Vec<String> = if rule.sparse {
            let mut entries = data.indices.iter().zip(&data.values);
            let entry = |(index, bits): (&i32, &u64)| format!("{index}:{}", value(*bits));
            data.counts
                .iter()
                .map(|&count| entries.by_ref().take(count as usize).map(entry).collect::<Vec<_>>().join(" "))
                .collect()
        } else {
            let sample =
                |values: &[u64]| values.iter().map(|&bits| value(bits)).collect::<Vec<_>>().join(" ");
            data.values.chunks(rule.dim.max(1)).map(sample).collect()
        };
        samples.join(";")
    };
    keys.iter()
        .zip(sequences)
        .map(|(span, streams)| {
            let streams: Vec<String> =
                rules.streams.iter().zip(streams).map(|(rule, data)| stream(rule, data)).collect();
            format!("{}={}", span.key, streams.join(","))
        })
        .collect::<Vec<_>>()
        .join(" / ")
}
