//! Compares each instruction set with plain code, on random input.

use super::*;
use crate::ctf::parse::number::read;
use cntk_reader_core::cpu::processor::{Processor, for_each_instruction_set};
use cntk_reader_core::testing::cases;
use proptest::prelude::*;

/// Surrounds text with the bytes of a window: digits, which a conversion must not include. A number
/// at a block's start has no digit before it.
fn padded(text: &str) -> Vec<u8> {
    let mut padded = vec![b'7'; LEAD];
    padded[LEAD - 1] = b' ';
    padded.extend(text.bytes().take(BLOCK));
    padded.resize(LEAD + BLOCK, b' ');
    padded.extend([b'7'; TAIL]);
    padded
}

fn window(padded: &[u8]) -> Window<'_> {
    Window::at(padded, LEAD).expect("a window")
}

/// Returns the part of a text that fits into a block and ends with a space.
fn whole_words(text: &str) -> &str {
    let text = &text[..text.len().min(BLOCK)];
    text.rfind(' ').map_or("", |end| &text[..=end])
}

/// Returns the complete tokens of a block.
fn tokens(classes: &Classes) -> Tokens {
    let Classes { digit, dot, minus, .. } = *classes;
    let token = digit | dot | minus;
    Tokens { digit, dot, minus, ends: !token & (token << 1) }
}

/// Converts the numbers of a block together, if the instruction set can.
fn together<T: Value, S: Simd>(simd: S, text: &str) -> Option<Vec<T>> {
    let padded = padded(text);
    let window = window(&padded);
    let tokens = tokens(&simd.classify(window));
    let mut values = [T::default(); MAX_NUMBERS];
    let are_plain = simd.plain_numbers(window, &tokens, &mut values);
    are_plain.then(|| values[..tokens.ends.count_ones() as usize].to_vec())
}

/// Converts the numbers of a block one after the other.
fn one_by_one<S: Simd>(simd: S, text: &str) -> Option<Vec<f64>> {
    let padded = padded(text);
    let window = window(&padded);
    let Tokens { mut dot, minus, mut ends, digit } = tokens(&simd.classify(window));
    let token = digit | dot | minus;
    let mut starts = token & !(token << 1);
    let mut values = Vec::new();
    while ends != 0 {
        values.push(number(window, starts.trailing_zeros(), ends.trailing_zeros(), &mut dot, minus)?);
        starts &= starts - 1;
        ends &= ends - 1;
    }
    (dot == 0).then_some(values)
}

/// Returns the numbers as the exact parser reads them.
fn expected(text: &str) -> Vec<f64> {
    text.split_ascii_whitespace().map(|word| read(word.as_bytes()).value.expect("a number")).collect()
}

/// Compares numbers that are converted together with the exact parser; returns whether they are.
fn agree<T: Value, S: Simd>(simd: S, text: &str) -> bool {
    let expected: Vec<T> = expected(text).into_iter().map(T::from_f64).collect();
    let found = together::<T, S>(simd, text);
    assert!(found.iter().all(|values| format!("{values:?}") == format!("{expected:?}")), "{found:?}");
    found.is_some()
}

