//! Generates random chains of transforms, with the files that they read.

use super::super::rng::Rng;
use super::File;
use flate2::{Compression, write::GzEncoder};
use std::io::Write;

/// Knowledge about image sizes before reading.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Width and height of all of them.
    Known(u32, u32),
    /// All images have the same size.
    Uniform,
    /// Images have different sizes.
    Varied,
}

/// Properties of the images of a chain.
pub struct Images {
    /// Their sizes.
    pub size: Size,
    /// Their channels.
    pub channels: u32,
    /// Whether values become doubles.
    pub double: bool,
    /// Whether each image is delivered ten times.
    pub multi_view: bool,
}

/// A chain.
pub struct Chain {
    /// Sections without brackets.
    pub sections: Vec<String>,
    /// Files that they name.
    pub files: Vec<File>,
}

impl Chain {
    /// Generates a chain. It nearly always produces samples of one shape.
    pub fn draw(rng: &mut Rng, images: &Images) -> Chain {
        let mut chain = Chain { sections: Vec::new(), files: Vec::new() };
        let mut size = images.size;
        let longest = *rng.pick(&[1, 2, 4, 6]);
        for _ in 0..rng.below(longest + 1) {
            match rng.below(12) {
                0..3 => size = chain.crop(rng, images, size),
                3..5 => size = chain.scale(rng, images),
                5 | 6 => chain.color(rng, images),
                7 | 8 => chain.intensity(rng, images),
                9 | 10 => chain.mean(rng, images, size),
                // Any further transform is an error.
                _ if rng.once_in(8) => chain.push("Transpose", &[]),
                _ => {}
            }
        }
        if size == Size::Varied && !rng.once_in(20) {
            chain.scale(rng, images);
        }
        if !rng.once_in(3) {
            chain.push("Transpose", &[]);
        }
        if rng.once_in(9) {
            chain.push("Cast", &[]);
        }
        chain
    }

    /// Generates the keys of an old-style section: crop, scale, color, intensity and mean, each at
    /// most once.
    pub fn old_style(rng: &mut Rng, images: &Images) -> (Vec<String>, Vec<File>) {
        let mut chain = Chain { sections: Vec::new(), files: Vec::new() };
        if !rng.once_in(5) {
            chain.crop(rng, images, images.size);
        }
        let (mut keys, size) = scale(rng, images);
        if rng.once_in(3) {
            chain.color(rng, images);
        }
        if rng.once_in(3) {
            chain.intensity(rng, images);
        }
        if rng.once_in(3) {
            chain.mean(rng, images, size);
        }
        // A single key `seed` applies to all of them.
        for section in &chain.sections {
            let entries = section.split(" ; ").skip(1).filter(|entry| !entry.starts_with("seed"));
            keys.extend(entries.map(str::to_owned));
        }
        keys.extend(seed(rng));
        (keys, chain.files)
    }

    fn push(&mut self, kind: &str, keys: &[String]) {
        let keys: String = keys.iter().map(|key| format!(" ; {key}")).collect();
        self.sections.push(format!("type = \"{kind}\"{keys}"));
    }

    fn crop(&mut self, rng: &mut Rng, images: &Images, size: Size) -> Size {
        let kinds =
            ["Center", "center", "RandomSide", "randomside", "RandomArea", "RandomSide", "MultiView10"];
        let kind = if images.multi_view && rng.once_in(2) { "MultiView10" } else { rng.pick::<&str>(&kinds) };
        let mut keys = vec![format!("cropType = \"{kind}\"")];
        if rng.once_in(60) {
            keys[0] = "cropType = \"Random\"".to_owned();
        }
        if kind == "Center" && rng.once_in(9) {
            keys.clear();
        }
        let mut becomes = size;
        if rng.once_in(4) {
            let (width, height) = (rng.range(1, 14) as u32, rng.range(1, 14) as u32);
            let square = rng.once_in(3);
            keys.push(if square {
                format!("cropSize = {width}")
            } else {
                format!("cropSize = {width}:{height}")
            });
            let height = if square { width } else { height };
            becomes = match size {
                Size::Known(w, h) => Size::Known(w.min(width), h.min(height)),
                other => other,
            };
        } else if !rng.once_in(8) {
            let name = rng.pick(&["sideRatio", "areaRatio"]);
            let (ratio, _) = pair(rng, 80, 1000);
            keys.push(format!("{name} = {ratio}"));
            let (aspect, varied) = pair(rng, 600, 1600);
            if rng.once_in(3) {
                keys.push(format!("aspectRatio = {aspect}"));
            }
            let jitter = rng.once_in(2);
            if jitter {
                keys.push(format!("jitterType = \"{}\"", rng.pick(&["UniRatio", "uniratio"])));
            }
            let has_aspect = keys.iter().any(|key| key.starts_with("aspect"));
            // An aspect ratio other than 1 is inverted for half of the images.
            becomes = match size {
                Size::Varied => size,
                _ if jitter || has_aspect && (varied || aspect != "1") => Size::Varied,
                _ => Size::Uniform,
            };
        }
        if rng.once_in(3) {
            keys.push(format!("hflip = {}", rng.pick(&["true", "false"])));
        }
        keys.extend(seed(rng));
        self.push("Crop", &keys);
        becomes
    }

