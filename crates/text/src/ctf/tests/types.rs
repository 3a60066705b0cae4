//! Compares streams with their own types, and ids, with a simple parser that works on decimal text.

use super::{Data, Way, parse, rules};
use crate::ctf::parse::cause::Cause;
use crate::ctf::parse::number::read;
use crate::ctf::parse::rules::Rules;
use cntk_reader_core::cpu::processor::Processor;
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::stream::{Element, ElementType, bf16, f16};
use cntk_reader_core::testing::cases;
use proptest::prelude::*;

/// Returns the integer that a number equals, by moving the point of its text; `None` if it has a
/// fraction.
fn integer(text: &str) -> Option<String> {
    let (negative, text) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let power: i64 = power.parse().expect("a small power");
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let point = whole.len() as i64 + power;
    let digits = match point {
        ..0 => format!("{}{digits}", "0".repeat(point.unsigned_abs() as usize)),
        _ => format!("{digits}{}", "0".repeat((point - digits.len() as i64).max(0) as usize)),
    };
    let (whole, fraction) = digits.split_at(point.max(0) as usize);
    if fraction.bytes().any(|byte| byte != b'0') {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    match (whole, negative) {
        ("", _) => Some("0".to_owned()),
        (whole, true) => Some(format!("-{whole}")),
        (whole, false) => Some(whole.to_owned()),
    }
}

/// Returns the bytes of a value; integers are parsed by Rust's library.
fn bytes(element: ElementType, text: &str) -> Option<Vec<u8>> {
    let integer = || integer(text);
    // CNTK's rounding has separate tests.
    let number = || read(text.as_bytes()).value.expect("a number");
    Some(match element {
        ElementType::UInt8 => integer()?.parse::<u8>().ok()?.to_ne_bytes().to_vec(),
        ElementType::Int16 => integer()?.parse::<i16>().ok()?.to_ne_bytes().to_vec(),
        ElementType::Int32 => integer()?.parse::<i32>().ok()?.to_ne_bytes().to_vec(),
        ElementType::Int64 => integer()?.parse::<i64>().ok()?.to_ne_bytes().to_vec(),
        ElementType::Bool => match &*integer()? {
            "0" => vec![0],
            "1" => vec![1],
            _ => return None,
        },
        ElementType::Float16 => f16::from_f64(number()).to_ne_bytes().to_vec(),
        ElementType::BFloat16 => bf16::from_f64(number()).to_ne_bytes().to_vec(),
        ElementType::Float => (number() as f32).to_ne_bytes().to_vec(),
        ElementType::Double => number().to_ne_bytes().to_vec(),
    })
}

/// Numbers at the limits of types, in several notations.
fn number() -> impl Strategy<Value = String> {
    let limit = prop::sample::select(vec![
        0i128,
        1,
        2,
        127,
        128,
        255,
        256,
        32767,
        32768,
        65535,
        2147483647,
        2147483648,
        9007199254740993,
        9223372036854775807,
        9223372036854775808,
        18446744073709551616,
        100000000000000000000000000,
    ]);
    let near = (limit, -1i128..2, any::<bool>()).prop_map(|(limit, by, negative)| {
        let number = limit + by;
        if negative { -number } else { number }.to_string()
    });
    prop_oneof![
        4 => "[01]",
        4 => "-?[0-9]{1,3}",
        2 => near.clone(),
        1 => (near.clone(), "(\\.0{0,3}|\\.0{1,25}[eE]\\+?0|[eE][+-]?0)").prop_map(|(number, end)| number + &end),
        1 => (near, 1usize..12).prop_map(|(number, zeros)| format!("{number}{}e-{zeros}", "0".repeat(zeros))),
        1 => "[+-]?0{0,3}[0-9]{1,3}\\.[0-9]{1,3}",
        1 => "[+-]?[0-9]{1,2}(\\.[0-9]{1,2})?[eE][+-]?[0-9]",
    ]
}

fn blanks() -> impl Strategy<Value = &'static str> {
    prop_oneof![8 => Just(" "), 1 => Just("\t"), 1 => Just("   "), 1 => Just(" \t ")]
}