/// Whether this instruction set converts numbers with fractions together.
fn is_wide<S: Simd>(simd: S) -> bool {
    together::<f32, S>(simd, "1.5 ").is_some()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(10_000)) })]

    #[test]
    fn bytes_are_classified(
        text in proptest::collection::vec(any::<u8>(), LEAD + BLOCK + TAIL),
        likely in proptest::collection::vec(prop::sample::select(&b" \t0123456789.-:|\n"[..]), BLOCK),
        is_likely: bool,
    ) {
        let mut text = text;
        if is_likely {
            text[LEAD..LEAD + BLOCK].copy_from_slice(&likely);
        }
        let block = &text[LEAD..LEAD + BLOCK];
        let mask = |rule: &dyn Fn(u8) -> bool| {
            block.iter().rev().fold(0u64, |mask, &byte| mask << 1 | u64::from(rule(byte)))
        };
        let expected = Classes {
            space: mask(&|byte| byte == b' ' || byte == b'\t'),
            digit: mask(&|byte| byte.is_ascii_digit()),
            dot: mask(&|byte| byte == b'.'),
            minus: mask(&|byte| byte == b'-'),
            colon: mask(&|byte| byte == b':'),
        };
        for_each_instruction_set!(simd => {
            prop_assert_eq!(simd.classify(window(&text)), expected);
            prop_assert_eq!(simd.printable(window(&text)), mask(&|byte| (0x21..0x80).contains(&byte)));
            for byte in [b'|', b'\n', b'\r', 0, 0xff] {
                prop_assert_eq!(simd.equal(window(&text), byte), mask(&|other| other == byte));
            }
        });
    }

    #[test]
    fn mask_bits_are_selected(bits: u64, mask: u64, thin: u64, count in 0u32..=64) {
        for mask in [mask, mask & thin & thin.rotate_left(7)] {
            let places: Vec<u32> = (0..64).filter(|i| mask >> i & 1 == 1).collect();
            let picked = places.iter().rev().fold(0, |picked, i| picked << 1 | (bits >> i & 1));
            let lowest = (0..count).fold(0, |lowest, i| lowest | (bits & 1 << i));
            for_each_instruction_set!(simd => {
                prop_assert_eq!(simd.lowest(bits, count), lowest);
                prop_assert_eq!(simd.extract(bits, mask), picked);
            });
        }
    }

    #[test]
    fn patterns_are_compared(
        text in prop::string::string_regex(&format!("[ab|]{{{}}}", LEAD + BLOCK + TAIL)).expect("a pattern"),
        words in proptest::array::uniform8("[ab|]{8}"),
        masks in proptest::array::uniform8(0u32..=2),
        distances in proptest::array::uniform8(0u8..=7),
        wrong in proptest::option::weighted(0.5, (0usize..LANES, 1u8..=7)),
        count in 0usize..=LANES,
    ) {
        let at: Vec<usize> = (0..BLOCK - 8).filter(|&i| text.as_bytes()[LEAD + i] == b'|').take(LANES).collect();
        let count = count.min(at.len());
        // Marks and places alternate.
        let mut distances = distances;
        for (lane, two) in at.windows(2).enumerate() {
            distances[lane] = distances[lane].min((two[1] - two[0] - 1) as u8);
        }
        let marks: Vec<usize> = at.iter().zip(distances).map(|(&at, distance)| at + usize::from(distance)).collect();
        let bits = |places: &[usize]| places.iter().fold(0, |bits, i| bits | 1u64 << i);
        let after = |at: usize| u64::from_le_bytes(text.as_bytes()[LEAD + at + 1..][..8].try_into().expect("8 bytes"));
        let word = |word: &String| u64::from_le_bytes(word.as_bytes().try_into().expect("8 bytes"));
        let mut pattern = Pattern { distances, ..Pattern::default() };
        for lane in 0..LANES {
            pattern.masks[lane] = (1u64 << (8 * masks[lane])) - 1;
            pattern.words[lane] = match at.get(lane) {
                Some(&at) if wrong.is_none_or(|(wrong, _)| wrong != lane) => after(at),
                _ => word(&words[lane]),
            };
        }
        let window = window(text.as_bytes());
        let differs = |lane: usize| (after(at[lane]) ^ pattern.words[lane]) & pattern.masks[lane] != 0;
        let expected = !(0..count).any(differs);
        let apart = wrong.filter(|&(lane, _)| lane < count);
        for_each_instruction_set!(simd => {
            let found = simd.follows(window, bits(&at), bits(&marks), count as u32, &pattern);
            prop_assert_eq!(found, expected);
            if let Some((lane, distance)) = apart {
                let mut pattern = pattern.clone();
                pattern.distances[lane] ^= distance;
                prop_assert!(!simd.follows(window, bits(&at), bits(&marks), count as u32, &pattern));
            }
        });
    }

    #[test]
    fn plain_numbers_are_converted(
        text in " {0,2}((-?[0-9]{1,8}(\\.[0-9]{0,8})?|[0-9]) {1,2}){0,20}",
        long in " ?(-?[0-9]{1,8}(\\.[0-9]{0,23})? {1,2}){0,4}",
    ) {
        for text in [&text, &long] {
            let text = whole_words(text);
            for_each_instruction_set!(simd => {
                let are_together = agree::<f32, _>(simd, text) && agree::<f64, _>(simd, text);
                prop_assert!(are_together || !is_wide(simd), "{text}");
                let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect::<Vec<_>>();
                prop_assert_eq!(one_by_one(simd, text).map(bits), Some(bits(expected(text))));
            });
        }
    }

    #[test]
    fn short_integers_are_converted(text in "(-?[0-9]{1,4} {1,2}){0,32}", tail in "( [0-9]){0,32}") {
        for text in [text, tail + " "] {
            let text = whole_words(&text);
            for_each_instruction_set!(simd => {
                let are_together = agree::<f32, _>(simd, text) && agree::<f64, _>(simd, text);
                prop_assert!(are_together || !is_wide(simd), "{text}");
            });
        }
    }

    #[test]
    fn other_numbers_are_rejected(
        words in "[0-9]{1,9}|-?[0-9]\\.\\.[0-9]|[0-9]\\.[0-9]\\.[0-9]|1\\.[0-9]{24,30}|[0-9]{9,12}\\.5"
    ) {
        let is_plain = words.len() <= 8 && words.bytes().all(|byte| byte.is_ascii_digit());
        let is_number = words.matches('.').count() <= 1;
        let text = format!("1.5 {words} 2.5 ");
        for_each_instruction_set!(simd => {
            prop_assert!(!is_wide(simd) || together::<f32, _>(simd, &text).is_some() == is_plain, "{text}");
            prop_assert_eq!(one_by_one(simd, &text).is_some(), is_number, "{}", text);
        });
    }

    #[test]
    fn entries_are_converted(
        entries in proptest::collection::vec(("[0-9]{1,8}", "[0-9]{1,8}", " {1,2}"), 0..16),
        signed in proptest::collection::vec(("[0-9]{1,3}", "-?[0-9]{1,8}", " {1,2}"), 0..16),
        short in proptest::collection::vec(("[0-9]", "[0-9]", " "), 0..16),
        limit in prop_oneof![Just(u32::MAX), 0u32..100_000_000, 0u32..12],
        order in Just([0u32, 1, 2, 3, 4, 5, 6, 7]).prop_shuffle(),
    ) {
        for entries in [entries, signed, short] {
            let text: String = entries.iter().map(|(index, value, gap)| format!("{index}:{value}{gap}")).collect();
            let text = whole_words(&text);
            let pairs = text.split_ascii_whitespace().map(|entry| entry.split_once(':').expect("a colon"));
            let (indices, values): (Vec<i32>, Vec<f64>) = pairs
                .map(|(index, value)| (index.parse::<i32>().expect("an index"), value.parse::<f64>().expect("a value")))
                .unzip();
            let are_below = indices.iter().all(|&index| (index as u32) < limit);
            let padded = padded(text);
            for_each_instruction_set!(simd => {
                let classes = simd.classify(window(&padded));
                let SignedEntries { entries: found, negative } =
                    SignedEntries::of(simd, classes.digit, 0, classes.minus, classes.colon).expect("entries");
                let signs = values.iter().enumerate().filter(|(_, value)| value.is_sign_negative());
                prop_assert_eq!(simd.lowest(negative, values.len() as u32), signs.fold(0, |bits, (i, _)| bits | 1 << i));
                let values: Vec<f64> = values.iter().map(|value| value.abs()).collect();
                prop_assert_eq!(found.ends.count_ones() as usize, indices.len());
                let mut to_indices = [0; MAX_ENTRIES];
                let (mut floats, mut doubles) = ([0f32; MAX_ENTRIES], [0f64; MAX_ENTRIES]);
                prop_assert_eq!(simd.entries(window(&padded), found, limit, &mut to_indices, &mut floats), are_below);
                prop_assert_eq!(simd.entries(window(&padded), found, limit, &mut to_indices, &mut doubles), are_below);
                if indices.len() <= LANES && negative == 0 {
                    let limits = order.map(|entry| limit.saturating_add(entry));
                    let (mut ordered, mut ordered_values) = ([9; LANES], [9f32; LANES]);
                    let are_below = simd.entries_in_order(
                        window(&padded), found, &order, &limits, &mut ordered, &mut ordered_values
                    );
                    let of = |lane: usize| indices.get(order[lane] as usize).copied().unwrap_or(0);
                    let value = |lane: usize| values.get(order[lane] as usize).map_or(0.0, |&value| value as f32);
                    prop_assert_eq!(are_below, (0..LANES).all(|lane| (of(lane) as u32) < limits[lane]));
                    prop_assert_eq!(ordered, std::array::from_fn(of));
                    prop_assert_eq!(ordered_values, std::array::from_fn(value));
                }
                if are_below {
                    prop_assert_eq!(&to_indices[..indices.len()], &indices[..]);
                    prop_assert_eq!(&doubles[..values.len()], &values[..]);
                    let as_floats: Vec<f32> = values.iter().map(|&value| value as f32).collect();
                    prop_assert_eq!(&floats[..values.len()], &as_floats[..]);
                }
            });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(10_000)) })]

    #[test]
    fn entries_with_points_are_converted(
        entries in proptest::collection::vec(
            ("[0-9]{1,8}", "-?([0-9]{1,8}|[0-9]\\.[0-9]{0,6}|[0-9]{1,3}\\.[0-9]{0,4}|[0-9]{1,7}\\.)", " {1,2}"), 0..16
        ),
        limit in prop_oneof![Just(u32::MAX), 0u32..100_000_000],
    ) {
        let text: String = entries.iter().map(|(index, value, gap)| format!("{index}:{value}{gap}")).collect();
        let text = whole_words(&text);
        let pairs = text.split_ascii_whitespace().map(|entry| entry.split_once(':').expect("a colon"));
        let (indices, values): (Vec<i32>, Vec<f32>) = pairs
            .map(|(index, value)| (index.parse::<i32>().expect("an index"), expected(value)[0] as f32))
            .unzip();
        let padded = padded(text);
        for_each_instruction_set!(simd => {
            let Classes { digit, dot, minus, colon, .. } = simd.classify(window(&padded));
            let SignedEntries { entries: found, negative } =
                SignedEntries::of(simd, digit, dot, minus, colon).expect("entries");
            prop_assert_eq!(found.ends.count_ones() as usize, values.len());
            let (mut to_indices, mut floats) = ([0; MAX_ENTRIES], [0f32; MAX_ENTRIES]);
            match simd.decimal_entries(window(&padded), found, limit, &mut to_indices, &mut floats) {
                None => prop_assert!(!has_decimal_entries(simd)),
                Some(false) => prop_assert!(indices.iter().any(|&index| index as u32 >= limit)),
                Some(true) => {
                    prop_assert!(indices.iter().all(|&index| (index as u32) < limit));
                    prop_assert_eq!(&to_indices[..indices.len()], &indices[..]);
                    let floats = floats.iter().enumerate().map(|(i, value)| value.negated_if(negative >> i));
                    let bits: Vec<u32> = floats.map(f32::to_bits).take(values.len()).collect();
                    prop_assert_eq!(bits, values.iter().map(|value| value.to_bits()).collect::<Vec<_>>());
                }
            }
        });
    }

    #[test]
    fn malformed_entries_are_rejected(
        word in "[0-9]{9}:1|1:[0-9]{9}|1:[0-9]{4}\\.[0-9]{4}|1:[0-9]\\.[0-9]\\.[0-9]|1\\.5:2|-1:2|1:\\.5|1:-\\.5|1:--5|1: |1::2|1:2:3|1\\.:2"
    ) {
        let padded = padded(&format!("1:1.5 {word} 2:2.5 "));
        for_each_instruction_set!(simd => {
            let Classes { digit, dot, minus, colon, .. } = simd.classify(window(&padded));
            prop_assert_eq!(SignedEntries::of(simd, digit, dot, minus, colon), None);
        });
    }
}

