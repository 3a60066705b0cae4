//! The shapes of data, modelled on the data of CNTK's users.

use crate::family;
use crate::random::Random;
use crate::sums::StreamSums;

/// A stream of a shape.
#[derive(Debug, Clone)]
pub struct Stream {
    /// Name of the stream, also in the file. Shapes list their streams in alphabetical order, as
    /// the reader does.
    pub name: String,
    /// Number of values of a sample.
    pub dim: u32,
    /// Whether only nonzero values are written.
    pub sparse: bool,
    /// The factor that turns values into whole numbers.
    pub scale: u32,
}

fn dense(name: &str, dim: u32, scale: u32) -> Stream {
    Stream { name: name.to_owned(), dim, sparse: false, scale }
}

fn sparse(name: &str, dim: u32) -> Stream {
    Stream { name: name.to_owned(), dim, sparse: true, scale: 1 }
}

/// Writes the sequence with a number, and fills in its sums.
type Write = Box<dyn Fn(&mut Vec<u8>, &mut Random, u64, &mut [StreamSums]) + Send + Sync>;

/// A shape of data.
pub struct Shape {
    /// Seed of the random numbers.
    pub number: u64,
    /// The streams.
    pub streams: Vec<Stream>,
    /// Sequences of a block, the unit of generation: about a quarter of a megabyte.
    pub block: u64,
    /// Lines of the configuration before the deserializers.
    pub head: &'static str,
    /// Options of the text deserializer besides file and streams.
    pub options: &'static str,
    /// Writes a sequence.
    pub write: Write,
}

/// The names of the fixed shapes, which most records measure.
pub const NAMES: [&str; 4] = ["integers", "floats", "words", "bags"];

/// Finds a shape by its name: one of [`NAMES`], or of a [`family`].
pub fn find(name: &str) -> Result<Shape, String> {
    let made = |number, streams, block, write| Shape { number, streams, block, head: "", options: "", write };
    Ok(match name {
        "integers" => {
            made(1, vec![dense("features", 784, 1), dense("labels", 10, 1)], 140, Box::new(integers))
        }
        "floats" => made(2, vec![dense("x", 150, FLOAT_SCALE)], 190, Box::new(floats)),
        "words" => made(3, vec![sparse("t", TAGS), sparse("w", WORDS)], 700, Box::new(words)),
        "bags" => {
            made(4, vec![sparse("answer", VOCABULARY), sparse("query", VOCABULARY)], 600, Box::new(bags))
        }
        _ => family::find(name).map(|(shape, _)| shape).ok_or_else(|| {
            format!(
                "There is no shape '{name}'; the shapes are {}, and the shapes of families.",
                NAMES.join(", ")
            )
        })?,
    })
}

const FLOAT_SCALE: u32 = 1_000_000;
const TAGS: u32 = 130;
const WORDS: u32 = 30_000;
const VOCABULARY: u32 = 50_000;

impl Shape {
    /// Returns the reader configuration for data of this shape: randomized over all data, as is
    /// CNTK's default, unless `in_order`. A file name that ends with `.cbf` selects the binary
    /// format.
    pub fn config(&self, data: &str, in_order: bool, cache_index: bool) -> String {
        let mut inputs = String::new();
        for Stream { name, dim, sparse, .. } in &self.streams {
            let format = if *sparse { "sparse" } else { "dense" };
            inputs += &format!("        {name} = [ dim = {dim} ; format = \"{format}\" ]\n");
        }
        let deserializer = if data.ends_with(".cbf") {
            format!(
                "type = \"CNTKBinaryFormatDeserializer\" ; module = \"CNTKBinaryReader\" ; file = \"{data}\"\n"
            )
        } else {
            format!(
                "type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; file = \"{data}\"\n    \
                 cacheIndex = {cache_index}\n    {}input = [\n{inputs}    ]\n",
                self.options
            )
        };
        format!(
            "randomize = {}\ntraceLevel = 0\n{}deserializers = ( [\n    {deserializer}] )\n",
            !in_order, self.head
        )
    }
}

/// Appends a whole number.
pub fn number(text: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[start..]);
}

/// Appends an entry such as ` row:1`, and adds it to the sums.
fn entry(text: &mut Vec<u8>, row: u32, value: u32, sums: &mut StreamSums) {
    text.push(b' ');
    number(text, u64::from(row));
    text.push(b':');
    number(text, u64::from(value));
    sums.add_value(row, i64::from(value));
}

/// Images: 784 whole numbers from 0 to 255, four fifths of them zero, and a dense label.
fn integers(text: &mut Vec<u8>, random: &mut Random, _id: u64, sums: &mut [StreamSums]) {
    let [features, labels] = sums else { return };
    let class = random.below(10);
    text.extend_from_slice(b"|labels");
    for row in 0..10 {
        text.extend_from_slice(if row == class { b" 1" } else { b" 0" });
        labels.add_value(row, i64::from(row == class));
    }
    text.extend_from_slice(b" |features");
    for row in 0..784 {
        let bits = random.bits();
        let value = if bits as u8 <= 51 { (bits >> 8) as u8 } else { 0 };
        text.push(b' ');
        number(text, u64::from(value));
        features.add_value(row, i64::from(value));
    }
    text.push(b'\n');
    (features.samples, labels.samples) = (1, 1);
}

/// Measurements: 150 values from -2 to 2 with six decimals.
fn floats(text: &mut Vec<u8>, random: &mut Random, _id: u64, sums: &mut [StreamSums]) {
    let [x] = sums else { return };
    text.extend_from_slice(b"|x");
    for row in 0..150 {
        let value = i64::from(random.below(4 * FLOAT_SCALE)) - 2 * i64::from(FLOAT_SCALE);
        text.extend_from_slice(if value < 0 { b" -" } else { b" " });
        let magnitude = value.unsigned_abs() as u32;
        text.push(b'0' + (magnitude / FLOAT_SCALE) as u8);
        text.push(b'.');
        let mut fraction = magnitude % FLOAT_SCALE;
        let mut digits = [0; 6];
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (fraction % 10) as u8;
            fraction /= 10;
        }
        text.extend_from_slice(&digits);
        x.add_value(row, value);
    }
    text.push(b'\n');
    x.samples = 1;
}

/// Sentences of 5 to 30 words, each on a line with the sentence's id, the word and its tag.
fn words(text: &mut Vec<u8>, random: &mut Random, id: u64, sums: &mut [StreamSums]) {
    let [tag, word] = sums else { return };
    let length = 5 + random.below(26);
    for _ in 0..length {
        number(text, id);
        text.extend_from_slice(b" |w");
        entry(text, random.below(WORDS), 1, word);
        text.extend_from_slice(b" |t");
        entry(text, random.below(TAGS), 1, tag);
        text.push(b'\n');
    }
    (tag.samples, word.samples) = (u64::from(length), u64::from(length));
}

/// Word counts of queries and answers, of about 10 and about 40 different words.
fn bags(text: &mut Vec<u8>, random: &mut Random, _id: u64, sums: &mut [StreamSums]) {
    let [answer, query] = sums else { return };
    for (name, expected, sums) in [(&b"|query"[..], 10, query), (&b" |answer"[..], 40, answer)] {
        text.extend_from_slice(name);
        // The average step is `VOCABULARY / expected`, so about `expected` rows are in range.
        let mut row = random.below(2 * VOCABULARY / expected);
        while row < VOCABULARY {
            entry(text, row, 1 + random.below(9), sums);
            row += 1 + random.below(2 * VOCABULARY / expected);
        }
        sums.samples = 1;
    }
    text.push(b'\n');
}
