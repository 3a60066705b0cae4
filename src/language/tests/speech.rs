//! Sections of the speech deserializers: defaults, the visibility of keys, and CNTK's errors in
//! CNTK's order.

use super::options::*;
use super::*;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::stream::{ElementType, Ids, Storage};

const FEATURES: &str = "scpFile=f.scp;dim=3";
const LABELS: &str = "mlfFile=l.mlf;labelMappingFile=s.list;dim=12";

/// Returns a deserializer of CNTK's module with one stream, and keys around the stream.
fn element(name: &str, input: &str, outer: &str) -> String {
    format!("[module=HTKDeserializers;type={name};input=[{input}];{outer}]")
}

fn read(reader: &str, elements: &[String]) -> Result<ReaderSettings> {
    from_text(&format!("traceLevel=0\n{reader}\ndeserializers=({})", elements.join(":")))
}

/// Reads the options of one deserializer of features, the first one of its reader.
fn features(stream: &str, outer: &str) -> Result<HtkFeatureOptions> {
    let elements = [element("HTKFeatureDeserializer", &format!("features=[{stream}]"), outer)];
    read("", &elements).map(|settings| settings.deserializers[0].of::<HtkFeatureOptions>().unwrap().clone())
}

/// Reads the options of a deserializer that follows one of features.
fn second(reader: &str, name: &str, stream: &str, outer: &str) -> Result<Box<dyn Format>> {
    let first = element("HTKFeatureDeserializer", &format!("features=[{FEATURES}]"), "");
    let elements = [first, element(name, &format!("labels=[{stream}]"), outer)];
    read(reader, &elements).map(|mut settings| settings.deserializers.pop().unwrap())
}

fn labels(reader: &str, stream: &str, outer: &str) -> Result<MlfOptions> {
    second(reader, "HTKMLFDeserializer", stream, outer)
        .map(|options| options.of::<MlfOptions>().unwrap().clone())
}

fn kaldi(stream: &str, outer: &str) -> Result<KaldiOptions> {
    let text = format!("traceLevel=0\ndeserializers=([type=KaldiDeserializer;input=[x=[{stream}]];{outer}])");
    from_text(&text).map(|settings| settings.deserializers[0].of::<KaldiOptions>().unwrap().clone())
}

#[test]
fn defaults_of_every_deserializer() {
    let expected = HtkFeatureOptions {
        stream: "features".into(),
        scp_files: vec!["f.scp".into()],
        dim: 3,
        context: (0, 0),
        prefix: String::new(),
        expand: false,
        max_sequence_size: u32::MAX,
        defines_mb_size: false,
        verbosity: 0,
        element: ElementType::Float,
        frame_mode: false,
        confinement: cntk_reader_core::file::Confinement::default(),
        quirks: Default::default(),
    };
    assert_eq!(features(FEATURES, "").unwrap(), expected);
    let expected = MlfOptions {
        front_end: FrontEnd::default(),
        stream: "labels".into(),
        files: vec!["l.mlf".into()],
        list: None,
        state_list: Some("s.list".into()),
        dim: 12,
        phone_boundaries: false,
        ids: None,
        cache_index: false,
        chunk_size: 64 << 20,
        binary: false,
        element: ElementType::Float,
        frame_mode: false,
        confinement: cntk_reader_core::file::Confinement::default(),
        quirks: Default::default(),
    };
    assert_eq!(labels("", LABELS, "").unwrap(), expected);
    let expected = MlfOptions { binary: true, state_list: None, ..expected };
    let binary = second("", "HTKMLFBinaryDeserializer", LABELS, "").unwrap();
    assert_eq!(binary.of(), Some(&expected));
    let expected = LatticeOptions {
        stream: "labels".into(),
        index_file: "l.idx".into(),
        cache_index: false,
        chunk_size: 64 << 20,
        verbosity: 0,
        confinement: cntk_reader_core::file::Confinement::default(),
    };
    let lattices = second("", "LatticeDeserializer", "latticeIndexFile=l.idx", "").unwrap();
    assert_eq!(lattices.of(), Some(&expected));
}

