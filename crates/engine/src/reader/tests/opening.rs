//! Opening: deserializers from options, one by one, and their composition.

use super::*;
use crate::reader::build::{compose, corpus, deserializer};
use cntk_reader_core::format::options::{Adapter, Format, Signature, Users};
use cntk_reader_core::format::{InFrameMode, SequenceFacts};
use cntk_reader_core::option::release::Release;
use cntk_reader_core::runtime::cancel::ended;
use cntk_reader_core::stream::{StreamInfo, UNKNOWN_DIMENSION};
use source::{InMemory, passing};

/// Settings with these deserializers.
fn of(formats: &[&InMemory]) -> ReaderSettings {
    let deserializers = formats.iter().map(|&one| Box::new(one.clone()) as Box<dyn Format>).collect();
    ReaderSettings { deserializers, ..settings() }
}

fn in_memory(name: &str, lengths: &[&[u32]]) -> InMemory {
    let source = Source::new(lengths).of_stream(StreamInfo::dense(name, &[1]));
    InMemory::new(name, &Arc::new(source))
}

fn failing(name: &str, error: Error) -> InMemory {
    InMemory { failure: Some(error), ..in_memory(name, &[&[1]]) }
}

fn refused(settings: &ReaderSettings) -> Error {
    Reader::open(settings).err().expect("an error")
}

#[test]
fn reader_is_opened_from_its_settings() {
    let one = InMemory { lacks_keys: true, ..in_memory("a", &[&[1; 4], &[1; 4]]) };
    let mut reader = Reader::open(&of(&[&one])).expect("a reader");
    reader.start_epoch(&Epoch::sweeps(1).minibatch_size(5)).expect("an epoch");
    assert_eq!(rest(&mut reader), "0 1 2 3 4 | 5 6 7*!");
    let [member] = reader.members() else { panic!("one member") };
    assert_eq!((member.name(), member.type_name(), member.has_keys()), ("a", "InMemoryDeserializer", false));
    assert_eq!(member.sizes(), reader.sizes());
    assert_eq!(format!("{member:?}"), "Member { name: \"a\", type_name: \"InMemoryDeserializer\", .. }");
    let error = refused(&settings());
    assert_eq!(
        (error.kind(), error.message()),
        (ErrorKind::InvalidArgument, "A reader needs a deserializer.")
    );
}

#[test]
fn keys_are_kept_as_the_settings_say() {
    for (numeric_keys, hash_keys, is_numeric, is_hashed) in [
        (true, false, true, false),
        (true, true, true, false),
        (false, true, false, true),
        (false, false, false, false),
    ] {
        let corpus = corpus(&ReaderSettings { numeric_keys, hash_keys, ..settings() });
        assert_eq!((corpus.is_numeric(), corpus.is_hashed()), (is_numeric, is_hashed));
    }
}

#[test]
fn each_deserializer_knows_its_place() {
    let (first, second) = (in_memory("a", &[&[1]]), failing("b", Error::data("bad")));
    for (formats, order, expected) in [
        (&[&second][..], Order::InOrder, "primary true, incremental true, next None"),
        (&[&second], block(1), "primary true, incremental false, next None"),
        (&[&first, &second], Order::InOrder, "a, primary false, incremental false, next None"),
        (&[&second, &first], Order::InOrder, "primary true, incremental false, next Some(\"a\")"),
    ] {
        let settings = ReaderSettings { order, ..of(formats) };
        for labels_may_be_first in [false, true] {
            let others = Extensions { labels_may_be_first, ..Extensions::default() };
            let error = Reader::open_with(&settings, &others).err().expect("an error");
            let expected = format!("{expected}, labels first {labels_may_be_first}, users true");
            assert_eq!((error.message(), error.detail()), ("bad", &*expected));
        }
    }
}

#[test]
fn error_of_opening_names_the_description() {
    let place = |line| Written::at(Some("a.cntk"), line, 1, String::new());
    for (error, is_described) in [
        (Error::data("bad"), true),
        (passing(), true),
        (Error::state("bad"), false),
        (Error::user("bad"), false),
    ] {
        let (first, second) = (in_memory("a", &[&[1]]), failing("b", error));
        let settings = ReaderSettings { descriptions: vec![place(3), place(7)], ..of(&[&first, &second]) };
        let detail = refused(&settings).detail().to_owned();
        let sentence = " The deserializer is described in line 7 of 'a.cntk'.";
        assert_eq!(detail.ends_with(sentence), is_described, "{detail}");
    }
}

#[test]
fn error_in_a_file_of_another_format_explains_it() {
    let path = std::env::temp_dir().join(format!("cntk-reader-opening-{}", std::process::id()));
    let path = path.display().to_string();
    std::fs::write(&path, b"\x89PNG\r\n\x1a\n").expect("a file");
    let explained = |signature, error: Error| {
        let one = InMemory { signature, ..failing("a", error.in_file(&path)) };
        refused(&of(&[&one])).detail().contains("The file looks like")
    };
    use cntk_reader_core::format::recognize::FileFormat::{Jpeg, Png};
    assert!(explained(Signature::Unknown, Error::data("bad")));
    assert!(explained(Signature::Is(Jpeg), Error::data("bad")));
    assert!(!explained(Signature::Is(Png), Error::data("bad")));
    assert!(!explained(Signature::Explained, Error::data("bad")));
    assert!(!explained(Signature::Unknown, Error::user("bad")));
    // Tables of numbers look like many things.
    std::fs::write(&path, "1 2 3\n4 5 6\n").expect("a file");
    assert!(!explained(Signature::Unknown, Error::data("bad")));
    std::fs::remove_file(&path).expect("the file");
}

