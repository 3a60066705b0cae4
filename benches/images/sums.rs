//! Sums that check decoded images: counts, and a weighted sum of all values.

use serde_json::{Value, json};

/// The sums of some images.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Number of images.
    pub images: u64,
    /// Number of values of all images.
    pub values: u64,
    /// Sum of value times weight. The weight of value `v` of image `i`, in the order row, column,
    /// blue, green, red, is `(i mod 1009 + 1) * (v mod 251 + 1)`.
    pub weighted: u64,
}

impl Sums {
    /// Adds image number `image`.
    pub fn add(&mut self, image: u64, values: impl ExactSizeIterator<Item = u64>) {
        self.images += 1;
        self.values += values.len() as u64;
        let sum: u64 = values.zip((1..=251).cycle()).map(|(value, weight)| weight * value).sum();
        self.weighted += (image % 1009 + 1) * sum;
    }

    /// Returns the sums of both.
    pub fn and(self, other: Sums) -> Sums {
        Sums {
            images: self.images + other.images,
            values: self.values + other.values,
            weighted: self.weighted + other.weighted,
        }
    }

    /// Returns the sums as a JSON object.
    pub fn json(&self) -> Value {
        json!({"images": self.images, "values": self.values, "weighted": self.weighted})
    }
}