#[test]
fn every_key_of_features() {
    let stream = "scpFile=f.scp;dim=3;contextWindow=2:1;prefixPathInSCP=/data/;expandToUtterance=true";
    let outer = "maxSequenceSize=5;definesMBSize=true;verbosity=2";
    let options = second("frameMode=true;precision=double", "HTKFeatureDeserializer", stream, outer).unwrap();
    let expected = HtkFeatureOptions {
        stream: "labels".into(),
        scp_files: vec!["f.scp".into()],
        dim: 3,
        context: (2, 1),
        prefix: "/data/".into(),
        expand: true,
        max_sequence_size: 5,
        defines_mb_size: true,
        verbosity: 2,
        element: ElementType::Double,
        frame_mode: true,
        confinement: cntk_reader_core::file::Confinement::default(),
        quirks: Default::default(),
    };
    assert_eq!(options.of(), Some(&expected));
}

/// The lookup of each key starts at the same section as in CNTK and goes outwards.
#[test]
fn visibility_of_keys() {
    let everything = "scpFile=f.scp;dim=3;contextWindow=3;prefixPathInSCP=p";
    assert_eq!(features("", everything).unwrap(), features(everything, "").unwrap());
    // In the stream's section, where CNTK's Python API writes them, these have no effect.
    let inside =
        features(&format!("{FEATURES};maxSequenceSize=5;definesMBSize=true;verbosity=1"), "").unwrap();
    assert_eq!((inside.max_sequence_size, inside.defines_mb_size, inside.verbosity), (u32::MAX, false, 0));
    let input = |more: &str| {
        let text = element("HTKFeatureDeserializer", &format!("a=[{FEATURES}]\n{more}"), "");
        read("", &[text]).map(|settings| settings.deserializers[0].clone())
    };
    let options = input("maxSequenceSize=5;definesMBSize=1;verbosity=1").unwrap();
    let options = options.of::<HtkFeatureOptions>().unwrap();
    assert_eq!((options.max_sequence_size, options.defines_mb_size, options.verbosity), (5, true, 0));
    // The reader's keys are not visible.
    let settings = read("dim=4;maxSequenceSize=5", &[element("HTKFeatureDeserializer", "a=[scpFile=f]", "")]);
    assert_error(settings, I, "Features must specify dimension: 'dim' property is missing.");

    assert_eq!(
        labels("", "mlfFile=l.mlf", "labelMappingFile=s.list;dim=12").unwrap(),
        labels("", LABELS, "").unwrap()
    );
    let missing = "Either mlfFile or mlfFileList must exist in the reader configuration.";
    assert_error(labels("", "dim=12", "mlfFile=l.mlf;mlfFileList=(a:b)"), I, missing);
    assert_eq!(labels("", "mlfFile=l;dim=12", "chunkSizeInBytes=100").unwrap().chunk_size, 100);
    assert_eq!(labels("", "mlfFile=l;dim=12;chunkSizeInBytes=100", "").unwrap().chunk_size, 64 << 20);
}

/// The stream is the first member of `input` in alphabetical order, whatever it is.
#[test]
fn only_the_first_stream_counts() {
    let name = |input: &str| {
        let text = element("HTKFeatureDeserializer", input, "");
        read("", &[text])
            .map(|settings| settings.deserializers[0].of::<HtkFeatureOptions>().unwrap().stream.clone())
    };
    assert_eq!(name(&format!("b=[dim=4]\nA=[{FEATURES}]")).unwrap(), "A");
    let missing = "Features must specify dimension: 'dim' property is missing.";
    assert_error(name(&format!("definesMBSize=true\nfeatures=[{FEATURES}]")), I, missing);
    assert_eq!(name(&format!("definesMBSize=true\na=[{FEATURES}]")).unwrap(), "a");
    assert_error(
        name("a=default"),
        R,
        "configparameters: required parameter missing: unknown:deserializers[0]:input:a",
    );
    assert_error(name(""), I, "The section 'unknown:deserializers[0]:input' describes no stream.");
}

