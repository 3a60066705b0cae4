//! Tests of the index cache: its bytes, when it is used, and that no cache causes harm.

use super::*;
use std::fs;
use std::time::{Duration, SystemTime};

/// A copy of a label file in a separate folder.
struct Copy {
    _folder: tempfile::TempDir,
    path: String,
    cache: String,
}

impl Copy {
    fn of(name: &str) -> Copy {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name).to_str().expect("a path").to_owned();
        fs::copy(data(name), &path).expect("copying");
        Copy { _folder: folder, cache: format!("{path}.0.1.v1.cache"), path }
    }

    fn options(&self) -> MlfOptions {
        MlfOptions { files: vec![self.path.clone()], cache_index: true, ..options(&[]) }
    }

    /// Reads the labels of u1 to u5 with hashed keys.
    fn read(&self) -> Vec<Option<usize>> {
        self.try_read().expect("labels")
    }

    fn try_read(&self) -> Result<Vec<Option<usize>>> {
        let corpus = Arc::new(Corpus::Hashed);
        let labels = open(&self.options(), &corpus)?;
        let pool = Pool::shared().expect("a pool");
        let mut found = Vec::new();
        for key in ["u1", "u2", "u3", "u4", "u5"] {
            let key = corpus.number_of(key.as_bytes()).expect("memory").expect("a hash");
            let Some(id) = labels.find(key) else {
                found.push(None);
                continue;
            };
            let chunk = pool.install(|| labels.load(id.chunk))?;
            let length = match chunk.sequence(0, id.index) {
                Loaded::Data(view) => view.samples as usize,
                _ => 0,
            };
            found.push(Some(length));
        }
        Ok(found)
    }

    /// Sets the modification time, in seconds from now.
    fn touch(&self, path: &str, seconds: i64) {
        let now = SystemTime::now();
        let change = Duration::from_secs(seconds.unsigned_abs());
        let time = if seconds < 0 { now - change } else { now + change };
        fs::File::options().write(true).open(path).expect("the file").set_modified(time).expect("a time");
    }
}

const LENGTHS: [Option<usize>; 5] = [Some(7), Some(5), Some(9), Some(4), Some(6)];

fn word(bytes: &[u8], number: usize) -> u64 {
    u64::from_le_bytes(bytes[8 * number..][..8].try_into().expect("8 bytes"))
}

#[test]
fn caches_match_cntk_byte_for_byte() {
    let copy = Copy::of("lab.mlf");
    assert_eq!(copy.read(), LENGTHS);
    let bytes = fs::read(&copy.cache).expect("a cache");
    // CNTK reads the header and five records. The last record is an extension with the state of the
    // data.
    assert_eq!(bytes.len(), 32 * 7);
    let data = fs::metadata(&copy.path).expect("the file");
    assert_eq!(&bytes[32 * 6..][..8], b"dataFile");
    assert_eq!(word(&bytes, 25), data.len());
    assert_eq!([0, 1, 2, 3].map(|number| word(&bytes, number)), [0x636e_746b_5f69_6478, 1, 5, 32]);
    assert_eq!([4, 5, 6, 7].map(|number| word(&bytes, number)), [0x59_6fe1, 7, 8, 69]);
    assert_eq!([8, 9, 10, 11].map(|number| word(&bytes, number)), [0x59_6fe2, 5, 77, 47]);
    // No other files are left in the folder.
    let folder = std::path::Path::new(&copy.path).parent().expect("a folder");
    assert_eq!(fs::read_dir(folder).expect("a folder").count(), 2);
}

#[test]
fn caches_are_written_and_used_only_with_hashed_keys() {
    let copy = Copy::of("lab.mlf");
    for corpus in [Corpus::symbolic(), Corpus::Host(Box::new(|text| Some(text.len() as u64)))] {
        open(&copy.options(), &Arc::new(corpus)).expect("labels");
        assert!(!fs::exists(&copy.cache).expect("an answer"));
    }
    let options = MlfOptions { cache_index: false, ..copy.options() };
    open(&options, &Arc::new(Corpus::Hashed)).expect("labels");
    assert!(!fs::exists(&copy.cache).expect("an answer"));
}

/// Shortens the second utterance and keeps the size of the file.
fn change_data(copy: &Copy) {
    let text =
        fs::read_to_string(&copy.path).expect("text").replace("300000 500000 aa_s2", "300000 400000 aa_s2");
    fs::write(&copy.path, text).expect("writing");
}

