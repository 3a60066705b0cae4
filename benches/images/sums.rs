//! What decoded images are checked by: counts, and a sum in which each value has a weight of its own.

use serde_json::{Value, json};

/// The sums of some images.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Images.
    pub images: u64,
    /// Values of all images.
    pub values: u64,
    /// Sum of value times weight. The weight of value `v`, in the order row, column, blue, green, red, of image `i` is `(i mod 1009 + 1) * (v mod 251 + 1)`.
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

    /// The sums of both.
    pub fn and(self, other: Sums) -> Sums {
        Sums {
            images: self.images + other.images,
            values: self.values + other.values,
            weighted: self.weighted + other.weighted,
        }
    }

    /// As a JSON object.
    pub fn json(&self) -> Value {
        json!({"images": self.images, "values": self.values, "weighted": self.weighted})
    }
}
