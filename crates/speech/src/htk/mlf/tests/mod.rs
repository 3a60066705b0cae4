//! Tests of whole files with the deserializer.

mod cache;
mod differential;
mod grammar;
mod logs;
mod recorded;
mod source;
mod utterances;

use super::*;
use cntk_reader_core::format::Loaded;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::ValueForm;
use cntk_reader_core::stream::ElementType;

pub fn data(name: &str) -> String {
    format!("{}/../../tests/htk/data/{name}", env!("CARGO_MANIFEST_DIR"))
}

pub fn options(files: &[&str]) -> MlfOptions {
    MlfOptions {
        front_end: FrontEnd::default(),
        stream: "labels".into(),
        files: files.iter().map(|&name| data(name)).collect(),
        state_list: Some(data("state.list")),
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
        list: None,
    }
}

/// Creates a corpus with the keys of the features.
pub fn corpus() -> Arc<Corpus> {
    let corpus = Corpus::symbolic();
    ["u1", "u2", "u3", "u4", "u5"]
        .iter()
        .for_each(|key| _ = corpus.number_of(key.as_bytes()).expect("memory"));
    Arc::new(corpus)
}

pub fn open(options: &MlfOptions, corpus: &Arc<Corpus>) -> Result<MlfDeserializer> {
    let pool = Pool::shared().expect("a pool");
    pool.install(|| MlfDeserializer::open(options, corpus, false, None))
}

/// A key, and the class and value of each frame, or `None` for an invalid utterance.
pub type Found = (String, Option<Vec<(u16, u8)>>);

/// Reads the labels of all utterances of the corpus, `None` for invalid ones. Utterances missing in
/// the file are omitted.
pub fn read(options: &MlfOptions) -> Result<Vec<Found>> {
    let corpus = corpus();
    let labels = open(options, &corpus)?;
    let pool = Pool::shared().expect("a pool");
    let mut found = Vec::new();
    for key in 0..5 {
        let Some(id) = labels.find(key) else { continue };
        let mut keys = Vec::new();
        labels.keys(&[id], &mut keys);
        assert_eq!(keys, [key]);
        let chunk = pool.install(|| labels.load(id.chunk))?;
        let sequence = match chunk.sequence(0, id.index) {
            Loaded::Data(view) => Some(entries(&view)),
            Loaded::Invalid => match chunk.failure(0, id.index) {
                Some(error) => return Err(error),
                None => None,
            },
            Loaded::Skipped => panic!("skipped"),
        };
        if let Some(sequence) = &sequence {
            assert_eq!(sequence.len(), labels.lengths(id.chunk).get(id.index) as usize);
        }
        found.push((corpus.text_of(key), sequence));
    }
    Ok(found)
}

/// Like [`read`], for a text in place of a file.
pub fn read_text(text: impl AsRef<[u8]>, change: impl FnOnce(&mut MlfOptions)) -> Result<String> {
    let file = written(text.as_ref());
    let mut options = MlfOptions { files: vec![path_of(&file)], ..options(&[]) };
    change(&mut options);
    read(&options).map(|found| shown(&found))
}

pub fn written(text: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    std::io::Write::write_all(&mut file, text).expect("writing");
    file
}

pub fn path_of(file: &tempfile::NamedTempFile) -> String {
    file.path().to_str().expect("a path").to_owned()
}

fn entries(view: &cntk_reader_core::sequence::SequenceView<'_>) -> Vec<(u16, u8)> {
    let sparse = view.sparse().expect("sparse");
    assert!(sparse.single && sparse.narrow);
    assert_eq!(sparse.offsets.len(), view.samples as usize + 1);
    let classes = sparse.indices.as_chunks().0.iter().map(|bytes| u16::from_ne_bytes(*bytes));
    match view.form {
        ValueForm::Ones => classes.map(|class| (class, 1)).collect(),
        ValueForm::Byte => classes.zip(view.values.iter().copied()).collect(),
        form => panic!("{form:?}"),
    }
}

/// Formats labels as `u1=[0 0 0 1] u2=invalid`, with the value of a label if it is not 1.
pub fn shown(found: &[Found]) -> String {
    let show = |(class, value): &(u16, u8)| match value {
        1 => class.to_string(),
        value => format!("{class}:{value}"),
    };
    let show = |(key, labels): &Found| match labels {
        None => format!("{key}=invalid"),
        Some(labels) => format!("{key}=[{}]", labels.iter().map(show).collect::<Vec<_>>().join(" ")),
    };
    found.iter().map(show).collect::<Vec<_>>().join(" ")
}