#[test]
fn windows_of_neighbours() {
    let context = |window: &str| {
        features(&format!("{FEATURES};contextWindow={window}"), "").map(|features| features.context)
    };
    for (window, expected) in [
        ("1", (0, 0)),
        ("3", (1, 1)),
        ("11", (5, 5)),
        ("0:0", (0, 0)),
        ("1:2", (1, 2)),
        ("(1:2)", (1, 2)),
        ("[0,2]", (0, 2)),
        ("1*2", (1, 1)),
        ("(\n3:4\n)", (3, 4)),
        ("default", (0, 0)),
    ] {
        assert_eq!(context(window).unwrap(), expected, "{window}");
    }
    for size in [0, 2, 10, -2] {
        let message = format!("Neighbor expansion of input features to {size} is not symmetrical.");
        assert_error(context(&size.to_string()), I, &message);
    }
    assert_error(context("1:2:3"), I, "contextWindow must have 1 or 2 values specified, found 3.");
    assert_error(context("\"\""), I, "contextWindow must have 1 or 2 values specified, found 0.");
    assert_error(context("q"), R, "ConfigValue (long): invalid input string 'q'");
    assert_error(context("1.5"), R, "ConfigValue (long): invalid input string '1.5'");
    assert_error(context("3000000000"), R, "ConfigValue (int): integer argument expected");
    assert_error(context("1:-1"), I, "contextWindow must not be negative, found 1:-1.");
    assert_error(context("-1"), I, "contextWindow must not be negative, found -1:-1.");
    let message = "The samples of 'unknown:deserializers[0]:input:features' are too large.";
    assert_error(features("scpFile=f;dim=-1;contextWindow=3", ""), R, message);
    assert_error(features("scpFile=f;dim=2000000000;contextWindow=2000000000:2000000000", ""), R, message);
}

#[test]
fn several_script_files() {
    let files =
        |value: &str| features(&format!("dim=3;scpFile={value}"), "").map(|features| features.scp_files);
    assert_eq!(files("(a.scp:b.scp)").unwrap(), ["a.scp", "b.scp"]);
    assert_eq!(files("(\n\"a:1.scp\"\n\"b.scp\"\n)").unwrap(), ["a:1.scp", "b.scp"]);
    assert_eq!(files("(a.scp)").unwrap(), ["a.scp"]);
    // Without brackets it is one path.
    assert_eq!(files("a.scp:b.scp").unwrap(), ["a.scp:b.scp"]);
    assert_error(files("()"), I, "'scpFile' in 'unknown:deserializers[0]:input:features' names no file.");
}

