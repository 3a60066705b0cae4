//! From texts to options: both kinds of readers, the visibility of keys, and CNTK's errors.

use super::options::*;
use super::*;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::stream::{ElementType, Storage};
use cntk_reader_core::written::Written;

pub(super) const STREAMS: &str = "input=[x=[dim=1;format=dense]]";

/// Reads a composite configuration with one text deserializer: reader-level keys and
/// deserializer-level keys.
pub(super) fn composite(reader: &str, element: &str) -> Result<ReaderSettings> {
    composite_of(reader, &format!("file=f;{STREAMS};{element}"))
}

pub(super) fn composite_of(reader: &str, element: &str) -> Result<ReaderSettings> {
    let head = "module=CNTKTextFormatReader;type=CNTKTextFormatDeserializer";
    from_text(&format!("traceLevel=0\n{reader}\ndeserializers=([{head};{element}])"))
}

/// Reads a text reader inside `reader = [ ]`.
pub(super) fn legacy(outer: &str, reader: &str) -> Result<ReaderSettings> {
    from_text(&format!(
        "traceLevel=0\n{outer}\nreader=[readerType=CNTKTextFormatReader;file=f\n{STREAMS}\n{reader}]"
    ))
}

fn text(options: &ReaderSettings) -> &TextOptions {
    let Some(text) = options.deserializers[0].of::<TextOptions>() else { panic!("no text") };
    text
}

fn stream(options: &ReaderSettings, index: usize) -> &TextStream {
    &text(options).streams[index]
}

#[test]
fn defaults_of_a_composite_reader() {
    let expected = ReaderSettings {
        shape: Shape::Composite,
        deserializers: vec![Box::new(TextOptions {
            files: cntk_reader_core::format::files::Files::named("f".into()).unwrap(),
            streams: vec![TextStream {
                name: "x".into(),
                alias: "x".into(),
                dim: 1,
                storage: Storage::Dense,
                defines_mb_size: false,
                element: None,
                ids: None,
            }],
            skip_sequence_ids: false,
            max_errors: 0,
            log: Logger::new(0),
            chunk_size: 33_554_432,
            cache_index: false,
            keep_data_in_memory: false,
            element: ElementType::Float,
            strict_sequences: true,
            shared_ids: false,
            quirks: Quirks::default(),
        })],
        adapters: Vec::new(),
        numeric_keys: true,
        hash_keys: false,
        order: Order::Block { window: WindowSize::Chunks(128), seed: 0 },
        packing: Packing::Sequence,
        expand_sparse: true,
        lanes_by_epoch: None,
        local_timeline: true,
        lockstep: false,
        max_errors: 0,
        element: ElementType::Float,
        trace_level: 0,
        front_end: FrontEnd::default(),
        verbosity: 0,
        multithreaded: false,
        prefetch: true,
        in_place_of: None,
        packing_key: Written::default(),
        descriptions: vec![Written::default()],
    };
    assert_eq!(composite("", "").unwrap(), expected);
    let in_lockstep = ReaderSettings { local_timeline: false, lockstep: true, ..expected.clone() };
    assert_eq!(composite("lockstep = true", "").unwrap(), in_lockstep);
    let expected = ReaderSettings { shape: Shape::TextReader, local_timeline: false, ..expected };
    assert_eq!(legacy("", "").unwrap(), expected);
}

#[test]
fn every_key_of_a_composite_reader() {
    let reader = "useNumericSequenceKeys=false;hashSequenceKeys=true;truncated=true;truncationLength=5;rightSplice=2
        precision=DOUBLE;verbosity=-2;randomizationWindow=7;randomizationSeed=-1;maxErrors=3;localTimeline=0;prefetch=f";
    let element = "skipSequenceIds=1;maxErrors=-1;chunkSizeInBytes=-1;keepDataInMemory=t;cacheIndex=T;strictSequences=0";
    let options = composite(reader, element).unwrap();
    assert!(!options.numeric_keys && options.hash_keys && !options.local_timeline && !options.prefetch);
    assert_eq!(options.packing, Packing::Truncated { length: 5, right_splice: 2 });
    assert_eq!(options.order, Order::Block { window: WindowSize::Samples(7), seed: u64::MAX });
    assert_eq!((options.element, options.verbosity, options.max_errors), (ElementType::Double, -2, 3));
    let text = text(&options);
    assert!(text.skip_sequence_ids && text.keep_data_in_memory && text.cache_index && !text.strict_sequences);
    assert_eq!((text.max_errors, text.chunk_size, text.element), (u32::MAX, u64::MAX, ElementType::Double));
}

