//! Numbers of a normal distribution, as boost drew them until version 1.6x: the ziggurat method with 128 layers.

use super::random::Source;
use std::sync::LazyLock;

/// Where the tail begins, and the area of each layer.
const TAIL: f64 = 3.442619855896652;
const AREA: f64 = 0.009_912_563_035_336_455;

/// The layers: layer `i` is `x[i]` wide and lies between `y[i]` and `y[i + 1]`.
struct Layers {
    x: [f64; 129],
    y: [f64; 129],
}

static LAYERS: LazyLock<Layers> = LazyLock::new(|| {
    let (mut x, mut y) = ([0.0; 129], [0.0; 129]);
    x[0] = AREA * (TAIL * TAIL / 2.0).exp();
    x[1] = TAIL;
    for i in 2..128 {
        let before: f64 = x[i - 1];
        x[i] = (-2.0 * (AREA / before + (-before * before / 2.0).exp()).ln()).sqrt();
    }
    for i in 1..129 {
        y[i] = (-x[i] * x[i] / 2.0).exp();
    }
    Layers { x, y }
});

/// Draws a number with mean 0 and deviation 1, in single precision.
pub(super) fn draw(source: &mut impl Source) -> f32 {
    let layers = &*LAYERS;
    loop {
        let bits = source.next();
        let layer = (bits & 255) as usize;
        let sign = if layer & 1 == 1 { 1f32 } else { -1.0 };
        let layer = layer >> 1;
        let x = (bits >> 8) as f32 * (1.0 / 16_777_216.0) * layers.x[layer] as f32;
        if f64::from(x) < layers.x[layer + 1] {
            return sign * x;
        }
        if layer == 0 {
            return sign * tail(source);
        }
        let height = (layers.y[layer + 1] - layers.y[layer]) as f32;
        let y = layers.y[layer] as f32 + unit(source) * height;
        if y < (-x * x / 2.0).exp() {
            return sign * x;
        }
    }
}

/// A number beyond the widest layer.
fn tail(source: &mut impl Source) -> f32 {
    loop {
        let beyond = exponential(source) / TAIL as f32;
        let height = exponential(source);
        if 2.0 * height > beyond * beyond {
            return beyond + TAIL as f32;
        }
    }
}

fn exponential(source: &mut impl Source) -> f32 {
    -(1.0 - unit(source)).ln()
}

/// A number in 0..1. The largest draws would round to 1 and are repeated.
fn unit(source: &mut impl Source) -> f32 {
    loop {
        let number = source.next() as f32 * (1.0 / 4_294_967_296.0);
        if number < 1.0 {
            return number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::random::MersenneTwister;

    /// Counts the draws from the source that a number takes.
    struct Counting<'a>(&'a mut MersenneTwister, u32);

    impl Source for Counting<'_> {
        fn next(&mut self) -> u32 {
            self.1 += 1;
            self.0.next()
        }
    }

    /// CNTK 2.7, `Intensity` with a deviation of 10.
    #[test]
    fn the_first_numbers_are_cntks() {
        let wanted: [(u32, &[f32]); 3] = [
            (0, &[-6.78141, 13.10828, 11.55479, -9.22123, 12.09224, 3.65955]),
            (1, &[9.74820, -18.20861, 0.00031]),
            (2, &[-5.50757, 5.11043, 0.17649]),
        ];
        for (seed, wanted) in wanted {
            let mut twister = MersenneTwister::new(seed);
            for &wanted in wanted {
                let number = draw(&mut twister) * 10.0;
                assert!((number - wanted).abs() < 2e-5, "seed {seed}: {number} for {wanted}");
            }
        }
    }

    /// Of the numbers that a normal distribution gives, so many come from the tail and from the edges of layers: CNTK 2.7 has
    /// drawn 22 and 942 among 36,000 of its own.
    #[test]
    fn tails_and_edges_are_drawn() {
        let mut twister = MersenneTwister::new(0);
        let (mut sum, mut squares, mut far, mut long) = (0f64, 0f64, 0, 0);
        let count = 360_000;
        for _ in 0..count {
            let mut source = Counting(&mut twister, 0);
            let number = f64::from(draw(&mut source));
            long += u32::from(source.1 > 1);
            far += u32::from(number.abs() > TAIL);
            sum += number;
            squares += number * number;
        }
        let count = f64::from(count);
        assert!((sum / count).abs() < 0.01 && (squares / count - 1.0).abs() < 0.01);
        assert!((150..270).contains(&far), "{far} beyond the layers");
        assert!((8_000..11_000).contains(&long), "{long} took more than one draw");
    }

    #[test]
    fn the_layers_are_those_of_the_library() {
        assert!((LAYERS.x[0] - 3.71308624674036).abs() < 1e-13);
        assert!(LAYERS.x.windows(2).all(|pair| pair[0] > pair[1]));
        assert!(LAYERS.y.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!((LAYERS.x[128], LAYERS.y[0], LAYERS.y[128]), (0.0, 0.0, 1.0));
    }
}
