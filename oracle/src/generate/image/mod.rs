//! Generates cases of images: map files, zip containers and Base64 lines, with chains of
//! transforms, and text beside them.
//!
//! A case may have one deliberate error or oddity, so that its effect can be compared on its own.

pub mod container;
mod old_style;
mod picture;
mod transforms;

use super::rng::Rng;
use super::{Keys, Plan, by_first_worker, config, script};
use crate::golden::Case;
use serde_json::Value;
use transforms::{Chain, Images, Size};

/// A data file: its name and content.
type File = (String, Vec<u8>);

/// The deliberate error or oddity in a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Odd {
    Nothing,
    /// An image cannot be decoded.
    Broken,
    /// A file of an image, or a member of a container, is missing.
    Missing,
    /// A label is invalid.
    Label,
    /// A line has the wrong columns.
    Columns,
    /// Two images have the same key.
    Repeated,
}

/// Common properties of the files of a case.
struct Corpus {
    pictures: Vec<Picture>,
    images: Images,
    /// Whether lines contain the images.
    base64: bool,
    /// Whether lines begin with keys.
    keyed: bool,
    keys: Keys,
    classes: usize,
    odd: Odd,
}

/// One image.
struct Picture {
    key: String,
    /// Name of its file.
    name: String,
    content: Vec<u8>,
    label: usize,
}

impl Corpus {
    fn draw(rng: &mut Rng, plan: &Plan) -> Corpus {
        let most = *rng.pick(&[1, 4, 4, 9, 9, 14]);
        let count = 1 + rng.below(most);
        let size = |rng: &mut Rng| {
            let longest = *rng.pick(&[3, 9, 20, 20, 40]);
            (rng.range(1, longest) as u32, rng.range(1, longest) as u32)
        };
        let uniform = rng.once_in(3).then(|| size(rng));
        let keys = match rng.below(8) {
            0 => Keys::Textual,
            1 => Keys::Hashed,
            _ => Keys::Numeric,
        };
        let odd = match rng.below(24) {
            0 | 1 => Odd::Broken,
            2 => Odd::Missing,
            3 => Odd::Label,
            4 => Odd::Columns,
            5 => Odd::Repeated,
            _ => Odd::Nothing,
        };
        let classes = 1 + rng.below(5);
        let step = 1 + rng.below(3);
        let mut pictures: Vec<Picture> = (0..count)
            .map(|number| {
                let (width, height) = uniform.unwrap_or_else(|| size(rng));
                let (ending, content) = match uniform {
                    None if rng.once_in(9) => picture::fixture(rng),
                    _ => picture::draw(rng, width, height),
                };
                let key = match keys {
                    Keys::Numeric => (number * step).to_string(),
                    Keys::Textual | Keys::Hashed => format!("{}{number}", rng.pick(&["k", "a b", "Ä"])),
                };
                Picture { key, name: format!("i{number}.{ending}"), content, label: rng.below(classes) }
            })
            .collect();
        if rng.once_in(3) {
            for end in (1..count).rev() {
                pictures.swap(end, rng.below(end + 1));
            }
        }
        let base64 = rng.once_in(3);
        // Keys of Base64 end at blanks.
        if base64 {
            pictures.iter_mut().for_each(|picture| picture.key = picture.key.replace(' ', "_"));
        }
        let keyed = rng.once_in(2) || keys != Keys::Numeric && (base64 || !rng.once_in(4));
        if odd == Odd::Repeated {
            let (from, to) = (rng.below(count), rng.below(count));
            pictures[to].key = pictures[from].key.clone();
        }
        if odd == Odd::Broken {
            for _ in 0..1 + rng.below(2) {
                let place = rng.below(count);
                pictures[place].content = picture::broken(rng);
            }
        }
        // A rotated image may have another size.
        let images = Images {
            size: match uniform {
                Some((width, height)) if width == height => Size::Known(width, height),
                Some((width, height)) if base64 => Size::Known(width, height),
                _ => Size::Varied,
            },
            channels: if rng.once_in(4) { 1 } else { 3 },
            double: plan.double,
            multi_view: rng.once_in(7),
        };
        Corpus { pictures, images, base64, keyed, keys, classes, odd }
    }

    fn samples(&self) -> u64 {
        self.pictures.len() as u64 * if self.images.multi_view { 10 } else { 1 }
    }

