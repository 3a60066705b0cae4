//! Storage of a segment's data: which parts are stored, and how.

use super::chunks::file;
use super::{FRONT, Fast, PADDING, Report, Rules, rules, spans};
use crate::ctf::segment::{self, Scratch, Scratched, StreamLayout};
use crate::ctf::{TextDeserializer, TextOptions, TextStream};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::format::Loaded;
use cntk_reader_core::memory::compact::ValueForm;
use cntk_reader_core::memory::compact::arena::{Arena, Recycler};
use cntk_reader_core::stream::{ElementType, Ids, Storage};
use cntk_reader_engine::pack::plain::PlainSequence;
use std::sync::Arc;

/// Parses and packs a text.
fn pack<T: Scratched>(rules: &Rules, text: &str, narrow: bool) -> (Arena, Vec<StreamLayout>, Vec<u64>) {
    let mut scratch = Scratch::<T>::default();
    scratch.text_mut(text.len()).expect("memory").copy_from_slice(text.as_bytes());
    let mut report = Report::new(rules, 0);
    let spans = spans(rules, text.as_bytes());
    let (buffer, output) = (&*scratch.text, &mut scratch.output);
    assert!(buffer.len() >= FRONT + text.len() + PADDING);
    segment::parse(rules, &Fast::new(rules), spans.into_iter(), (buffer, text.len(), 0), output, &mut report)
        .expect("memory")
        .expect("good text");
    segment::pack(rules, output, narrow, &Recycler::default()).expect("memory")
}

/// Describes a layout: the tables that are stored, the size of indices, and the form of values.
fn shown(layout: &StreamLayout) -> String {
    let part = |is_stored: bool, text: &str| if is_stored { text.to_owned() } else { String::new() };
    let form = match layout.form {
        ValueForm::Decimal(form) => format!("decimals of {}", form.size()),
        form => format!("{form:?}"),
    };
    let values = if layout.values.is_some() { form } else { format!("no values, {form}") };
    format!(
        "{}{}{}{values}",
        part(layout.sequence_offsets.is_some(), "sequences "),
        part(layout.offsets.is_some(), "samples "),
        part(layout.narrow_indices, "u16 "),
    )
}

fn layouts<T: Scratched>(rules: &Rules, text: &str, narrow: bool) -> Vec<String> {
    pack::<T>(rules, text, narrow).1.iter().map(shown).collect()
}

#[test]
fn parts_are_stored_only_if_needed() {
    let ones = " 1".repeat(16);
    let halves = " 0.5".repeat(16);
    let some = " 3:0.5".repeat(16);
    let few = format!("{}|x 1", " 3:0.5".repeat(15));
    for (streams, text, plain, narrow) in [
        ("x:1", "|x 1\n|x 255\n".to_owned(), "Whole", "Byte"),
        ("x:1", "|x 1\n|x 256\n".to_owned(), "Whole", "Whole"),
        ("x:1", "|x 0.5\n".to_owned(), "Whole", "Whole"),
        ("x:1", "1 |x 1\n1 |x 2\n2 |x 3\n".to_owned(), "sequences Whole", "sequences Byte"),
        ("x:15", format!("|x{}\n", &halves[4..]), "Whole", "Whole"),
        ("x:16", format!("|x{halves}\n"), "Whole", "decimals of 1"),
        ("x:16", format!("|x{ones}\n"), "Whole", "Byte"),
        ("x:16", format!("|x{} 123.4567\n", &halves[4..]), "Whole", "decimals of 3"),
        ("s:9s", "|s 1:1\n|s 2:1\n".to_owned(), "no values, Whole", "u16 no values, Whole"),
        ("s:9s", "|s 1:2\n|s 2:1\n".to_owned(), "Whole", "u16 Byte"),
        ("s:9s", "|s 1:0.5\n|s 2:1\n".to_owned(), "Whole", "u16 Whole"),
        (
            "s:9s",
            "|s 1:1 2:1\n|s 2:1\n".to_owned(),
            "samples no values, Whole",
            "samples u16 no values, Whole",
        ),
        (
            "s:9s",
            "1 |s 1:1\n1 |s 2:1\n".to_owned(),
            "sequences no values, Whole",
            "sequences u16 no values, Whole",
        ),
        ("s:70000s", "|s 65535:1\n".to_owned(), "no values, Whole", "u16 no values, Whole"),
        ("s:70000s", "|s 65536:1\n".to_owned(), "no values, Whole", "no values, Whole"),
        ("s:9s", format!("|s{some}\n"), "samples Whole", "samples u16 decimals of 1"),
        ("s:9s", format!("|s{some} 3:123.4567\n"), "samples Whole", "samples u16 Whole"),
        // 16 entries in a sample on average.
        (
            "s:9s",
            format!("1 |s{some}\n1 |s{some}\n"),
            "sequences samples Whole",
            "sequences samples u16 decimals of 1",
        ),
        (
            "s:9s",
            format!("1 |s{some}\n1 |s 1:0.5\n"),
            "sequences samples Whole",
            "sequences samples u16 Whole",
        ),
        ("s:9s=int32", "|s 1:1\n|s 2:1\n".to_owned(), "Whole", "u16 Narrow"),
        ("s:70000s=int32", "|s 65536:1\n".to_owned(), "Whole", "Whole"),
        ("s:70000s=int64", "|s 65536:1\n".to_owned(), "Int", "Int"),
        ("s:70000s=int64", "|s 65535:1\n".to_owned(), "Int", "u16 Narrow"),
        ("x:1=int16", "|x 1\n|x 2\n".to_owned(), "Whole", "Whole"),
    ] {
        let rules = rules(streams, 0);
        assert_eq!(layouts::<f32>(&rules, &text, false), [plain], "{streams} {text:?}");
        assert_eq!(layouts::<f32>(&rules, &text, true), [narrow], "{streams} {text:?}");
    }
    // Doubles are not stored as decimals.
    assert_eq!(layouts::<f64>(&rules("x:16", 0), &format!("|x{halves}\n"), true), ["Whole"]);
    assert_eq!(
        layouts::<f32>(&rules("s:9s x:1", 0), &format!("|s{few}\n"), true),
        ["samples u16 Whole", "Byte"]
    );
}

