//! Files that change while a reader uses them, or whose index cache belongs to other data: an error
//! says so, and data of other sequences are never delivered.

use crate::common;
#[path = "../changed/opened_again.rs"]
mod opened_again;

use cntk_reader::{Epoch, Error, Reader};
use cntk_reader_core::stream::ElementType;
use cntk_reader_tools::convert::{TextToBinary, parse_streams, text_to_binary};
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime};

/// Sequences of the data. Each is a line of [`LINE`] bytes.
const SEQUENCES: usize = 20_000;
const LINE: usize = 16;

/// Longer than the timestamp resolution of any file system.
const TICK: Duration = Duration::from_millis(30);

/// Returns lines `id |x value`; both are numbers of five digits, and the value of `id` is `id +
/// shift`.
fn text(first: usize, shift: usize) -> String {
    let text: String =
        (first..first + SEQUENCES).map(|id| format!("{id:05} |x {:05}\r\n", id + shift)).collect();
    assert_eq!(text.len(), SEQUENCES * LINE);
    text
}

struct Data {
    folder: tempfile::TempDir,
    is_binary: bool,
}

impl Data {
    fn new(is_binary: bool) -> Data {
        common::quiet();
        Data { folder: tempfile::tempdir().expect("a folder"), is_binary }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes data to a file, keeping the inode of an existing file.
    fn write(&self, name: &str, text: &str) {
        fs::write(self.path("text"), text).expect("writing");
        if self.is_binary {
            let options = TextToBinary {
                input: self.path("text").display().to_string(),
                output: self.path("binary").display().to_string(),
                streams: parse_streams("x x dense 1").expect("streams"),
                chunk_size: 4096,
                element: ElementType::Float,
                ctf2bin_compatible: false,
            };
            text_to_binary(&options, &mut |_| ControlFlow::Continue(())).expect("a conversion");
            fs::write(self.path(name), fs::read(self.path("binary")).expect("reading")).expect("writing");
        } else {
            fs::write(self.path(name), text).expect("writing");
        }
    }

    /// Opens a reader that holds few chunks in memory.
    fn open(&self, more: &str) -> Result<Reader, Error> {
        let (kind, module) = match self.is_binary {
            true => ("CNTKBinaryFormatDeserializer", "CNTKBinaryReader"),
            false => ("CNTKTextFormatDeserializer", "CNTKTextFormatReader"),
        };
        let input = if self.is_binary { "" } else { "input = [ x = [ dim = 1 ; format = \"dense\" ] ]" };
        let text = format!(
            "randomize = false\ndeserializers = ([ type = \"{kind}\" ; module = \"{module}\" ; file = \"{}\" ; chunkSizeInBytes = 4096\n\
             {more}\n{input} ])",
            self.path("data").display()
        );
        Reader::builder().config_text(&text)?.open()
    }
}

/// Reads an epoch, with `between` after the first minibatch. Returns the keys and values, or the
/// error.
fn read(mut reader: Reader, between: impl FnOnce()) -> Result<Vec<(u64, f32)>, Error> {
    let mut between = Some(between);
    let mut found = Vec::new();
    for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(10))? {
        let minibatch = minibatch?;
        let values = minibatch.stream("x")?.dense::<f32>()?.to_vec();
        found.extend(minibatch.keys().iter().copied().zip(values));
        if let Some(between) = between.take() {
            between();
        }
    }
    Ok(found)
}

fn expect_changed(error: &Error, path: &Path) {
    assert!(error.message().ends_with("' was changed while it was in use."), "{error}");
    assert_eq!(error.location().file.as_deref(), path.to_str());
    assert!(error.detail().contains("Open the reader again"), "{error}");
}

#[test]
fn file_written_while_read_is_an_error() {
    for is_binary in [false, true] {
        let data = Data::new(is_binary);
        data.write("data", &text(0, 7));
        let reader = data.open("").expect("a reader");
        sleep(TICK);
        let error = read(reader, || data.write("data", &text(40_000, 9)))
            .map(|found| found.len())
            .expect_err("other data");
        expect_changed(&error, &data.path("data"));
        // Make it shorter, or longer.
        for sequences in [SEQUENCES / 2, 2 * SEQUENCES] {
            data.write("data", &text(0, 7));
            let reader = data.open("").expect("a reader");
            let length = (sequences * LINE) as u64;
            let resize =
                || File::options().write(true).open(data.path("data")).and_then(|file| file.set_len(length));
            let error = read(reader, || resize().expect("resizing"))
                .map(|found| found.len())
                .expect_err("other data");
            expect_changed(&error, &data.path("data"));
        }
    }
}

