//! Builders create the same sections and settings as a text, key by key.

use crate::language::options::{HtkFeatureOptions, MlfOptions, ReaderSettings, TextOptions};
use crate::language::values::{Value, Values};
use crate::language::{
    CbfDeserializer, Config, CtfDeserializer, ExtensionTypes, HtkFeatureDeserializer,
    HtkMlfBinaryDeserializer, HtkMlfDeserializer, KaldiDeserializer, LatticeDeserializer, NumpyDeserializer,
    ReaderOptions, Section, UserType, from_text,
};
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::option::schema::{DECLARED, Declared, Kind, Owner};
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::Path;

fn settings(options: &ReaderOptions, added: &[Section]) -> Result<ReaderSettings> {
    let others = ExtensionTypes { added, ..ExtensionTypes::default() };
    Config::default().with_options(options, others)?.settings(others)
}

/// Returns a section of these values.
fn section(values: Result<Values>) -> Section {
    Section::of_values("typed", &values.unwrap())
}

fn ctf() -> CtfDeserializer {
    CtfDeserializer::new("train.ctf").dense("features", 784).sparse("labels", 10)
}

/// Returns the keys of a section with their texts, including nested sections.
fn entries(section: &Section) -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    for key in section.keys() {
        let text = section.raw(key).unwrap();
        if text.starts_with('[') {
            let inside = entries_of(text);
            entries.extend(inside.into_iter().map(|(inner, text)| (format!("{key}:{inner}"), text)));
        } else {
            entries.insert(key.to_owned(), text.to_owned());
        }
    }
    entries
}

fn entries_of(text: &str) -> BTreeMap<String, String> {
    entries(&Section::parse("text", text).unwrap())
}