#[test]
fn lists_of_label_files() {
    let files = |list: &str| labels("", &format!("dim=12;mlfFileList={list}"), "").map(|labels| labels.files);
    assert_eq!(files("(a.mlf:b.mlf)").unwrap(), ["a.mlf", "b.mlf"]);
    assert_eq!(files("a.mlf:b.mlf").unwrap(), ["a.mlf", "b.mlf"]);
    assert_eq!(files("a.mlf:").unwrap(), ["a.mlf"]);
    assert_eq!(files(":").unwrap(), [""; 0]);
    // Without a colon, it is the path of a file, with or without brackets.
    for value in ["/none", "(/none)", "(/none,/other)"] {
        let message = format!("auto_file_ptr: error opening file '{value}': No such file or directory");
        assert_error(files(value), R, &message);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mlf.list");
    std::fs::write(&path, "a.mlf\r\n\n b.mlf ").unwrap();
    assert_eq!(files(path.to_str().unwrap()).unwrap(), ["a.mlf", "", " b.mlf "]);
    // A single file takes precedence.
    assert_eq!(labels("", "dim=12;mlfFile=l.mlf;mlfFileList=/none", "").unwrap().files, ["l.mlf"]);
}

#[test]
fn keys_of_labels() {
    let dim = |stream: &str, outer: &str| {
        labels("", &format!("mlfFile=l;{stream}"), outer).map(|labels| labels.dim)
    };
    assert_eq!(dim("labelDim=13;dim=12", "").unwrap(), 13);
    assert_eq!(dim("dim=12", "labelDim=14").unwrap(), 14);
    assert_eq!(dim("dim=65535", "").unwrap(), 65535);
    for (value, shown) in [("65536", "65536"), ("-1", "18446744073709551615")] {
        let message = format!("Label dimension ({shown}) exceeds the maximum allowed value '65535d'\n");
        assert_error(dim(&format!("dim={value}"), ""), R, &message);
    }
    assert!(labels("", &format!("{LABELS};phoneBoundaries=true"), "").unwrap().phone_boundaries);
    assert!(!labels("", &format!("{LABELS};phoneBoundaries=\"\""), "").unwrap().phone_boundaries);
    for value in ["default", "\"\""] {
        let stream = format!("mlfFile=l;dim=12;labelMappingFile={value}");
        assert_eq!(labels("", &stream, "").unwrap().state_list, None);
    }
    // An index file needs hashed keys; otherwise the key is not even converted.
    let cache = |reader: &str, value: &str| {
        labels(reader, &format!("{LABELS};cacheIndex={value}"), "").map(|labels| labels.cache_index)
    };
    assert!(!cache("", "true").unwrap() && !cache("", "q").unwrap());
    assert!(cache("hashSequenceKeys=true", "true").unwrap());
    assert_error(cache("hashSequenceKeys=true", "q"), R, "ConfigValue (bool): boolean argument expected");
}

/// Of several mistakes, the one that CNTK 2.7 finds first is reported.
#[test]
fn order_of_errors() {
    let bool_error = "ConfigValue (bool): boolean argument expected";
    let size_error = "ConfigValue (uint64_t): invalid input string 'q'";
    let int_error = "ConfigValue (long): invalid input string 'q'";
    let dim = "Features must specify dimension: 'dim' property is missing.";
    let window = "Neighbor expansion of input features to 2 is not symmetrical.";
    let primary =
        "Cannot expand utterances of the primary stream features, please change your configuration.";
    let script =
        "configparameters: required parameter missing: unknown:deserializers[0]:input:features:scpFile";
    for (stream, outer, class, message) in [
        ("contextWindow=2", "verbosity=q", R, int_error),
        ("contextWindow=2;expandToUtterance=q", "maxSequenceSize=q", I, window),
        ("expandToUtterance=q", "", R, bool_error),
        ("expandToUtterance=true", "", I, primary),
        ("", "maxSequenceSize=q", I, dim),
        ("dim=3;expandToUtterance=q", "maxSequenceSize=q", R, bool_error),
        ("dim=3;expandToUtterance=true", "maxSequenceSize=q", I, primary),
        ("dim=3", "maxSequenceSize=q;definesMBSize=q", R, size_error),
        ("dim=3", "definesMBSize=q", R, script),
        (FEATURES, "definesMBSize=q", R, bool_error),
    ] {
        assert_error(features(stream, outer), class, message);
    }
    let dim = "Labels must specify dimension: 'dim/labelDim' property is missing.";
    let large = "Label dimension (70000) exceeds the maximum allowed value '65535d'\n";
    let exclusive = "frameMode and phoneBoundaries are mutually exclusive options.";
    let binary = "TODO: implement phoneBoundaries setting in Binary MLF deserializer.";
    let files = "Either mlfFile or mlfFileList must exist in the reader configuration.";
    let cases = [
        ("", "HTKMLFDeserializer", "", "chunkSizeInBytes=q", R, size_error),
        ("", "HTKMLFDeserializer", "phoneBoundaries=q", "", I, dim),
        ("frameMode=1", "HTKMLFDeserializer", "dim=70000;phoneBoundaries=true", "", R, large),
        ("", "HTKMLFDeserializer", "dim=12;phoneBoundaries=q", "", R, bool_error),
        ("frameMode=1", "HTKMLFDeserializer", "dim=12;phoneBoundaries=true", "", L, exclusive),
        ("frameMode=1", "HTKMLFBinaryDeserializer", "dim=12;phoneBoundaries=true", "", L, exclusive),
        ("", "HTKMLFBinaryDeserializer", "dim=12;phoneBoundaries=true", "", L, binary),
        ("", "HTKMLFDeserializer", "dim=12", "", I, files),
        ("", "LatticeDeserializer", "", "verbosity=q;chunkSizeInBytes=q", R, int_error),
        ("", "LatticeDeserializer", "", "chunkSizeInBytes=q", R, size_error),
        (
            "",
            "LatticeDeserializer",
            "cacheIndex=q",
            "",
            R,
            "configparameters: required parameter missing: unknown:deserializers[1]:input:labels:latticeIndexFile",
        ),
        (
            "",
            "HTKMLFDeserializer",
            LABELS,
            "chunkSizeInBytes=0",
            I,
            "'chunkSizeInBytes' in unknown:deserializers[1] must not be 0.",
        ),
    ];
    for (reader, name, stream, outer, class, message) in cases {
        assert_error(second(reader, name, stream, outer), class, message);
    }
}

#[test]
fn labels_and_lattices_cannot_come_first() {
    let first = |name: &str| read("", &[format!("[module=HTKDeserializers;type={name};chunkSizeInBytes=q]")]);
    for name in ["HTKMLFDeserializer", "HTKMLFBinaryDeserializer"] {
        assert_error(first(name), R, "MLFDeserializer currently does not support primary mode.");
    }
    let message = "Lattice deserializer does not support primary mode, it cannot control chunking. Please specify HTK deserializer as the first deserializer in your config file.";
    assert_error(first("LatticeDeserializer"), L, message);
}

#[test]
fn modules_and_types() {
    for module in ["HTKDeserializers", "Cntk.Deserializers.HTK"] {
        let open = |name: &str| {
            from_text(&format!(
                "traceLevel=0;deserializers=([module={module};type={name};input=[x=[{FEATURES}]]])"
            ))
        };
        assert!(open("HTKFeatureDeserializer").is_ok());
        assert!(open("KaldiDeserializer").is_ok());
        let message = "Cannot create deserializer. Please check module and type in the configuration.";
        assert_error(open("HtkFeatureDeserializer"), R, message);
    }
    let transforms = "Symbol 'CreateTransformer' not found in plugin 'Cntk.Deserializers.HTK-2.7.so'";
    assert_error(features(&format!("{FEATURES};transforms=([type=Crop])"), ""), R, transforms);
    let message = "Currently user defined deserializers do not support composability. Please specify a single deserializer.";
    assert_error(second("", "HTKMLFDeserializer", LABELS, "composable=false"), I, message);
    // The library serves modules that it has, even if others could.
    let text = format!(
        "traceLevel=0\ndeserializers=({})",
        element("HTKFeatureDeserializer", &format!("x=[{FEATURES}]"), "")
    );
    let others = ExtensionTypes { foreign: true, ..ExtensionTypes::default() };
    let settings = Config::from_text(&text).unwrap().settings(others).unwrap();
    assert!(settings.deserializers[0].of::<HtkFeatureOptions>().is_some());
}

/// Keys are textual as soon as one deserializer is of a type that CNTK counts, or a Kaldi
/// deserializer.
#[test]
fn kinds_of_keys() {
    let numeric = |text: &str| from_text(&format!("traceLevel=0\n{text}")).unwrap().numeric_keys;
    let ctf =
        "[module=CNTKTextFormatReader;type=CNTKTextFormatDeserializer;file=f;input=[x=[dim=1;format=dense]]]";
    let htk = element("HTKFeatureDeserializer", &format!("features=[{FEATURES}]"), "");
    let labels = element("HTKMLFDeserializer", &format!("labels=[{LABELS}]"), "");
    let binary = element("HTKMLFBinaryDeserializer", &format!("labels=[{LABELS}]"), "");
    let lattices = element("LatticeDeserializer", "l=[latticeIndexFile=i]", "");
    let kaldi = "[type=KaldiDeserializer;input=[k=[arkFile=a;dim=2]]]";
    assert!(numeric(&format!("deserializers=({ctf})")));
    assert!(!numeric(&format!("deserializers=({htk})")));
    assert!(!numeric(&format!("deserializers=({ctf}:{labels})")));
    assert!(numeric(&format!("deserializers=({ctf}:{binary}:{lattices})")));
    assert!(!numeric(&format!("deserializers=({ctf}:{kaldi})")));
    assert!(numeric(&format!("useNumericSequenceKeys=true;deserializers=({htk})")));
    let hashed = from_text(&format!("traceLevel=0;hashSequenceKeys=true;deserializers=({htk})")).unwrap();
    assert!(hashed.hash_keys && !hashed.numeric_keys);
    let error =
        from_text(&format!("hashSequenceKeys=true;useNumericSequenceKeys=true;deserializers=({htk})"));
    assert_error(error, R, "Hashing should not be used with numeric sequence keys.");
    // The window of speech is all of the data, in samples.
    let order = from_text(&format!("traceLevel=0\ndeserializers=({htk})")).unwrap().order;
    assert_eq!(order, Order::Block { window: WindowSize::Samples((1 << 62) - 1), seed: 0 });
}

#[test]
fn archives_of_kaldi() {
    let expected = KaldiOptions {
        stream: "x".into(),
        file: "f.scp".into(),
        is_script: true,
        dim: 40,
        storage: Storage::Dense,
        ids: None,
        context: (0, 0),
        expand: false,
        max_sequence_size: u32::MAX,
        defines_mb_size: false,
        element: ElementType::Float,
        frame_mode: false,
        confinement: cntk_reader_core::file::Confinement::default(),
    };
    assert_eq!(kaldi("scpFile=f.scp;dim=40", "").unwrap(), expected);
    // All keys are looked up from the stream outwards.
    let all = "arkFile=f.ark;dim=40;contextWindow=1:2;maxSequenceSize=7;definesMBSize=1;format=Dense";
    let expected = KaldiOptions {
        file: "f.ark".into(),
        is_script: false,
        context: (1, 2),
        max_sequence_size: 7,
        defines_mb_size: true,
        ..expected
    };
    assert_eq!(kaldi(all, "").unwrap(), expected);
    assert_eq!(kaldi("", all).unwrap(), expected);
    assert_eq!(kaldi("arkFile=f;dim=9;format=sparse", "").unwrap().storage, Storage::SparseCsc);
    assert!(kaldi("arkFile=f;dim=9", "module=HTKDeserializers").is_ok());
    let section = "unknown:deserializers[0]:input:x";
    for (stream, message) in [
        ("scpFile=f", "A Kaldi stream must specify its dimension: 'dim' is missing.".to_owned()),
        ("dim=9", format!("'{section}' has neither 'scpFile' nor 'arkFile'.")),
        ("dim=9;scpFile=f;arkFile=g", format!("'{section}' has 'scpFile' and 'arkFile'.")),
        ("dim=0;arkFile=g", format!("'dim' in '{section}' is 0.")),
        ("dim=3000000000;arkFile=g;format=sparse", format!("'dim' in '{section}' is 3000000000.")),
        ("dim=9;arkFile=g;format=wide", format!("'format' in '{section}' is 'wide'.")),
        (
            "dim=9;arkFile=g;format=sparse;contextWindow=3",
            format!("'{section}' has a 'contextWindow', which class numbers cannot have."),
        ),
        (
            "dim=9;arkFile=g;expandToUtterance=1",
            "Cannot expand utterances of the primary stream x, please change your configuration.".to_owned(),
        ),
    ] {
        assert_error(kaldi(stream, ""), I, &message);
    }
}

#[test]
fn class_ids_of_kaldi_and_labels() {
    let native = |elements: &str| {
        let settings = Config::from_text(&format!("deserializers = ({elements})"))?;
        settings.settings(ExtensionTypes::default())
    };
    let kaldi = |stream: &str| {
        let settings =
            native(&format!("[ type = KaldiDeserializer ; input = [ x = [ arkFile = a ; {stream} ] ] ]"))?;
        Ok(settings.deserializers[0].of::<KaldiOptions>().unwrap().clone())
    };
    let ids = Some(Ids { element: ElementType::Int32, padding: -1 });
    assert_eq!(kaldi("dim = 9 ; format = sparse ; ids = int32 ; padding = -1").unwrap().ids, ids);
    assert_eq!(kaldi("dim = 2147483647 ; format = sparse").unwrap().dim, 2_147_483_647);
    assert_eq!(kaldi("dim = 2147483648").unwrap().dim, 2_147_483_648);
    let path = "deserializers[0]:input:x";
    for (stream, message, detail) in [
        (
            "dim = 9 ; ids = int32",
            format!("'{path}' has 'ids' but is dense."),
            "Ids are class numbers: set 'format = \"sparse\"', or remove 'ids'.",
        ),
        (
            "dim = 0 ; format = sparse",
            format!("The value of 'dim' in '{path}' is 0."),
            "Expected the number of values of a sample, at least 1.",
        ),
        (
            "dim = 2147483648 ; format = sparse",
            format!("'dim' in '{path}' is 2147483648."),
            "Expected the number of values of a frame, or the number of classes, at most 2147483647.",
        ),
    ] {
        let error: Error = kaldi(stream).unwrap_err();
        assert_eq!((error.message(), error.detail()), (&*message, detail), "{stream}");
    }
    let error = kaldi("dim = 9 ; format = wide").unwrap_err();
    assert_eq!(error.location().stream.as_deref(), Some("x"));
    let features = "[ type = HTKFeatureDeserializer ; module = HTKDeserializers ; input = [ f = [ scpFile = s ; dim = 1 ] ] ]";
    let labels = |keys: &str| {
        let labels = format!(
            "[ type = HTKMLFDeserializer ; module = HTKDeserializers ; input = [ l = [ mlfFile = m ; {keys} ] ] ]"
        );
        let settings = native(&format!("{features} : {labels}"))?;
        Ok(settings.deserializers[1].of::<MlfOptions>().unwrap().ids)
    };
    assert_eq!(labels("labelDim = 3 ; ids = int32 ; padding = -1").unwrap(), ids);
    let error: Error = labels("labelDim = 65536").unwrap_err();
    assert_eq!(
        error.detail(),
        "The number of classes, 'labelDim' in 'deserializers[1]:input:l', is 65536. Expected at most 65535."
    );
    assert_eq!(error.location().column, Some(225));
    let error = labels("ids = int32 ; dim = 65536").unwrap_err();
    assert_eq!(error.location().column, Some(234));
    let error = labels("labelDin = 3").unwrap_err();
    let detail = "'deserializers[1]:input:l' has no 'labelDim'. Set 'labelDim' to the number of classes. 'labelDin' has no effect. Did you mean 'labelDim'?";
    assert_eq!(error.detail(), detail);
}

#[test]
fn samples_must_fit_into_the_address_space() {
    let dim =
        |dim: u64| features(&format!("scpFile=f;contextWindow=3;dim={dim}"), "").map(|features| features.dim);
    let most = isize::MAX as u64 / 8 / 3;
    assert_eq!(dim(most).unwrap(), most);
    assert_error(dim(most + 1), R, "The samples of 'unknown:deserializers[0]:input:features' are too large.");
    let error = features("scpFile=f;contextWindow=0:3;dim=-1", "").unwrap_err();
    assert!(error.detail().contains("with 0 frames before and 3 after"), "{error}");
}

#[test]
fn list_of_label_files_is_text() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mlf.list");
    let read = || labels("", &format!("dim=12;mlfFileList={}", path.display()), "");
    for (bytes, place) in [
        (&b"a.mlf\nb\xff.mlf\n"[..], (Some(7), Some(2))),
        (b"\xff", (Some(0), Some(1))),
        (b"\xef\xbb\xbfa\n\n\xff", (Some(6), Some(3))),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error = read().unwrap_err();
        assert_eq!(
            error.message(),
            format!("The list '{}' of label files is not UTF-8 text.", path.display())
        );
        assert_eq!((error.location().offset, error.location().line), place);
        assert_eq!(error.location().file.as_deref(), path.to_str());
    }
    std::fs::write(&path, b"\xef\xbb\xbfa\r\nb").unwrap();
    let found = read().unwrap();
    assert_eq!((found.files, found.list.as_deref()), (vec!["a".to_owned(), "b".to_owned()], path.to_str()));
    std::fs::remove_file(&path).unwrap();
    let error = read().unwrap_err();
    assert_eq!(error.kind(), cntk_reader_core::ErrorKind::Io);
    assert!(error.detail().contains("deserializers[1]:input:labels' is the path"), "{error}");
}