#[test]
fn every_key_of_a_text_reader() {
    let options = legacy(
        "",
        "frameMode=true;precision=Double;maxErrors=4;keepDataInMemory=1;skipSequenceIds=1;cacheIndex=1
         randomizationSeed=3;randomizationWindow=9;sampleBasedRandomizationWindow=1;verbosity=2;traceLevel=-1;prefetch=0",
    )
    .unwrap();
    assert_eq!(options.packing, Packing::Frame);
    assert_eq!(options.order, Order::Block { window: WindowSize::Samples(9), seed: 3 });
    assert_eq!((options.max_errors, text(&options).max_errors), (0, 4));
    assert_eq!((options.trace_level, options.verbosity, options.prefetch), (u32::MAX, 2, false));
    assert_eq!((options.element, text(&options).element), (ElementType::Double, ElementType::Double));
    assert!(
        text(&options).keep_data_in_memory && text(&options).cache_index && text(&options).skip_sequence_ids
    );
}

#[test]
fn the_text_that_the_api_writes() {
    let options = from_text(
        "deserializers = (
    [
        module = CNTKTextFormatReader
        input = [
            lab = [
                alias = y
                definesMBSize = 0
                format = sparse
                dim = 5
            ]
            feat = [
                alias = x
                definesMBSize = 1
                format = Dense
                dim = 1
            ]
        ]
        file = /data/a b.ctf
        type = CNTKTextFormatDeserializer
    ])
multiThreadedDeserialization = 0
traceLevel = 1
frameMode = 0
sampleBasedRandomizationWindow = 0
randomizationSeed = 0
randomizationWindow = 128
randomize = 1
",
    )
    .unwrap();
    assert_eq!(options.order, Order::Block { window: WindowSize::Chunks(128), seed: 0 });
    assert_eq!(text(&options).files.name(), "/data/a b.ctf");
    let (feat, lab) = (stream(&options, 0), stream(&options, 1));
    assert_eq!((feat.name.as_str(), feat.alias.as_str(), feat.storage), ("feat", "x", Storage::Dense));
    assert_eq!((lab.name.as_str(), lab.alias.as_str(), lab.storage), ("lab", "y", Storage::SparseCsc));
    assert_eq!((lab.dim, feat.defines_mb_size, lab.defines_mb_size), (5, true, false));
}

#[test]
fn file_names_as_the_api_writes_them() {
    let open = |file: &str| {
        composite_of("", &format!("\nfile = {file}\n{STREAMS}"))
            .map(|options| text(&options).files.name().to_owned())
    };
    for file in ["/d/p q", "/d/p#q", "/d/p$q", "/d/p=q", "/d/p:q", "/d/p*2", "/d/été"] {
        assert_eq!(open(file).unwrap(), file);
    }
    let cut = [
        ("/d/p,q.ctf", "/d/p"),
        ("/d/p;q.ctf", "/d/p"),
        ("/d/p #q.ctf", "/d/p "),
        ("/d/p[q].ctf", "/d/p[q]"),
        ("/d/p{q}r.ctf", "/d/p{q}"),
        ("\"/d/p,q.ctf\"", "/d/p,q.ctf"),
    ];
    for (file, expected) in cut {
        assert_eq!(open(file).unwrap(), expected);
    }
    assert_error(open("/d/p(q"), R, "unmatched bracket found in parameters");
    assert_error(open("/d/p)q"), R, "unmatched bracket found in parameters");
    assert_error(open("/d/p\"q"), R, "no closing \" found in parameters");
    let message =
        "No variable found with the name q. Parsing of string failed: unknown:deserializers[0]:/d/p$q$r.ctf";
    assert_error(open("/d/p$q$r.ctf"), R, message);
    assert_error(
        open("default"),
        R,
        "configparameters: required parameter missing: unknown:deserializers[0]:file",
    );
}