#[test]
fn long_sequences_store_values_of_1() {
    // The longest sequence whose values and offsets are not stored, in samples and in entries.
    for (samples, is_implied) in [(4095, true), (4096, false)] {
        let text = "1 |s 1:1\n".repeat(samples);
        let expected = if is_implied { "sequences no values, Whole" } else { "sequences samples Whole" };
        assert_eq!(layouts::<f32>(&rules("s:9s", 0), &text, false), [expected]);
        let text = format!("1 |s{}\n", " 1:1".repeat(samples));
        let expected = if is_implied { "samples no values, Whole" } else { "samples Whole" };
        assert_eq!(layouts::<f32>(&rules("s:9s", 0), &text, false), [expected]);
        let text = format!("2 |s 1:1\n1 |s\n{}", "1 |s\n".repeat(samples - 1));
        let expected =
            if is_implied { "sequences samples no values, Whole" } else { "sequences samples Whole" };
        assert_eq!(layouts::<f32>(&rules("s:9s", 0), &text, false), [expected]);
    }
}

#[test]
fn equal_tables_are_stored_once() {
    let rules = rules("a:1 b:1 c:1 d:1 e:1s", 0);
    let text =
        "1 |a 1|b 1|c 1|d 1|e 0:1\n1 |a 1|c 1|e 0:1\n2 |a 1|b 1|c 1|d 1|e 0:1\n2 |b 1|e 0:1|c 1\n2 |c 1\n";
    let (arena, layouts, _) = pack::<f32>(&rules, text, false);
    let tables: Vec<_> = layouts
        .iter()
        .map(|layout| layout.sequence_offsets.map(|place| arena.get::<u32>(place, 0, 3).to_vec()))
        .collect();
    let table = |offsets: [u32; 3]| Some(offsets.to_vec());
    assert_eq!(tables, [table([0, 2, 3]), table([0, 1, 3]), table([0, 2, 5]), None, table([0, 2, 4])]);
    let text = "1 |a 1|b 1|c 1|d 1|e 0:1\n1 |b 1|c 1|e 0:1\n2 |a 1|b 1|c 1|d 1|e 0:1\n";
    let (_, layouts, _) = pack::<f32>(&rules, text, false);
    let places: Vec<_> = layouts.iter().map(|layout| layout.sequence_offsets).collect();
    assert!(places[1].is_some());
    assert_eq!(places, [None, places[1], places[1], None, places[1]]);
    // A sequence that is left out has no sample.
    let lenient = Rules { strict: false, ..rules };
    let text = "1 |a 1|b 1|c 1|d 1|e 0:1\n1 |a 1|b 1|c 1|d 1|e 0:1\n2 |a 1\n";
    let (_, layouts, _) = pack::<f32>(&lenient, text, false);
    assert!(layouts.iter().all(|layout| layout.sequence_offsets.is_some()));
}

#[test]
fn unusual_values_are_counted_by_stream() {
    let rules = rules("x:2 s:9s t:2=float16 i:9s=int32 n:2=int16", 0);
    let text =
        "1 |x 1 1e39|s 1:1e39 2:-1e39 3:1|t 1e9 1|i 1:1|n 1 1\n2 |x -1e39 1|s 1:1|t 1 -1e9|i 1:1|n 1 1\n";
    for narrow in [false, true] {
        assert_eq!(pack::<f32>(&rules, text, narrow).2, [2, 2, 2, 0, 0]);
        assert_eq!(pack::<f64>(&rules, text, narrow).2, [0, 0, 2, 0, 0]);
    }
}