#[test]
fn file_replaced_by_renaming_is_read_to_its_end() {
    for is_binary in [false, true] {
        let data = Data::new(is_binary);
        data.write("data", &text(0, 7));
        data.write("new", &text(40_000, 9));
        let reader = data.open("").expect("a reader");
        let rename = || fs::rename(data.path("new"), data.path("data")).expect("renaming");
        let found = read(reader, rename).expect("the old data");
        assert_eq!(found.len(), SEQUENCES);
        for (ordinal, (key, value)) in found.into_iter().enumerate() {
            assert_eq!(value, (ordinal + 7) as f32);
            assert!(is_binary || key == ordinal as u64);
        }
    }
}

/// Returns the cache beside the data.
fn cache(data: &Data) -> PathBuf {
    let entries = fs::read_dir(data.folder.path()).expect("the folder");
    let mut paths = entries.map(|entry| entry.expect("an entry").path());
    paths.find(|path| path.extension().is_some_and(|extension| extension == "cache")).expect("a cache")
}

fn set_time(path: &Path, time: SystemTime) {
    File::options()
        .write(true)
        .open(path)
        .and_then(|file| file.set_modified(time))
        .expect("setting the time");
}

/// Replaces the data, except for the first and the last sequences, with an older time, as `cp -p`
/// does.
fn replace_inside(data: &Data) {
    let mut lines: Vec<String> = text(0, 7).split_inclusive('\n').map(str::to_owned).collect();
    lines[100..SEQUENCES - 100].reverse();
    data.write("data", &lines.concat());
    set_time(&data.path("data"), SystemTime::now() - Duration::from_secs(3600));
}

fn check(found: &[(u64, f32)]) {
    assert_eq!(found.len(), SEQUENCES);
    assert!(found.iter().all(|&(key, value)| value == (key + 7) as f32));
}

#[test]
fn cache_of_data_replaced_by_older_data_is_not_used() {
    let data = Data::new(false);
    data.write("data", &text(0, 7));
    let open = || data.open("cacheIndex = true").expect("a reader");
    check(&read(open(), || ()).expect("the data"));
    let cache = cache(&data);
    let before = fs::read(&cache).expect("the cache");
    replace_inside(&data);
    let found = read(open(), || ()).expect("the new data");
    check(&found);
    assert_eq!(found[100].0, (SEQUENCES - 101) as u64);
    assert_ne!(fs::read(&cache).expect("the cache"), before, "the cache was not written anew");
}

#[test]
fn cache_of_cntk_is_checked_against_the_ids() {
    let data = Data::new(false);
    data.write("data", &text(0, 7));
    let open = || data.open("cacheIndex = true").expect("a reader");
    open();
    // CNTK's caches end with the last sequence.
    let cache = cache(&data);
    let bytes = fs::read(&cache).expect("the cache");
    assert_eq!(bytes.len(), 32 * (SEQUENCES + 2));
    fs::write(&cache, &bytes[..32 * (SEQUENCES + 1)]).expect("writing");
    check(&read(open(), || ()).expect("the data"));
    replace_inside(&data);
    let error = match data.open("cacheIndex = true").and_then(|reader| read(reader, || ())) {
        Err(error) => error,
        // The few places checked when the reader is opened may suffice.
        Ok(found) => return check(&found),
    };
    assert!(error.message().starts_with("The index cache"), "{error}");
    assert!(error.detail().contains("delete the cache"), "{error}");
}

#[test]
fn times_truncated_to_seconds_are_equal() {
    let data = Data::new(false);
    data.write("data", &text(0, 7));
    let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789);
    set_time(&data.path("data"), time);
    data.open("cacheIndex = true").expect("a reader");
    let cache = cache(&data);
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).expect("a file"));
    let before = inode(&cache);
    set_time(&data.path("data"), SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    data.open("cacheIndex = true").expect("a reader");
    assert_eq!(inode(&cache), before, "the cache was written anew");
    set_time(&data.path("data"), SystemTime::UNIX_EPOCH + Duration::from_secs(1_699_999_999));
    data.open("cacheIndex = true").expect("a reader");
    assert_ne!(inode(&cache), before, "the cache of other data was used");
}
