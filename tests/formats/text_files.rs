//! Text files as written by editors on all systems, with a byte order mark and all kinds of line
//! ends, yield the same data.

use crate::common;

use cntk_reader::{Builder, Epoch, Error, ReadConfig, Reader};
use std::fs;

/// Text files of all kinds, each written by `write`.
struct Files {
    folder: tempfile::TempDir,
    write: fn(&str) -> Vec<u8>,
}

impl Files {
    fn new(write: fn(&str) -> Vec<u8>) -> Files {
        common::quiet();
        let files = Files { folder: tempfile::tempdir().expect("a folder"), write };
        let header = [4u32, 100_000, 4 << 16 | 9].into_iter().flat_map(u32::to_be_bytes);
        let values = (0..4u8).flat_map(|value| f32::from(value).to_be_bytes());
        fs::write(files.path("a.mfc"), header.chain(values).collect::<Vec<u8>>()).expect("writing");
        let matrix = |value: f32| {
            let values = [value; 2].into_iter().flat_map(f32::to_le_bytes);
            [b"\0BFM \x04\x02\0\0\0\x04\x01\0\0\0".to_vec(), values.collect()].concat()
        };
        fs::write(files.path("a.ark"), [matrix(1.0), matrix(2.0)].concat()).expect("writing");
        fs::write(files.path("a.lat"), [7; 64]).expect("writing");
        for (name, pixel) in [("a.ppm", "1 2 3"), ("b.ppm", "4 5 6")] {
            fs::write(files.path(name), format!("P3\n1 1\n255\n{pixel}\n")).expect("writing");
        }
        files
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Writes a text file in which `~` stands for the folder, and returns its path.
    fn text(&self, name: &str, text: &str) -> String {
        let text = text.replace('~', &self.folder.path().display().to_string());
        fs::write(self.path(name), (self.write)(&text)).expect("writing");
        self.path(name)
    }

    fn read(&self, deserializers: &str) -> Result<String, Error> {
        let text = format!("traceLevel=0\nrandomize=false\ndeserializers=({deserializers})\n");
        read(Reader::builder().config_text(&text)?)
    }

    /// Returns the data of all files, by deserializer.
    fn all(&self) -> Vec<(&'static str, String)> {
        let scp = self.text("a.scp", "u0.mfc=~/a.mfc[0,1]\nu1.mfc=~/a.mfc[2,3]\n");
        let htk = |scp: &str| {
            format!(
                "[type=HTKFeatureDeserializer;module=HTKDeserializers;input=[x=[scpFile=\"{scp}\";dim=1]]]"
            )
        };
        let states = self.text("states", "s0\ns1\n");
        self.text("a.mlf", "#!MLF!#\n\"u0.lab\"\n0 200000 s1\n.\n\"u1.lab\"\n0 200000 s0\n.\n");
        let list = self.text("mlfs", "~/a.mlf\n");
        let labels = format!(
            "[type=HTKMLFDeserializer;module=HTKDeserializers;input=[y=[mlfFileList=\"{list}\";labelMappingFile=\"{states}\";dim=2]]]"
        );
        self.text("toc", "u0=~/a.lat[0]\nu1=[32]\n");
        let tocs = self.text("tocs", "~/toc\n");
        let lattices = format!(
            "[type=LatticeDeserializer;module=HTKDeserializers;input=[z=[latticeIndexFile=\"{tocs}\"]]]"
        );
        let kaldi = self.text("k.scp", "u0 ~/a.ark:0\nu1 ~/a.ark:23\n");
        let archive = self.text("t.ark", "u0 [ 1 2\n 3 4 ]\nu1 [ 5 6 ]\n");
        let integers = self.text("i.ark", "u0 1 0\nu1 1\n");
        let map = self.text("map", "~/a.ppm\t1\n~/b.ppm\t0\n");
        let mean = self.text(
            "mean",
            "<?xml version=\"1.0\"?>\n<opencv_storage>\n<Channel>3</Channel>\n<Row>1</Row>\n<Col>1</Col>\n<MeanImg \
             type_id=\"opencv-matrix\">\n<rows>1</rows>\n<cols>3</cols>\n<dt>f</dt>\n<data>\n1. 1. 1.</data></MeanImg>\n</opencv_storage>\n",
        );
        let images = format!(
            "[type=ImageDeserializer;module=ImageReader;file=\"{map}\";input=[f=[transforms=([type=Mean;meanFile=\"{mean}\"]:[\
             type=Transpose])];l=[labelDim=2]]]"
        );
        // CNTK requires that a line of Base64 ends with LF.
        let base64 = self.text("b64", "1\tUDMKMSAxCjI1NQoxIDIgMwo=\n0\tUDMKMSAxCjI1NQo0IDUgNgo=\n");
        let base64 = format!(
            "[type=Base64ImageDeserializer;module=ImageReader;file=\"{base64}\";input=[f=[transforms=([type=Transpose])];l=[labelDim=2]]]"
        );
        let features = htk(&scp);
        let checked = |what, deserializers: &str| match self.read(deserializers) {
            Ok(data) => (what, data),
            Err(error) => panic!("{what}: {error}"),
        };
        let configuration = self.text(
            "config",
            &format!("traceLevel=0 # not much\nrandomize=false\n# more\ndeserializers=({features})\n"),
        );
        let configured = Reader::builder().config_file(&configuration).and_then(read);
        vec![
            checked("script, labels", &format!("{features}:{labels}")),
            checked("lattices", &format!("{features}:{lattices}")),
            checked(
                "Kaldi script",
                &format!("[type=KaldiDeserializer;input=[x=[scpFile=\"{kaldi}\";dim=1]]]"),
            ),
            checked(
                "Kaldi text",
                &format!("[type=KaldiDeserializer;input=[x=[arkFile=\"{archive}\";dim=2]]]"),
            ),
            checked(
                "Kaldi integers",
                &format!("[type=KaldiDeserializer;input=[x=[arkFile=\"{integers}\";format=sparse;dim=2]]]"),
            ),
            checked("images", &images),
            checked("Base64", &base64),
            ("configuration", configured.expect("a configuration")),
        ]
    }
}

/// Returns keys and values of all minibatches, as text.
fn read(builder: Builder) -> Result<String, Error> {
    let mut reader = builder.open()?;
    let mut seen = String::new();
    for minibatch in reader.epoch(Epoch::sweeps(1).read_config(ReadConfig::new(100)))? {
        let minibatch = minibatch?;
        let keys: Vec<_> = (0..minibatch.keys().len()).map(|key| minibatch.key_text(key)).collect();
        seen += &format!("{keys:?}");
        for stream in minibatch.streams() {
            match (stream.dense::<f32>(), stream.sparse::<f32>()) {
                (Ok(values), _) => seen += &format!(" {values:?}"),
                (_, Ok(sparse)) => {
                    let columns = (0..stream.columns()).map(|column| sparse.column(column));
                    seen += &format!(" {:?}", columns.collect::<Vec<_>>());
                }
                (_, Err(error)) => return Err(error),
            }
        }
    }
    Ok(seen)
}

#[test]
fn byte_order_marks_are_stripped_from_all_text_files() {
    let plain = Files::new(|text| text.as_bytes().to_vec()).all();
    for (what, data) in &plain {
        assert!(data.contains('1'), "{what}: {data}");
    }
    assert_eq!(plain, Files::new(|text| format!("\u{feff}{text}").into_bytes()).all());
}

#[test]
fn line_ends_of_all_systems_are_read() {
    let plain = Files::new(|text| text.as_bytes().to_vec()).all();
    assert_eq!(plain, Files::new(|text| text.replace('\n', "\r\n").into_bytes()).all());
    assert_eq!(plain, Files::new(|text| text.replace('\n', "\r").into_bytes()).all());
    let both = |text: &str| format!("\u{feff}{}", text.replace('\n', "\r")).into_bytes();
    assert_eq!(plain, Files::new(both).all());
}

#[test]
fn other_encodings_are_recognized() {
    let files =
        Files::new(|text| format!("\u{feff}{text}").encode_utf16().flat_map(u16::to_be_bytes).collect());
    for (name, section) in [
        ("a.scp", "[type=HTKFeatureDeserializer;module=HTKDeserializers;input=[x=[scpFile=\"~\";dim=1]]]"),
        (
            "a.mlf",
            "[type=HTKFeatureDeserializer;module=HTKDeserializers;input=[x=[scpFile=\"+\";dim=1]]]:[type=HTKMLFDeserializer;module=HTKDeserializers;input=[y=[mlfFile=\"~\";dim=1;labelMappingFile=\"~\"]]]",
        ),
        ("k.scp", "[type=KaldiDeserializer;input=[x=[scpFile=\"~\";dim=1]]]"),
        ("k.ark", "[type=KaldiDeserializer;input=[x=[arkFile=\"~\";dim=1]]]"),
        (
            "map",
            "[type=ImageDeserializer;module=ImageReader;file=\"~\";input=[f=[transforms=([type=Transpose])];l=[labelDim=2]]]",
        ),
        (
            "b64",
            "[type=Base64ImageDeserializer;module=ImageReader;file=\"~\";input=[f=[transforms=([type=Transpose])];l=[labelDim=2]]]",
        ),
        (
            "ctf",
            "[type=CNTKTextFormatDeserializer;module=CNTKTextFormatReader;file=\"~\";input=[x=[dim=1;format=dense]]]",
        ),
    ] {
        let path = files.text(name, "a\n");
        let script = files.path("plain.scp");
        fs::write(&script, format!("u0.mfc={}[0,1]\n", files.path("a.mfc"))).expect("writing");
        let error =
            files.read(&section.replace('~', &path).replace('+', &script)).expect_err(name).to_string();
        assert!(error.contains("UTF-16BE") && error.contains("iconv -f UTF-16 -t UTF-8"), "{name}: {error}");
    }
    let config = files.text("config", "a=1\n");
    let error = Reader::builder().config_file(&config).map(drop).expect_err("UTF-16").to_string();
    assert!(error.contains("UTF-16BE"), "{error}");
}

#[test]
fn messages_show_invisible_characters() {
    let files = Files::new(|text| text.as_bytes().to_vec());
    for (text, shown) in [
        ("u0.mfc=~/a.mfc\u{200b}[0,1] \n", "a.mfc\\u{200b}[0,1] '"),
        ("u\u{a0}0\t~/a.mfc\n", "u\\u{a0}0\\t"),
        ("u0\0=~/a.mfc[0,1]x\n", "u0\\0="),
    ] {
        let scp = files.text("a.scp", text);
        let section = format!(
            "[type=HTKFeatureDeserializer;module=HTKDeserializers;input=[x=[scpFile=\"{scp}\";dim=1]]]"
        );
        let error = files.read(&section).expect_err(text).to_string();
        assert!(error.contains(shown), "{shown}: {error}");
    }
    let map = files.folder.path().join("map");
    fs::write(&map, b"a\xff.png\x1b[31m 1\n").expect("writing");
    let section = format!(
        "[type=ImageDeserializer;module=ImageReader;file=\"{}\";input=[f=[transforms=([type=Transpose])];l=[labelDim=2]]]",
        map.display()
    );
    let error = files.read(&section).expect_err("a map").to_string();
    assert!(error.contains("a\\xff.png\\x1b[31m 1"), "{error}");
}