/// Keys that CNTK's API writes without effect are not reported in CNTK's place, but elsewhere they
/// are.
#[test]
fn keys_without_effect() {
    let stream = format!("{FEATURES};maxSequenceLength=65535;definesMBSize=0;contextwindw=3");
    let element = element("HTKFeatureDeserializer", &format!("features=[{stream}]\nother=[dim=1]"), "");
    let section = root(&format!("deserializers=({element})")).unwrap();
    composite::read_with(&section, ExtensionTypes::default()).unwrap();
    let line = |key: &str, path: &str, hint: &str| {
        format!("The configuration key '{key}' in 'global:deserializers[0]:input{path}' has no effect{hint}")
    };
    let misspelt = line("contextwindw", ":features", "; did you mean 'contextWindow'?");
    let of_dim = line("dim", ":other", "; it has one in 'global:deserializers[0]:input:features'");
    let everywhere = [misspelt.clone(), of_dim.clone()];
    let elsewhere = [
        misspelt,
        line("definesMBSize", ":features", "; it has one in 'global:deserializers[0]'"),
        line("maxSequenceLength", ":features", ""),
        of_dim,
    ];
    assert_eq!(section.log().unread("global"), elsewhere);
    let unread = section.log().unread_but("global", &["maxSequenceLength", "definesMBSize"]);
    assert_eq!(unread.len(), everywhere.len());
    assert!(
        unread.iter().zip(&everywhere).all(|(line, start)| line.starts_with(start.as_str())),
        "{unread:?}"
    );
}
