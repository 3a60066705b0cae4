//! The deserializer as a source of chunks, and its options as a format.

use super::*;
use cntk_reader_core::file::Confinement;
use cntk_reader_core::format::AnyDeserializer;
use cntk_reader_core::format::options::{Context, Format, Opened, Signature};
use cntk_reader_core::format::recognize::FileFormat;
use cntk_reader_core::option::release::Release;
use cntk_reader_core::stream::Ids;

#[test]
fn options_as_a_format() {
    let mut text = MlfOptions { frame_mode: true, ..options(&["lab.mlf", "m_a.mlf"]) };
    assert_eq!((text.type_name(), text.name()), ("HTKMLFDeserializer", &*data("lab.mlf")));
    let binary = MlfOptions { binary: true, ..options(&[]) };
    assert_eq!((binary.type_name(), binary.name()), ("HTKMLFBinaryDeserializer", ""));
    assert_eq!((text.facts().signature, text.facts().frame_mode), (Signature::Is(FileFormat::Mlf), true));
    assert!(!binary.facts().frame_mode);
    let confined = Confinement::to(vec!["/a".to_owned()]);
    text.confine(&confined);
    text.follow(Release::Beta);
    text.speak(FrontEnd::Python);
    assert_eq!((&text.confinement, text.quirks), (&confined, Release::Beta.quirks()));
    assert_eq!((text.front_end, Columns::of(&text)), (FrontEnd::Python, Columns::AnyBlanks));
    assert_eq!(Columns::of(&binary), Columns::Blank);
}

/// Returns the number of utterances.
fn count(opened: Result<Opened>) -> u32 {
    let AnyDeserializer::Known(opened) = opened.expect("labels").deserializer else { panic!("another kind") };
    opened.chunks().iter().map(|chunk| chunk.sequences).sum()
}

#[test]
fn labels_come_first_only_for_tools() {
    let (corpus, pool) = (corpus(), Pool::shared().expect("a pool"));
    let lab = options(&["lab.mlf"]);
    let open = |is_primary, labels_may_be_first| {
        let context = Context::alone(&corpus, &pool, is_primary);
        lab.open(Context { labels_may_be_first, ..context })
    };
    assert_eq!([open(false, false), open(false, true), open(true, true)].map(count), [5; 3]);
    let error = open(true, false).err().expect("the first deserializer");
    assert_eq!(error.message(), "MLFDeserializer currently does not support primary mode.");
    assert_eq!(error.location().stream.as_deref(), Some("labels"));
}

#[test]
fn only_text_without_a_cache_is_scanned_ahead() {
    let pool = Pool::shared().expect("a pool");
    let ahead = |options: &MlfOptions| pool.install(|| options.scan_ahead());
    let lab = options(&["lab.mlf"]);
    let corpus = corpus();
    let open = |options: &MlfOptions, ahead| {
        count(options.open(Context { ahead, ..Context::alone(&corpus, &pool, false) }))
    };
    let scanned = ahead(&lab);
    assert!(scanned.is_some());
    assert_eq!(open(&lab, scanned), 5);
    for none in [
        MlfOptions { cache_index: true, ..lab.clone() },
        MlfOptions { binary: true, ..options(&["lab2.bin"]) },
        options(&["no.mlf"]),
        options(&["m_nohdr.mlf"]),
        options(&[]),
    ] {
        assert!(ahead(&none).is_none(), "{none:?}");
    }
    // The result for another file, or for a file that has changed, does not count.
    assert_eq!(open(&lab, ahead(&options(&["m_miss.mlf"]))), 5);
    let file = written(b"#!MLF!#\n\"u1\"\n0 1 sil_s3\n.\n");
    let growing = MlfOptions { files: vec![path_of(&file)], ..options(&[]) };
    let scanned = ahead(&growing);
    let more = std::fs::read_to_string(file.path()).expect("text") + "\"u2\"\n0 1 sil_s3\n.\n";
    std::fs::write(file.path(), more).expect("writing");
    assert_eq!(open(&growing, scanned), 2);
    assert_eq!(open(&growing, ahead(&growing)), 2);
}

