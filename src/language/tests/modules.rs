//! Parts of a reader that CNTK's hosts open alone, deserializers of users and of other modules, and
//! checks that a reader in the place of CNTK does not make.

use super::options::*;
use super::readers::STREAMS;
use super::*;
use crate::language;
use crate::language::module::Module;
use crate::language::native::check_type;
use cntk_reader_core::error::ErrorKind;

const TEXT: &str = "type = CNTKTextFormatDeserializer ; module = CNTKTextFormatReader ; file = f";

fn native(text: &str) -> Result<ReaderSettings> {
    Config::from_text(text)?.settings(ExtensionTypes::default())
}

/// Reads a text file outside of CNTK's place.
fn native_with(reader: &str, element: &str) -> Result<ReaderSettings> {
    native(&format!("{reader}\ndeserializers = ([ {TEXT} ; {STREAMS} ; {element} ])"))
}

#[test]
fn single_deserializers_of_modules() {
    let unknown = |name: &str| format!("Unknown deserializer type '{name}'");
    let section = root(&format!("precision=double;frameMode=1;file=f;{STREAMS}")).unwrap();
    let text = language::text_deserializer(&section, "CNTKTextFormatDeserializer").unwrap();
    assert_eq!((text.element, text.streams.len()), (ElementType::Double, 1));
    assert_error(language::text_deserializer(&section, "X"), I, &unknown("X"));
    let binary = language::binary_deserializer(&section, "CNTKBinaryFormatDeserializer").unwrap();
    assert_eq!((binary.element, binary.ignores_unmatched), (ElementType::Double, true));
    let other = "CNTKTextFormatDeserializer";
    assert_error(language::binary_deserializer(&section, other), I, &unknown(other));
    assert_eq!(language::element_type(&section).unwrap(), ElementType::Double);
    assert_eq!(language::element_type(&root("").unwrap()).unwrap(), ElementType::Float);
    let half = language::element_type(&root("precision=half").unwrap());
    assert_error(half.clone(), I, "Unsupported precision 'half'");
    assert_eq!(half.unwrap_err().detail(), "Expected 'float' or 'double'.");
    let error = language::text_deserializer(&section, "X").unwrap_err();
    assert!(error.detail().starts_with("Supported are the types 'CNTKTextFormatDeserializer' of"), "{error}");
}

#[test]
fn single_deserializers_of_speech() {
    let section =
        root("input=[x=[scpFile=f;dim=3;mlfFile=l;labelDim=4;cacheIndex=1;expandToUtterance=1;arkFile=a]]");
    let section = section.unwrap();
    let read = |name: &str, is_primary, hash_keys| {
        language::speech_deserializer(&section, name, is_primary, hash_keys)
    };
    let features = read("HTKFeatureDeserializer", false, false).unwrap();
    let features = features.of::<HtkFeatureOptions>().unwrap();
    // Frames are the default here.
    assert!(features.frame_mode && features.expand);
    let message = "Cannot expand utterances of the primary stream x, please change your configuration.";
    assert_error(read("HTKFeatureDeserializer", true, false), I, message);
    for (hash_keys, cache_index) in [(false, false), (true, true)] {
        let labels = read("HTKMLFDeserializer", false, hash_keys).unwrap();
        assert_eq!(labels.of::<MlfOptions>().unwrap().cache_index, cache_index);
    }
    let message = "MLFDeserializer currently does not support primary mode.";
    assert_error(read("HTKMLFDeserializer", true, false), R, message);
    let message = "'global:input:x' has 'scpFile' and 'arkFile'.";
    assert_error(read("KaldiDeserializer", false, false), I, message);
    let message = "Cannot create deserializer. Please check module and type in the configuration.";
    assert_error(read("ImageDeserializer", false, false), R, message);
    // CNTK checks this in composite readers only, and a host passes parts of them.
    let boundaries = root("frameMode=1;input=[x=[mlfFile=l;dim=4;phoneBoundaries=1]]").unwrap();
    let message = "frameMode and phoneBoundaries are mutually exclusive options.";
    let labels = language::speech_deserializer(&boundaries, "HTKMLFDeserializer", false, false);
    assert_error(labels, L, message);
}

