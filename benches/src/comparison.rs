//! A table of this library beside CNTK, with goals.

use crate::subject::Results;
use crate::table::{Table, number};
use anyhow::Result;

/// The measurements of CNTK and this library, row by row.
pub struct Comparison {
    /// The rows so far.
    pub table: Table,
}

/// The description of a row.
pub struct Row {
    /// The measured quantity, with its unit.
    pub what: String,
    /// The data.
    pub data: String,
    /// CPUs of each process.
    pub cpus: usize,
    /// The goal of this library.
    pub goal: Goal,
}

/// The goal of a row.
#[derive(Clone, Copy)]
pub struct Goal {
    /// Minimum factor by which this library is better than CNTK.
    pub times: Option<f64>,
    /// Minimum of a rate or maximum of a cost of this library, with its unit.
    pub own: Option<(f64, &'static str)>,
}

impl Goal {
    /// No goal.
    pub const NONE: Goal = Goal { times: None, own: None };

    /// At least this factor better than CNTK.
    pub fn times(times: f64) -> Goal {
        Goal { times: Some(times), own: None }
    }

    /// At least this rate, or at most this cost, of this library.
    pub fn own(own: f64, unit: &'static str) -> Goal {
        Goal { times: None, own: Some((own, unit)) }
    }

    /// Formats the goal, marked as missed if `better`, the factor over CNTK, or `own`, the value of
    /// this library, does not reach it.
    pub fn show(self, better: f64, own: f64, is_rate: bool) -> String {
        let reached = |(goal, _): (f64, _)| if is_rate { own >= goal } else { own <= goal };
        let is_missed =
            self.times.is_some_and(|times| better < times) || self.own.is_some_and(|own| !reached(own));
        let times = self.times.map(|times| times.to_string());
        let own = self.own.map(|(own, unit)| format!("{own} {unit}"));
        let goal = [times, own].into_iter().flatten().collect::<Vec<_>>().join(", and ");
        if is_missed { format!("missed: {goal}") } else { goal }
    }
}

impl Comparison {
    /// Creates an empty table for this version of CNTK.
    pub fn new(version: &str) -> Comparison {
        let cntk = format!("CNTK {version}");
        let headings = ["what", "data", "CPUs", &cntk, "cntk-reader", "times better", "goal"];
        Comparison { table: Table::new(2, &headings) }
    }

    /// Adds a row whose larger values are better.
    pub fn rate(
        &mut self,
        row: Row,
        results: &[Results],
        of: impl Fn(&Results) -> Result<f64>,
    ) -> Result<()> {
        let (cntk, own) = (of(&results[0])?, of(&results[1])?);
        self.add(row, cntk, own, true);
        Ok(())
    }

    /// Adds a row whose smaller values are better.
    pub fn cost(
        &mut self,
        row: Row,
        results: &[Results],
        of: impl Fn(&Results) -> Result<f64>,
    ) -> Result<()> {
        let (cntk, own) = (of(&results[0])?, of(&results[1])?);
        self.add(row, cntk, own, false);
        Ok(())
    }

    fn add(&mut self, row: Row, cntk: f64, own: f64, is_rate: bool) {
        let better = if is_rate { own / cntk } else { cntk / own };
        let times = if better.is_finite() { number(better) } else { "-".to_owned() };
        let Row { what, data, cpus, goal } = row;
        let goal = goal.show(better, own, is_rate);
        self.table.add(vec![what, data, cpus.to_string(), number(cntk), number(own), times, goal]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_goals_are_marked() {
        let both = Goal { own: Some((40.0, "million")), ..Goal::times(4.0) };
        assert_eq!(both.show(4.0, 40.0, true), "4, and 40 million");
        assert_eq!(both.show(3.9, 50.0, true), "missed: 4, and 40 million");
        assert_eq!(both.show(9.0, 39.0, true), "missed: 4, and 40 million");
        assert_eq!(Goal::own(200.0, "ms").show(0.1, 199.0, false), "200 ms");
        assert_eq!(Goal::own(200.0, "ms").show(9.0, 201.0, false), "missed: 200 ms");
        assert_eq!(Goal::NONE.show(0.1, 1.0, true), "");
    }
}