    /// Generates the map file, or the file with Base64 lines, and the files that it refers to.
    fn write(&self, rng: &mut Rng) -> Vec<File> {
        let mut lines = Vec::new();
        let (mut files, mut members) = (Vec::new(), Vec::new());
        let zipped = !self.base64 && self.odd != Odd::Repeated && rng.once_in(4);
        let odd = rng.below(self.pictures.len());
        for (number, picture) in self.pictures.iter().enumerate() {
            let is_odd = number == odd;
            let label = self.label(rng, picture.label, is_odd);
            let mut line = if self.base64 {
                self.base64_line(rng, picture, &label, is_odd)
            } else {
                let zipped = zipped && rng.once_in(2);
                let path = if zipped { ".../c.zip@/" } else { ".../" };
                let line = format!("{path}{}\t{label}", picture.name);
                let to = if zipped { &mut members } else { &mut files };
                if !(is_odd && self.odd == Odd::Missing) {
                    to.push((picture.name.clone(), picture.content.clone()));
                }
                // Text beside the images has their numeric keys.
                let mixed = self.keys != Keys::Numeric && rng.once_in(20);
                if self.keyed && !mixed { format!("{}\t{line}", picture.key) } else { line }
            };
            if is_odd && self.odd == Odd::Columns && !self.base64 {
                line = match rng.below(5) {
                    0 => String::new(),
                    1 => picture.name.clone(),
                    2 => format!("{}\t.../{}\t", picture.key, picture.name),
                    3 => format!(".../{} 1", picture.name),
                    _ => format!("{line}\tmore"),
                };
            }
            lines.push(line);
        }
        let line_end = if rng.once_in(4) { "\r\n" } else { "\n" };
        let mut text = lines.join(line_end);
        // A last line of Base64 without a line end is an error.
        if self.base64 && !rng.once_in(20) || !self.base64 && !rng.once_in(4) {
            text += line_end;
        }
        if self.base64 && rng.once_in(20) {
            text.insert(0, '\u{feff}');
        }
        files.push(("map.txt".to_owned(), text.into_bytes()));
        if zipped {
            files.push(("c.zip".to_owned(), container::zip(rng, &members)));
        }
        files
    }

    fn label(&self, rng: &mut Rng, label: usize, is_odd: bool) -> String {
        if is_odd && self.odd == Odd::Label {
            let wrong = ["x", "", "-1", "99999999999999999999999", &self.classes.to_string()];
            return (*rng.pick(&wrong)).to_owned();
        }
        match rng.below(30) {
            0 => format!("+{label}"),
            1 => format!(" {label}"),
            2 => format!("{label}.9"),
            3 => format!("0{label}"),
            4 => format!("{label}abc"),
            _ => label.to_string(),
        }
    }

    fn base64_line(&self, rng: &mut Rng, picture: &Picture, label: &str, is_odd: bool) -> String {
        let mut data = container::base64(&picture.content);
        if is_odd && self.odd == Odd::Missing {
            data = match rng.below(4) {
                0 => String::new(),
                1 => data.trim_end_matches('=').to_owned() + "A",
                2 => format!(" {data}"),
                _ => data.replace('A', "*"),
            };
        }
        let mut separator = "\t";
        let mut keyed = self.keyed;
        if is_odd && self.odd == Odd::Columns {
            match rng.below(3) {
                0 => separator = " ",
                1 => keyed = !keyed,
                _ => data += " \t",
            }
        }
        match keyed {
            true => format!("{}\t{label}{separator}{data}", picture.key),
            false => format!("{label}{separator}{data}"),
        }
    }

    /// Returns the keys as numbers, like CNTK.
    fn numbers(&self) -> Vec<u64> {
        let of = |(number, picture): (usize, &Picture)| match self.keyed {
            true => picture.key.parse().unwrap_or_default(),
            false => number as u64,
        };
        self.pictures.iter().enumerate().map(of).collect()
    }