#[test]
fn stream_names() {
    let names = |input: &str| {
        composite_of("", &format!("file=f;input=[\n{input}\n]"))
            .map(|options| text(&options).streams.iter().map(|s| s.name.clone()).collect::<Vec<_>>())
    };
    let stream = "[dim=1;format=dense]";
    assert_eq!(names(&format!("b={stream}\na={stream}\nC={stream}")).unwrap(), ["a", "b", "C"]);
    for name in ["default", "_a", "é", "a b", "a.b", "a-b"] {
        assert_eq!(names(&format!("{name} = {stream}")).unwrap(), [name]);
    }
    for (input, stream) in [
        (format!("a,b={stream}"), "a"),
        (format!("a=b={stream}"), "a"),
        ("a=5".into(), "a"),
        ("a=default".into(), "a"),
        ("a=\"\"".into(), "a"),
        (format!("x={stream}\nprecision=float"), "precision"),
        ("a=[dim=1]".into(), "a"),
        ("a=[format=dense]".into(), "a"),
    ] {
        let message = format!(
            "Input section for input '{stream}' does not specify all the required parameters, \"dim\" and \"format\"."
        );
        assert_error(names(&input), R, &message);
    }
}

#[test]
fn packing() {
    let packing = |reader| composite(reader, "").map(|options| options.packing);
    assert_eq!(packing("frameMode=1;truncated=0;truncationLength=4").unwrap(), Packing::Frame);
    assert_eq!(packing("frameMode=1;truncationLength=0").unwrap(), Packing::Frame);
    let error = packing("frameMode=1;truncationLength=4").unwrap_err();
    assert_eq!(error.message(), "'truncationLength' has no effect, because 'truncated' is not set.");
    // In CNTK's place it is ignored, as in CNTK.
    let element = format!("[type=CNTKTextFormatDeserializer;module=CNTKTextFormatReader;file=f;{STREAMS}]");
    let section = root(&format!("truncationLength=4\ndeserializers=({element})")).unwrap();
    let settings = from_reader_section(&section, ReaderType::Composite, false).unwrap();
    assert_eq!(settings.packing, Packing::Sequence);
    assert_eq!(text(&settings).quirks, Release::Current.quirks());
    let beta = Config::from_reader_section(&section, ReaderType::Composite, Release::Beta);
    let beta = beta.settings(ExtensionTypes::default()).unwrap();
    assert_eq!((beta.pace(), text(&beta).quirks), (Pace::Beta, Release::Beta.quirks()));
    assert_eq!(packing("frameMode=1;action=write").unwrap(), Packing::Sequence);
    assert_eq!(packing("truncated=1;action=Write").unwrap(), Packing::Sequence);
    let all = Packing::Truncated { length: u64::MAX, right_splice: 3 };
    assert_eq!(packing("truncated=1;truncationLength=-1;rightSplice=3").unwrap(), all);
}

/// Visibility: elements of `deserializers` have no enclosing section; they only see the values that
/// the reader copies into them, which override their own.
#[test]
fn visibility_in_a_composite_reader() {
    let outer =
        "maxErrors=5;cacheIndex=1;skipSequenceIds=1;keepDataInMemory=1;chunkSizeInBytes=64;file=other";
    let options = composite(outer, "").unwrap();
    assert_eq!((options.max_errors, text(&options).max_errors), (5, 0));
    assert!(
        !text(&options).cache_index
            && !text(&options).skip_sequence_ids
            && !text(&options).keep_data_in_memory
    );
    assert_eq!(text(&options).chunk_size, 33_554_432);
    assert_eq!(composite("", "chunkSizeInBytes=64").unwrap().order, composite("", "").unwrap().order);
    assert_error(
        composite_of("file=f", STREAMS),
        R,
        "configparameters: required parameter missing: unknown:deserializers[0]:file",
    );

    let levels = |reader: &str, element: &str| {
        let head = "module=CNTKTextFormatReader;type=CNTKTextFormatDeserializer;file=f";
        let options = from_text(&format!("{reader}\ndeserializers=([{head};{STREAMS};{element}])")).unwrap();
        (options.trace_level, text(&options).log.trace_level)
    };
    assert_eq!(levels("traceLevel=2", "traceLevel=0"), (2, 2));
    assert_eq!(levels("traceLevel=2", ""), (2, 2));
    assert_eq!(levels("", "traceLevel=0"), (1, 0));
    assert_eq!(levels("traceLevel=\"\"", "traceLevel=0"), (1, 0));
    assert_eq!(levels("traceLevel=default", ""), (1, 1));

    let element = |reader, element| composite(reader, element).unwrap().element;
    assert_eq!(element("", "precision=double"), ElementType::Float);
    assert_eq!(element("precision=double", "precision=q"), ElementType::Double);
    assert_eq!(element("precision=Float", ""), ElementType::Float);
    assert_eq!(composite("", "frameMode=q").unwrap().packing, Packing::Sequence);

    // Inside a deserializer keys are looked up outwards: stream, input, deserializer.
    let defines = |at_deserializer: &str, streams: &str| {
        composite_of("", &format!("file=f;{at_deserializer};input=[{streams}]"))
            .map(|options| text(&options).streams.iter().map(|s| s.defines_mb_size).collect::<Vec<_>>())
    };
    let streams = "x=[dim=1;format=dense]\ny=[dim=1;format=dense;definesMBSize=default]\nz=[dim=1;format=dense;definesMBSize=0]";
    assert_eq!(defines("definesMBSize=1", streams).unwrap(), [true, false, false]);
    assert_eq!(defines("definesMBSize=1", "x=[dim=1;format=dense]").unwrap(), [true]);
    assert_error(
        defines("definesMBSize=1", "x=[dim=1;format=dense]\ny=[dim=1;format=dense]"),
        R,
        "Only a single stream is allowed to define the minibatch size, but 2 found: x, y.",
    );
    assert!(defines("dim=1;format=dense", "x=[alias=y]").is_err());
    // The stream's block is expanded in its enclosing scope, before its own keys apply.
    assert_eq!(
        stream(&composite_of("", "file=f;d=sparse;input=[x=[dim=1;d=dense;format=$d$]]").unwrap(), 0).storage,
        Storage::SparseCsc
    );
}

