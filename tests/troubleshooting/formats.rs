//! Mistakes in speech, images, binary files, user-defined deserializers and checkpoints. Each case
//! writes its own files into the working folder.

use super::{Case, FRONT_END, GOOD, STREAMS, good, open, read, text};
use cntk_reader::user::{StreamData, UserChunk, UserDeserializer};
use cntk_reader::{ElementType, Epoch, Error, Reader, ReaderOptions, StreamInfo};
use cntk_reader_tools::convert::{TextToBinary, parse_streams, text_to_binary};
use std::fs;
use std::ops::ControlFlow;

/// Returns HTK features of 2 values per frame.
fn features(frames: usize, claimed: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend((claimed as i32).to_be_bytes());
    bytes.extend(100_000_i32.to_be_bytes());
    bytes.extend(8_i16.to_be_bytes());
    bytes.extend(9_i16.to_be_bytes());
    (0..2 * frames).for_each(|value| bytes.extend((value as f32).to_be_bytes()));
    bytes
}

const FEATURES: &str = "[ type = \"HTKFeatureDeserializer\" ; module = \"HTKDeserializers\"\n    input = [ features = [ scpFile = \
                        \"train.scp\" ; dim = 2 ] ] ]";

const LABELS: &str = "[ type = \"HTKMLFDeserializer\" ; module = \"HTKDeserializers\"\n    input = [ labels = [ mlfFile = \"train.mlf\" \
                      ; labelMappingFile = \"states.list\" ; labelDim = 2 ] ] ]";

const SCRIPT: &str = "u1.mfc=train.mfc[0,2]\nu2.mfc=train.mfc[3,4]\n";

/// Reads two utterances of 3 and 2 frames with these labels.
fn speech(reader: &str, script: &str, labels: &str) -> Result<(), Error> {
    fs::write("train.mfc", features(5, 5)).expect("writing the data");
    fs::write("train.scp", script).expect("writing the script");
    fs::write("train.mlf", labels).expect("writing the labels");
    fs::write("states.list", "a\nb\n").expect("writing the states");
    read(&format!("{reader}\ndeserializers = (\n  {FEATURES} :\n  {LABELS}\n)\n"), 2)
}

fn labels(second: &str) -> String {
    format!("#!MLF!#\n\"u1\"\n0 300000 a\n.\n\"u2\"\n{second}\n.\n")
}

fn only_features(script: &str, keys: &str) -> Result<(), Error> {
    fs::write("train.scp", script).expect("writing the script");
    read(&format!("deserializers = (\n  {}\n)\n", FEATURES.replace("dim = 2", keys)), 1)
}

fn kaldi(keys: &str) -> Result<(), Error> {
    let stream = format!("[ features = [ {keys} ] ]");
    read(&format!("deserializers = ([ type = \"KaldiDeserializer\"\n  input = {stream} ])\n"), 1)
}

/// Returns an image of `width` columns and 2 rows, as a BMP file.
fn bitmap(width: usize) -> Vec<u8> {
    let row = (3 * width).next_multiple_of(4);
    let mut bytes = b"BM".to_vec();
    [54 + 2 * row as u32, 0, 54, 40, width as u32, 2, 24 << 16 | 1, 0, 0, 0, 0, 0, 0]
        .iter()
        .for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes.resize(54 + 2 * row, 7);
    bytes
}

fn images(kind: &str, map: &str) -> Result<(), Error> {
    fs::write("a.bmp", bitmap(3)).expect("writing an image");
    fs::write("b.bmp", bitmap(5)).expect("writing an image");
    fs::write("map.txt", map).expect("writing the map");
    let section = format!(
        "deserializers = ([ type = \"{kind}\" ; module = \"ImageReader\" ; file = \"map.txt\"\n  input = [ features = [ transforms = \
         ( [ type = \"Transpose\" ] ) ] ; labels = [ labelDim = 2 ] ] ])\n"
    );
    read(&section, 1)
}

fn binary(reader: &str, cut: usize) -> Result<(), Error> {
    fs::write("train.ctf", GOOD).expect("writing the data");
    let options = TextToBinary {
        input: "train.ctf".to_owned(),
        output: "train.cbf".to_owned(),
        streams: parse_streams("x x dense 3\ny y sparse 10")?,
        chunk_size: 0,
        element: ElementType::Float,
        ctf2bin_compatible: false,
    };
    text_to_binary(&options, &mut |_| ControlFlow::Continue(()))?;
    let bytes = fs::read("train.cbf").expect("reading the data");
    fs::write("train.cbf", &bytes[..bytes.len() - cut]).expect("writing the data");
    read(
        &format!(
            "{reader}\ndeserializers = ([ type = \"CNTKBinaryFormatDeserializer\" ; module = \"CNTKBinaryReader\" ; file = \"train.cbf\" ])"
        ),
        1,
    )
}

/// A deserializer of sentences of three words.
struct Sentences([StreamInfo; 1]);

impl UserDeserializer for Sentences {
    fn streams(&self) -> &[StreamInfo] {
        &self.0
    }