#[test]
fn single_deserializers_and_transforms_of_images() {
    let section = "precision=double;file=m;cacheIndex=1;input=[x=[transforms=([type=Nope])];y=[labelDim=2];z=[draw=true]]";
    let section = root(section).unwrap();
    for (name, base64) in [("ImageDeserializer", false), ("Base64ImageDeserializer", true)] {
        let images = language::image_deserializer(&section, name).unwrap();
        assert_eq!(
            (images.base64, images.cache_index, images.element),
            (base64, base64, ElementType::Double)
        );
        assert!(images.as_cntk && images.draws.is_none() && images.transforms.is_empty());
    }
    let message = "Cannot create deserializer. Please check module and type in the configuration.";
    assert_error(language::image_deserializer(&section, "X"), R, message);
    let section = root("module=m;type=t;precision=p;seed=3;cropSize=4;foo=1").unwrap();
    let TransformOptions::Crop(crop) = language::transform(&section, "Crop").unwrap() else {
        panic!("a crop")
    };
    assert_eq!((crop.seed, crop.size), (3, (4, 4)));
    assert_eq!(section.log().unread("global"), ["The configuration key 'foo' in 'global' has no effect"]);
    let error = language::transform(&section, "crop").unwrap_err();
    let message = "Cannot create transformer. Please check the module and type in the configuration.";
    assert_eq!(
        (error.message(), error.detail()),
        (message, "There is no transform of the type 'crop', the 'type' of 'global'. Did you mean 'Crop'?")
    );
}

#[test]
fn modules_have_two_names_and_a_library() {
    for (module, names) in [
        (Module::Text, ["CNTKTextFormatReader", "Cntk.Deserializers.TextFormat"]),
        (Module::Binary, ["CNTKBinaryReader", "Cntk.Deserializers.Binary"]),
        (Module::Image, ["ImageReader", "Cntk.Deserializers.Image"]),
        (Module::Htk, ["HTKDeserializers", "Cntk.Deserializers.HTK"]),
    ] {
        assert_eq!(names.map(Module::by_name), [Some(module); 2]);
        assert_eq!(module.plugin(), names[1]);
    }
    assert_eq!(Module::by_name("imageReader"), None);
    for (module, name, own) in [
        ("CNTKTextFormatReader", "CNTKTextFormatDeserializer", Some(Module::Text)),
        ("CNTKBinaryReader", "CNTKBinaryFormatDeserializer", Some(Module::Binary)),
        ("ImageReader", "ImageDeserializer", Some(Module::Image)),
        ("ImageReader", "Base64ImageDeserializer", Some(Module::Image)),
        ("HTKDeserializers", "LatticeDeserializer", Some(Module::Htk)),
        ("HTKDeserializers", "KaldiDeserializer", Some(Module::Htk)),
    ] {
        assert_eq!(check_type(module, name).unwrap().module(), own, "{name}");
    }
    for (module, name) in [("ImageReader", "KaldiDeserializer"), ("HTKDeserializers", "NumpyDeserializer")] {
        let error = check_type(module, name).err().expect("another module");
        let detail = format!(
            "The module '{module}' has no deserializer of the type '{name}'. Supported are the types '"
        );
        assert!(error.detail().starts_with(&detail), "{error}");
    }
    let error = check_type("my.so", "A").err().expect("an unknown module");
    assert!(error.detail().starts_with("Supported are the types '"), "{error}");
}

#[test]
fn legacy_types_of_readers() {
    let error = |name: &str| native(&format!("readerType = {name} ; file = f")).unwrap_err();
    let known = "Supported values of 'readerType' are 'CompositeDataReader',";
    let text = "Write its data in CNTK's text format, a line for each sample as '|name values',";
    for (name, advice) in [
        ("LMSequenceReader", text),
        ("LUSequenceReader", text),
        ("UCIFastReader", "Convert its file to CNTK's text format with CNTK's script 'uci2ctf.py',"),
        ("LibSVMBinaryReader", text),
        ("SparsePCReader", text),
        ("DSSMReader", text),
        ("BinaryReader", text),
        ("Kaldi2Reader", "Read Kaldi's archives with an element of 'deserializers'"),
        ("ImageWriter", "It writes images; it is not a reader."),
    ] {
        let error = error(name);
        assert_eq!(error.message(), format!("The reader type '{name}' is not supported yet."));
        assert_eq!(error.class(), I);
        assert!(error.detail().starts_with(advice) && error.detail().contains(known), "{error}");
        assert_eq!(error.location().column, Some(14));
    }
    for (name, hint) in [("imagereeder", "Did you mean 'ImageReader'? "), ("Nope", "")] {
        let error = error(name);
        let message = format!("Plugin not found: '{name}-2.7.so' (error: no reader of this name is known)");
        assert_eq!((error.message(), error.class()), (&*message, R));
        assert!(error.detail().starts_with(&format!("{hint}{known}")), "{error}");
    }
    let shape = |text: &str| from_text(&format!("traceLevel=0;{text}")).unwrap().shape;
    for name in ["CNTKBinaryReader", "Cntk.Deserializers.Binary"] {
        assert_eq!(shape(&format!("readerType={name};file=f")), Shape::BinaryReader);
    }
    assert_eq!(shape(&format!("readerType=CNTKTextFormatReader;file=f;{STREAMS}")), Shape::TextReader);
    assert_eq!(
        shape(&format!("readerType=Cntk.Composite;deserializers=([{TEXT};{STREAMS}])")),
        Shape::Composite
    );
}

