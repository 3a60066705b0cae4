//! Statistics of the values of a stream in the drawn sequences.

use cntk_reader::{Storage, StreamInfo};
use cntk_reader_tools::inspect::{Number, SequenceData};
use std::collections::BTreeMap;

/// Maximum number of values of a sequence that the histogram counts: more are taken at equal
/// distances.
const PER_SEQUENCE: usize = 1000;

/// Maximum number of different classes or indices that are counted.
const MOST_CLASSES: usize = 100_000;

/// Number of bars in a histogram.
const BARS: usize = 40;

/// Statistics of a stream.
pub struct StreamValues {
    is_dense: bool,
    has_classes: bool,
    /// Number of all values, of zeros, and of NaN and infinite values.
    pub values: u64,
    pub zeros: u64,
    pub not_finite: u64,
    /// The least and the greatest finite value.
    pub range: Option<(f64, f64)>,
    sum: f64,
    sum_of_squares: f64,
    some: Vec<f64>,
    /// Samples, and stored values of the fullest and the emptiest sample, for sparse streams.
    pub samples: u64,
    pub stored: Option<(usize, usize)>,
    is_one_hot: bool,
    /// Number of occurrences of each class or index.
    counts: BTreeMap<i64, u64>,
    /// Whether there are more than [`MOST_CLASSES`].
    has_more_classes: bool,
}

/// A histogram with bars of equal width.
pub struct Histogram {
    /// The left end of the first bar, and the right end of the last one.
    pub range: (f64, f64),
    /// Height of each bar.
    pub counts: Vec<u64>,
}

/// How often each class or index occurs.
pub struct Classes<'a> {
    /// Whether each sample has one class; otherwise a sample has several indices.
    pub is_one_of: bool,
    /// Occurrences by number.
    pub counts: &'a BTreeMap<i64, u64>,
    /// Whether some classes were not counted, because there are too many.
    pub is_partial: bool,
}

impl StreamValues {
    pub fn new(info: &StreamInfo) -> StreamValues {
        StreamValues {
            is_dense: info.storage == Storage::Dense,
            has_classes: info.classes.is_some(),
            values: 0,
            zeros: 0,
            not_finite: 0,
            range: None,
            sum: 0.0,
            sum_of_squares: 0.0,
            some: Vec::new(),
            samples: 0,
            stored: None,
            is_one_hot: true,
            counts: BTreeMap::new(),
            has_more_classes: false,
        }
    }

    /// Adds a sequence.
    pub fn add(&mut self, data: &SequenceData) {
        self.samples += data.samples as u64;
        for range in data.offsets.windows(2) {
            let stored = (range[1] - range[0]) as usize;
            let (least, most) = self.stored.unwrap_or((stored, stored));
            self.stored = Some((least.min(stored), most.max(stored)));
            self.is_one_hot &= stored == 1;
        }
        data.indices.iter().for_each(|&index| self.count(index.into()));
        let values = (0..).map_while(|place| data.values.number(place)).map(as_double);
        if self.has_classes && self.is_dense {
            values.for_each(|class| self.count(class as i64));
            return;
        }
        let all: Vec<f64> = values.collect();
        let step = all.len().div_ceil(PER_SEQUENCE).max(1);
        self.some.extend(all.iter().copied().filter(|value| value.is_finite()).step_by(step));
        all.into_iter().for_each(|value| self.see(value));
    }

    fn see(&mut self, value: f64) {
        self.values += 1;
        self.zeros += u64::from(value == 0.0);
        self.is_one_hot &= value == 1.0;
        if !value.is_finite() {
            self.not_finite += 1;
            return;
        }
        let (least, most) = self.range.unwrap_or((value, value));
        self.range = Some((least.min(value), most.max(value)));
        self.sum += value;
        self.sum_of_squares += value * value;
    }

    fn count(&mut self, class: i64) {
        if let Some(count) = self.counts.get_mut(&class) {
            *count += 1;
        } else if self.counts.len() < MOST_CLASSES {
            self.counts.insert(class, 1);
        } else {
            self.has_more_classes = true;
        }
    }

    /// Returns the mean and the standard deviation of the finite values.
    pub fn moments(&self) -> Option<(f64, f64)> {
        let finite = (self.values - self.not_finite) as f64;
        let mean = self.sum / finite;
        (finite > 0.0).then(|| (mean, (self.sum_of_squares / finite - mean * mean).max(0.0).sqrt()))
    }

    /// Returns the classes or indices; `None` for dense values.
    pub fn classes(&self) -> Option<Classes<'_>> {
        let is_one_of = match self.is_dense {
            true => self.has_classes,
            false => self.is_one_hot && !self.counts.is_empty(),
        };
        let has_counts = is_one_of || !self.is_dense;
        has_counts.then_some(Classes { is_one_of, counts: &self.counts, is_partial: self.has_more_classes })
    }

    /// Returns a histogram of the values; `None` if there are none, or only ones.
    pub fn histogram(&self) -> Option<Histogram> {
        let (least, most) = self.range?;
        if self.classes().is_some_and(|classes| classes.is_one_of) {
            return None;
        }
        let width = (most - least) / BARS as f64;
        if !(width > 0.0 && width.is_finite()) {
            return Some(Histogram { range: (least, most), counts: vec![self.some.len() as u64] });
        }
        let mut counts = vec![0; BARS];
        for value in &self.some {
            counts[(((value - least) / width) as usize).min(BARS - 1)] += 1;
        }
        Some(Histogram { range: (least, most), counts })
    }
}

pub fn as_double(number: Number) -> f64 {
    match number {
        Number::Float(value) => value.into(),
        Number::Double(value) => value,
        Number::Integer(value) => value as f64,
        Number::Bool(value) => f64::from(u8::from(value)),
    }
}
