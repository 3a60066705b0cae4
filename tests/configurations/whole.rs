//! Whole files: actions, networks and variables around readers.

use super::*;

/// Writes a configuration file with `Here` set to the folder, and opens it.
fn config(folder: &TempDir, text: &str) -> Result<Config, Error> {
    let path = folder.path().join("whole.cntk");
    let here = text_of(folder.path());
    fs::write(&path, text.replacen("\n\n", &format!("\n\nHere = \"{here}\"\n"), 1)).unwrap();
    Config::from_file(&path)
}

const NDL: &str = include_str!("ndl.cntk");
const BRAINSCRIPT: &str = include_str!("brainscript.cntk");
const SPEECH: &str = include_str!("speech.cntk");

#[test]
fn readers_of_a_whole_file_are_listed_and_chosen() {
    let folder = folder();
    let config = config(&folder, NDL).unwrap();
    assert_eq!(config.readers(), ["output.reader", "test.reader", "train.cvReader", "train.reader"]);
    assert_eq!(read(open(config.reader("train.reader").unwrap()).unwrap()), TRAIN);
    // Keys are case-insensitive, and a colon separates them in messages.
    assert_eq!(read(open(config.reader("Train:Reader").unwrap()).unwrap()), TRAIN);
    assert_eq!(read(open(config.reader("train.cvReader").unwrap()).unwrap()), TEST);
}

#[test]
fn missing_choice_lists_known_readers() {
    let folder = folder();
    let error = open(config(&folder, NDL).unwrap()).unwrap_err();
    assert_eq!(error.message(), "The configuration has several readers, and none is chosen.");
    let readers = "Its readers are 'output.reader' (LMSequenceReader), 'test.reader' (UCIFastReader), 'train.cvReader', \
                   'train.reader' (CNTKTextFormatReader).";
    assert!(error.detail().contains(readers), "{error}");
    assert!(error.location().file.is_some());
}

#[test]
fn unknown_reader_lists_known_readers() {
    let folder = folder();
    let config = config(&folder, NDL).unwrap();
    for (name, hint) in
        [("train.raeder", "Did you mean 'train.reader'?"), ("dev", ""), ("", ""), ("train.", "")]
    {
        let error = config.reader(name).unwrap_err();
        assert_eq!(error.message(), format!("The configuration has no reader '{name}'."));
        assert!(error.detail().contains(hint) && error.detail().contains("Its readers are"), "{error}");
    }
    let error = config.reader("deviceId").unwrap_err();
    assert_eq!(error.message(), "'deviceId' is not a section: its value is 'auto'.");
}

#[test]
fn legacy_readers_are_explained() {
    let folder = folder();
    let config = config(&folder, NDL).unwrap();
    let error = open(config.reader("test.reader").unwrap()).unwrap_err();
    assert_eq!(error.message(), "The reader type 'UCIFastReader' is not supported yet.");
    assert!(
        error.detail().contains("uci2ctf.py") && error.detail().contains("CNTKTextFormatReader"),
        "{error}"
    );
    let line = NDL.lines().position(|line| line.contains("UCIFastReader")).unwrap() as u64 + 2;
    assert_eq!(error.location().line, Some(line));
    let error = open(config.reader("output.reader").unwrap()).unwrap_err();
    assert_eq!(error.message(), "The reader type 'LMSequenceReader' is not supported yet.");
}

#[test]
fn brainscript_with_a_network_opens() {
    let folder = folder();
    let config = config(&folder, BRAINSCRIPT).unwrap();
    assert_eq!(config.readers(), ["Eval.reader", "TrainConvNet.reader"]);
    assert_eq!(read(open(config.reader("TrainConvNet.reader").unwrap()).unwrap()), TRAIN);
    assert_eq!(read(open(config.reader("Eval.reader").unwrap()).unwrap()), TEST);
}

#[test]
fn variables_that_only_models_need_can_be_missing() {
    let folder = folder();
    let text = NDL.replace("\nRandomizeTest = false\n", "\n");
    let config = config(&folder, &text).unwrap();
    assert_eq!(read(open(config.reader("train.reader").unwrap()).unwrap()), TRAIN);
    let error = config.reader("train.cvReader").unwrap_err();
    assert!(error.message().starts_with("No variable found with the name RandomizeTest."), "{error}");
    let line = text.lines().position(|line| line.contains("$RandomizeTest$")).unwrap() as u64 + 2;
    assert_eq!(error.location().line, Some(line));
}