    fn scale(&mut self, rng: &mut Rng, images: &Images) -> Size {
        let (keys, size) = scale(rng, images);
        self.push("Scale", &keys);
        size
    }

    fn color(&mut self, rng: &mut Rng, images: &Images) {
        let mut keys = Vec::new();
        for name in ["brightnessRadius", "contrastRadius", "saturationRadius"] {
            // CNTK cannot change the saturation of doubles.
            let fails = images.double && images.channels == 3 && name.starts_with('s') && !rng.once_in(20);
            if !rng.once_in(3) && !fails {
                keys.push(format!("{name} = {}", fraction(rng, 0, 1000)));
            }
        }
        if rng.once_in(80) {
            keys.push("contrastRadius = 1.5".to_owned());
        }
        keys.extend(seed(rng));
        self.push("Color", &keys);
    }

    fn intensity(&mut self, rng: &mut Rng, images: &Images) {
        let mut keys = Vec::new();
        if !rng.once_in(9) {
            keys.push(format!("intensityStdDev = {}", rng.pick(&["0.1", "1", "2.5", "10", "0", "0.003"])));
        }
        if !rng.once_in(9) {
            let mut numbers = |count: usize| -> Vec<String> { (0..count).map(|_| number(rng)).collect() };
            let (values, vectors) = (numbers(3), numbers(9));
            let nodes = [
                Node::Matrix { name: "EigVal", rows: 1, columns: 3, kind: 'f', values },
                Node::Matrix { name: "EigVec", rows: 3, columns: 3, kind: 'f', values: vectors },
            ];
            let name = self.store(rng, "intensity", &nodes);
            keys.push(format!("intensityFile = \"@DIR@/{name}\""));
        }
        let _ = images;
        keys.extend(seed(rng));
        self.push("Intensity", &keys);
    }

    fn mean(&mut self, rng: &mut Rng, images: &Images, size: Size) {
        if rng.once_in(15) {
            return self.push("Mean", &[]);
        }
        let (width, height) = match size {
            Size::Known(width, height) if !rng.once_in(15) => (width, height),
            _ => (rng.range(1, 9) as u32, rng.range(1, 9) as u32),
        };
        let count = (width * height * images.channels) as usize;
        let values = (0..count).map(|_| number(rng)).collect();
        let node = |name, value: u32| Node::Number { name, value };
        let mut nodes = vec![
            node("Channel", images.channels),
            node("Row", height),
            node("Col", width),
            // A type different from the reader's is an error.
            Node::Matrix {
                name: "MeanImg",
                rows: 1,
                columns: count,
                kind: if images.double != rng.once_in(40) { 'd' } else { 'f' },
                values,
            },
        ];
        if rng.once_in(4) {
            nodes.reverse();
        }
        if rng.once_in(40) {
            nodes.remove(rng.below(4));
        }
        let name = self.store(rng, "mean", &nodes);
        self.push("Mean", &[format!("meanFile = \"@DIR@/{name}\"")]);
    }

    /// Writes nodes in one of OpenCV's formats, and returns the file's name.
    fn store(&mut self, rng: &mut Rng, stem: &str, nodes: &[Node]) -> String {
        let (mut ending, mut content) = match rng.below(3) {
            0 => ("yml".to_owned(), yaml(nodes)),
            _ => ("xml".to_owned(), xml(nodes)),
        };
        if rng.once_in(6) {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            // Writing to memory does not fail.
            encoder.write_all(&content).unwrap_or_default();
            content = encoder.finish().unwrap_or_default();
            ending += ".gz";
        }
        let name = format!("{stem}{}.{ending}", self.files.len());
        self.files.push((name.clone(), content));
        name
    }
}