#[test]
fn data_without_samples_are_rejected() {
    for (lengths, grows_from) in [(&[][..], None), (&[], Some(0)), (&[&[0, 0][..]][..], None)] {
        let source = Arc::new(Source { grows_from, ..Source::new(lengths) });
        let error = refused(&of(&[&InMemory::new("a.bin", &source)]));
        let message = "Expected input to contain samples, but the number of successfully read samples was 0.";
        assert_eq!((error.kind(), error.message()), (ErrorKind::Data, message));
        assert_eq!(error.location().file.as_deref(), Some("a.bin"));
    }
    let growing = Arc::new(Source { grows_from: Some(0), ..Source::twelve() });
    assert!(Reader::open(&of(&[&InMemory::new("a.bin", &growing)])).is_ok());
    assert_eq!(growing.known_chunks(), 1, "nothing else is waited for");
}

#[test]
fn deserializers_are_joined_by_key() {
    for is_asked_in_place in [false, true] {
        let sequence_facts = SequenceFacts { is_asked_in_place, ..SequenceFacts::PLAIN };
        let source = Source { sequence_facts, ..Source::new(&[&[1; 3]]) };
        let second = InMemory::new("b", &Arc::new(source.of_stream(StreamInfo::dense("b", &[1]))));
        let first = in_memory("a", &[&[1; 2], &[1; 2]]);
        let mut reader = Reader::open(&of(&[&first, &second])).expect("a reader");
        reader.start_epoch(&Epoch::sweeps(1).minibatch_size(5)).expect("an epoch");
        let minibatch = reader.read().expect("a minibatch");
        // Sequence 3 has no partner.
        assert_eq!((text(&minibatch).as_str(), minibatch.streams.len()), ("0 1 2*!", 2));
        assert_eq!(reader.members().len(), 2);
        assert_eq!(reader.sizes().sequences, Some(3));
        assert_eq!(reader.members()[0].sizes().sequences, Some(4));
    }
    let twice = in_memory("a", &[&[1]]);
    let error = refused(&of(&[&twice, &twice]));
    assert!(error.message().starts_with("Two streams with the same name 'a' have been found."));
    let listing = InMemory { is_listing: true, ..in_memory("b", &[&[1]]) };
    let error = refused(&of(&[&twice, &listing]));
    assert_eq!(error.message(), "The deserializer 'b' cannot be joined with others.");
}

#[test]
fn late_shapes_cannot_be_truncated() {
    let late = StreamInfo::dense("a", &[UNKNOWN_DIMENSION]);
    let one = InMemory::new("a", &Arc::new(Source::twelve().of_stream(late)));
    let error = refused(&ReaderSettings { packing: truncated(2), ..of(&[&one]) });
    assert_eq!(error.message(), "Input streams with unknown sample shape are currently not supported.");
    assert!(Reader::open(&of(&[&one])).is_ok());
}

/// The keys of an epoch in frame mode.
fn frames(formats: &[&InMemory], in_place_of: Option<Release>) -> Result<String> {
    let settings = ReaderSettings { packing: Packing::Frame, in_place_of, ..of(formats) };
    let mut reader = Reader::open(&settings)?;
    reader.start_epoch(&Epoch::sweeps(1).minibatch_size(9))?;
    let mut texts = Vec::new();
    while let Some(minibatch) = reader.next()? {
        texts.push(text(&minibatch));
    }
    Ok(texts.join(" | "))
}