/// A text reader's section sees all enclosing sections, except for keys that are only looked up in
/// the section itself.
#[test]
fn visibility_in_a_text_reader() {
    let options = legacy(
        "maxErrors=5;cacheIndex=1;chunkSizeInBytes=1073741824;precision=double;frameMode=1;verbosity=3",
        "",
    )
    .unwrap();
    assert_eq!((text(&options).max_errors, options.max_errors, options.verbosity), (5, 0, 3));
    assert!(text(&options).cache_index);
    assert_eq!(options.order, Order::Block { window: WindowSize::Chunks(4), seed: 0 });
    assert_eq!((options.element, options.packing), (ElementType::Double, Packing::Frame));
    assert_eq!(legacy("maxErrors=5", "maxErrors=6").map(|options| text(&options).max_errors).unwrap(), 6);
    assert_eq!(
        legacy("maxErrors=5", "maxErrors=default").map(|options| text(&options).max_errors).unwrap(),
        0
    );
    let order = legacy("randomizationWindow=3;randomizationSeed=4", "").unwrap().order;
    assert_eq!(order, Order::Block { window: WindowSize::Chunks(3), seed: 4 });
    assert_eq!(
        legacy("dir=/d", "file=\"$dir$/f\"").map(|options| text(&options).files.name().to_owned()).unwrap(),
        "/d/f"
    );
    assert_error(
        from_text("dim=1;format=dense;reader=[readerType=CNTKTextFormatReader;file=f;input=[x=[alias=y]]]"),
        R,
        "Input section for input 'x' does not specify all the required parameters, \"dim\" and \"format\".",
    );
    assert_error(
        from_text("traceLevel=0;reader=[readerType=CNTKTextFormatReader;file=f]"),
        R,
        "CNTKTextFormatReader configuration does not contain \"input\" section.",
    );
}

#[test]
fn choosing_a_reader() {
    let shape = |text: &str| from_text(text).map(|options| options.shape);
    let keys = format!("traceLevel=0;file=f;{STREAMS}");
    let element = format!(
        "deserializers=([module=CNTKTextFormatReader;type=CNTKTextFormatDeserializer;file=f;{STREAMS}])"
    );
    assert_eq!(shape(&keys).unwrap(), Shape::TextReader);
    assert_eq!(
        shape(&format!("readerType=Cntk.Deserializers.TextFormat;{keys}")).unwrap(),
        Shape::TextReader
    );
    assert_eq!(shape(&format!("reader=[{keys}]")).unwrap(), Shape::TextReader);
    assert_eq!(shape(&format!("readers=(r)\nr=[{keys}]")).unwrap(), Shape::TextReader);
    assert_eq!(shape(&format!("traceLevel=0;{element}")).unwrap(), Shape::Composite);
    assert_eq!(shape(&format!("traceLevel=0;reader={{{element}}}")).unwrap(), Shape::Composite);
    assert_eq!(
        shape(&format!("readerType=CompositeDataReader;traceLevel=0;{element}")).unwrap(),
        Shape::Composite
    );
    assert_eq!(
        shape(&format!("readerType=CNTKTextFormatReader;{keys};{element}")).unwrap(),
        Shape::TextReader
    );
    assert_error(
        shape(&format!("readerType=Kaldi2Reader;{keys}")),
        I,
        "The reader type 'Kaldi2Reader' is not supported yet.",
    );
    let images = "f=[width=1;height=1;channels=1];l=[labelDim=1]";
    for name in ["ImageReader", "Cntk.Deserializers.Image"] {
        let settings = shape(&format!("traceLevel=0;readerType={name};file=m;{images}"));
        assert_eq!(settings.unwrap(), Shape::ImageReader);
    }
    let message = "Plugin not found: 'Nope-2.7.so' (error: no reader of this name is known)";
    assert_error(shape(&format!("readerType=Nope;{keys}")), R, message);
    assert_error(shape("readers=(a:b)"), I, "unknown:readers names 2 readers; one is supported.");
}

