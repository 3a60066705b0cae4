//! Cases for old versions of CNTK, whose readers know less than later ones.

use crate::drive;
use crate::golden::Case;
use dropin::Host;

/// What a configuration may have, and the first version that knows it as later ones do.
const SINCE: [(&str, u32); 7] = [
    // Before, binary data are read by a reader of their own only.
    ("CNTKBinaryFormatDeserializer", 20100),
    ("Base64ImageDeserializer", 20100),
    ("expandToUtterance", 20100),
    ("HTKMLFBinaryDeserializer", 20400),
    ("LatticeDeserializer", 20400),
    ("definesMBSize", 20400),
    ("maxSequenceSize", 20400),
];

/// The case as a host can be asked to run it; none if it cannot.
pub fn expressed(mut case: Case, host: Host) -> Option<Case> {
    if SINCE.iter().any(|&(key, first)| host.is_before(first) && case.config.contains(key)) {
        return None;
    }
    if host.is_beta() {
        case.steps = case.steps.iter().map(|step| without_sweeps(step)).collect();
        // Sections of old-style readers are read by the library itself here, which heeds a seed,
        // and ends epochs of samples as later releases do.
        let is_read_otherwise =
            case.config.contains("randomizationSeed") || case.steps.iter().any(|step| has_limit(step));
        if drive::is_old_style(&case) && is_read_otherwise {
            return None;
        }
    }
    Some(case)
}

/// A step without sweeps, which cannot be counted: an epoch of some is one of a single sweep, and
/// there is one endless epoch.
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