#[test]
fn frame_mode_splits_sequences() {
    let in_mode = |name, lengths, in_frame_mode, is_asked_in_place| {
        let sequence_facts = SequenceFacts { in_frame_mode, is_asked_in_place, ..SequenceFacts::PLAIN };
        let source = Source { sequence_facts, ..Source::new(lengths) };
        InMemory::new(name, &Arc::new(source.of_stream(StreamInfo::dense(name, &[1]))))
    };
    let sliced = |name, lengths| in_mode(name, lengths, InFrameMode::Sliced, false);
    let whole = |name, lengths| in_mode(name, lengths, InFrameMode::Whole, false);
    let read = |formats: &[&InMemory]| frames(formats, None).expect("frames");
    assert_eq!(read(&[&sliced("a", &[&[3, 1]])]), "0 0 0 1*!");
    assert_eq!(read(&[&whole("a", &[&[1, 1]])]), "0 1*!");
    assert!(frames(&[&whole("a", &[&[3, 1]])], None).is_err(), "not a frame");
    // Joined with others: with a sample for each frame, or one for all.
    assert_eq!(read(&[&sliced("a", &[&[3, 1]]), &sliced("b", &[&[3, 1]])]), "0 0 0 1*!");
    assert_eq!(read(&[&sliced("a", &[&[3, 1]]), &whole("b", &[&[1, 1]])]), "0 0 0 1*!");
    assert_eq!(read(&[&sliced("a", &[&[3, 1]]), &whole("b", &[&[3, 1]])]), "0 0 0 1*!");
    for is_asked_in_place in [false, true] {
        let second = in_mode("b", &[&[3, 1]], InFrameMode::Sliced, is_asked_in_place);
        assert_eq!(read(&[&sliced("a", &[&[3, 1]]), &second]), "0 0 0 1*!");
    }
    // A file with other lengths is an error, except in CNTK's place.
    let (first, second) = (sliced("a", &[&[3, 1]]), whole("b", &[&[2, 1]]));
    let error = frames(&[&first, &second], None).expect_err("other lengths");
    assert_eq!(error.kind(), ErrorKind::Data);
    assert!(
        Reader::open(&ReaderSettings {
            packing: Packing::Frame,
            in_place_of: Some(Release::Current),
            ..of(&[&first, &second])
        })
        .is_ok()
    );
    // A primary of single samples takes the first frames of its partners.
    assert_eq!(read(&[&whole("a", &[&[1, 1]]), &sliced("b", &[&[1, 1]])]), "0 1*!");
    assert!(frames(&[&whole("a", &[&[1, 1]]), &sliced("b", &[&[3, 1]])], None).is_err());
}

#[test]
fn lone_images_are_not_truncated() {
    let images = |name| InMemory { has_images: true, ..in_memory(name, &[&[1]]) };
    let (one, other, plain) = (images("a"), images("b"), in_memory("a", &[&[1]]));
    for (formats, packing, is_accepted) in [
        (&[&one][..], Packing::Frame, true),
        (&[&one], Packing::Sequence, false),
        (&[&one, &other], Packing::Frame, false),
        (&[&plain], Packing::Frame, false),
    ] {
        let mut reader = Reader::open(&ReaderSettings { packing, ..of(formats) }).expect("a reader");
        let epoch = Epoch::sweeps(1).read_config(ReadConfig::new(5).truncation_length(3));
        assert_eq!(reader.start_epoch(&epoch).is_ok(), is_accepted, "{packing:?}");
    }
}

/// Replaces a deserializer by another one.
#[derive(Debug)]
struct Replace(usize, Arc<Source>);

impl Adapter for Replace {
    fn deserializer(&self) -> usize {
        self.0
    }

    fn apply(&self, _: AnyDeserializer, _: &Users<'_>, _: &Arc<Corpus>) -> Result<AnyDeserializer> {
        Ok(self.1.known())
    }

    fn reproducible(&self) -> Vec<bool> {
        Vec::new()
    }

    fn equals(&self, _: &dyn Adapter) -> bool {
        false
    }
}

#[test]
fn adapters_change_their_own_deserializer() {
    let other = Arc::new(Source::new(&[&[1; 3]]).of_stream(StreamInfo::dense("c", &[1])));
    let formats = [&in_memory("a", &[&[1; 2]]), &in_memory("b", &[&[1; 2]])];
    for (number, expected) in [(0, ["c", "b"]), (1, ["a", "c"]), (2, ["a", "b"])] {
        let adapters: Vec<Arc<dyn Adapter>> = vec![Arc::new(Replace(number, Arc::clone(&other)))];
        let reader = Reader::open(&ReaderSettings { adapters, ..of(&formats) }).expect("a reader");
        let names: Vec<_> = reader.streams().iter().map(|stream| stream.name.as_str()).collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn opening_can_be_cancelled() {
    let canceller = Canceller::new();
    let others = Extensions { canceller: Some(&canceller), ..Extensions::default() };
    let result: Result<()> = others.run(|| {
        assert!(canceller.cancel());
        Ok(())
    });
    assert!(ended(&result));
    assert_eq!(Extensions::default().run(|| Ok(3)).expect("no error"), 3);
    let mut reader = Reader::open_with(&of(&[&in_memory("a", &[&[1]])]), &others).expect("a reader");
    assert!(reader.canceller.is_some());
    reader.start_epoch(&Epoch::sweeps(1).minibatch_size(1)).expect("an epoch");
}

#[test]
fn opened_deserializers_can_be_composed_by_the_caller() {
    let (pool, corpus) = (Pool::shared().expect("threads"), Arc::new(Corpus::Numeric));
    let settings = of(&[&in_memory("a", &[&[1; 4]])]);
    let (one, members) =
        deserializer(&settings, &Extensions::default(), &corpus, &pool).expect("a deserializer");
    assert_eq!(members.len(), 1);
    let composed = compose(&settings, vec![one], &corpus, &pool).expect("a deserializer");
    let mut reader = Reader::of_opened(composed, &settings, corpus, pool).expect("a reader");
    reader.start_epoch(&Epoch::sweeps(1).minibatch_size(9)).expect("an epoch");
    assert_eq!((rest(&mut reader).as_str(), reader.members().len()), ("0 1 2 3*!", 0));
}
