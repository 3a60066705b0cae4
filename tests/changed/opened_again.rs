//! Speech and images: files that are opened for each chunk or image, and zip files, which stay
//! open.

use super::set_time;
use cntk_reader::{Epoch, Error, Reader};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The modification time of all data when a reader is opened.
const WRITTEN: Duration = Duration::from_nanos(1_700_000_000_100_000_000);

/// A kind of data.
struct Data {
    folder: tempfile::TempDir,
    /// The section of the deserializers.
    config: String,
    /// The files that are changed.
    files: Vec<PathBuf>,
    /// Sequences of a sweep.
    sequences: usize,
    /// Whether files stay open, so that a replaced file is still read.
    stays_open: bool,
}

impl Data {
    fn new(write: impl FnOnce(&mut Data)) -> Data {
        super::common::quiet();
        let folder = tempfile::tempdir().expect("a folder");
        let (config, files) = (String::new(), Vec::new());
        let mut data = Data { folder, config, files, sequences: 0, stays_open: false };
        write(&mut data);
        data
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).expect("writing");
    }

    /// Adds a file that will be changed.
    fn add(&mut self, name: &str, content: impl AsRef<[u8]>) {
        self.write(name, content);
        self.files.push(self.path(name).into());
    }

    /// Reads three sweeps, with `change` after the first one. Returns the number of sequences.
    fn read(&self, change: impl Fn(&Path)) -> Result<usize, Error> {
        for file in &self.files {
            set_time(file, SystemTime::UNIX_EPOCH + WRITTEN);
        }
        let text = format!(
            "randomize = false\nmultithreadedDeserialization = false\ndeserializers = ({})\n",
            self.config
        );
        let mut reader = Reader::builder().config_text(&text)?.open()?;
        let mut count = 0;
        for minibatch in reader.epoch(Epoch::sweeps(3).minibatch_size(1))? {
            count += minibatch?.keys().len();
            if count == self.sequences {
                self.files.iter().for_each(|file| change(file));
            }
        }
        Ok(count)
    }

    /// Changes the files in all ways.
    fn check(&self, what: &str) {
        assert_eq!(self.read(|_| ()).map_err(|error| error.to_string()), Ok(3 * self.sequences), "{what}");
        for (name, change) in CHANGES {
            match self.read(change) {
                Ok(count) => {
                    let is_old = self.stays_open && name == RENAMED;
                    assert!(is_old && count == 3 * self.sequences, "{what}: {name}: {count} sequences");
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains("' was changed while it was in use"), "{what}: {name}: {text}");
                    assert!(text.contains("Open the reader again"), "{what}: {name}: {text}");
                    let is_named = |file: &PathBuf| text.contains(&format!("'{}'", file.display()));
                    assert!(self.files.iter().any(is_named), "{what}: {name}: {text}");
                }
            }
        }
    }
}

const RENAMED: &str = "replaced by renaming";

