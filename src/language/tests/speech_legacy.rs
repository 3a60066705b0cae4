//! Legacy speech readers, with features and labels in their own sections of the reader's section.

use super::options::*;
use super::*;
use cntk_reader_core::stream::ElementType;

const FEATURES: &str = "features=[dim=3;scpFile=f.scp]";
const LABELS: &str = "labels=[mlfFile=l.mlf;labelDim=12]";

fn read(reader: &str) -> Result<ReaderSettings> {
    from_text(&format!("traceLevel=0;readerType=HTKDeserializers\n{reader}"))
}

fn with_features(reader: &str) -> Result<ReaderSettings> {
    read(&format!("{FEATURES}\n{reader}"))
}

/// Returns the names of the streams in the order of the deserializers.
fn streams(settings: &ReaderSettings) -> Vec<&str> {
    let streams = settings.deserializers.iter().map(|one| {
        match (one.of::<HtkFeatureOptions>(), one.of::<MlfOptions>()) {
            (Some(features), _) => features.stream.as_str(),
            (_, Some(labels)) => labels.stream.as_str(),
            _ => panic!("{one:?}"),
        }
    });
    streams.collect()
}

#[test]
fn defaults() {
    let settings = read(&format!("{FEATURES}\n{LABELS}")).unwrap();
    assert_eq!(settings.shape, Shape::HtkReader);
    assert_eq!((settings.packing, &settings.lanes_by_epoch), (Packing::Frame, &None));
    assert_eq!(settings.order, Order::Block { window: WindowSize::Samples((1 << 62) - 1), seed: 0 });
    assert!(!settings.numeric_keys && !settings.hash_keys && !settings.local_timeline && settings.prefetch);
    assert_eq!((settings.max_errors, settings.verbosity, settings.element), (0, 0, ElementType::Float));
    assert_eq!(streams(&settings), ["features", "labels"]);
    for name in ["HTKMLFReader", "HTKDeserializers", "Cntk.Deserializers.HTK", "Cntk.Reader.HTKMLF"] {
        let text = format!("traceLevel=0;reader=[readerType={name}\n{FEATURES}\n{LABELS}]");
        assert_eq!(from_text(&text).unwrap().shape, Shape::HtkReader, "{name}");
    }
}

#[test]
fn sections_are_known_by_their_keys() {
    let text = "zfeat=[dim=3;type=REAL;scpFile=f;mlfFile=x]\nBfeat=[dim=9;scpFile=g]\nalab=[mlfFile=l;labelType=Category;type=real;dim=12]
        hmms=[phoneFile=x;transpFile=y]\nlattices=[denlatTocFile=z]\nminiBatchMode=full;useMersenneTwisterRand=true";
    assert_eq!(streams(&read(text).unwrap()), ["Bfeat", "zfeat", "alab"]);
    for text in ["", "hmms=[phoneFile=x]", LABELS] {
        assert_error(read(text), I, "Network needs at least 1 feature specified.");
    }
    // Every key is opened to find out what it is.
    assert_error(with_features("foo=\"\""), R, "configparameters: required parameter missing: unknown:foo");
    assert_error(with_features("foo=\"x(1\""), R, "no closing ) found in parameters");
}

#[test]
fn keys_are_looked_up_outwards_without_a_limit() {
    let text = "traceLevel=0;precision=double;dim=3;verbosity=1;definesMBSize=true
        reader=[readerType=HTKMLFReader;maxSequenceSize=5\nfeatures=[scpFile=f;contextWindow=3]]";
    let settings = from_text(text).unwrap();
    let features = settings.deserializers[0].of::<HtkFeatureOptions>().expect("features");
    assert_eq!((features.dim, features.max_sequence_size, features.defines_mb_size), (3, 5, true));
    assert_eq!((features.verbosity, features.context), (1, (1, 1)));
    assert_eq!((features.element, settings.element), (ElementType::Double, ElementType::Double));
    let inside = "features=[scpFile=f;dim=3;maxSequenceSize=4;definesMBSize=1;verbosity=2]";
    let settings = read(&format!("{inside}\nlabels=[mlfFile=l;dim=12;chunkSizeInBytes=9]")).unwrap();
    let features = settings.deserializers[0].of::<HtkFeatureOptions>().expect("features");
    let labels = settings.deserializers[1].of::<MlfOptions>().expect("labels");
    assert_eq!((features.max_sequence_size, features.defines_mb_size, features.verbosity), (4, true, 2));
    assert_eq!(labels.chunk_size, 9);
}

