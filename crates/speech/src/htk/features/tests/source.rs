//! The deserializer as a source of chunks, and its options as a format.

use super::*;
use crate::htk::{frames_of, logged, values_of_frames};
use cntk_reader_core::file::{Confinement, DataFile};
use cntk_reader_core::format::options::{Context, Format, Signature};
use cntk_reader_core::format::recognize::FileFormat;
use cntk_reader_core::format::{AnyDeserializer, SourceFacts, content::Sampler};
use cntk_reader_core::option::release::Release;
use cntk_reader_core::runtime::pool::Pool;

#[cfg(unix)] // It compares paths or messages of the system.
#[test]
fn options_as_a_format() {
    let mut options = HtkFeatureOptions { frame_mode: true, ..options("feat.scp") };
    assert_eq!(
        (options.type_name(), options.name()),
        ("HTKFeatureDeserializer", &*format!("{DATA}/feat.scp"))
    );
    let facts = options.facts();
    assert_eq!((facts.signature, facts.frame_mode), (Signature::Is(FileFormat::HtkFeatures), true));
    let confined = Confinement::to(vec!["/a".to_owned()]);
    options.confine(&confined);
    options.follow(Release::Beta);
    assert_eq!((&options.confinement, options.quirks), (&confined, Release::Beta.quirks()));
    assert!(options.scan_ahead().is_none());
    let none = HtkFeatureOptions { scp_files: Vec::new(), ..options };
    assert_eq!((none.name(), none.scp_files.len()), ("", 0));
}

#[test]
fn options_open_the_files() {
    let (corpus, pool) = (Arc::new(Corpus::symbolic()), Pool::shared().expect("a pool"));
    let feat = options("feat.scp");
    let opened = feat.open(Context::alone(&corpus, &pool, true)).expect("it opens");
    assert!(opened.ahead.is_none());
    let AnyDeserializer::Known(opened) = opened.deserializer else { panic!("another kind") };
    assert_eq!(opened.chunks().iter().map(|chunk| chunk.sequences).sum::<u32>(), 5);
    assert!(opened.incremental().is_none());
    let expanded = HtkFeatureOptions { expand: true, dim: 2, ..options("ivec.scp") };
    assert!(expanded.open(Context::alone(&corpus, &pool, false)).is_ok());
    let error = expanded.open(Context::alone(&corpus, &pool, true)).err().expect("the primary stream");
    assert!(error.message().starts_with("Cannot expand utterances of the primary stream"), "{error}");
}

#[cfg(unix)] // It compares paths or messages of the system.
#[test]
fn places_keys_and_streams_of_utterances() {
    let opened = open(&HtkFeatureOptions { defines_mb_size: true, ..options("feat.scp") }).expect("it opens");
    let [stream] = opened.streams() else { panic!("one stream") };
    assert_eq!((stream.name.as_str(), stream.defines_mb_size), ("features", true));
    assert!(!open(&options("feat.scp")).expect("it opens").streams()[0].defines_mb_size);
    let id = |index| SequenceId { chunk: 0, index };
    let mut keys = vec![9];
    opened.reported_keys(&[id(2), id(0)], true, &mut keys);
    assert_eq!(keys, [9, 2, 0]);
    let place = opened.diagnostics().location(id(3), 0);
    assert_eq!((place.file.as_deref(), place.line), (Some(&*format!("{DATA}/feat.scp")), Some(4)));
    assert_eq!(ChunkSource::facts(&opened), SourceFacts::ON_POOL);
    assert_eq!((opened.file_bytes(), opened.prepare_to_find().is_ok()), (None, true));
}

#[test]
fn samples_of_content_tell_files_apart() {
    let (_folder, path) = folder();
    let sampled = |bytes: &[u8], range: &str| {
        let archive = write(&path, "a.mfc", bytes);
        let script = write(&path, "a.scp", format!("u1={archive}{range}\n"));
        let mut sampler = Sampler::new();
        open(&options(&script)).expect("it opens").sample_content(None, &mut sampler).expect("samples");
        sampler.finish()
    };
    let bytes = feature_file(5, 3);
    let mut other = bytes.clone();
    *other.last_mut().expect("a byte") ^= 1;
    assert_ne!(sampled(&bytes, "[0,4]"), sampled(&other, "[0,4]"));
    assert_ne!(sampled(&bytes, "[0,4]"), sampled(&bytes, "[0,3]"));
    assert_eq!(sampled(&bytes, "[0,3]"), sampled(&other, "[0,3]"));
    assert_ne!(sampled(&bytes, "[0,3]"), sampled(&bytes, "[1,4]"));
}

#[test]
fn numbers_of_frames_and_values() {
    assert_eq!(values_of_frames(&format!("{DATA}/feat.scp")).expect("a file"), 3);
    assert_eq!(values_of_frames(&format!("{DATA}/ivec.scp")).expect("a file"), 2);
    assert!(values_of_frames(&format!("{DATA}/no.scp")).is_err());
    let frames = |name: &str| frames_of(&DataFile::open(&format!("{DATA}/{name}")).expect("a file"));
    assert_eq!(frames("arch.mfc").expect("a header"), 31);
    let (_folder, path) = folder();
    let negative = write(&path, "a.mfc", [&[255; 4], &feature_file(1, 3)[4..]].concat());
    assert_eq!(frames_of(&DataFile::open(&negative).expect("a file")).expect("a header"), 0);
}

#[test]
fn log_lines_at_each_verbosity() {
    logged::start();
    let (_folder, path) = folder();
    // Numbers of values that no other test has.
    for (verbosity, dim) in [(0, 1237), (1, 1239), (2, 1241)] {
        let archive = write(&path, &format!("{dim}.mfc"), feature_file(4, dim));
        let script = write(&path, "a.scp", format!("u1={archive}[0,3]\n"));
        let of_dim = HtkFeatureOptions { dim: dim.into(), verbosity, ..options(&script) };
        let opened = open(&of_dim).expect("it opens");
        drop(opened.load(0).expect("it loads"));
        let facts = format!(
            "Info: HTKDeserializer: determined feature kind as '{dim}'-dimensional 'USER' with frame shift 10.0 ms"
        );
        assert_eq!(logged::about(&format!("'{dim}'-dimensional")), [facts]);
        let size = format!("(1 utterances, 4 frames, {} bytes)", 16 * u32::from(dim));
        let chunk = |what| format!("Info: HTKChunkInfo::{what} physical chunk 0 {size}");
        let both = [chunk("RequireData: read"), chunk("ReleaseData: release")];
        assert_eq!(logged::about(&size), both[..if verbosity > 0 { 2 } else { 0 }]);
        let opening = format!("Info: HTKChunkInfo::RequireData: Reading features from path: '{archive}'");
        let opened = logged::about(&format!("Reading features from path: '{archive}'"));
        assert_eq!(opened, vec![opening; if verbosity > 1 { 2 } else { 0 }]);
    }
}