/// Justifies dividing eight bytes with a point as floats: the quotient equals the result of CNTK's
/// three steps with doubles, for all such numbers.
#[test]
fn seven_digits_are_divided_as_floats() {
    for decimals in 0..=6 {
        let power = 10u32.pow(decimals);
        let (divisor, float_divisor) = (f64::from(power), power as f32);
        let differing = (0..10_000_000u32).filter(|&number| {
            let by_steps = f64::from(number / power) + f64::from(number % power) / divisor;
            by_steps as f32 != number as f32 / float_divisor
        });
        assert_eq!(differing.count(), 0, "{decimals} decimals");
    }
}

/// Whether this instruction set converts entries with points together.
fn has_decimal_entries<S: Simd>(simd: S) -> bool {
    match simd.processor() {
        #[cfg(target_arch = "x86_64")]
        Processor::Avx512(_) | Processor::Avx2(_) => true,
        Processor::Portable(_) => false,
    }
}

/// Without this, the tests above would not notice if nothing were converted together.
#[test]
fn wider_instructions_convert_together() {
    for_each_instruction_set!(simd => {
        match simd.processor() {
            #[cfg(target_arch = "x86_64")]
            Processor::Avx512(_) | Processor::Avx2(_) => assert!(is_wide(simd)),
            Processor::Portable(_) => {}
        }
    });
}
