//! Generates scripts: an epoch is started and read; between minibatches the script requests the
//! state, changes sizes, restores a position, or starts an epoch.

use super::rng::Rng;
use super::{Mode, Plan};

/// Generates a script for data of about `samples` samples.
pub fn write(rng: &mut Rng, plan: &Plan, samples: u64) -> Vec<String> {
    let workers = *rng.pick(&[1, 1, 1, 2, 3, 4]);
    let cross = !rng.once_in(3);
    let mut steps = vec![start(rng, plan, workers, cross, samples)];
    for _ in 0..4 + rng.below(36) {
        steps.push(match rng.below(100) {
            0..80 => "read".to_owned(),
            80..90 => "state".to_owned(),
            90..94 => format!("restore minibatchSourcePosition {}", rng.range(0, samples * 3)),
            94..98 => {
                let workers = *rng.pick(&[workers, workers, 1, workers.min(2)]);
                format!("config {}", sizes(rng, plan, workers, cross))
            }
            98 if rng.once_in(4) => "restore unknown 3".to_owned(),
            98 => steps[0].clone(),
            _ => start(rng, plan, workers, cross, samples),
        });
    }
    if !steps.iter().any(|step| step == "read") {
        steps.push("read".to_owned());
    }
    steps
}

fn start(rng: &mut Rng, plan: &Plan, workers: u64, cross: bool, samples: u64) -> String {
    let limit = match rng.below(8) {
        0 => "inf 1".to_owned(),
        1 => "inf 2".to_owned(),
        2 => "inf 3".to_owned(),
        3 => "sweep inf".to_owned(),
        4 => "inf inf".to_owned(),
        5 => format!("{} {}", rng.range(1, samples), rng.range(1, 2)),
        _ => format!("{} inf", rng.range(1, samples * 2)),
    };
    let epoch = if limit == "inf inf" { 0 } else { *rng.pick(&[0, 0, 1, 2]) };
    format!("start {} {limit} {epoch}", sizes(rng, plan, workers, cross))
}

/// Generates workers, rank, minibatch size, truncation, right splice, and crossing.
fn sizes(rng: &mut Rng, plan: &Plan, workers: u64, cross: bool) -> String {
    let minibatch = if rng.once_in(200) {
        0
    } else if plan.mode == Mode::Truncated {
        let more = [0, 1, plan.truncation, plan.truncation * 2 + 1];
        plan.truncation * workers + rng.pick(&more)
    } else {
        *rng.pick(&[1, 2, 3, 4, 5, 8, 9, 16, 50])
    };
    // At the start of an epoch, the configuration's truncation length applies; a change of sizes
    // uses the step's.
    let truncation = if rng.once_in(10) {
        rng.range(plan.truncation.min(plan.right_splice + 1), plan.truncation)
    } else {
        plan.truncation
    };
    format!(
        "{workers} {} {minibatch} {truncation} {} {}",
        rng.range(0, workers - 1),
        plan.right_splice,
        u64::from(cross)
    )
}