/// The ways in which a file is changed. Each keeps its size.
type Change = (&'static str, fn(&Path));
const CHANGES: [Change; 4] = [
    ("rewritten in place", rewrite),
    (RENAMED, |path| {
        // Like `cp -p` and `mv`: with the old time.
        let copy = path.with_extension("new");
        fs::copy(path, &copy).expect("a copy");
        set_time(&copy, SystemTime::UNIX_EPOCH + WRITTEN);
        fs::rename(&copy, path).expect("renaming");
    }),
    ("replaced with an older time", |path| {
        rewrite(path);
        set_time(path, SystemTime::UNIX_EPOCH + WRITTEN - Duration::from_secs(3600));
    }),
    ("changed within the second", |path| {
        rewrite(path);
        set_time(path, SystemTime::UNIX_EPOCH + WRITTEN + Duration::from_millis(200));
    }),
];

fn rewrite(path: &Path) {
    let content = fs::read(path).expect("reading");
    fs::write(path, content).expect("writing");
}

/// Returns an HTK file with frames of one value each.
fn htk(frames: u32) -> Vec<u8> {
    let header = [frames, 100_000, 4 << 16 | 9].into_iter().flat_map(u32::to_be_bytes);
    header.chain((0..frames).flat_map(|frame| (frame as f32).to_be_bytes())).collect()
}

/// Frames of an utterance: a chunk has enough utterances to reach 90,000 frames.
const FRAMES: u32 = 50_000;
const UTTERANCES: u32 = 8;

fn features(data: &Data) -> String {
    let script = data.path("x.scp");
    format!(
        "[ type = \"HTKFeatureDeserializer\" ; module = \"HTKDeserializers\"\n\
         input = [ x = [ scpFile = \"{script}\" ; dim = 1 ] ] ]"
    )
}

#[test]
fn htk_archives() {
    let data = Data::new(|data| {
        data.add("a.mfc", htk(FRAMES * UTTERANCES));
        let line = |number| {
            let (path, first) = (data.path("a.mfc"), number * FRAMES);
            format!("u{number}.mfc={path}[{first},{}]\n", first + FRAMES - 1)
        };
        data.write("x.scp", (0..UTTERANCES).map(line).collect::<String>());
        (data.config, data.sequences) = (features(data), UTTERANCES as usize);
    });
    data.check("an archive");
}

#[test]
fn htk_files() {
    let data = Data::new(|data| {
        let mut script = String::new();
        for number in 0..UTTERANCES {
            data.add(&format!("u{number}.mfc"), htk(FRAMES));
            let path = data.path(&format!("u{number}.mfc"));
            writeln!(script, "u{number}.mfc={path}[0,{}]", FRAMES - 1).expect("text");
        }
        data.write("x.scp", script);
        (data.config, data.sequences) = (features(data), UTTERANCES as usize);
    });
    data.check("files of an utterance");
}

#[test]
fn lattices() {
    let data = Data::new(|data| {
        data.write("a.mfc", htk(FRAMES * UTTERANCES));
        data.add("lattices.bin", [7; 40 * UTTERANCES as usize]);
        data.write("index.txt", format!("{}\n", data.path("contents.txt")));
        let (mut script, mut contents) = (String::new(), String::new());
        for number in 0..UTTERANCES {
            let (path, first) = (data.path("a.mfc"), number * FRAMES);
            writeln!(script, "u{number}.mfc={path}[{first},{}]", first + FRAMES - 1).expect("text");
            let path = if number == 0 { data.path("lattices.bin") } else { String::new() };
            writeln!(contents, "u{number}={path}[{}]", number * 40).expect("text");
        }
        data.write("x.scp", script);
        data.write("contents.txt", contents);
        let lattices = format!(
            "[ type = \"LatticeDeserializer\" ; module = \"HTKDeserializers\" ; chunkSizeInBytes = 80\n\
             input = [ lattices = [ latticeIndexFile = \"{}\" ] ] ]",
            data.path("index.txt")
        );
        data.config = format!("{} :\n{lattices}", features(data));
        data.sequences = UTTERANCES as usize;
    });
    data.check("lattices");
}

#[test]
fn kaldi_files() {
    // More files than are kept open.
    const FILES: usize = 300;
    let data = Data::new(|data| {
        let matrix = |rows: u32| {
            let size = [4, rows as u8, (rows >> 8) as u8, 0, 0, 4, 1, 0, 0, 0];
            [b"\0BFM ".as_slice(), &size, &vec![0; 4 * rows as usize]].concat()
        };
        let mut script = String::new();
        for number in 0..FILES {
            data.add(&format!("{number}.ark"), matrix(1000));
            writeln!(script, "u{number} {}", data.path(&format!("{number}.ark"))).expect("text");
        }
        data.write("x.scp", script);
        let script = data.path("x.scp");
        data.config = format!(
            "[ type = \"KaldiDeserializer\" ; input = [ x = [ scpFile = \"{script}\" ; dim = 1 ] ] ]"
        );
        data.sequences = FILES;
    });
    data.check("files of Kaldi");
}

/// Recorded images.
const IMAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/images/files");

/// Images of a map, more than are read ahead.
const LINES: usize = 100;

fn images(data: &Data) -> String {
    format!(
        "[ type = \"ImageDeserializer\" ; module = \"ImageReader\" ; file = \"{}\"\ninput = [ labels = [ labelDim = 2 ]\n\
         features = [ transforms = ([ type = \"Scale\" ; width = 4 ; height = 4 ; channels = 3 ]:[ type = \"Transpose\" ]) ] ] ]",
        data.path("map.txt")
    )
}

#[test]
fn image_files() {
    let data = Data::new(|data| {
        let image = fs::read(format!("{IMAGES}/images/s420.jpg")).expect("an image");
        let mut map = String::new();
        for number in 0..LINES {
            data.add(&format!("{number}.jpg"), &image);
            writeln!(map, "{}\t1", data.path(&format!("{number}.jpg"))).expect("text");
        }
        data.write("map.txt", map);
        (data.config, data.sequences) = (images(data), LINES);
    });
    data.check("image files");
}

#[cfg(feature = "images")]
#[test]
fn zip_files() {
    let data = Data::new(|data| {
        data.add("c.zip", fs::read(format!("{IMAGES}/c.zip")).expect("a zip file"));
        data.write("map.txt", format!("{}@/s420.jpg\t1\n", data.path("c.zip")).repeat(LINES));
        (data.config, data.sequences, data.stays_open) = (images(data), LINES, true);
    });
    data.check("zip files");
}