#[test]
fn a_printed_example() {
    let options = from_text(
        "reader = {
            verbosity = 0 ; # a comment
            randomize = true
            traceLevel = 0
            # one deserializer in braces
            deserializers = ({
                type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\"
                file = \"$dir$/train.txt\"
                input = {
                    qu2fea = { alias = \"q2\" ; dim = 10 ; format = \"sparse\" }
                    pairweight = { dim = 1 ; format = \"dense\" } # weights
                    qu1fea = { alias = \"q1\" ; dim = 10 ; format = \"sparse\" }
                }
            })
        }
        dir = /data",
    )
    .unwrap();
    let names: Vec<_> = text(&options).streams.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["pairweight", "qu1fea", "qu2fea"]);
    assert_eq!(text(&options).files.name(), "/data/train.txt");
}

#[test]
fn unread_keys() {
    let unread = |text: &str| {
        let section = reader_section(&Section::parse("unknown", text).unwrap(), false).unwrap();
        match legacy::reader_type(&section, false).unwrap() {
            ReaderType::Composite => composite::read_with(&section, ExtensionTypes::default()).unwrap(),
            ReaderType::Text => legacy::read_text(&section).unwrap(),
            ReaderType::Image => legacy::read_image(&section).unwrap(),
            ReaderType::Htk => legacy::read_htk(&section).unwrap(),
            ReaderType::Binary => legacy::read_binary(&section).unwrap(),
        };
        section.log().unread(section.path())
    };
    let head =
        "module=CNTKTextFormatReader;type=CNTKTextFormatDeserializer;traceLevel=1;precision=float;file=f";
    let text = format!(
        "randomise=true;verbosity=1;multiThreadedDeserialization=1;dir=/d;truncationLength=3
         deserializers=([{head};maxError=1;foo=[bar=1];input=[x=[dim=1;format=dense;definesMbSize=0;formt=a]]])"
    );
    let line = |key: &str, path: &str, hint: &str| {
        format!("The configuration key '{key}' in 'unknown{path}' has no effect{hint}")
    };
    assert_eq!(
        unread(&text),
        [
            line("dir", "", ""),
            line("randomise", "", "; did you mean 'randomize'?"),
            line("foo", ":deserializers[0]", ""),
            line("maxError", ":deserializers[0]", "; did you mean 'maxErrors'?"),
            line("formt", ":deserializers[0]:input:x", "; did you mean 'format'?"),
        ]
    );
    // Keys around a reader's section belong to other programs.
    let text = format!(
        "train=[a=1];dir=/d;reader=[file=$dir$/f;randomize=0;randomizationWindow=3;fiel=g;{STREAMS}]"
    );
    assert_eq!(unread(&text), [line("fiel", ":reader", "; did you mean 'file'?")]);
    let text = format!(
        "action=write;randomize=x;randomizationWindow=1;readerType=Cntk.Composite\ndeserializers=([{head};{STREAMS}])"
    );
    assert_eq!(unread(&text), [""; 0]);
}

/// CNTK does not know these keys, and neither does a reader in its place.
#[test]
fn types_of_streams_are_ignored_in_the_place_of_cntk() {
    let streams =
        |keys: &str| format!("input=[x=[dim=1;format=dense{keys}];y=[dim=2;format=sparse{keys}]];file=f");
    let plain = composite_of("", &streams("")).unwrap();
    for keys in [";element=uint8", ";ids=int32", ";element=nonsense;ids=nonsense"] {
        assert_eq!(composite_of("", &streams(keys)).unwrap(), plain, "{keys}");
    }
}