/// Generates the keys of a scale, and returns the resulting size.
fn scale(rng: &mut Rng, images: &Images) -> (Vec<String>, Size) {
    let (width, mut height) = (rng.range(1, 12) as u32, rng.range(1, 12) as u32);
    let mode = *rng.pick(&["fill", "fill", "fill", "crop", "pad"]);
    // Other modes fail for some images.
    if mode != "fill" && !rng.once_in(8) {
        height = width;
    }
    let mut keys = vec![
        format!("width = {width}"),
        format!("height = {height}"),
        format!("channels = {}", images.channels),
    ];
    if !rng.once_in(4) {
        let kinds = ["nearest", "linear", "cubic", "lanczos", "Linear", "CUBIC", "Lanczos"];
        keys.push(format!("interpolations = \"{}\"", rng.pick(&kinds)));
    }
    if mode != "fill" || rng.once_in(3) {
        keys.push(format!("scaleMode = \"{mode}\""));
    }
    if rng.once_in(3) {
        keys.push(format!("padValue = {}", rng.pick(&[-1, 0, 17, 255, 300])));
    }
    if rng.once_in(60) {
        let wrong = ["interpolations = \"area\"", "scaleMode = \"Fill\"", "padValue = -2", "width = 0"];
        let wrong = rng.pick(&wrong);
        let name = wrong.split(' ').next().unwrap_or_default();
        keys.retain(|key| key.split(' ').next() != Some(name));
        keys.push((*wrong).to_owned());
    }
    (keys, Size::Known(width, height))
}

fn seed(rng: &mut Rng) -> Option<String> {
    let seeds = [0_u32, 1, 7, 23, 12345, u32::MAX];
    rng.once_in(3).then(|| format!("seed = {}", rng.pick(&seeds)))
}

/// Generates a number in thousandths.
fn fraction(rng: &mut Rng, from: u64, to: u64) -> String {
    let value = rng.range(from, to) as f64 / 1000.0;
    value.to_string()
}

/// Generates a number or a pair in thousandths, and returns whether it is a pair.
fn pair(rng: &mut Rng, from: u64, to: u64) -> (String, bool) {
    if rng.once_in(6) {
        return ("1".to_owned(), false);
    }
    let (one, other) = (rng.range(from, to), rng.range(from, to));
    let text = |value: u64| (value as f64 / 1000.0).to_string();
    match rng.below(2) {
        0 => (text(one), false),
        _ => (format!("{}:{}", text(one.min(other)), text(one.max(other))), one != other),
    }
}

/// Generates a number in one of OpenCV's notations.
fn number(rng: &mut Rng) -> String {
    let value = rng.range(0, 510_000) as f64 / 2000.0 - 40.0;
    match rng.below(4) {
        0 => format!("{}.", value.trunc()),
        1 => format!("{value:.8e}"),
        _ => value.to_string(),
    }
}

/// A node of OpenCV's storage.
enum Node {
    Number { name: &'static str, value: u32 },
    Matrix { name: &'static str, rows: usize, columns: usize, kind: char, values: Vec<String> },
}

fn xml(nodes: &[Node]) -> Vec<u8> {
    let mut out = "<?xml version=\"1.0\"?>\n<opencv_storage>\n".to_owned();
    for node in nodes {
        out += &match node {
            Node::Number { name, value } => format!("<{name}>{value}</{name}>\n"),
            Node::Matrix { name, rows, columns, kind, values } => {
                let lines: Vec<String> = values.chunks(5).map(|values| values.join(" ")).collect();
                format!(
                    "<{name} type_id=\"opencv-matrix\">\n  <rows>{rows}</rows>\n  <cols>{columns}</cols>\n  \
                     <dt>{kind}</dt>\n  <data>\n    {}</data></{name}>\n",
                    lines.join("\n    ")
                )
            }
        };
    }
    (out + "</opencv_storage>\n").into_bytes()
}

fn yaml(nodes: &[Node]) -> Vec<u8> {
    let mut out = "%YAML:1.0\n".to_owned();
    for node in nodes {
        out += &match node {
            Node::Number { name, value } => format!("{name}: {value}\n"),
            Node::Matrix { name, rows, columns, kind, values } => {
                let lines: Vec<String> = values.chunks(5).map(|values| values.join(", ")).collect();
                format!(
                    "{name}: !!opencv-matrix\n   rows: {rows}\n   cols: {columns}\n   dt: {kind}\n   data: [ {} ]\n",
                    lines.join(",\n       ")
                )
            }
        };
    }
    out.into_bytes()
}