/// Values of a sample: the blanks before each value, and its text.
type Sample = Vec<(&'static str, String)>;

/// Mostly values that fit a type, so that most samples are good.
fn sample(element: ElementType, dim: usize) -> impl Strategy<Value = Sample> {
    let fitting = number().prop_map(move |text| match bytes(element, &text) {
        Some(_) => text,
        None => "1".to_owned(),
    });
    let value = prop_oneof![30 => fitting, 1 => number()];
    proptest::collection::vec((blanks(), value), dim)
}

/// Returns the data and errors in lines with one sample of each stream, all in one sequence.
fn expected(rules: &Rules, lines: &[Vec<Sample>]) -> (Vec<Data>, u64) {
    let mut streams = vec![Data::default(); rules.streams.len()];
    let (mut errors, mut longest) = (0, 0);
    for line in lines {
        let mut good = 0;
        for ((stream, rule), sample) in streams.iter_mut().zip(&rules.streams).zip(line) {
            let values: Option<Vec<_>> = sample.iter().map(|(_, text)| bytes(rule.element, text)).collect();
            match values {
                Some(values) => {
                    stream.values.extend(values.concat().into_iter().map(u64::from));
                    stream.samples += 1;
                    good += 1;
                }
                None => errors += 1,
            }
        }
        errors += u64::from(good == 0);
    }
    streams.iter().for_each(|stream| longest = longest.max(stream.samples));
    errors += u64::from(longest < lines.len());
    (streams, errors)
}

fn ways() -> impl Iterator<Item = Way> {
    let processors = Processor::all().map(Way::FastOn);
    [Way::Fast, Way::Exact].into_iter().chain(processors)
}

/// Writes lines, parses them in all ways, and compares with the simple parser.
fn check(rules: &Rules, lines: &[Vec<Sample>], end: &str) -> Result<(), TestCaseError> {
    let mut text = String::new();
    for line in lines {
        text.push('1');
        for (rule, sample) in rules.streams.iter().zip(line) {
            text += &format!("|{}", rule.name);
            sample.iter().for_each(|(gap, value)| text += &format!("{gap}{value}"));
        }
        text += end;
    }
    let (data, errors) = expected(rules, lines);
    for way in ways() {
        let found = parse::<f32>(rules, text.as_bytes(), way);
        if data.iter().any(|stream| stream.samples == 0) {
            prop_assert!(found.is_err_and(|stop| stop.fatal), "{way:?}");
        } else {
            prop_assert_eq!(found, Ok((vec![data.clone()], errors)), "{:?}", way);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(400)) })]

    #[test]
    fn values_match_a_simple_parser(
        lines in proptest::collection::vec(
            (
                sample(ElementType::UInt8, 3), sample(ElementType::Int16, 1), sample(ElementType::Int32, 2),
                sample(ElementType::Int64, 2), sample(ElementType::Bool, 1), sample(ElementType::Float16, 2),
                sample(ElementType::BFloat16, 1), sample(ElementType::Double, 1),
            ),
            1..6,
        ),
        end in prop_oneof![Just("\n"), Just(" \r\n"), Just("\t\n")],
    ) {
        let rules = rules(
            "a:3=uint8 b:1=int16 c:2=int32 d:2=int64 e:1=bool f:2=float16 g:1=bfloat16 h:1=float64",
            1000,
        );
        let lines: Vec<Vec<Sample>> =
            lines.into_iter().map(|(a, b, c, d, e, f, g, h)| vec![a, b, c, d, e, f, g, h]).collect();
        check(&rules, &lines, end)?;
    }

    /// Samples of many values, which are read by blocks.
    #[test]
    fn long_samples_match_a_simple_parser(
        a in sample(ElementType::UInt8, 40), b in sample(ElementType::Int64, 33), c in sample(ElementType::Int32, 17),
        d in sample(ElementType::Float16, 20), e in sample(ElementType::Bool, 64),
        plain in proptest::collection::vec("[0-9]{1,3}", 40), others in proptest::collection::vec(number(), 33),
    ) {
        let rules = rules("a:40=uint8 b:33=int64 c:17=int32 d:20=float16 e:64=bool", 1000);
        let of = |values: Vec<String>| values.into_iter().map(|value| (" ", value)).collect::<Sample>();
        let lines = [
            vec![a.clone(), b.clone(), c.clone(), d.clone(), e.clone()],
            vec![of(plain), of(others), c, d, e],
        ];
        check(&rules, &lines, "\n")?;
    }

    /// Corrupted text: both parsers report the same errors.
    #[test]
    fn parsers_agree_on_corrupted_text(
        text in "(1\\|a [0-9]{1,3} -?[0-9]{1,6}\\|s [0-9]:1[\r\n]{0,2}\n){1,4}",
        spoilt in proptest::collection::vec((any::<prop::sample::Index>(), "[|as0-9.:e+ \t\n-]"), 0..4),
        quiet: bool,
    ) {
        let mut text = text.into_bytes();
        for (place, byte) in spoilt {
            let place = place.index(text.len());
            text[place] = byte.as_bytes()[0];
        }
        let mut rules = rules("a:2=int16 s:8s=int32", 1000);
        if !quiet {
            rules.log = Logger::new(1);
        }
        let exact = parse::<f32>(&rules, &text, Way::Exact);
        for way in ways() {
            prop_assert_eq!(&parse::<f32>(&rules, &text, way), &exact, "{:?}", way);
        }
    }

    /// Ids are read like one-hot samples, if they are one-hot.
    #[test]
    fn ids_are_the_indices_of_one_hot_samples(
        lines in proptest::collection::vec((0u64..3, 0u32..12, 0u32..12), 1..20),
    ) {
        let text: String = lines.iter().map(|(key, s, t)| format!("{key} |s {s}:1 |t {t}:1\n")).collect();
        let (one_hot, ids) = (rules("s:12s t:10s", 1000), rules("s:12s=int32 t:10s=int64", 1000));
        for way in ways() {
            prop_assert_eq!(
                parse::<f32>(&ids, text.as_bytes(), way),
                parse::<f32>(&one_hot, text.as_bytes(), way)
            );
        }
    }
}

