//! Generated text data, and configurations to read them.

use super::rng::Rng;
use std::fmt::Write;

/// A generated text file.
#[derive(Debug, Clone)]
pub struct TextData {
    /// Length of each sequence.
    pub lengths: Vec<u64>,
    /// The file's content.
    pub text: String,
    /// Values of a sample of the dense stream `x`.
    pub dense: u64,
    /// Values of a sample of the sparse stream `s`, if there is one.
    pub sparse: Option<u64>,
}

impl TextData {
    /// Generates `sequences` sequences of 1 to `longest` samples with the keys 0, 1, 2 ...
    pub fn random(rng: &mut Rng, sequences: usize, longest: u64) -> Self {
        let dense = rng.range(1, 3);
        let sparse = rng.once_in(2).then(|| rng.range(1, 9));
        let lengths: Vec<u64> = (0..sequences).map(|_| rng.range(1, longest)).collect();
        let mut text = String::new();
        for (key, &length) in lengths.iter().enumerate() {
            for _ in 0..length {
                write!(text, "{key} |x").expect("writing to a string");
                for _ in 0..dense {
                    let value = rng.range(0, 1999) as i64 - 999;
                    let fraction = *rng.pick(&["", ".5", ".125", "e-3"]);
                    write!(text, " {value}{fraction}").expect("writing to a string");
                }
                if let Some(dim) = sparse {
                    text.push_str(" |s");
                    for index in 0..dim {
                        if rng.once_in(3) {
                            write!(text, " {index}:{}", rng.range(1, 99)).expect("writing to a string");
                        }
                    }
                }
                text.push('\n');
            }
        }
        TextData { lengths, text, dense, sparse }
    }

    /// Returns a deserializer section for this data in `file`.
    pub fn section(&self, file: &str, chunk_size: u64) -> String {
        let mut section = format!(
            "deserializers = ([\n type = \"CNTKTextFormatDeserializer\"\n module = \"CNTKTextFormatReader\"\n \
             file = \"{file}\"\n chunkSizeInBytes = {chunk_size}\n input = [\n  x = [ dim = {} ; format = \"dense\" ]\n",
            self.dense
        );
        if let Some(dim) = self.sparse {
            writeln!(section, "  s = [ dim = {dim} ; format = \"sparse\" ]").expect("writing to a string");
        }
        section + " ]\n])\n"
    }

    /// Returns the number of samples of a sweep.
    pub fn samples(&self) -> u64 {
        self.lengths.iter().sum()
    }
}