#[test]
fn a_file_with_one_reader_needs_no_choice() {
    let folder = folder();
    let text = BRAINSCRIPT.split("\nEval = {").next().unwrap();
    assert_eq!(read(open(config(&folder, text).unwrap()).unwrap()), TRAIN);
}

#[test]
fn reader_beside_the_actions_is_found_from_inside_them() {
    let folder = folder();
    let reader =
        "reader = [ file = \"$Here$/data/train.ctf\" ; input = [ features = [ dim = 2 ; format = dense ] ] ]";
    let config =
        config(&folder, &format!("command = train\n\ntrain = [ action = train ]\n{reader}\n")).unwrap();
    assert_eq!(read(open(config.reader("train.reader").unwrap()).unwrap()), TRAIN);
    assert_eq!(read(open(config.reader("reader").unwrap()).unwrap()), TRAIN);
    assert_eq!(read(open(config).unwrap()), TRAIN);
}

#[test]
fn errors_say_where_a_deserializer_is_described() {
    let folder = folder();
    let text = "\n\nDataDir = none\ndeserializers = ( [ type = CNTKTextFormatDeserializer ; module = CNTKTextFormatReader\n\
                file = \"$DataDir$/x.ctf\" ; input = [ features = [ dim = 2 ; format = dense ] ] ] )\n";
    let error = open(config(&folder, text).unwrap()).unwrap_err();
    assert!(error.detail().contains("is described in line 6 of"), "{error}");
}

#[test]
fn variables_follow_the_scopes_of_cntk() {
    let folder = folder();
    let input = "input = [ features = [ dim = 2 ; format = dense ] ]";
    // The outer definition applies, because CNTK replaces the variable when it opens `train`.
    let text = format!(
        "\n\nfile = train\ntrain = [ file = none\n reader = [ file = \"$Here$/data/$file$.ctf\"\n {input} ] ]"
    );
    assert_eq!(read(open(config(&folder, &text).unwrap()).unwrap()), TRAIN);
    // CNTK does not see the inner definition.
    let text =
        format!("\n\ntrain = [ name = train\n reader = [ file = \"$Here$/data/$name$.ctf\"\n {input} ] ]");
    let error = open(config(&folder, &text).unwrap()).unwrap_err();
    assert!(error.message().starts_with("No variable found with the name name."), "{error}");
    assert!(
        error.detail().contains("'train' defines it") && error.detail().contains("move the line"),
        "{error}"
    );
    // A reader inherits the keys of its enclosing sections.
    let text = format!("\n\ntrain = [ file = \"$Here$/data/test.ctf\"\n reader = [ {input} ] ]");
    assert_eq!(read(open(config(&folder, &text).unwrap()).unwrap()), TEST);
}

#[test]
fn variables_are_replaced_in_deserializers_and_in_typed_values() {
    let folder = folder();
    let text = "\n\nDataDir = \"$Here$/data\" ; Shuffle = false ; Dim = 2\nrandomize = $Shuffle$\ndeserializers = ( [
        type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; Name = test
        file = \"$DataDir$/$Name$.ctf\" ; maxErrors = $Errors$
        input = [ features = [ dim = $Dim$ ; format = dense ] ] ] )\nName = train ; Errors = 1\n";
    // A variable of the element itself takes precedence over an outer one, as in CNTK, which sees
    // no others.
    assert_eq!(read(open(config(&folder, text).unwrap()).unwrap()), TEST);
    let error = open(config(&folder, &text.replace("$Dim$", "$Dm$")).unwrap()).unwrap_err();
    assert!(error.message().starts_with("No variable found with the name Dm."), "{error}");
}

#[test]
fn included_files_define_variables() {
    let folder = folder();
    let scripts = text_of(folder.path());
    let included = folder.path().join("dirs.cntk");
    fs::write(&included, format!("ScpDir = \"{scripts}\"\nMlfDir = \"{scripts}\"\n")).unwrap();
    let text = SPEECH.replace("INCLUDED", &text_of(&included));
    let error = open(config(&folder, &text).unwrap()).unwrap_err();
    // The reader is found, and its variables are known: only its files are missing.
    assert!(error.to_string().contains(&format!("{scripts}/train.scp")), "{error}");
}