/// Returns the cause of the first error, and its offset.
fn first_error(streams: &str, text: &str) -> (Cause, u64) {
    let rules = rules(streams, 0);
    let stops: Vec<_> = ways()
        .map(|way| parse::<f32>(&rules, text.as_bytes(), way).expect_err("an error"))
        .map(|stop| (stop.cause(), stop.offset))
        .collect();
    stops.iter().for_each(|stop| assert_eq!(*stop, stops[0]));
    stops[0]
}

#[test]
fn invalid_ids_are_errors_with_places() {
    for (text, entries, offset) in
        [("|s \n", 0, 3), ("|s 1:1 2:1\n", 2, 10), ("|s 1:1 1:0|\n", 2, 10), ("|s 1:1\n|s 2:1 3:1\n", 2, 17)]
    {
        assert_eq!(first_error("s:8s=int32", text), (Cause::NoId { entries }, offset), "{text}");
    }
    for text in ["|s 1:2\n", "|s 1:0\n", "|s 1:-1\n", "|s 1:1.0000001\n"] {
        assert_eq!(first_error("s:8s=int32", text).0, Cause::WeightedId, "{text}");
    }
    assert!(matches!(first_error("s:8s=int32", "|s 8:1\n").0, Cause::IndexTooLarge { .. }));
    // An empty stream is not a sample without an entry.
    assert_eq!(first_error("s:8s=int32 x:1", "|x 1\n").0, Cause::EmptyStream);
}

#[test]
fn notations_of_one_are_ids() {
    let rules = rules("s:8s=int64", 0);
    let text = "|s 1:1\n|s\t2:1.0 \n|s 3:+1\r\n|s 4:1e0\n|s 5:10e-1\n|s 6:1.\n";
    for way in ways() {
        let (sequences, errors) = parse::<f32>(&rules, text.as_bytes(), way).expect("ids");
        let ids: Vec<i32> = sequences.iter().map(|streams| streams[0].indices[0]).collect();
        assert_eq!((ids, errors), (vec![1, 2, 3, 4, 5, 6], 0));
    }
}

/// Text without a final line break has special rules.
#[test]
fn text_without_a_final_line_break_is_read() {
    let rules = rules("x:2=int16", 0);
    for (text, values) in [("|x 7 -8", [7i16, -8]), ("|x 9 ", [9, 0]), ("|x 1 2 3", [1, 2])] {
        let (sequences, _) = parse::<f32>(&rules, text.as_bytes(), Way::Fast).expect("data");
        let bytes: Vec<u64> = values.iter().flat_map(|value| value.to_ne_bytes()).map(u64::from).collect();
        assert_eq!(sequences[0][0].values, bytes, "{text}");
    }
    assert!(matches!(first_error("x:2=int16", "|x 1 2.5").0, Cause::Misfit { .. }));
}

#[test]
fn a_type_is_that_of_its_values() {
    assert_eq!((f16::TYPE, bf16::TYPE), (ElementType::Float16, ElementType::BFloat16));
}
