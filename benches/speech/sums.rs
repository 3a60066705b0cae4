//! Sums that check the values of a corpus: counts, and a weighted sum of all values.

use serde_json::{Value, json};

/// Values are multiples of this unit, so that their sums are exact.
pub const UNIT: f32 = 1.0 / 64.0;

/// The sums of some utterances.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Number of frames.
    pub frames: u64,
    /// Number of values of all frames.
    pub values: u64,
    /// Sum of value times weight, in units of [`UNIT`]. The weight of value `v` of frame `f` of
    /// utterance `u` is `((31 * u + f) mod 1009 + 1) * (v + 1)`.
    pub weighted: i64,
}

impl Sums {
    /// Adds a frame.
    pub fn add(&mut self, utterance: u64, frame: u64, values: &[f32]) {
        self.frames += 1;
        self.values += values.len() as u64;
        let unit = |value: f32| (value / UNIT).round() as i64;
        let sum: i64 = values.iter().zip(1..).map(|(&value, weight)| weight * unit(value)).sum();
        self.weighted += ((31 * utterance + frame) % 1009 + 1) as i64 * sum;
    }

    /// Returns the sums as a JSON object.
    pub fn json(&self) -> Value {
        json!({"frames": self.frames, "values": self.values, "weighted": self.weighted as f64 * f64::from(UNIT)})
    }
}