    fn chunk_count(&self) -> u32 {
        1
    }

    fn load(&self, _chunk: u32) -> Result<UserChunk, Error> {
        Ok(UserChunk::arrays(vec![StreamData::dense_sequences(vec![0.0_f32; 6], vec![3, 3])]))
    }
}

/// A deserializer that cannot load its chunk.
struct Failing([StreamInfo; 1]);

impl UserDeserializer for Failing {
    fn streams(&self) -> &[StreamInfo] {
        &self.0
    }

    fn chunk_count(&self) -> u32 {
        1
    }

    fn load(&self, _chunk: u32) -> Result<UserChunk, Error> {
        Err(Error::user("The database is closed."))
    }
}

fn sentences(options: ReaderOptions) -> Result<(), Error> {
    let deserializer = Sentences([StreamInfo::dense("words", &[1])]);
    let mut reader = Reader::builder()
        .front_end(FRONT_END.get())
        .options(options)
        .deserializer("sentences", deserializer)
        .open()?;
    reader.epoch(Epoch::sweeps(1).minibatch_size(4))?.try_for_each(|minibatch| minibatch.map(drop))
}

pub(super) const CASES: &[Case] = &[
    // Speech.
    ("A script line without a range of frames", || only_features("u1.mfc=train.mfc\n", "dim = 2")),
    ("A Kaldi script in place of one of HTK", || only_features("u1 feats.ark:3\n", "dim = 2")),
    ("A file of features that does not exist", || only_features("u1.mfc=mfc/u1.mfc[0,2]\n", "dim = 2")),
    ("A file that has no features", || {
        fs::write("train.mfc", "RIFF....WAVEfmt ").expect("writing the data");
        only_features(SCRIPT, "dim = 2")
    }),
    ("A range past the end of the features", || {
        fs::write("train.mfc", features(4, 4)).expect("writing the data");
        only_features(SCRIPT, "dim = 2")
    }),
    ("Truncated features", || {
        fs::write("train.mfc", features(4, 5)).expect("writing the data");
        only_features(SCRIPT, "dim = 2")
    }),
    ("A 'dim' that the features do not have", || {
        fs::write("train.mfc", features(5, 5)).expect("writing the data");
        only_features(SCRIPT, "dim = 39")
    }),
    ("Utterances with one key", || {
        fs::write("train.mfc", features(5, 5)).expect("writing the data");
        only_features(&format!("{SCRIPT}u1.mfc=train.mfc[0,1]\n"), "dim = 2")
    }),
    ("Labels without their first line", || {
        speech("", SCRIPT, &labels("0 200000 b").replace("#!MLF!#\n", ""))
    }),
    ("A label that the list of states does not have", || speech("", SCRIPT, &labels("0 200000 c"))),
    ("A negative class", || {
        let labels = "#!MLF!#\n\"u1\"\n0 300000 a 0\n.\n\"u2\"\n0 200000 b -1\n.\n";
        fs::write("train.mfc", features(5, 5)).expect("writing the data");
        fs::write("train.scp", SCRIPT).expect("writing the script");
        fs::write("train.mlf", labels).expect("writing the labels");
        let own = LABELS.replace("labelMappingFile = \"states.list\" ; ", "");
        read(&format!("deserializers = (\n  {FEATURES} :\n  {own}\n)\n"), 1)
    }),
    ("Labels with tabs", || speech("", SCRIPT, &labels("0\t200000\tb"))),
    ("Labels without a dot at their end", || {
        let whole = labels("0 200000 b");
        speech("", SCRIPT, whole.trim_end().trim_end_matches('.'))
    }),
    ("Labels that skip frames", || {
        speech("randomize = false", SCRIPT, &labels("0 100000 a\n200000 300000 b"))
    }),
    ("Two utterances with one key in labels", || {
        let twice = labels("0 200000 b") + "\"u1\"\n0 300000 b\n.\n";
        speech("", SCRIPT, &twice)
    }),
    ("Labels as the only deserializer", || read(&format!("deserializers = (\n  {LABELS}\n)\n"), 1)),
    ("Features and labels of different lengths", || {
        speech("truncated = true ; truncationLength = 2", SCRIPT, &labels("0 100000 b"))
    }),
    ("An i-vector of several frames", || {
        fs::write("train.mfc", features(5, 5)).expect("writing the data");
        fs::write("train.scp", SCRIPT).expect("writing the script");
        let vectors = FEATURES
            .replace("features =", "ivector =")
            .replace("dim = 2", "dim = 2 ; expandToUtterance = true");
        read(&format!("deserializers = (\n  {FEATURES} :\n  {vectors}\n)\n"), 1)
    }),
    ("A lattice without an offset", || {
        fs::write("train.mfc", features(5, 5)).expect("writing the data");
        fs::write("train.scp", SCRIPT).expect("writing the script");
        fs::write("lattices.txt", "contents.txt\n").expect("writing the index");
        fs::write("contents.txt", "u1=lattices.bin\n").expect("writing the contents");
        fs::write("lattices.bin", [0; 64]).expect("writing the lattices");
        let lattices = "[ type = \"LatticeDeserializer\" ; module = \"HTKDeserializers\"\n    input = [ lattices = [ \
                        latticeIndexFile = \"lattices.txt\" ] ] ]";
        read(&format!("deserializers = (\n  {FEATURES} :\n  {lattices}\n)\n"), 1)
    }),
    ("A Kaldi script that names a command", || {
        fs::write("feats.scp", "u1 copy-feats ark:a.ark ark:- |\n").expect("writing the script");
        kaldi("scpFile = \"feats.scp\" ; dim = 2")
    }),
    ("An HTK script in place of one of Kaldi", || {
        fs::write("feats.scp", "u1=train.mfc[0,2]\n").expect("writing the script");
        kaldi("scpFile = \"feats.scp\" ; dim = 2")
    }),
    ("A file that is not a Kaldi archive", || {
        fs::write("feats.scp", "u1 feats.ark:3\n").expect("writing the script");
        kaldi("arkFile = \"feats.scp\" ; dim = 2")
    }),
    ("A truncated Kaldi archive", || {
        fs::write("feats.ark", "u1  [\n  1 2\n  3 4 ]\nu2  [\n  1 2\n").expect("writing the data");
        kaldi("arkFile = \"feats.ark\" ; dim = 2")
    }),
    ("Kaldi features of another dimension", || {
        fs::write("feats.ark", "u1  [\n  1 2\n  3 4 ]\n").expect("writing the data");
        kaldi("arkFile = \"feats.ark\" ; dim = 3")
    }),
    // Images.
    ("A map without tabs", || images("ImageDeserializer", "a.bmp 0\n")),
    ("A class beyond 'labelDim'", || images("ImageDeserializer", "a.bmp\t0\nb.bmp\t2\n")),
    ("A map with further columns", || images("ImageDeserializer", "7\ta.bmp\t0\t0.5\n")),
    ("An image that does not exist", || images("ImageDeserializer", "c.bmp\t0\n")),
    ("An image that cannot be decoded", || {
        fs::write("d.jpg", b"\xff\xd8\xff\xe0 cut").expect("writing an image");
        images("ImageDeserializer", "d.jpg\t0\n")
    }),
    ("Images of different sizes", || images("ImageDeserializer", "a.bmp\t0\nb.bmp\t1\n")),
    ("A file that is not a zip file", || images("ImageDeserializer", "a.bmp@/b.bmp\t0\n")),
    ("A misspelled transform", || {
        fs::write("map.txt", "a.bmp\t0\n").expect("writing the map");
        let section = "deserializers = ([ type = \"ImageDeserializer\" ; module = \"ImageReader\" ; file = \"map.txt\"\n  input = [ \
                       features = [ transforms = ( [ type = \"Transpos\" ] ) ] ; labels = [ labelDim = 2 ] ] ])\n";
        read(section, 1)
    }),
    ("Base64 that is not an image", || images("Base64ImageDeserializer", "0\tZm9v\n1\tZm9v\n0\tZm9v\n")),
    // Binary files.
    ("A truncated binary file", || binary("", 9)),
    ("A binary file of the other precision", || binary("precision = double", 0)),
    ("A binary file and keys that are text", || binary("useNumericSequenceKeys = false", 0)),
    // User code.
    ("A deserializer of your own, in frame mode", || sentences(ReaderOptions::new().frame_mode(true))),
    ("An error in code of your own", || {
        let deserializer = Failing([StreamInfo::dense("words", &[1])]);
        let mut reader =
            Reader::builder().front_end(FRONT_END.get()).deserializer("sentences", deserializer).open()?;
        reader.epoch(Epoch::sweeps(1).minibatch_size(4))?.try_for_each(|minibatch| minibatch.map(drop))
    }),
    ("Lockstep with sequences that are not known in advance", || {
        sentences(ReaderOptions::new().lockstep(true))
    }),
    ("A deserializer that was not registered", || read("deserializers = ([ type = \"Sentences\" ])\n", 1)),
    // Checkpoints.
    ("A checkpoint that is damaged", || {
        let mut reader = good()?;
        reader.epoch(Epoch::sweeps(1).minibatch_size(8)).map(drop)?;
        let mut checkpoint = reader.checkpoint()?;
        checkpoint[20] ^= 1;
        good()?.restore(&checkpoint)
    }),
    ("A file that is not a checkpoint", || good()?.restore(GOOD.as_bytes())),
    ("A state without the name that is needed", || {
        let mut reader = good()?;
        reader.epoch(Epoch::sweeps(1).minibatch_size(8)).map(drop)?;
        reader.restore_cntk_state(&[("position", 3)])
    }),
    ("A checkpoint of other settings", || {
        let mut reader = good()?;
        reader.epoch(Epoch::sweeps(1).minibatch_size(8)).map(drop)?;
        let checkpoint = reader.checkpoint()?;
        open(&text("randomizationWindow = 1", "file = \"train.ctf\"", STREAMS))?.restore(&checkpoint)
    }),
];