#[test]
fn levels_of_the_log_are_the_greater_of_two_keys() {
    let levels = |settings: ReaderSettings| {
        let text = settings.deserializers[0].of::<TextOptions>().unwrap();
        (settings.trace_level, settings.verbosity, text.log.trace_level)
    };
    for (keys, expected) in [
        ("", (1, 0, 1)),
        ("traceLevel = 0", (0, 0, 0)),
        ("traceLevel = 2", (2, 0, 2)),
        ("verbosity = 1", (1, 1, 1)),
        ("verbosity = 2", (2, 2, 2)),
        ("verbosity = 3 ; traceLevel = 2", (3, 3, 3)),
        ("verbosity = 2 ; traceLevel = 3", (3, 2, 3)),
        ("verbosity = 2 ; traceLevel = 0", (2, 2, 2)),
        ("traceLevel = default", (1, 0, 1)),
    ] {
        assert_eq!(levels(native_with(keys, "").unwrap()), expected, "{keys}");
        let legacy = native(&format!("{keys}\nfile = f ; {STREAMS}")).unwrap();
        assert_eq!(levels(legacy), expected, "{keys}");
    }
    // In the place of CNTK they belong to different parts, and a negative one is a huge one.
    let levels = |keys: &str| {
        let text = format!("{keys}\ndeserializers=([{TEXT};{STREAMS}])");
        levels(from_text(&text).unwrap())
    };
    assert_eq!(levels("verbosity=2;traceLevel=0"), (0, 2, 0));
    assert_eq!(levels("verbosity=2"), (1, 2, 1));
    assert_eq!(levels("traceLevel=-1;verbosity=2"), (u32::MAX, 2, u32::MAX));
    for key in ["verbosity", "traceLevel"] {
        let error = native_with(&format!("{key} = -1"), "").unwrap_err();
        assert_eq!(error.message(), format!("The value of '{key}' in the configuration is negative."));
        assert_eq!(error.detail(), "Expected 0 (errors), 1 (warnings) or 2 (information).");
        assert_eq!(error.location().line, Some(1));
    }
}

#[test]
fn keys_in_the_wrong_section_are_noted() {
    let noted = |reader: &str, element: &str| logged(|| _ = native_with(reader, element).unwrap());
    let line = |key: &str| {
        format!(
            "Warning: The configuration key '{key}' in 'deserializers[0]' has no effect; it belongs beside 'deserializers' \
             (line 2 of the configuration)"
        )
    };
    for key in ["randomize", "randomizationWindow", "sampleBasedRandomizationWindow", "randomizationSeed"] {
        assert_eq!(noted("", &format!("{key} = 1")), [line(key)]);
        let text = format!("deserializers=([{TEXT};{STREAMS};{key}=1])");
        let lines = logged(|| _ = from_text(&text).unwrap());
        assert!(lines.iter().all(|line| !line.contains("belongs beside")), "{lines:?}");
    }
    let zero = "Warning: 'randomizationWindow = 0' in the configuration randomizes within chunks; for the data's own order set 'randomize = \
                false'";
    assert_eq!(noted("randomizationWindow = 0", ""), [zero]);
    assert_eq!(noted("randomizationWindow = 1 ; traceLevel = 1", ""), [""; 0]);
    // Notes and unread keys are warnings.
    assert_eq!(noted("randomizationWindow = 0 ; traceLevel = 0", "foo = 1"), [""; 0]);
}

