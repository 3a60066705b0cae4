//! Reports of faulty images. Each image counts once: the first is logged immediately, the first ten
//! at the end of a sweep.

use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::runtime::log::{Level, Logger};
use std::collections::{BTreeMap, HashSet};

/// Number of images listed in a report.
const NAMED: usize = 10;

/// The images with one kind of fault.
pub(super) struct Broken {
    /// A description of the images, as a plural noun.
    what: &'static str,
    front_end: FrontEnd,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Their numbers. Other views of an image, and later sweeps, do not count again.
    numbers: HashSet<u64>,
    /// Descriptions of the images with the lowest numbers.
    named: BTreeMap<u64, String>,
    /// Number of images in the last report.
    reported: usize,
}

impl Broken {
    /// Creates an empty report about `what`, a plural noun.
    pub fn new(what: &'static str, front_end: FrontEnd) -> Broken {
        Broken { what, front_end, known: Mutex::default() }
    }

    /// The front end whose option names appear in log lines.
    pub fn front_end(&self) -> FrontEnd {
        self.front_end
    }

    /// Records the image `number`. `name` describes it in the report; `warning` is the line logged
    /// if it is the first.
    pub fn note(&self, number: u64, name: impl FnOnce() -> String, warning: impl FnOnce() -> String) {
        let mut known = self.known.lock();
        // If there is no memory for its number, an image is not reported. If it is skipped, it is
        // counted elsewhere nevertheless.
        if known.numbers.try_reserve(1).is_err() || !known.numbers.insert(number) {
            return;
        }
        let is_low = known.named.last_key_value().is_none_or(|(&last, _)| number < last);
        if known.named.len() < NAMED || is_low {
            known.named.insert(number, name());
            if known.named.len() > NAMED {
                known.named.pop_last();
            }
        }
        let count = known.numbers.len();
        drop(known);
        match count {
            1 => Logger::log_always(Level::Warning, &self.front_end.say(&warning())),
            2 => {
                let line = format!(
                    "There are more {}. They are counted, and listed at the end of the sweep.",
                    self.what
                );
                Logger::log_always(Level::Warning, &line);
            }
            _ => {}
        }
    }

    /// Reports the images if there are more than in the last report.
    pub fn summarize(&self, file: &str) {
        let mut known = self.known.lock();
        let count = known.numbers.len();
        if std::mem::replace(&mut known.reported, count) >= count {
            return;
        }
        let named: Vec<&str> = known.named.values().map(String::as_str).collect();
        let more = match count - named.len() {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        let line = format!("'{file}' had {count} {} so far: {}{more}.", self.what, named.join("; "));
        drop(known);
        Logger::log_always(Level::Warning, &line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_name_the_first_ten_once() {
        let broken = Broken::new("broken images", FrontEnd::default());
        for number in (0..25).rev().chain(0..25) {
            broken.note(number, || format!("line {number}"), String::new);
        }
        let known = broken.known.lock();
        let named: Vec<_> = known.named.values().cloned().collect();
        let expected: Vec<_> = (0..10).map(|number| format!("line {number}")).collect();
        assert_eq!((known.numbers.len(), named), (25, expected));
        drop(known);
        broken.summarize("f");
        assert_eq!(broken.known.lock().reported, 25);
    }
}
