//! Damaged script and feature files must cause errors or different data, nothing worse.

use super::*;
use cntk_reader_core::testing::cases;
use proptest::prelude::*;

/// A change of a file's bytes.
#[derive(Debug, Clone)]
enum Damage {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
    Remove(prop::sample::Index, usize),
    Cut(prop::sample::Index),
}

fn damage() -> impl Strategy<Value = Vec<Damage>> {
    let text = prop::sample::select(&b"=[],.\r\n0-9 \t"[..]);
    let at = any::<prop::sample::Index>;
    let one = prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (at(), text.clone()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (at(), prop::collection::vec(text, 1..12)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        (at(), 1..40usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        at().prop_map(Damage::Cut),
    ];
    prop::collection::vec(one, 1..5)
}

fn apply(damage: &[Damage], bytes: &mut Vec<u8>) {
    for damage in damage {
        if bytes.is_empty() {
            return;
        }
        match damage {
            Damage::Set(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Damage::Insert(at, new) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, new.iter().copied());
            }
            Damage::Remove(at, count) => {
                let at = at.index(bytes.len());
                bytes.drain(at..(at + count).min(bytes.len()));
            }
            Damage::Cut(at) => bytes.truncate(at.index(bytes.len())),
        }
    }
}

/// Opens and reads everything. Errors must have a location, and memory must stay within the files'
/// sizes.
fn check(options: &HtkFeatureOptions) -> std::result::Result<(), TestCaseError> {
    let opened = match open(options) {
        Ok(opened) => opened,
        Err(error) => {
            prop_assert!(!error.message().is_empty() && error.location().file.is_some(), "{error}");
            return Ok(());
        }
    };
    match read(&opened) {
        Ok(read) => prop_assert_eq!(
            read.len() as u32,
            opened.chunks().iter().map(|chunk| chunk.sequences).sum::<u32>()
        ),
        Err(error) => prop_assert!(error.location().file.is_some(), "{error}"),
    }
    // Damaged ranges up to the length of a chunk are not compared with the file beforehand.
    prop_assert!(opened.memory().chunks < 100_000_000);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(300)) })]

    #[test]
    fn of_script_files(damage in damage(), name in prop::sample::select(vec!["feat.scp", "cc2.scp", "s_dup.scp"])) {
        let (_folder, path) = folder();
        let mut script = std::fs::read(format!("{DATA}/{name}")).expect("a script");
        for archive in ["arch.mfc", "arch_le.mfc"] {
            std::fs::copy(format!("{DATA}/{archive}"), format!("{path}/{archive}")).expect("copying");
        }
        apply(&damage, &mut script);
        check(&options(&write(&path, "a.scp", script)))?;
    }

    #[test]
    fn of_feature_files(
        damage in damage(),
        name in prop::sample::select(vec!["arch.mfc", "arch_le.mfc", "arch_c.mfc", "arch_k.mfc"]),
        is_second in any::<bool>(),
    ) {
        let (_folder, path) = folder();
        let mut archive = std::fs::read(format!("{DATA}/{name}")).expect("an archive");
        apply(&damage, &mut archive);
        let archive = write(&path, "a.mfc", archive);
        let first = if is_second { format!("u0={DATA}/arch.mfc[0,3]\n") } else { String::new() };
        check(&options(&write(&path, "a.scp", format!("{first}u1={archive}[0,6]\nu2={archive}[7,30]\n"))))?;
    }
}