#[test]
fn truncation_length_needs_truncation() {
    let message = "'truncationLength' has no effect, because 'truncated' is not set.";
    let error = native_with("truncationLength = 4", "").unwrap_err();
    assert_eq!((error.message(), error.class(), error.location().column), (message, I, Some(20)));
    assert!(error.detail().contains("add 'truncated = true' to the configuration"), "{error}");
    for keys in ["truncationLength = 0", "truncationLength = x", "truncationLength = 4 ; truncated = false"] {
        assert_eq!(native_with(keys, "").unwrap().packing, Packing::Sequence, "{keys}");
    }
    // A length around the section of the reader belongs to others.
    let around = format!("truncationLength = 4\nreader = [ deserializers = ([ {TEXT} ; {STREAMS} ]) ]");
    assert!(native(&around).is_ok());
    // The key to blame is the one that is there.
    let column = |keys: &str| native_with(keys, "").unwrap_err().location().column;
    assert_eq!(column("truncated = true ; truncationLength = 0"), Some(39));
    assert_eq!(column("truncated = true"), Some(13));
}

#[test]
fn lists_of_deserializers_are_in_parentheses() {
    let list = "A list stands in parentheses: deserializers = ( [ type = ... ] : [ type = ... ] ).";
    let error = native("deserializers = type").unwrap_err();
    assert_eq!(error.message(), "'deserializers' in the configuration is not a list of sections.");
    assert_eq!((error.detail(), error.class(), error.location().column), (list, I, Some(17)));
    let none = "Could not find deserializers in the reader config.";
    let needed =
        "The configuration needs 'deserializers = ( [ type = ... ] : ... )' with at least one element.";
    for text in ["default", "\"\"", "()"] {
        let error = native(&format!("deserializers = {text}")).unwrap_err();
        assert_eq!((error.message(), error.detail()), (none, needed));
    }
    // A bare section is taken for a list of its lines.
    let bare = native(&format!("deserializers = [\n {TEXT} ]")).unwrap_err();
    let missing = "configparameters: required parameter missing: unknown:deserializers[0]:input";
    assert_error(
        Err::<(), _>(bare),
        R,
        "CNTKTextFormatReader configuration does not contain \"input\" section.",
    );
    for text in ["deserializers = [\n a = 1 ]", "deserializers = {\n a = 1 }"] {
        let error = native(text).unwrap_err();
        assert_eq!(error.message(), missing.replace("input", "type"));
        let detail = format!("The value of 'deserializers' is a section, not a list. {list}");
        assert_eq!((error.detail(), error.location().line), (&*detail, Some(1)));
    }
    let error = native("deserializers = (\n [ a = 1 ] )").unwrap_err();
    assert_eq!(error.message(), missing.replace("input", "type"));
    assert!(error.detail().contains("needs a line 'type = ...'"), "{error}");
    // In the place of CNTK anything is a list.
    assert_error(from_text("deserializers=type"), R, &missing.replace("input", "module"));
}

#[test]
fn variables_of_the_reader_are_replaced_in_its_deserializers() {
    let name = |settings: Result<ReaderSettings>| settings.map(|one| one.deserializers[0].name().to_owned());
    let text =
        format!("dir = a ; deserializers = ([ {} ; {STREAMS} ])", TEXT.replace("= f", "= \"$dir$/f\""));
    assert_eq!(name(native(&text)).unwrap(), "a/f");
    let inside = text.replace("[ type", "[ dir = b ; type");
    assert_eq!(name(native(&inside)).unwrap(), "b/f");
    let around = format!("dir = c\nreader = [ {} ]", text.replace("dir = a ;", ""));
    assert_eq!(name(native(&around)).unwrap(), "c/f");
    let missing = from_text(&text).unwrap_err();
    assert!(missing.message().starts_with("No variable found with the name dir."), "{missing}");
    let scope = "Define 'dir = ...' in 'unknown:deserializers[0]' or in a section around it; elements of arrays see only their \
                 own section.";
    assert_eq!(missing.detail(), scope);
    let native = native(&text.replace("dir = a", "dri = a")).unwrap_err();
    assert_eq!(
        native.detail(),
        scope.replace("; elements of arrays see only their own section", "").replace("unknown:", "")
    );
}

