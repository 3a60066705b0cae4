use super::reference::{self, Picture};
use super::*;
use crate::transform::pixels::Value;
use cntk_reader_core::testing::cases;
use proptest::prelude::*;

const ALL: [Interpolation; 4] =
    [Interpolation::Nearest, Interpolation::Linear, Interpolation::Cubic, Interpolation::Lanczos];

fn image<V: Value>(picture: &Picture<V>) -> Image {
    let Picture { width, height, channels, values } = picture.clone();
    Image { width, height, channels, planar: false, pixels: V::pixels(values) }
}

/// Returns a part of a picture.
fn part<V: Value>(picture: &Picture<V>, cut: Region) -> Picture<V> {
    let (stride, first) = (picture.width * picture.channels, cut.left * picture.channels);
    let (row, mut values) = ((cut.width * picture.channels) as usize, Vec::new());
    for y in cut.top..cut.top + cut.height {
        values.extend_from_slice(&picture.values[(y * stride + first) as usize..][..row]);
    }
    Picture { width: cut.width, height: cut.height, channels: picture.channels, values }
}

/// Compares the loops with the reference, for every instruction set.
fn check_bytes(picture: &Picture<u8>, resize: Resize, tables: &mut Tables, memory: &mut Memory) {
    let whole = reference::bytes(picture, resize.width, resize.height, resize.interpolation);
    let wanted = part(&whole, resize.cut);
    for processor in Processor::all() {
        let mut found = image(picture);
        apply_with(processor, &resize, &mut found, tables, memory).expect("memory");
        assert_eq!((found.width, found.height), (wanted.width, wanted.height));
        let Pixels::Bytes(values) = &found.pixels else { panic!("bytes stay bytes") };
        let (width, height) = (picture.width, picture.height);
        assert!(*values == wanted.values, "{resize:?} of {width}x{height} on {processor:?}");
    }
}

fn check_floats(picture: &Picture<f32>, resize: Resize, tables: &mut Tables, memory: &mut Memory) {
    let whole = reference::floats(picture, resize.width, resize.height, resize.interpolation);
    let wanted = part(&whole, resize.cut);
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    for processor in Processor::all() {
        let mut found = image(picture);
        apply_with(processor, &resize, &mut found, tables, memory).expect("memory");
        let Pixels::Floats(values) = &found.pixels else { panic!("floats stay floats") };
        let (width, height) = (picture.width, picture.height);
        assert!(bits(values) == bits(&wanted.values), "{resize:?} of {width}x{height} on {processor:?}");
    }
}

prop_compose! {
    /// A size, a new size, often half of it or equal, and a part of the new one.
    fn job()(
        from in (1u32..40, 1u32..40),
        to in prop_oneof![(1u32..60, 1u32..60), Just((0, 0)), Just((1, 1))],
        part in (0u32..1000, 0u32..1000, 0u32..1000, 0u32..1000),
        is_whole in any::<bool>(),
        interpolation in prop::sample::select(&ALL[..]),
    ) -> ((u32, u32), Resize) {
        let (from, (width, height)) = match to {
            (0, 0) => ((2 * from.0, 2 * from.1), from),
            to => (from, to),
        };
        let (left, top) = (part.0 % width, part.1 % height);
        let cut = Region { left, top, width: 1 + part.2 % (width - left), height: 1 + part.3 % (height - top) };
        let cut = if is_whole { Region::whole(width, height) } else { cut };
        (from, Resize { width, height, cut, interpolation })
    }
}

/// Returns pseudo-random values with runs of extremes.
fn noise(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    let mut values = Vec::new();
    while values.len() < count {
        match next() % 8 {
            0 => values.extend([0; 5]),
            1 => values.extend([255; 5]),
            _ => values.push(next() as u8),
        }
    }
    values.truncate(count);
    values
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(2000)) })]

    #[test]
    fn fast_loops_match_the_reference((from, resize) in job(), channels in 1u32..6, seed in any::<u64>()) {
        let bytes = noise((from.0 * from.1 * channels) as usize, seed);
        let floats = bytes.iter().map(|&byte| f32::from(byte) - 97.3).collect();
        let (mut tables, mut memory) = (Tables::default(), Memory::default());
        let picture = Picture { width: from.0, height: from.1, channels, values: bytes };
        check_bytes(&picture, resize, &mut tables, &mut memory);
        // The second image reuses the tables of the first.
        let picture = Picture { width: from.0, height: from.1, channels, values: floats };
        check_floats(&picture, resize, &mut tables, &mut memory);
    }

    /// Tables are rebuilt whenever their parameters change.
    #[test]
    fn tables_follow_the_images(jobs in prop::collection::vec(job(), 1..6)) {
        let (mut tables, mut memory) = (Tables::default(), Memory::default());
        for (from, resize) in jobs {
            let values = noise((from.0 * from.1 * 3) as usize, 7);
            let picture = Picture { width: from.0, height: from.1, channels: 3, values };
            check_bytes(&picture, resize, &mut tables, &mut memory);
        }
    }
}

#[test]
fn photograph_sizes_match_the_reference() {
    let (mut tables, mut memory) = (Tables::default(), Memory::default());
    for interpolation in ALL {
        for (from, to) in [((500, 375), (224, 224)), ((97, 33), (224, 224)), ((448, 448), (224, 224))] {
            let values = noise(from.0 as usize * from.1 as usize * 3, 1);
            let picture = Picture { width: from.0, height: from.1, channels: 3, values };
            let resize = Resize { width: to.0, height: to.1, cut: Region::whole(to.0, to.1), interpolation };
            check_bytes(&picture, resize, &mut tables, &mut memory);
        }
    }
}

#[test]
fn doubles_use_single_precision_weights() {
    let values: Vec<f64> = noise(13 * 9 * 3, 3).iter().map(|&byte| f64::from(byte) + 0.1).collect();
    for interpolation in ALL {
        let resize = Resize { width: 7, height: 8, cut: Region::whole(7, 8), interpolation };
        let floats = Picture {
            width: 13,
            height: 9,
            channels: 3,
            values: values.iter().map(|&value| value as f32).collect(),
        };
        let mut found = image(&Picture { width: 13, height: 9, channels: 3, values: values.clone() });
        apply(&resize, &mut found, &mut Tables::default(), &mut Memory::default()).expect("memory");
        let wanted = reference::floats(&floats, 7, 8, interpolation);
        let Pixels::Doubles(values) = found.pixels else { panic!("doubles stay doubles") };
        for (found, wanted) in values.iter().zip(wanted.values) {
            assert!((found - f64::from(wanted)).abs() < 1e-4, "{found} for {wanted}");
        }
    }
}
