//! Adapts cases to old versions of CNTK, whose readers support less.

use crate::drive;
use crate::golden::Case;
use dropin::Host;

/// Parts of configurations, and the first version that supports them like later ones.
const SINCE: [(&str, u32); 7] = [
    // Before, only a separate reader could read binary data.
    ("CNTKBinaryFormatDeserializer", 20100),
    ("Base64ImageDeserializer", 20100),
    ("expandToUtterance", 20100),
    ("HTKMLFBinaryDeserializer", 20400),
    ("LatticeDeserializer", 20400),
    ("definesMBSize", 20400),
    ("maxSequenceSize", 20400),
];

/// Returns the case in a form that the host can run; `None` if it cannot.
pub fn expressed(mut case: Case, host: Host) -> Option<Case> {
    if SINCE.iter().any(|&(key, first)| host.is_before(first) && case.config.contains(key)) {
        return None;
    }
    if host.is_beta() {
        case.steps = case.steps.iter().map(|step| without_sweeps(step)).collect();
        // Here the library itself reads sections of old-style readers, heeds a seed, and ends
        // epochs of samples like later releases.
        let is_read_otherwise =
            case.config.contains("randomizationSeed") || case.steps.iter().any(|step| has_limit(step));
        if drive::is_old_style(&case) && is_read_otherwise {
            return None;
        }
    }
    Some(case)
}

/// Adapts a step to versions that cannot count sweeps: an epoch of several sweeps becomes an epoch
/// of one, and only the first endless epoch exists.
fn without_sweeps(step: &str) -> String {
    let mut words: Vec<&str> = step.split(' ').collect();
    if let ["start", .., samples, sweeps, index] = &mut words[..] {
        if *sweeps != "inf" {
            (*samples, *sweeps) = ("sweep", "inf");
        } else if *samples == "inf" {
            *index = "0";
        }
    }
    words.join(" ")
}

/// Whether a step starts an epoch of a number of samples.
fn has_limit(step: &str) -> bool {
    let words: Vec<&str> = step.split(' ').collect();
    matches!(&words[..], ["start", .., samples, _, _] if samples.parse::<u64>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_of_samples_have_a_limit() {
        assert!(has_limit("start 1 0 2 0 0 1 17 inf 3"));
        assert!(!has_limit("start 1 0 2 0 0 1 inf inf 0"));
        assert!(!has_limit("start 1 0 2 0 0 1 sweep inf 1"));
        assert!(!has_limit("read"));
    }

    #[test]
    fn sweeps_become_samples() {
        assert_eq!(without_sweeps("start 1 0 2 0 0 1 inf 3 1"), "start 1 0 2 0 0 1 sweep inf 1");
        assert_eq!(without_sweeps("start 1 0 2 0 0 1 inf inf 2"), "start 1 0 2 0 0 1 inf inf 0");
        assert_eq!(without_sweeps("start 1 0 2 0 0 1 17 inf 3"), "start 1 0 2 0 0 1 17 inf 3");
        assert_eq!(without_sweeps("config 1 0 2 0 0 1"), "config 1 0 2 0 0 1");
    }
}