fn with_users(text: &str, users: &[UserType<'_>]) -> Result<ReaderSettings> {
    Config::from_text(text)?.settings(ExtensionTypes { users, ..ExtensionTypes::default() })
}

const MINE: UserType<'_> = UserType { name: "mine", composable: true };
const ALONE: UserType<'_> = UserType { name: "alone", composable: false };

#[test]
fn users_deserializers_that_list_their_sequences_late() {
    let order = |text: &str, user| with_users(text, &[user]).map(|settings| settings.order);
    let all = composite::AUTO_WINDOW;
    let of = |window| Order::Block { window, seed: 0 };
    for (keys, late, listed) in [
        ("", WindowSize::Chunks(128), WindowSize::Samples(all)),
        ("randomizationWindow = 3", WindowSize::Chunks(3), WindowSize::Samples(3)),
        (
            "randomizationWindow = 3 ; sampleBasedRandomizationWindow = true",
            WindowSize::Samples(3),
            WindowSize::Samples(3),
        ),
    ] {
        assert_eq!(order(keys, ALONE).unwrap(), of(late), "{keys}");
        assert_eq!(order(keys, MINE).unwrap(), of(listed), "{keys}");
    }
    let error = order("sampleBasedRandomizationWindow = true", ALONE).unwrap_err();
    let message = "'sampleBasedRandomizationWindow' (== 'true') requires that the 'randomizationWindow' is explicitly specified.";
    assert_eq!((error.message(), error.class(), error.location().column), (message, L, Some(34)));
    // The window may be given around the reader.
    let inside = "randomizationWindow = 3\nreader = [ sampleBasedRandomizationWindow = true ]";
    assert_eq!(order(inside, ALONE).unwrap(), of(WindowSize::Samples(3)));
    let lockstep = order("lockstep = true", ALONE).unwrap_err();
    assert_eq!(lockstep.message(), "Workers cannot read in lockstep here.");
    assert!(lockstep.detail().contains("The chunks of the user's deserializer"), "{lockstep}");
    assert!(order("lockstep = true", MINE).is_ok());
}

#[test]
fn obstacles_of_joining_deserializers_are_explained() {
    let obstacle = |text: &str, users: &[UserType<'_>]| match with_users(text, users) {
        Ok(settings) => settings.deserializers.len().to_string(),
        Err(error) => {
            let several = "Currently user defined deserializers do not support composability. Please specify a single \
                           deserializer.";
            assert_eq!((error.message(), error.class()), (several, I));
            error.detail().to_owned()
        }
    };
    let key = |name: &str| {
        format!(
            "The section of '{name}' says `composable = false`, so it cannot be joined with others. Leave that key out, or read \
             '{name}' with a reader of its own."
        )
    };
    assert_eq!(obstacle("", &[ALONE]), "1");
    assert_eq!(obstacle("", &[MINE, MINE_TOO]), "2");
    let list = cntk_reader_core::format::user::lacks_list_of("alone");
    assert_eq!(obstacle("", &[MINE, ALONE]), list);
    let single = "deserializers = ([ type = mine ; composable = false ])";
    assert_eq!(obstacle(single, &[MINE]), "1");
    let both = "deserializers = ([ type = mine ; composable = false ] : [ type = alone ])";
    assert_eq!(obstacle(both, &[MINE, ALONE]), key("mine"));
    let text = format!("deserializers = ([ type = mine ] : [ {TEXT} ; {STREAMS} ; composable = false ])");
    assert_eq!(obstacle(&text, &[MINE]), key("CNTKTextFormatDeserializer"));
    let error = native_with("", "composable = false").unwrap_err();
    assert_eq!(error.message(), "Deserializers with 'composable = false' are not supported yet.");
    assert_eq!((error.detail(), error.location().line), ("Remove the key 'composable'.", Some(2)));
}

const MINE_TOO: UserType<'_> = UserType { name: "mine too", composable: true };

#[test]
fn missing_module_may_mean_a_users_deserializer() {
    let error = native("deserializers = ([ type = mein ])").unwrap_err();
    assert_eq!(
        error.message(),
        "configparameters: required parameter missing: unknown:deserializers[0]:module"
    );
    let hint = "A deserializer of your own has no 'module': register it by the name 'mein' before the reader is opened.";
    assert!(error.detail().ends_with(hint), "{error}");
}

#[test]
fn deserializers_of_other_modules_are_left_to_others() {
    let read = |element: &str, foreign| {
        let section =
            root(&format!("traceLevel=0;precision=double;frameMode=1\ndeserializers=([{element}])")).unwrap();
        let settings = language::from_reader_section(&section, ReaderType::Composite, foreign)?;
        assert_eq!(section.log().unread("global"), [""; 0]);
        Ok(settings)
    };
    let settings = read("type=A;module=my.so;key=1", true).unwrap();
    let foreign = settings.deserializers[0].of::<ForeignOptions>().unwrap();
    assert_eq!((foreign.name.as_str(), foreign.composable), ("A", true));
    let section = foreign.description.get::<Section>().unwrap();
    assert_eq!([section.raw("precision"), section.raw("frameMode")], [Some("double"), Some("true")]);
    assert!(!settings.multithreaded);
    assert_error(
        read("type=A;module=my.so", false),
        I,
        "The module 'my.so' of the deserializer type 'A' is not supported yet.",
    );
    // Without a list of its sequences, it is the only one, with a window of chunks.
    let late = read("type=A;module=my.so;composable=false", true).unwrap();
    assert_eq!(late.order, Order::Block { window: WindowSize::Chunks(128), seed: 0 });
    assert_eq!(settings.order, Order::Block { window: WindowSize::Samples(composite::AUTO_WINDOW), seed: 0 });
    let unknown = "Unknown deserializer type 'A'";
    assert_error(read("type=A;module=CNTKTextFormatReader", true), I, unknown);
}

#[test]
fn paths_are_confined_to_allowed_folders() {
    let confinement = |keys: &str| {
        let element = "type = HTKFeatureDeserializer ; module = HTKDeserializers ; input = [ x = [ scpFile = s ; dim = 1 ] ]";
        let settings = native(&format!("{keys}\ndeserializers = ([ {element} ])"))?;
        Ok(settings.deserializers[0].of::<HtkFeatureOptions>().unwrap().confinement.clone())
    };
    assert!(!confinement("").unwrap().is_confined());
    assert_eq!(confinement("confinePaths = true").unwrap(), Confinement::to(Vec::new()));
    let folders = confinement("confinePaths = true ; allowedFolders = (\"/a\":b)").unwrap();
    assert_eq!(folders, Confinement::to(vec!["/a".into(), "b".into()]));
    let error: Error = confinement("allowedFolders = (a)").unwrap_err();
    assert_eq!(error.message(), "'allowedFolders' confines no paths without 'confinePaths'.");
    assert_eq!((error.class(), error.location().column), (I, Some(18)));
}

#[test]
fn settings_follow_the_release_and_the_front_end() {
    let reader = format!("maxSequenceLength=3;definesMBSize=0;foo=1;deserializers=([{TEXT};{STREAMS}])");
    let section = root(&reader).unwrap();
    let unread = |key: &str| format!("Warning: The configuration key '{key}' in 'global' has no effect");
    let (mut settings, mut alone) = (None, None);
    let lines = logged(|| {
        settings = language::from_reader_section(&section, ReaderType::Composite, false).ok();
    });
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with(&unread("foo")), "{lines:?}");
    assert_eq!(settings.unwrap().in_place_of, Some(Release::Current));
    let section = root(&reader).unwrap();
    let lines = logged(|| alone = language::from_section(&section).ok());
    assert_eq!((lines.len(), alone.unwrap().in_place_of), (3, None));
    let config = Config::generated("precision = half\nprefetch = true", FrontEnd::Python).unwrap();
    assert_eq!(
        config.settings(ExtensionTypes::default()).unwrap_err().message(),
        "Could not find deserializers in the reader config."
    );
    let settings =
        Config::generated(&reader, FrontEnd::Python).unwrap().settings(ExtensionTypes::default()).unwrap();
    assert_eq!(settings.front_end, FrontEnd::Python);
    // Messages use the words of the front end, and show no lines of the text.
    let error = Config::generated("deserializers = [", FrontEnd::Rust).unwrap_err();
    assert_eq!((error.kind(), error.location().line), (ErrorKind::Config, None));
    let levels = Config::generated(&format!("traceLevel = -1 ; {reader}"), FrontEnd::Rust).unwrap();
    let error = levels.settings(ExtensionTypes::default()).unwrap_err();
    assert_eq!(error.message(), "The value of 'trace_level' in ReaderOptions is negative.");
    let parsed: Config = "a = 1 ; a: 2".parse().unwrap();
    assert_eq!(parsed.section.raw("a"), Some("1"));
    assert!("a = [".parse::<Config>().is_err());
}
