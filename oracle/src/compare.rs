//! Compares the lines of both drivers, given the deliberate differences.
//!
//! Both drivers write with the same code, so equal results are bytewise equal lines.

mod data;
mod delivered;
pub mod images;
mod old;
mod rules;
#[cfg(test)]
pub mod tests;

use crate::drive::{self, End, Output};
use crate::golden::Case;
use data::{has_repeated_keys, has_repeated_keys_only, repeats_keys};
use delivered::Delivered;
use dropin::Host;
use rules::RULES;
pub use rules::alone;

/// Versions of CNTK, encoded for [`Host::is_before`].
const V26: u32 = 20600;
const V27: u32 = 20700;

/// The result of a comparison.
pub enum Verdict {
    /// All lines are the same.
    Same,
    /// The first difference is one of the known ones.
    Known(&'static Rule, Lines),
    /// They differ.
    Different(Lines),
}

/// The first difference of two outputs.
pub struct Lines {
    /// The line's number; 0 is the creation.
    pub number: usize,
    /// This library's line.
    pub ours: String,
    /// CNTK's line.
    pub cntk: String,
}

/// A difference that docs/differences.md accounts for.
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// CNTK's behaviour in this case.
    pub what: &'static str,
    applies: fn(&Difference) -> bool,
}

/// Not a rule for a single output: only repeating the case shows whether CNTK's output changes, see
/// [`is_race`].
pub static RACE: Rule = Rule {
    name: "race",
    what: "CNTK reads a file on two threads through one handle; what it delivers changes from run to run",
    applies: |_| false,
};

/// Whether CNTK is known to read files of this case on two threads through one handle: binary
/// files, and the secondary deserializers of a bundle. Deserializers of other modules than text and
/// binary count as well, except those of images.
pub fn can_race(case: &Case) -> bool {
    let config = case.config.to_lowercase();
    let named = |what: &str| config.matches(what).count();
    let is_alone = named("deserializer\"") == 1;
    if is_alone && named("imagedeserializer\"") == 1 {
        // For truncated images in a container, CNTK delivers memory that it never wrote.
        return case.files.iter().any(|(name, _)| name == "c.zip");
    }
    let deserializers = named("deserializer\"").max(named("module ="));
    deserializers > 1 || deserializers > config.matches("cntktextformatdeserializer\"").count()
}

/// Whether CNTK's outputs of the same case differ from each other, up to `line`: at least two of
/// them differ from the most frequent one.
pub fn is_race(outputs: &[Output], line: usize) -> bool {
    let head = |output: &Output| output.lines.iter().take(line + 1).cloned().collect::<Vec<_>>();
    let heads: Vec<Vec<String>> = outputs.iter().map(head).collect();
    let most = heads.iter().map(|head| heads.iter().filter(|other| *other == head).count()).max();
    heads.len() - most.unwrap_or(0) >= 2
}

/// The reader's position before each step of a case, and after the last one. `None` if it reported
/// none.
pub struct Positions {
    /// Number of samples of a sweep.
    pub sweep: u64,
    /// Positions before each step, and after the last one.
    pub before: Vec<Option<u64>>,
}

impl Positions {
    /// Whether, before a step, the reader has gone back within the current sweep. `truncated`
    /// minibatches contain data that were read earlier, so for them the previous sweep counts as
    /// well.
    fn is_after_going_back(&self, steps: &[String], step: usize, truncated: bool) -> bool {
        let mut sweep = 0;
        let mut gone_back = None;
        for (number, name) in steps.iter().enumerate().take(step) {
            let both = self
                .before
                .get(number)
                .copied()
                .flatten()
                .zip(self.before.get(number + 1).copied().flatten());
            // The first step starts the reader, so there is no position before it.
            let Some((before, after)) = both else { continue };
            // At the end of a sweep, a start or a restored state enters the next one, but new sizes
            // do not.
            if name.starts_with("config ") && before == after {
                continue;
            }
            if moves(name) {
                let to = after / self.sweep;
                if after < before && to == sweep {
                    gone_back = Some(sweep);
                } else if to != sweep {
                    gone_back = None;
                }
                sweep = to;
            } else if after > before {
                // At the end of a sweep the next one is not entered yet.
                sweep = (after - 1) / self.sweep;
            }
        }
        gone_back.is_some_and(|gone_back| sweep <= gone_back + u64::from(truncated))
    }
}

/// The first line that differs.
struct Difference<'a> {
    case: &'a Case,
    host: Host,
    /// Whether this library runs as a module in CNTK's place.
    is_module: bool,
    line: usize,
    ours: &'a Output,
    cntk: &'a Output,
    positions: &'a dyn Fn() -> Option<Positions>,
}