#[test]
fn keys_places_and_facts_of_utterances() {
    let labels = open(&options(&["lab.mlf", "m_a.mlf"]), &corpus()).expect("labels");
    let id = |chunk, index| SequenceId { chunk, index };
    let mut keys = vec![9];
    labels.reported_keys(&[id(0, 1), id(0, 2)], false, &mut keys);
    assert_eq!(keys, [9, 0, 0]);
    let place = |labels: &MlfDeserializer, id| {
        let place = labels.diagnostics().location(id, 0);
        (place.file.unwrap_or_default(), place.offset, place.line)
    };
    assert_eq!(place(&labels, id(0, 1)), (data("lab.mlf"), Some(77), Some(7)));
    assert_eq!(place(&labels, id(1, 0)), (data("m_a.mlf"), Some(8), Some(2)));
    let binary = open(&MlfOptions { binary: true, ..options(&["lab2.bin"]) }, &corpus()).expect("labels");
    assert_eq!(place(&binary, id(0, 0)), (data("lab2.bin"), Some(5), None));
    assert_eq!(labels.diagnostics().key_text(1, &corpus()), "u2");
    assert!(labels.diagnostics().check(0, 9).is_none() && labels.diagnostics().remarks().is_empty());
    assert_eq!(ChunkSource::facts(&labels), SourceFacts::ON_POOL);
    let facts = labels.sequence_facts();
    assert_eq!((facts.in_frame_mode, facts.marks_keys), (InFrameMode::Sliced, false));
    assert!(labels.incremental().is_none() && labels.prepare_to_find().is_ok());
    let size = |name: &str| std::fs::metadata(data(name)).expect("a file").len();
    assert_eq!(labels.file_bytes(), Some(size("lab.mlf") + size("m_a.mlf")));
    let stream = &labels.streams()[0];
    assert_eq!(
        (stream.name.as_str(), stream.storage, &*stream.shape),
        ("labels", Storage::SparseCsc, &[12][..])
    );
}

#[test]
fn fingerprints_and_samples_tell_files_apart() {
    let fingerprint = |name: &str| open(&options(&[name]), &corpus()).expect("labels").fingerprint(None);
    assert_eq!(fingerprint("lab.mlf"), fingerprint("m_crlf.mlf"));
    assert_ne!(fingerprint("lab.mlf"), fingerprint("m_miss.mlf"));
    let sampled = |options: &MlfOptions| {
        let mut sampler = Sampler::new();
        open(options, &corpus()).expect("labels").sample_content(None, &mut sampler).expect("samples");
        sampler.finish()
    };
    let lab = options(&["lab.mlf"]);
    assert_ne!(sampled(&lab), sampled(&options(&["m_crlf.mlf"])));
    assert_ne!(sampled(&lab), sampled(&options(&["lab.mlf", "m_a.mlf"])));
    let list = MlfOptions { state_list: Some(data("state_crlf.list")), ..lab.clone() };
    assert_ne!(sampled(&lab), sampled(&list));
}

#[test]
fn memory_is_counted_while_held() {
    let labels = open(&options(&["lab.mlf"]), &corpus()).expect("labels");
    let before = labels.memory();
    // Five utterances with consecutive keys in one chunk, and the list of states.
    let states = StateList::read(&data("state.list")).expect("a list");
    let text = std::fs::metadata(data("state.list")).expect("a file").len() as usize;
    assert_eq!((states.len(), states.bytes()), (12, text + 12 * 8 + 32 * 8));
    assert_eq!((before.chunks, before.index), (0, (5 * 16 + 16 + 8 + states.bytes()) as u64));
    let pool = Pool::shared().expect("a pool");
    let chunk = pool.install(|| labels.load(0)).expect("a chunk");
    // The classes of 31 frames, and the place of each utterance.
    let without = labels.memory().chunks;
    assert!(without >= 31 * 2 + 5 * 8, "{without}");
    drop(chunk);
    assert_eq!(labels.memory().chunks, 0);
    let boundaries = MlfOptions { phone_boundaries: true, ..options(&["lab.mlf"]) };
    let labels = open(&boundaries, &corpus()).expect("labels");
    let _chunk = pool.install(|| labels.load(0)).expect("a chunk");
    assert_eq!(labels.memory().chunks, without + 31);
    let alone = MlfOptions { state_list: None, ..options(&["m_four.mlf"]) };
    assert_eq!(open(&alone, &corpus()).expect("labels").memory().index, 5 * 16 + 16 + 8);
}

#[test]
fn classes_are_delivered_as_numbers() {
    for element in [ElementType::Int32, ElementType::Int64] {
        let ids = Some(Ids { element, padding: -1 });
        let numbers = MlfOptions { ids, ..options(&["lab.mlf"]) };
        let labels = open(&numbers, &corpus()).expect("labels");
        assert_eq!((labels.streams()[0].storage, labels.streams()[0].element), (Storage::Dense, element));
        let chunk = Pool::shared().expect("a pool").install(|| labels.load(0)).expect("a chunk");
        let Loaded::Data(view) = chunk.sequence(0, 1) else { panic!("no data") };
        let classes: Vec<u16> =
            view.values.as_chunks().0.iter().map(|bytes| u16::from_ne_bytes(*bytes)).collect();
        assert_eq!((view.samples, classes), (5, vec![2, 2, 2, 3, 3]));
        assert_eq!(view.form, ValueForm::of_indices(element, true));
        let error = open(&MlfOptions { phone_boundaries: true, ..numbers }, &corpus()).err().expect("both");
        assert_eq!(error.message(), "A stream with 'ids' cannot have phone boundaries.");
        assert_eq!(error.class(), ExceptionClass::Logic);
    }
}