#[test]
fn caches_are_used_unless_they_are_older_than_the_data() {
    let copy = Copy::of("lab.mlf");
    assert_eq!(copy.read(), LENGTHS);
    let fresh = fs::read(&copy.cache).expect("a cache");
    copy.touch(&copy.cache, 10);
    assert_eq!(copy.read(), LENGTHS);
    assert_eq!(fs::read(&copy.cache).expect("a cache"), fresh);
    change_data(&copy);
    copy.touch(&copy.cache, -10);
    assert_eq!(copy.read(), [Some(7), Some(4), Some(9), Some(4), Some(6)]);
    assert_ne!(fs::read(&copy.cache).expect("a cache"), fresh);
}

#[test]
fn caches_must_match_the_recorded_state_of_the_data() {
    let copy = Copy::of("lab.mlf");
    copy.read();
    let fresh = fs::read(&copy.cache).expect("a cache");
    // Different data with an older time, as `cp -p` would create.
    change_data(&copy);
    copy.touch(&copy.path, -10);
    assert_eq!(copy.read(), [Some(7), Some(4), Some(9), Some(4), Some(6)]);
    assert_ne!(fs::read(&copy.cache).expect("a cache"), fresh);
    // CNTK's caches do not record the state of their data, and are used if they match.
    let bytes = fs::read(&copy.cache).expect("a cache");
    fs::write(&copy.cache, &bytes[..32 * 6]).expect("writing");
    copy.touch(&copy.path, -20);
    assert_eq!(copy.read(), [Some(7), Some(4), Some(9), Some(4), Some(6)]);
    assert_eq!(fs::read(&copy.cache).expect("a cache"), bytes[..32 * 6]);
}

#[test]
fn caches_that_do_not_fit_are_replaced() {
    let copy = Copy::of("lab.mlf");
    copy.read();
    let fresh = fs::read(&copy.cache).expect("a cache");
    type Change = (&'static str, fn(&mut Vec<u8>));
    let changes: [Change; 11] = [
        ("no bytes", |bytes| bytes.clear()),
        ("half a header", |bytes| bytes.truncate(20)),
        ("magic", |bytes| bytes[0] ^= 1),
        ("version", |bytes| bytes[8] = 77),
        ("one utterance less", |bytes| bytes[16] = 4),
        ("one more", |bytes| bytes[16] = 6),
        ("too many", |bytes| bytes[23] = 255),
        ("another key", |bytes| bytes[32] ^= 1),
        ("an offset past the end", |bytes| bytes[64 + 16 + 6] = 1),
        ("a size past the end", |bytes| bytes[160 + 24 + 3] = 255),
        ("no frames", |bytes| bytes[96 + 8] = 0),
    ];
    for (name, change) in changes {
        let mut bytes = fresh.clone();
        change(&mut bytes);
        fs::write(&copy.cache, &bytes).expect("writing");
        assert_eq!(copy.read(), LENGTHS, "{name}");
        assert_eq!(fs::read(&copy.cache).expect("a cache"), fresh, "{name}");
    }
    fs::remove_file(&copy.cache).expect("removing");
    fs::create_dir(&copy.cache).expect("a folder");
    assert_eq!(copy.read(), LENGTHS);
}

#[test]
fn changed_bytes_cause_no_harm() {
    let copy = Copy::of("m_hdrmid.mlf");
    copy.read();
    let fresh = fs::read(&copy.cache).expect("a cache");
    for at in 0..fresh.len() {
        for value in [0, 1, 127, 255] {
            let mut bytes = fresh.clone();
            bytes[at] = value;
            fs::write(&copy.cache, &bytes).expect("writing");
            assert_eq!(copy.try_read().expect("labels"), LENGTHS, "byte {at} is {value}");
        }
    }
}

#[test]
fn caches_omit_utterances_that_the_index_skips() {
    for (name, second) in [("m_noquote.mlf", None), ("m_empty.mlf", None), ("m_blank.mlf", Some(5))] {
        let copy = Copy::of(name);
        let expected = [Some(7), second, Some(9), Some(4), Some(6)];
        assert_eq!(copy.read(), expected, "{name}");
        let fresh = fs::read(&copy.cache).expect("a cache");
        copy.touch(&copy.cache, 100);
        let written = fs::metadata(&copy.cache).and_then(|state| state.modified()).expect("a time");
        assert_eq!(copy.read(), expected, "{name}");
        let used = fs::metadata(&copy.cache).and_then(|state| state.modified()).expect("a time");
        assert_eq!((written, fresh), (used, fs::read(&copy.cache).expect("a cache")), "{name}");
    }
}