#[test]
fn typed_text_deserializer_matches_its_text() {
    let typed = CtfDeserializer::new("train.ctf")
        .dense("features", 784)
        .alias("f")
        .sparse("labels", 10)
        .alias("l")
        .defines_minibatch_size()
        .chunk_size(1 << 20)
        .max_errors(7)
        .skip_sequence_ids(true)
        .cache_index(true)
        .keep_data_in_memory(true)
        .strict_sequences(false)
        .shared_ids(true);
    let text =
        "[ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; file = \"train.ctf\"
        chunkSizeInBytes = 1048576 ; maxErrors = 7 ; skipSequenceIds = true ; cacheIndex = true
        keepDataInMemory = true ; strictSequences = false ; sharedIds = true
        input = [ labels = [ alias = \"l\" ; dim = 10 ; format = \"sparse\" ; definesMBSize = true ]
                  features = [ alias = \"f\" ; dim = 784 ; format = \"dense\" ] ] ]";
    assert_eq!(entries_of(&typed.to_configuration().unwrap()), entries_of(text));
    let from_text = from_text(&format!("deserializers = ( {text} )")).unwrap();
    assert_eq!(settings(&ReaderOptions::new(), &[section(typed.values())]).unwrap(), from_text);
}

#[test]
fn typed_binary_deserializer_matches_its_text() {
    let typed = CbfDeserializer::new("train.cbf").rename("x", "features").keep_data_in_memory(true);
    let text =
        "[ type = \"CNTKBinaryFormatDeserializer\" ; module = \"CNTKBinaryReader\" ; file = \"train.cbf\"
        keepDataInMemory = true ; input = [ x = [ alias = \"features\" ] ] ]";
    let from_text = from_text(&format!("deserializers = ( {text} )")).unwrap();
    assert_eq!(settings(&ReaderOptions::new(), &[section(typed.values())]).unwrap(), from_text);
}

/// Compares a typed deserializer with the text of its section. `leading`: the texts of the
/// deserializers before it.
#[track_caller]
fn assert_same(typed: Result<Values>, shown: &str, text: &str, leading: &str) {
    assert_eq!(entries_of(shown), entries_of(text));
    let leader = section(HtkFeatureDeserializer::new("leader", "a.scp", 1).values());
    let added: Vec<Section> =
        [leader].into_iter().chain([section(typed)]).skip(usize::from(leading.is_empty())).collect();
    let whole = from_text(&format!("deserializers = ( {leading} {text} )")).unwrap();
    assert_eq!(settings(&ReaderOptions::new(), &added).unwrap(), whole);
}

const LEADER: &str = "[ type = HTKFeatureDeserializer ; module = HTKDeserializers
    input = [ leader = [ scpFile = a.scp ; dim = 1 ] ] ]";

#[test]
fn typed_speech_deserializers_match_their_text() {
    let head = "type = \"HTKFeatureDeserializer\" ; module = \"HTKDeserializers\"";
    let typed = HtkFeatureDeserializer::new("x", "train.scp", 40);
    let text = format!("[ {head} ; scpFile = \"train.scp\" ; input = [ x = [ dim = 40 ] ] ]");
    assert_same(typed.values(), &typed.to_configuration().unwrap(), &text, "");
    let typed = typed
        .add_scp_file("more:1.scp")
        .context_window(5, 4)
        .prefix_path("/data")
        .expand_to_utterance(true)
        .max_sequence_size(1000)
        .defines_minibatch_size(true);
    let text = format!(
        "[ {head} ; maxSequenceSize = 1000 ; definesMBSize = true
        input = [ x = [ dim = 40 ; contextWindow = 5:4 ; expandToUtterance = true ; prefixPathInSCP = \"/data\"
                        scpFile = (\"train.scp\":\"more:1.scp\") ] ] ]"
    );
    assert_same(typed.values(), &typed.to_configuration().unwrap(), &text, LEADER);

    let head = "type = \"HTKMLFDeserializer\" ; module = \"HTKDeserializers\"";
    let typed =
        HtkMlfDeserializer::new("l", "train.mlf", 132).state_list("states.list").phone_boundaries(true);
    let text = format!(
        "[ {head} ; input = [ l = [ mlfFile = \"train.mlf\" ; labelDim = 132 ; phoneBoundaries = true
            labelMappingFile = \"states.list\" ] ] ]"
    );
    assert_same(typed.values(), &typed.to_configuration().unwrap(), &text, LEADER);
    let typed = typed.add_mlf_file("b.mlf").cache_index(true).chunk_size(1 << 20);
    let text = format!(
        "[ {head} ; chunkSizeInBytes = 1048576
        input = [ l = [ mlfFileList = (\"train.mlf\":\"b.mlf\") ; labelDim = 132 ; phoneBoundaries = true
            labelMappingFile = \"states.list\" ; cacheIndex = true ] ] ]"
    );
    assert_same(typed.values(), &typed.to_configuration().unwrap(), &text, LEADER);

    let head = "type = \"HTKMLFBinaryDeserializer\" ; module = \"HTKDeserializers\"";
    let typed = HtkMlfBinaryDeserializer::new("l", "a.bin", 9).add_mlf_file("b.bin").chunk_size(7);
    let text = format!(
        "[ {head} ; chunkSizeInBytes = 7 ; input = [ l = [ mlfFileList = (\"a.bin\":\"b.bin\") ; labelDim = 9 ] ] ]"
    );
    assert_same(typed.values(), &typed.to_configuration().unwrap(), &text, LEADER);

    let typed = LatticeDeserializer::new("l", "lat.idx").cache_index(true).chunk_size(9);
    let text =
        "[ type = \"LatticeDeserializer\" ; module = \"HTKDeserializers\" ; latticeIndexFile = \"lat.idx\"
        chunkSizeInBytes = 9 ; input = [ l = [ cacheIndex = true ] ] ]";
    assert_same(typed.values(), &typed.to_configuration().unwrap(), text, LEADER);

    let typed = KaldiDeserializer::script("k", "f.scp", 40).context_window(1, 0).max_sequence_size(9);
    let text = "[ type = \"KaldiDeserializer\" ; scpFile = \"f.scp\" ; maxSequenceSize = 9
        input = [ k = [ dim = 40 ; contextWindow = 1:0 ] ] ]";
    assert_same(typed.values(), &typed.to_configuration().unwrap(), text, "");
    let typed = KaldiDeserializer::archive("k", "f.ark", 40).sparse().expand_to_utterance(true);
    let typed = typed.defines_minibatch_size(true);
    let text = "[ type = \"KaldiDeserializer\" ; arkFile = \"f.ark\" ; definesMBSize = true
        input = [ k = [ dim = 40 ; format = sparse ; expandToUtterance = true ] ] ]";
    assert_same(typed.values(), &typed.to_configuration().unwrap(), text, LEADER);
}

#[test]
fn typed_class_ids_and_elements_match_their_text() {
    let (int32, int64) = (ElementType::Int32, ElementType::Int64);
    let typed = CtfDeserializer::new("a").dense("x", 2).element(ElementType::UInt8);
    let typed = typed.sparse("y", 3).ids(int32).padding(-1);
    let text = "[ type = CNTKTextFormatDeserializer ; module = CNTKTextFormatReader ; file = a
        input = [ x = [ dim = 2 ; format = dense ; element = uint8 ] ; y = [ dim = 3 ; format = sparse ; ids = int32 ; padding = -1 ] ] ]";
    assert_same(typed.values(), &typed.to_configuration().unwrap(), text, "");
    let typed = CbfDeserializer::new("a").ids("y", int64).padding("y", 7).rename("x", "z").ids("x", int32);
    let text = "[ type = CNTKBinaryFormatDeserializer ; module = CNTKBinaryReader ; file = a
        input = [ y = [ ids = int64 ; padding = 7 ] ; x = [ alias = z ; ids = int32 ] ] ]";
    assert_same(typed.values(), &typed.to_configuration().unwrap(), text, "");
    let typed = HtkMlfDeserializer::new("l", "a", 4).ids(int32).padding(-2);
    let text = "[ type = HTKMLFDeserializer ; module = HTKDeserializers
        input = [ l = [ mlfFile = a ; labelDim = 4 ; ids = int32 ; padding = -2 ] ] ]";
    assert_same(typed.values(), &typed.to_configuration().unwrap(), text, LEADER);
    let typed = HtkMlfBinaryDeserializer::new("l", "a", 4).ids(int64).padding(3).cache_index(true);
    let text = "[ type = HTKMLFBinaryDeserializer ; module = HTKDeserializers
        input = [ l = [ mlfFile = a ; labelDim = 4 ; ids = int64 ; padding = 3 ; cacheIndex = true ] ] ]";
    assert_same(typed.values(), &typed.to_configuration().unwrap(), text, LEADER);
    let typed = KaldiDeserializer::archive("k", "a", 4).sparse().ids(int64).padding(5);
    let text = "[ type = KaldiDeserializer ; arkFile = a
        input = [ k = [ dim = 4 ; format = sparse ; ids = int64 ; padding = 5 ] ] ]";
    assert_same(typed.values(), &typed.to_configuration().unwrap(), text, "");
    // Without a list of files, a script is a path of its own.
    let typed =
        KaldiDeserializer::script("k", "a", 4).defines_minibatch_size(true).expand_to_utterance(false);
    assert!(typed.to_configuration().unwrap().contains("scpFile = \"a\""));
}

#[test]
fn reader_options_of_several_keys() {
    let written = |options: ReaderOptions| options.to_configuration().unwrap();
    assert_eq!(
        written(ReaderOptions::new().confine_paths(&["/a", "b"])),
        "confinePaths = true\nallowedFolders = (\"/a\":\"b\")\n"
    );
    assert_eq!(
        written(ReaderOptions::new().randomize(true).whole_sequences()),
        "randomize = false\nframeMode = false\ntruncated = false\n"
    );
    assert_eq!(
        written(ReaderOptions::new().reproducible_transforms(true)),
        "reproducibleTransforms = true\n"
    );
    assert_eq!(written(ReaderOptions::new().multithreaded(false)), "multiThreadedDeserialization = false\n");
    // Refused when the reader is opened.
    assert_eq!(written(ReaderOptions::new().precision(ElementType::UInt8)), "precision = \"uint8\"\n");
    assert_eq!(written(ReaderOptions::new().precision(ElementType::Float)), "precision = \"float\"\n");
    assert_eq!(written(ReaderOptions::new()), "");
}

#[test]
fn several_files_are_a_list() {
    let typed = ctf().add_file("b:1.ctf").add_file("c-*.ctf");
    let text = "[ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\"
        file = (\"train.ctf\":\"b:1.ctf\":\"c-*.ctf\")
        input = [ labels = [ dim = 10 ; format = \"sparse\" ] ; features = [ dim = 784 ; format = \"dense\" ] ] ]";
    assert_same(typed.values(), &typed.to_configuration().unwrap(), text, "");
    let typed = CbfDeserializer::new("a.cbf").add_file("b.cbf").shared_ids(true);
    let text = "[ type = \"CNTKBinaryFormatDeserializer\" ; module = \"CNTKBinaryReader\"
        file = (\"a.cbf\":\"b.cbf\") ; sharedIds = true ]";
    assert_same(typed.values(), &typed.to_configuration().unwrap(), text, "");
    for path in ["a\"b", " a", "a #b"] {
        let section = section(ctf().add_file(path).values());
        assert_eq!(section.files("file").unwrap().paths().unwrap(), ["train.ctf", path]);
    }
}

/// Paths may have any characters in any position.
#[test]
fn paths_of_speech() {
    let odd = "/a (b) [c] \"quoted\" #d $e$ ; * default";
    let of = |values: Result<Values>| {
        let leader = section(HtkFeatureDeserializer::new("leader", "a.scp", 1).values());
        settings(&ReaderOptions::new(), &[leader, section(values)]).unwrap().deserializers[1]
            .name()
            .to_owned()
    };
    for path in [odd, "(a:b)", "default"] {
        assert_eq!(of(HtkFeatureDeserializer::new("x", path, 1).values()), path);
        assert_eq!(of(LatticeDeserializer::new("x", path).values()), path);
        assert_eq!(of(KaldiDeserializer::script("x", path, 1).values()), path);
    }
    assert_eq!(of(HtkMlfDeserializer::new("x", "(a; [b]:*)", 1).values()), "(a; [b]:*)");
    assert_eq!(of(HtkMlfDeserializer::new("x", odd, 1).values()), odd);
    assert_eq!(of(HtkMlfBinaryDeserializer::new("x", "a \"", 1).values()), "a \"");
    let options = |values: Result<Values>| {
        let leader = section(HtkFeatureDeserializer::new("leader", "a.scp", 1).values());
        settings(&ReaderOptions::new(), &[leader, section(values)]).unwrap().deserializers.remove(1)
    };
    let labels = HtkMlfDeserializer::new("x", "a*2", 1).add_mlf_file(odd).state_list("$a$");
    let Some(labels) = options(labels.values()).of::<MlfOptions>().cloned() else { panic!() };
    assert_eq!(labels.files, ["a*2", odd]);
    assert_eq!(labels.state_list.as_deref(), Some("$a$"));
    let features = HtkFeatureDeserializer::new("x", "a*2", 1).add_scp_file(odd).prefix_path("b\"");
    let Some(features) = options(features.values()).of::<HtkFeatureOptions>().cloned() else { panic!() };
    assert_eq!(
        (features.scp_files, features.prefix),
        (vec!["a*2".to_owned(), odd.to_owned()], "b\"".to_owned())
    );
    let unnamed = HtkFeatureDeserializer::new("", "a", 1).values();
    assert_eq!(unnamed.unwrap_err().kind(), ErrorKind::Config);
}

/// Every option alone: its line of text gives the same settings as the method, and changes
/// something.
#[test]
fn typed_options_match_their_text() {
    let new = ReaderOptions::new;
    let cases = [
        (new().randomize(false), "randomize = false"),
        (new().randomization_seed(7), "randomizationSeed = 7"),
        (
            new().randomization_window_in_chunks(8),
            "randomizationWindow = 8 ; sampleBasedRandomizationWindow = false",
        ),
        (
            new().randomization_window_in_samples(8000),
            "randomizationWindow = 8000 ; sampleBasedRandomizationWindow = true",
        ),
        (new().window_chunk_size(1 << 20), "chunkSizeInBytes = 1048576"),
        (new().frame_mode(true), "frameMode = true"),
        (new().truncation_length(20), "truncated = true ; truncationLength = 20 ; expandSparse = false"),
        (
            new().expand_sparse(true).truncation_length(20).right_splice(3),
            "expandSparse = true ; truncated = true ; truncationLength = 20 ; rightSplice = 3",
        ),
        (new().local_timeline(false), "localTimeline = false"),
        (new().lockstep(true), "lockstep = true"),
        (new().precision(ElementType::Double), "precision = double"),
        (new().max_errors(9), "maxErrors = 9"),
        (new().trace_level(0), "traceLevel = 0"),
        (new().numeric_keys(false), "useNumericSequenceKeys = false"),
        (
            new().numeric_keys(false).hash_keys(true),
            "useNumericSequenceKeys = false ; hashSequenceKeys = true",
        ),
        (new().prefetch(false), "prefetch = false"),
        (new().check_data(true), "checkData = true"),
    ];
    let added = [section(ctf().values())];
    let default = settings(&new(), &added).unwrap();
    for (typed, text) in cases {
        let whole =
            from_text(&format!("{text}\ndeserializers = ( {} )", ctf().to_configuration().unwrap())).unwrap();
        let got = settings(&typed, &added).unwrap();
        assert_eq!(got, whole, "{text}");
        // The one option without an effect, as in CNTK.
        assert_eq!(got == default, text == "checkData = true", "{text}");
        assert_eq!(entries_of(&typed.to_configuration().unwrap()), entries_of(text));
    }
}

#[test]
fn options_override_configuration_keys() {
    let config = Config::from_text(&format!(
        "randomizationSeed = 1\nprefetch = false\ndeserializers = ({})",
        ctf().to_configuration().unwrap()
    ));
    let options = ReaderOptions::new().randomization_seed(2).randomization_seed(3);
    let changed = config.unwrap().with_options(&options, ExtensionTypes::default()).unwrap();
    let text = format!(
        "randomizationSeed = 3\nprefetch = false\ndeserializers = ({})",
        ctf().to_configuration().unwrap()
    );
    assert_eq!(changed.settings(ExtensionTypes::default()).unwrap(), from_text(&text).unwrap());
}

/// The language cannot express these paths; a builder can.
#[test]
fn any_path_can_be_read() {
    for path in [
        "/d/a \"b\".ctf",
        "/d/p #q.ctf",
        "/d/p$q$r.ctf",
        "/d/[p]{q}(r).ctf",
        "default",
        " a ",
        "a\nb",
        "a;b,c",
    ] {
        let section = section(CtfDeserializer::new(path).dense("x", 1).values());
        let settings = settings(&ReaderOptions::new(), &[section]).unwrap();
        assert_eq!(settings.deserializers[0].name(), path);
    }
}

/// Names may have any characters that a builder can pass on; names that the language cannot express
/// are not written.
#[test]
fn any_name_can_be_read() {
    for (name, is_writable) in [
        ("a,b", false),
        ("a=b", false),
        ("a[b", false),
        (" a", false),
        ("a\"b", false),
        ("a #b", false),
        ("$a$", false),
        ("a\nb", false),
        ("default", false),
        ("a b", true),
    ] {
        let typed = CtfDeserializer::new("f").dense(name, 1).sparse("other", 2).alias(&format!("{name}'"));
        let read = settings(&ReaderOptions::new(), &[section(typed.values())]).unwrap();
        let [text] = &*read.deserializers else { panic!("one deserializer") };
        let streams = &text.of::<TextOptions>().unwrap().streams;
        let mut names: Vec<_> = streams.iter().map(|stream| (&*stream.name, &*stream.alias)).collect();
        names.sort_by_key(|(name, _)| *name == "other");
        assert_eq!(names, [(name, name), ("other", &format!("{name}'"))]);
        let written = typed.to_configuration();
        assert_eq!(written.is_ok(), is_writable, "{name}");
        if let Err(error) = written {
            assert!(error.message().contains(&format!("'{name}'")), "{error}");
        }
    }
    for name in ["", "a\0b"] {
        let error = CtfDeserializer::new("f").dense(name, 1).values().expect_err(name);
        assert_eq!(error.message(), format!("The name of a stream is {name:?}."));
        HtkFeatureDeserializer::new(name, "f", 1).values().expect_err(name);
        CbfDeserializer::new("f").rename(name, "x").values().expect_err(name);
    }
    // Quotes protect these, so they can be written.
    let typed = CtfDeserializer::new("f").dense("x", 1).alias("a,b=c");
    let section = Section::parse("text", &typed.to_configuration().unwrap()).unwrap();
    assert_eq!(section.section("input").unwrap().child("x").unwrap().text("alias").unwrap(), "a,b=c");
}

#[test]
fn methods_for_the_last_stream_need_a_stream() {
    let error = CtfDeserializer::new("f").alias("a").dense("x", 1).values().unwrap_err();
    assert!(error.to_string().contains("CtfDeserializer::alias"), "{error}");
    let new = || CtfDeserializer::new("f");
    for (typed, method) in [
        (new().defines_minibatch_size(), "defines_minibatch_size"),
        (new().element(ElementType::UInt8), "element"),
        (new().ids(ElementType::Int32), "ids"),
        (new().padding(1).alias("a"), "padding"),
    ] {
        let error = typed.dense("x", 1).values().unwrap_err();
        let message = format!(
            "CtfDeserializer::{method} was called before a stream was added. It describes the stream added last: call it after \
             dense or sparse."
        );
        assert_eq!((error.message(), error.kind()), (&*message, ErrorKind::InvalidArgument));
    }
    let error = NumpyDeserializer::default().defines_minibatch_size().array("x", "a").values().unwrap_err();
    assert!(
        error.message().starts_with("NumpyDeserializer::defines_minibatch_size was called before"),
        "{error}"
    );
}

#[test]
fn added_deserializers_follow_the_configuration() {
    let config = format!(
        "deserializers = ( [ type = \"u\" ] : {} )",
        CtfDeserializer::new("a").dense("x", 1).to_configuration().unwrap()
    );
    let config = Config::from_text(&config).unwrap();
    let added = [
        Section::of_user("v"),
        Section::of_user("u"),
        section(CtfDeserializer::new("b").dense("y", 1).values()),
    ];
    let users = [UserType { name: "u", composable: true }, UserType { name: "v", composable: true }];
    let settings = config
        .settings(ExtensionTypes { users: &users, added: &added, ..ExtensionTypes::default() })
        .unwrap();
    let names: Vec<_> = settings.deserializers.iter().map(|one| one.name()).collect();
    assert_eq!(names, ["u", "a", "v", "b"]);
}

#[test]
fn single_file_readers_take_no_other_deserializers() {
    let text =
        "readerType = \"CNTKTextFormatReader\"\nfile = f\ninput = [ x = [ dim = 1 ; format = dense ] ]";
    for text in [text, "file = f\ninput = [ x = [ dim = 1 ; format = dense ] ]"] {
        let config = Config::from_text(text).unwrap();
        config.settings(ExtensionTypes::default()).unwrap();
        let added = [section(ctf().values())];
        let error =
            config.settings(ExtensionTypes { added: &added, ..ExtensionTypes::default() }).unwrap_err();
        assert!(error.to_string().contains("'deserializers = ( ... )'"), "{error}");
    }
}

/// One of them would be lost: keys of a section are case-insensitive.
#[test]
fn streams_with_equal_names_are_refused() {
    let message = |values: Result<Values>| values.expect_err("must be refused").message().to_owned();
    let ctf = || CtfDeserializer::new("train.ctf");
    for (values, expected) in [
        (ctf().sparse("a", 3).sparse("a", 4).values(), "Two streams have the name 'a'."),
        (
            ctf().dense("a", 3).dense("b", 3).sparse("A", 4).values(),
            "Two streams have the names 'a' and 'A'.",
        ),
        (
            CbfDeserializer::new("train.cbf").rename("q", "x").rename("q", "y").values(),
            "Two streams have the name 'q'.",
        ),
    ] {
        assert_eq!(message(values), expected);
    }
}

#[test]
fn user_deserializers_with_equal_names_are_refused() {
    let user = crate::language::UserType { name: "mine", composable: true };
    let error =
        crate::language::from_text_with("randomize = false", &[user, user]).expect_err("must be refused");
    let expected = "Two deserializers were added under the name 'mine'. Give each one a name of its own.";
    assert_eq!(error.message(), expected);
}

/// Returns valid values of an option, at the ends of its range and between.
fn values_of(option: &Declared) -> Vec<Value> {
    match option.kind {
        Kind::Flag => vec![true.into(), false.into()],
        Kind::Whole(least, most) => {
            [least, least + 1, 7, most].iter().map(|number| Value::Word(number.to_string())).collect()
        }
        Kind::Numbers => vec![0u32.into(), 3u32.into(), (1u32, 2u32).into(), (0.5f64, 0.25f64).into()],
        Kind::Counts => vec![0u32.into(), 3u32.into(), (1u32, 2u32).into()],
        Kind::Choice(words) => words.iter().map(|&word| word.into()).collect(),
        Kind::Text => vec![Value::Text("a b".into()), Value::Text("x".into())],
        Kind::Path => vec![Path::new("a \"b\"").into(), Path::new("p/q").into()],
        Kind::Files => {
            vec![Value::Files(vec!["a.ctf".into()]), Value::Files(vec!["a #b".into(), "c-*.ctf".into()])]
        }
        Kind::List if option.key == "allowedFolders" => {
            vec![Value::List(vec![Path::new("/a").into(), Path::new("b*").into()])]
        }
        Kind::List | Kind::Section => Vec::new(),
    }
}

/// Sets some options of an owner, selected by `choices`.
fn choose(values: &mut Values, of: Owner, choices: &mut impl Iterator<Item = usize>) {
    for option in DECLARED.iter().filter(|option| option.of == of) {
        let (all, choice) = (values_of(option), choices.next().unwrap_or(usize::MAX));
        if let Some(value) = all.get(choice) {
            values.set(option.key, value.clone());
        }
    }
}

proptest::proptest! {
    /// Random options as values and as the text written from them: the same settings, or the same
    /// error.
    #[test]
    fn values_match_their_text(
        choices in proptest::collection::vec(0usize..14, 60),
        kinds in proptest::collection::vec(0usize..4, 1..3),
    ) {
        let mut choices = choices.into_iter();
        let mut reader = Values::default();
        choose(&mut reader, Owner::Reader, &mut choices);
        let mut deserializers = Vec::new();
        for (number, kind) in kinds.into_iter().enumerate() {
            let (of, name, module, inside) = [
                (Owner::TextFile, "CNTKTextFormatDeserializer", "CNTKTextFormatReader", Owner::Stream),
                (Owner::Binary, "CNTKBinaryFormatDeserializer", "CNTKBinaryReader", Owner::Binary),
                (Owner::Features, "HTKFeatureDeserializer", "HTKDeserializers", Owner::Features),
                (Owner::Labels, "HTKMLFDeserializer", "HTKDeserializers", Owner::Labels),
            ][kind];
            let mut one = Values::of_type(name);
            one.set("module", Value::Text(module.into()));
            choose(&mut one, of, &mut choices);
            if kind != 1 {
                let (mut input, mut stream) = (Values::default(), Values::default());
                choose(&mut stream, inside, &mut choices);
                input.set(&format!("s{number}"), stream);
                one.set("input", input);
            }
            deserializers.push(Value::Section(one));
        }
        reader.set("deserializers", Value::List(deserializers));
        let text = reader.to_configuration().unwrap();
        let by_text = Config::from_text(&text);
        // Messages about a text name its sections in CNTK's way, so only their ends are equal.
        let end = |message: &str| message.rsplit([' ', ':']).next().map(str::to_owned);
        let settings = |config: Config| {
            config.settings(ExtensionTypes::default()).map_err(|error| (error.class(), end(error.message())))
        };
        let by_values = Config::of_values(&reader, FrontEnd::Configuration);
        proptest::prop_assert_eq!(settings(by_values), settings(by_text.unwrap()), "{}", text);
    }
}

#[test]
fn messages_name_deserializers_by_their_types() {
    let text = |dim: u64| {
        let (mut text, mut input, mut stream) =
            (Values::of_type("CNTKTextFormatDeserializer"), Values::default(), Values::default());
        stream.set("dim", dim);
        stream.set("format", "dense");
        stream.set("formt", "dense");
        input.set("x", stream);
        text.set("module", Value::Text("CNTKTextFormatReader".into()));
        text.set("file", Path::new("a.ctf"));
        text.set("input", input);
        Value::Section(text)
    };
    let options = |dim| {
        let mut options = Values::default();
        options.set("randomise", false);
        options.set("deserializers", Value::List(vec![text(1), text(dim)]));
        options
    };
    for (front_end, root, class, dim) in [
        (FrontEnd::Configuration, "reader options", "CNTKTextFormatDeserializer", "dim"),
        (FrontEnd::Rust, "ReaderOptions", "CtfDeserializer", "dim"),
        (FrontEnd::Cpp, "ReaderOptions", "CtfDeserializer", "dim"),
        (FrontEnd::Python, "MinibatchSource", "CTFDeserializer", "shape"),
    ] {
        let error =
            Config::of_values(&options(0), front_end).settings(ExtensionTypes::default()).unwrap_err();
        let expected = format!("The value of '{dim}' in the stream 'x' of {class} (deserializer 2) is 0.");
        assert_eq!(error.message(), expected);
        // Keys without an effect are reported inside deserializers, too.
        let config = Config::of_values(&options(1), front_end);
        config.settings(ExtensionTypes::default()).unwrap();
        let line = |key: &str, place: &str, meant: &str| {
            format!("The option '{key}' in {place} has no effect; did you mean '{meant}'?")
        };
        let [first, second] = [1, 2].map(|number| {
            line("formt", &format!("the stream 'x' of {class} (deserializer {number})"), "format")
        });
        let mut lines = config.section.log().unread(config.section.path());
        lines.sort();
        let mut expected = vec![line("randomise", root, "randomize"), first, second];
        expected.sort();
        assert_eq!(lines, expected);
    }
}
