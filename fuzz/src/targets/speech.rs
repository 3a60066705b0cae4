//! Shared code of the targets for speech data: sections, and intact files.

use crate::case::Case;
use crate::test_file;
use std::sync::OnceLock;

/// The utterances of an archive of 31 frames.
const SCRIPT: &str = "u1.mfc=.../arch.mfc[0,6]\nu2.mfc=.../arch.mfc[7,11]\nu3.mfc=.../arch.mfc[12,20]\n\
                      u4.mfc=.../arch.mfc[21,24]\nu5.mfc=.../arch.mfc[25,30]\n";

/// Returns the section for HTK features of a script, and writes the archives that it may refer to.
pub fn features(case: &mut Case<'_>, script: &[u8]) -> String {
    static ARCHIVE: OnceLock<Vec<u8>> = OnceLock::new();
    case.write("arch.mfc", ARCHIVE.get_or_init(|| test_file("htk/data/arch.mfc")));
    section(case, script)
}

/// Returns the section for HTK features of a script.
pub fn section(case: &mut Case<'_>, script: &[u8]) -> String {
    let script = case.write("x.scp", script);
    let more = case.choices.pick(&["", " ; contextWindow = 1:2"]);
    format!(
        "[ type = HTKFeatureDeserializer ; module = HTKDeserializers ; input = [ f = [ scpFile = \"{script}\" ; dim = 3{more} ] ] ]"
    )
}

/// Returns the section for intact features.
pub fn whole_features(case: &mut Case<'_>) -> String {
    features(case, SCRIPT.as_bytes())
}

/// Returns the section for the features of one file.
pub fn of_file(case: &mut Case<'_>, file: &[u8]) -> String {
    case.write("a.mfc", file);
    let scripts = ["u1.mfc=.../a.mfc[0,4]\n", "u1.mfc=.../a.mfc[0,6]\nu2.mfc=.../a.mfc[7,11]\n"];
    let script = case.choices.pick(&scripts).as_bytes();
    section(case, script)
}

/// Returns the section for labels.
pub fn labels(case: &mut Case<'_>, labels: &[u8], states: &[u8]) -> String {
    let (labels, states) = (case.write("l.mlf", labels), case.write("s.list", states));
    let more = case.choices.pick(&["", " ; phoneBoundaries = true"]);
    format!(
        "[ type = HTKMLFDeserializer ; module = HTKDeserializers\n\
         input = [ l = [ mlfFile = \"{labels}\" ; labelMappingFile = \"{states}\" ; dim = 12{more} ] ] ]"
    )
}