impl Difference<'_> {
    /// The steps before the difference, with CNTK's results.
    fn before(&self) -> impl Iterator<Item = (&str, &str)> {
        let steps = self.case.steps.iter().zip(self.cntk.lines.iter().skip(1));
        steps.take(self.line.saturating_sub(1)).map(|(step, line)| (step.as_str(), line.as_str()))
    }

    /// The step that differs; `None` for the creation, or the end.
    fn step(&self) -> Option<&str> {
        self.case.steps.get(self.line.checked_sub(1)?).map(String::as_str)
    }

    /// Whether the configuration has this line.
    fn has(&self, wanted: &str) -> bool {
        self.case.config.lines().any(|line| line.trim() == wanted)
    }

    /// Whether the step is a minibatch that at least one side delivered.
    fn is_minibatch(&self) -> bool {
        let both = [self.ours, self.cntk].map(|output| output.lines.get(self.line));
        self.step() == Some("read")
            && both.iter().any(|line| line.is_some_and(|line| line.contains("\"streams\":")))
    }

    /// Whether all samples delivered by both sides are equal, whatever minibatches they are in;
    /// `skipped` names a stream that is not compared. Images may be transformed at random, and are
    /// not compared.
    fn agrees_by_key(&self, skipped: Option<&str>) -> bool {
        let config = self.case.config.to_lowercase();
        let draws = config.contains("imagedeserializer") || config.contains("imagereader");
        let is_dense = |stream: &serde_json::Value| stream["storage"] == "dense";
        let create = self.cntk.lines.first().and_then(|line| serde_json::from_str(line).ok());
        let create: serde_json::Value = create.unwrap_or_default();
        let skips = |number: usize| {
            let stream = &create["create"]["streams"][number];
            draws && is_dense(stream) || skipped.is_some_and(|name| stream["name"] == name)
        };
        let keys_repeat = self.has("frameMode = true")
            || config.contains("cntkbinary")
            || drive::is_old_style(self.case)
            || self.case.files.iter().any(|(name, content)| {
                let is_text = [".ctf", ".scp", "map.txt", "text.ctf"].iter().any(|end| name.ends_with(end));
                is_text && repeats_keys(content)
            });
        Delivered::of(self.ours).agrees(&Delivered::of(self.cntk), !keys_repeat, skips)
    }

    /// Whether this library runs outside of CNTK, by its own rules.
    fn is_native(&self) -> bool {
        !self.is_module
    }

    /// Whether both lines are minibatches with the same streams, keys and layout, and only dense
    /// values differ.
    fn differs_in_dense_values_alone(&self) -> bool {
        let without_values = |output: &Output| -> Option<serde_json::Value> {
            let mut line: serde_json::Value = serde_json::from_str(output.lines.get(self.line)?).ok()?;
            for stream in line["result"]["streams"].as_array_mut()? {
                let columns = stream.get_mut("dense").and_then(|dense| dense.as_array_mut());
                // Gaps stay.
                columns.into_iter().flatten().filter(|column| column.is_array()).for_each(|column| {
                    *column = serde_json::Value::from(column.as_array().map_or(0, Vec::len));
                });
            }
            Some(line)
        };
        let (ours, cntk) = (without_values(self.ours), without_values(self.cntk));
        ours.is_some() && ours == cntk
    }

    /// Whether both lines are minibatches that differ only in dense values of sequences with
    /// matching keys.
    fn differs_in_dense_values_of(&self, is_such: &dyn Fn(&str) -> bool) -> bool {
        let others = |output: &Output| -> Option<serde_json::Value> {
            let mut line: serde_json::Value = serde_json::from_str(output.lines.get(self.line)?).ok()?;
            for stream in line["result"]["streams"].as_array_mut()? {
                delivered::forget(stream, is_such);
            }
            Some(line)
        };
        let (ours, cntk) = (others(self.ours), others(self.cntk));
        self.differs_in_dense_values_alone() && ours.is_some() && ours == cntk
    }

    /// The number of failed reads.
    fn failures(&self, output: &Output) -> usize {
        let results = self.case.steps.iter().zip(output.lines.iter().skip(1));
        results.filter(|(step, line)| *step == "read" && is_error(line)).count()
    }

    /// Whether this library has logged this text.
    fn says(&self, text: &str) -> bool {
        self.ours.messages.contains(text)
    }

    fn is_randomized(&self) -> bool {
        self.has("randomize = true")
    }
}

fn is_error(line: &str) -> bool {
    line.contains("\"error\"")
}

/// Whether a step may move to another place in the data.
fn moves(step: &str) -> bool {
    step != "read" && step != "state"
}

/// Compares this library, as a module in CNTK or through its C++ header, with the output of a
/// version of CNTK. `positions` computes the reader's positions, if a rule needs them.
pub fn compare(
    case: &Case,
    (host, is_module): (Host, bool),
    ours: &Output,
    cntk: &Output,
    positions: &dyn Fn() -> Option<Positions>,
) -> Verdict {
    let lines = ours.lines.len().max(cntk.lines.len());
    let different = (0..lines).find(|&line| ours.lines.get(line) != cntk.lines.get(line));
    let line = match different {
        Some(line) => line,
        // A crash of this library is never accepted.
        None if ours.end == cntk.end && !matches!(ours.end, End::Crashed(_) | End::Hung) => {
            return Verdict::Same;
        }
        None => lines,
    };
    let show = |output: &Output| {
        output.lines.get(line).cloned().unwrap_or_else(|| format!("no such line ({:?})", output.end))
    };
    let difference = Difference { case, host, is_module, line, ours, cntk, positions };
    // If CNTK does not even open a case, no rule applies, unless it is known to crash there.
    let is_opened = !cntk.lines.is_empty() || has_repeated_keys_only(case) || !host.exchanges_sequences();
    let known = (ours.end == End::Done && is_opened)
        .then(|| RULES.iter().chain(&old::RULES).find(|rule| (rule.applies)(&difference)))
        .flatten();
    let lines = Lines { number: line, ours: show(ours), cntk: show(cntk) };
    match known {
        Some(rule) => Verdict::Known(rule, lines),
        None => Verdict::Different(lines),
    }
}