#[test]
fn packing() {
    let packing =
        |text: &str| with_features(text).map(|settings| (settings.packing, settings.lanes_by_epoch));
    let truncated = |length| Packing::Truncated { length, right_splice: 0 };
    assert_eq!(packing("frameMode=false").unwrap(), (Packing::Sequence, None));
    assert_eq!(packing("frameMode=false;truncated=1;truncationLength=20").unwrap(), (truncated(20), None));
    assert_eq!(packing("frameMode=false;truncated=1").unwrap(), (truncated(0), Some(vec![1])));
    let lanes = "frameMode=false;truncated=1;nbruttsineachrecurrentiter=1*2:30";
    assert_eq!(packing(lanes).unwrap(), (truncated(0), Some(vec![1, 1, 30])));
    assert_eq!(packing("frameMode=false;nbruttsineachrecurrentiter=5").unwrap(), (Packing::Sequence, None));
    let exclusive = "frameMode and truncated BPTT are mutually exclusive.";
    assert_error(packing("truncated=true"), L, exclusive);
    assert_error(packing("truncated=true;frameMode=true"), L, exclusive);
    for lanes in ["-1", "\"\""] {
        let text = format!("frameMode=false;truncated=1;nbruttsineachrecurrentiter={lanes}");
        let message = "'nbruttsineachrecurrentiter' in 'unknown' must be numbers of parallel sequences.";
        assert_error(packing(&text), I, message);
    }
    // CNTK refuses this in composite readers only.
    let boundaries = format!("{FEATURES}\nlabels=[mlfFile=l;dim=12;phoneBoundaries=true]");
    assert!(read(&boundaries).is_ok());
}

#[test]
fn order() {
    let order = |text: &str| with_features(text).map(|settings| settings.order);
    let samples = |window, seed| Order::Block { window: WindowSize::Samples(window), seed };
    let all = (1 << 62) - 1;
    for (text, expected) in [
        ("randomize=AUTO;randomizationSeed=3", samples(all, 3)),
        ("randomize=10", samples(10, 0)),
        ("readMethod=blockrandomize;randomize=none", samples(0, 0)),
        ("readMethod=None;randomize=none;randomizationSeed=q", Order::InOrder),
        ("readMethod=none;randomize=7", Order::InOrder),
        ("readMethod=none;action=write", Order::InOrder),
        ("action=Write", samples(all, 0)),
    ] {
        assert_eq!(order(text).unwrap(), expected, "{text}");
    }
    let contradiction = "'randomize' cannot be 'none' when 'readMethod' is 'blockRandomize'.";
    let write = "'readMethod' must be 'none' for write action.";
    for (text, class, message) in [
        ("randomize=true", R, "ConfigValue (uint64_t): invalid input string 'true'"),
        ("randomize=\"\"", R, "configparameters: required parameter missing: unknown:randomize"),
        ("randomize=None", I, contradiction),
        ("randomize=0", I, contradiction),
        ("readMethod=rollingWindow", R, "readMethod must be 'blockRandomize' or 'none'."),
        ("action=write", I, write),
        ("action=write;readMethod=None", I, write),
        ("action=write;randomize=none", I, write),
    ] {
        assert_error(order(text), class, message);
    }
}

#[test]
fn kinds_of_streams() {
    let real = "Feature type must be of type 'real'.";
    let category = "Label type must be of type 'category'.";
    assert_error(read("features=[type=category;contextWindow=2;scpFile=f]"), I, real);
    assert_error(read(&format!("type=category\n{FEATURES}")), I, real);
    assert_error(with_features("labels=[mlfFile=l;type=real]"), I, category);
    assert_error(with_features("labels=[mlfFile=l;labelType=real;type=category;dim=12]"), I, category);
    assert_error(read(&format!("type=real\n{FEATURES}\n{LABELS}")), I, category);
}

/// Of several mistakes, the one that CNTK 2.7 finds first is reported.
#[test]
fn order_of_errors() {
    let bool_error = "ConfigValue (bool): boolean argument expected";
    let int_error = "ConfigValue (long): invalid input string 'q'";
    let size_error = "ConfigValue (uint64_t): invalid input string 'true'";
    for (text, class, message) in [
        ("nbruttsineachrecurrentiter=q", R, int_error),
        ("prefetch=q", R, bool_error),
        ("truncated=true;truncationLength=q", L, "frameMode and truncated BPTT are mutually exclusive."),
        ("truncationLength=q;useNumericSequenceKeys=q", R, int_error),
        ("useNumericSequenceKeys=q;randomize=true", R, bool_error),
        ("randomize=true;foo=\"\"", R, size_error),
        ("verbosity=q;readMethod=q", I, "Network needs at least 1 feature specified."),
    ] {
        assert_error(read(text), class, message);
    }
    let script = "features=[dim=3;type=category;scpFile=f]";
    let real = "Feature type must be of type 'real'.";
    assert_error(read(&format!("{script}\nverbosity=q;readMethod=q;action=write")), I, real);
    assert_error(with_features("verbosity=q;checkData=q"), R, int_error);
    assert_error(with_features("checkData=q;readMethod=q"), R, bool_error);
    assert_error(
        with_features("precision=half"),
        R,
        "Not supported precision 'half'. Expected 'double' or 'float'.",
    );
}

#[test]
fn unread_keys_are_reported() {
    let text = format!(
        "readerType=HTKMLFReader;minibatchMode=partial;useMersenneTwisterRand=1;randomise=none\n{FEATURES}\n{LABELS}
         features2=[dim=2;scpFile=i;expandToUtterance=1;contextWidow=3]\nhmms=[phoneFile=x]"
    );
    let section = root(&text).unwrap();
    legacy::read_htk(&section).unwrap();
    let line = |key: &str, path: &str, hint: &str| {
        format!("The configuration key '{key}' in 'global{path}' has no effect; did you mean '{hint}'?")
    };
    let expected = [line("randomise", "", "randomize"), line("contextWidow", ":features2", "contextWindow")];
    assert_eq!(section.log().unread("global"), expected);
}