    fn section(&self, rng: &mut Rng, chain: &Chain) -> String {
        let kind = if self.base64 { "Base64ImageDeserializer" } else { "ImageDeserializer" };
        let mut entries = vec![
            format!("type = \"{kind}\""),
            "module = \"ImageReader\"".to_owned(),
            "file = \"@DIR@/map.txt\"".to_owned(),
        ];
        if self.images.channels == 1 {
            entries.push("grayscale = true".to_owned());
        }
        if self.images.multi_view {
            entries.push("multiViewCrop = true".to_owned());
        }
        if self.base64 && rng.once_in(9) {
            entries.push("cacheIndex = true".to_owned());
        }
        if rng.once_in(12) {
            entries.push(format!("verbosity = {}", rng.range(0, 2)));
        }
        let transforms = match chain.sections.is_empty() {
            true => "()".to_owned(),
            false => format!("( [ {} ] )", chain.sections.join(" ] :\n    [ ")),
        };
        let (features, labels) = *rng.pick(&[("features", "labels"), ("features", "labels"), ("z", "A")]);
        let mut streams = [
            format!("   {features} = [ transforms = {transforms} ]"),
            format!("   {labels} = [ labelDim = {} ]", self.classes),
        ];
        if rng.once_in(3) {
            streams.reverse();
        }
        entries.push(format!("input = [\n{} ]", streams.join("\n")));
        entries.join(" ; ")
    }
}

/// Generates the case of a seed.
pub fn case(rng: &mut Rng, plan: &Plan, seed: u64) -> Case {
    if rng.once_in(8) {
        return old_style::case(rng, plan, seed);
    }
    let corpus = Corpus::draw(rng, plan);
    let mut lines = config::head(rng, plan);
    match corpus.keys {
        Keys::Numeric => {}
        Keys::Textual => lines.push("useNumericSequenceKeys = false".to_owned()),
        Keys::Hashed => lines.push("useNumericSequenceKeys = false\nhashSequenceKeys = true".to_owned()),
    }
    if corpus.odd == Odd::Broken || corpus.odd == Odd::Missing || rng.once_in(9) {
        lines.push(format!("maxErrors = {}", rng.pick(&[0, 1, 3, 1000, 1000])));
    }
    let chain = Chain::draw(rng, &corpus.images);
    let mut files = corpus.write(rng);
    let mut sections = vec![corpus.section(rng, &chain)];
    files.extend(chain.files);
    if corpus.keys == Keys::Numeric && rng.once_in(4) {
        let first = rng.once_in(2);
        // Without randomization, CNTK loses chunks of the first deserializer if all their keys are
        // missing in another one. Each image is a chunk.
        let whole = !first && !plan.randomize && !corpus.base64;
        let (section, file) = text(rng, &corpus, whole);
        sections.insert(usize::from(!first), section);
        files.push(file);
    }
    lines.push(format!("deserializers = ( [ {} ] )", sections.join(" ] :\n [ ")));
    let steps = steps(rng, plan, &corpus);
    lines.extend(without_reading_ahead(&steps, &lines));
    Case {
        name: seed.to_string(),
        config: lines.join("\n") + "\n",
        files,
        steps,
        create: Value::Null,
        results: Vec::new(),
        rewritten: None,
    }
}

/// Generates the steps. A worker without chunks waits forever in CNTK, so few images are usually
/// read by the first worker.
fn steps(rng: &mut Rng, plan: &Plan, corpus: &Corpus) -> Vec<String> {
    let mut steps = script::write(rng, plan, corpus.samples() + 1);
    let few = corpus.base64 || corpus.pictures.len() < 4;
    if few && !rng.once_in(9) {
        steps.iter_mut().for_each(|step| *step = by_first_worker(step));
    }
    steps
}

/// Returns the key that keeps this library from prefetching a minibatch, if that may matter. CNTK's
/// hosts prefetch, but its modules alone do not, and random numbers drawn for a minibatch stay
/// drawn even if it is dropped.
fn without_reading_ahead(steps: &[String], lines: &[String]) -> Option<String> {
    let moves = steps.iter().skip(1).any(|step| step != "read" && step != "state");
    let key = "prefetch = false";
    (moves && !lines.iter().any(|line| line == key)).then(|| key.to_owned())
}

/// Generates text with the same keys; unless `whole`, some are missing and others are added.
fn text(rng: &mut Rng, corpus: &Corpus, whole: bool) -> (String, File) {
    let mut keys = corpus.numbers();
    keys.sort_unstable();
    keys.dedup();
    if !whole && rng.once_in(2) {
        let first = keys[0];
        keys.retain(|&key| key == first || !rng.once_in(3));
        keys.push(1000);
    }
    for end in (1..keys.len()).rev() {
        keys.swap(end, rng.below(end + 1));
    }
    let lines: String = keys.iter().map(|key| format!("{key} |t {key} -{}.5\n", rng.below(9))).collect();
    let section = "type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; file = \"@DIR@/text.ctf\" ; \
                   input = [ t = [ dim = 2 ; format = \"dense\" ] ]";
    (section.to_owned(), ("text.ctf".to_owned(), lines.into_bytes()))
}