/// All storage forms read like the text.
#[test]
fn stored_data_read_like_the_text() {
    let stream = |name: &str, dim, storage, element, ids| TextStream {
        name: name.into(),
        alias: name.into(),
        dim,
        storage,
        defines_mb_size: false,
        element,
        ids,
    };
    let sparse = Storage::SparseCsc;
    let ids = |element| Some(Ids { element, padding: 0 });
    let lines = |sequence: u32| 1 + sequence % 3;
    for (element, narrow, factor) in [
        (ElementType::Float, false, 1),
        (ElementType::Float, true, 1),
        (ElementType::Float, true, 700),
        (ElementType::Double, true, 1),
    ] {
        let dim = 1 << 20;
        let mut text = String::new();
        for sequence in 0..200u32 {
            for line in 0..lines(sequence) {
                let at = 7 * sequence + line;
                let index = factor * at;
                text += &format!(
                    "{sequence} |i {index}:1 |j {index}:1 |t {at} -{line} |w {index}:1 |e {line}:2 {index}:0.5 |x {line} 7\n"
                );
            }
        }
        let file = file(text.as_bytes());
        let options = TextOptions {
            element,
            streams: vec![
                stream("e", dim, sparse, None, None),
                stream("i", dim, sparse, None, ids(ElementType::Int32)),
                stream("j", dim, sparse, None, ids(ElementType::Int64)),
                stream("t", 2, Storage::Dense, Some(ElementType::Int16), None),
                stream("w", dim, sparse, None, None),
                stream("x", 2, Storage::Dense, None, None),
            ],
            ..super::chunks::options(&file, 0)
        };
        let opened = TextDeserializer::open(&options, &Arc::new(Corpus::Numeric)).expect("opens");
        let opened = if narrow { opened.narrow() } else { opened };
        let infos = options.stream_infos();
        let chunk = opened.load(0).expect("loads");
        let float = |value: f64| match element {
            ElementType::Double => value.to_ne_bytes().to_vec(),
            _ => (value as f32).to_ne_bytes().to_vec(),
        };
        for sequence in 0..200u32 {
            let ats: Vec<u32> = (0..lines(sequence)).map(|line| 7 * sequence + line).collect();
            let expected: Vec<Vec<u8>> = vec![
                ats.iter().flat_map(|_| [float(2.0), float(0.5)].concat()).collect(),
                ats.iter().flat_map(|&at| (factor * at).to_ne_bytes()).collect(),
                ats.iter().flat_map(|&at| u64::from(factor * at).to_ne_bytes()).collect(),
                ats.iter()
                    .zip(0i16..)
                    .flat_map(|(&at, line)| [at as i16, -line])
                    .flat_map(i16::to_ne_bytes)
                    .collect(),
                ats.iter().flat_map(|_| float(1.0)).collect(),
                ats.iter().zip(0..).flat_map(|(_, line)| [float(line.into()), float(7.0)].concat()).collect(),
            ];
            let mut loaded = vec![Loaded::Invalid; 6];
            chunk.sequences(sequence, &mut loaded);
            for (number, (loaded, values)) in loaded.iter().zip(&expected).enumerate() {
                let Loaded::Data(view) = loaded else { panic!("{loaded:?}") };
                assert_eq!(view.samples as usize, ats.len());
                let mut plain = PlainSequence::default();
                let view = plain.decode(view, &infos[number]).expect("decodes");
                assert_eq!(view.values, values, "sequence {sequence}, stream {number}");
            }
            let indices = |stream: usize| {
                let Loaded::Data(view) = chunk.sequence(stream, sequence) else { panic!("no data") };
                let mut plain = PlainSequence::default();
                let view = plain.decode(&view, &infos[stream]).expect("decodes");
                let sparse = *view.sparse().expect("sparse");
                let indices =
                    sparse.indices.as_chunks::<4>().0.iter().map(|bytes| u32::from_ne_bytes(*bytes));
                let first = sparse.offsets[0];
                (indices.collect::<Vec<_>>(), sparse.offsets.iter().map(|at| at - first).collect::<Vec<_>>())
            };
            let count = ats.len() as u32;
            let words = ats.iter().map(|&at| factor * at).collect();
            assert_eq!(indices(4), (words, (0..=count).collect()));
            let entries = ats.iter().zip(0..).flat_map(|(&at, line)| [line, factor * at]).collect();
            assert_eq!(indices(0), (entries, (0..=count).map(|sample| 2 * sample).collect()));
        }
    }
}

#[test]
fn large_buffers_are_not_kept() {
    for (size, is_kept) in [(1 << 20, true), (9 << 20, false)] {
        let kept = f64::with_scratch(|scratch| {
            scratch.text_mut(size).expect("memory");
            scratch.text.len()
        });
        let now = f64::with_scratch(|scratch| scratch.text.len());
        assert_eq!(now, if is_kept { kept } else { 0 });
    }
    let room = |values: usize| {
        f64::with_scratch(|scratch| {
            scratch.output.reset(&rules("x:1", 0));
            scratch.output.columns[0].values.spare(values).expect("memory");
        });
        f64::with_scratch(|scratch| scratch.output.columns.len())
    };
    assert_eq!([1 << 20, 5 << 20].map(room), [1, 0]);
}
