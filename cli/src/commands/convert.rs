//! `cntk-reader convert`: converts data from one format to another.

use crate::args::{Form, Global};
use crate::columns::{self, ColumnOptions, Container};
use crate::exit::{Exit, Failure, Outcome};
use crate::import::{self, ImportArgs, Kind};
use crate::input::{Input, advice_on, format_of};
use crate::numbers::{between, whole};
use crate::open::{Scan, open};
use crate::output::{Output, SCHEMA, bytes, count, storage_name};
use crate::part::{self, PartOption, PartReport};
use crate::progress::Progress;
use clap::ValueEnum;
use cntk_reader::{ElementType, FileFormat, ReaderOptions, StreamInfo};
use cntk_reader_core::file::address;
use cntk_reader_tools::convert::{ConvertOptions, Data, Digest, Format, NumpyOptions, Share, convert};
use cntk_reader_tools::files::{CompressOptions, compress_with};
use cntk_reader_tools::import::ImportFormat;
use cntk_reader_tools::speech::{self, SpeechConversion};
use serde::Serialize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Convert data from one format to another
///
/// Reads anything that a configuration reads, text files (ctf), binary files (cbf), NumPy arrays
/// (npy, npz), Arrow and Parquet files, and tables (csv, tsv), JSON lines, LIBSVM, Vowpal Wabbit
/// and CoNLL, whose streams it infers and shows; writes text files, binary files, NumPy arrays,
/// Arrow and Parquet files, text and binary files also compressed with zstd. A folder of images
/// becomes a map. Speech data: features between htk and kaldi, labels between mlf, kaldi and ctf, all of them
/// to npz. Except for speech formats and maps, the output is read back and its digest is compared
/// with the input's before it gets its name. An interrupted conversion leaves nothing behind.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cntk-reader convert train.ctf train.cbf                      about ten times faster to read
  cntk-reader convert train.cbf train.ctf                      and back, bit for bit
  cntk-reader convert train.ctf train.ctf.zst                  the same bytes, compressed
  cntk-reader convert train.ctf train.cbf.zst --level 15       both at once, and smaller
  cntk-reader convert train.cntk train.npz                     what a configuration reads, for numpy.load
  cntk-reader convert digits.npz train.ctf --one-hot labels=10
  cntk-reader convert iris.csv iris.ctf                        streams and categories by inference
  cntk-reader convert test.csv test.ctf --like iris.ctf.streams.json
  cntk-reader convert iris.csv iris.cbf --stream x=length..width --stream y=species:category
  cntk-reader convert images images.map                        a folder for each class
  cntk-reader convert train.ctf train.parquet                  for pyarrow, pandas, Polars and Spark
  cntk-reader convert train.parquet train.cbf --one-hot label=10
  cntk-reader convert feats.scp feats.ark --from htk --script feats.kaldi.scp")]
pub struct Convert {
    /// The input: a configuration or a data file
    #[arg(value_name = "INPUT")]
    input: PathBuf,

    /// The output; an existing file of this name is replaced
    #[arg(value_name = "OUTPUT")]
    output: PathBuf,

    /// Format of the input [default: by its content]
    #[arg(long, value_enum, value_name = "FORMAT")]
    from: Option<FileKind>,

    /// Format of the output [default: by its extension]
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<FileKind>,

    /// Streams to write [default: all]; for an npy input, the name of its stream; for mlf, the
    /// stream of labels; for tables and alike NAME[=COLUMNS][:TYPE], with dense, category, index,
    /// index=DIM or a type of dense values such as uint8 as TYPE
    #[arg(long, value_name = "NAME")]
    stream: Vec<String>,

    /// An array or column of class numbers, which becomes a sparse stream with a 1 at the class
    #[arg(long, value_name = "NAME=CLASSES", value_parser = one_hot)]
    one_hot: Vec<(String, usize)>,

    /// Write all values as floats of this precision [default: the input's types]
    #[arg(long, value_enum)]
    precision: Option<Precision>,

    /// Number the sequences from 0 instead of writing their keys
    #[arg(long)]
    number_ids: bool,

    /// Size of the chunks of a binary file [default: 33554432]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true,
          value_parser = whole::<u64, 0>)]
    chunk_size: Option<u64>,

    /// Compress the text or binary output [default: if its name ends in .zst]
    #[arg(long, value_enum, value_name = "METHOD")]
    compress: Option<Compress>,

    /// Level of compression, from 1, the fastest, to 22, the smallest [default: 9]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = between::<1, 22>)]
    level: Option<u32>,

    /// Do not read the output back to verify it
    #[arg(long)]
    no_verify: bool,

    /// For HTK and Kaldi archives: the script to write, which lists their utterances
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    script: Option<String>,

    /// For labels: the list of states, if lines have no class numbers
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    states: Option<String>,

    #[command(flatten)]
    import: ImportArgs,

    #[command(flatten)]
    part: PartOption,
}

/// Formats of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
enum FileKind {
    /// A configuration; input only
    Config,
    /// CNTK's text format
    Ctf,
    /// CNTK's binary format
    Cbf,
    /// One NumPy array
    Npy,
    /// An archive of NumPy arrays
    Npz,
    /// HTK features, by their script
    Htk,
    /// A Kaldi script or archive
    Kaldi,
    /// Labels (HTK master label file)
    Mlf,
    /// An Arrow file (IPC, Feather)
    Arrow,
    /// A Parquet file
    Parquet,
    /// A table with commas or semicolons; input only
    Csv,
    /// A table with tabs; input only
    Tsv,
    /// A table with blanks; input only
    Blanks,
    /// JSON lines; input only
    Jsonl,
    /// LIBSVM's format; input only
    Libsvm,
    /// Vowpal Wabbit's format; input only
    Vw,
    /// Words in columns; input only
    Conll,
    /// A folder of images; input only
    Images,
    /// A map of images; output only
    Map,
}

/// The kinds of the module `import`.
const IMPORTED: [(FileKind, Kind); 10] = [
    (FileKind::Arrow, Kind::Columns(Container::Arrow)),
    (FileKind::Parquet, Kind::Columns(Container::Parquet)),
    (FileKind::Csv, Kind::Records(ImportFormat::Csv)),
    (FileKind::Tsv, Kind::Records(ImportFormat::Tsv)),
    (FileKind::Blanks, Kind::Records(ImportFormat::Blanks)),
    (FileKind::Jsonl, Kind::Records(ImportFormat::JsonLines)),
    (FileKind::Libsvm, Kind::Records(ImportFormat::LibSvm)),
    (FileKind::Vw, Kind::Records(ImportFormat::VowpalWabbit)),
    (FileKind::Conll, Kind::Records(ImportFormat::Conll)),
    (FileKind::Images, Kind::Folder),
];

impl FileKind {
    /// Returns the name that `--from` and `--to` take.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn imported(self) -> Option<Kind> {
        IMPORTED.iter().find(|(own, _)| *own == self).map(|(_, kind)| *kind)
    }

    fn container(self) -> Option<Container> {
        match self.imported() {
            Some(Kind::Columns(container)) => Some(container),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Precision {
    Float,
    Double,
}

/// Methods of compression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Compress {
    /// Independent frames, which readers decompress one by one
    Zstd,
}

#[derive(Serialize)]
struct Report {
    schema: u32,
    command: &'static str,
    input: String,
    from: FileKind,
    output: String,
    to: FileKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<PartReport>,
    /// The streams, for a part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    streams: Vec<StreamReport>,
    /// `None` if the file was only compressed.
    sequences: Option<u64>,
    samples: Option<u64>,
    values: Option<u64>,
    digest: Option<String>,
    is_verified: bool,
    /// Bytes of the output.
    bytes: u64,
    seconds: f64,
}

/// A stream of a part: the parts of one whole have equal ones.
#[derive(Serialize)]
struct StreamReport {
    name: String,
    storage: &'static str,
    element: &'static str,
    dim: usize,
}

impl StreamReport {
    fn new(stream: &StreamInfo) -> StreamReport {
        StreamReport {
            name: stream.name.clone(),
            storage: storage_name(stream.storage),
            element: stream.element.name(),
            dim: stream.sample_size(),
        }
    }
}

fn one_hot(text: &str) -> Result<(String, usize), String> {
    let (name, classes) = text.split_once('=').ok_or("write NAME=CLASSES, such as labels=10")?;
    let classes = classes.parse().ok().filter(|classes| (1..=i32::MAX as usize).contains(classes));
    Ok((name.to_owned(), classes.ok_or("the number of classes must be from 1 to 2147483647")?))
}

pub fn run(options: &Convert, global: &Global) -> Outcome {
    let from = options.kind_of_input()?;
    let to = options.kind_of_output()?;
    let begun = Instant::now();
    let compression = options.compression(to)?;
    if !matches!(from.imported(), Some(Kind::Records(_))) {
        options.import.refuse()?;
    }
    options.check_part(from, global)?;
    let mut report = match format(to).filter(|_| is_data(from)) {
        Some(_)
            if from == to && compression.is_some() && options.keeps_all() && options.part.part.is_none() =>
        {
            options.compress_file(to, compression, global)?
        }
        Some(format) => options.convert_data(from, to, Some(format), compression, global)?,
        None if to.container().is_some() && is_data(from) => {
            options.convert_data(from, to, None, compression, global)?
        }
        None if (from, to) == (FileKind::Images, FileKind::Map) => {
            let count = import::convert_folder(&text(&options.input), &text(&options.output))?;
            Report { sequences: Some(count), ..options.report(from, to) }
        }
        None => options.convert_speech(from, to, global)?,
    };
    report.bytes = std::fs::metadata(&options.output).map_or(0, |file| file.len());
    report.seconds = begun.elapsed().as_secs_f64();
    let mut output = Output::new(global, Form::Table);
    match output.form {
        Form::Table => output.line(&report.line())?,
        Form::Json | Form::Ndjson => output.json(&report)?,
    }
    output.finish()?;
    Ok(Exit::Good)
}

/// Maps a kind to the format that [`convert`] writes.
fn format(kind: FileKind) -> Option<Format> {
    match kind {
        FileKind::Ctf => Some(Format::Text),
        FileKind::Cbf => Some(Format::Binary),
        FileKind::Npy => Some(Format::NumpyArray),
        FileKind::Npz => Some(Format::NumpyArchive),
        _ => None,
    }
}

/// Whether [`convert`] reads this kind.
fn is_data(kind: FileKind) -> bool {
    kind == FileKind::Config
        || format(kind).is_some()
        || matches!(kind.imported(), Some(Kind::Records(_) | Kind::Columns(_)))
}

fn text(path: &Path) -> String {
    address::text_of(path).into_owned()
}

impl Convert {
    fn kind_of_input(&self) -> Result<FileKind, Failure> {
        if let Some(kind) = self.from {
            return Ok(kind);
        }
        if let Some(found) = import::kind_of(&self.input)?
            && let Some((kind, _)) = IMPORTED.iter().find(|(_, kind)| *kind == found)
        {
            return Ok(*kind);
        }
        let found = format_of(&self.input)?;
        Ok(match found {
            FileFormat::Configuration => FileKind::Config,
            FileFormat::CtfLines | FileFormat::CtfIds | FileFormat::CtfTextIds => FileKind::Ctf,
            FileFormat::Cbf => FileKind::Cbf,
            FileFormat::Npy => FileKind::Npy,
            FileFormat::Zip => FileKind::Npz,
            FileFormat::Mlf => FileKind::Mlf,
            FileFormat::KaldiArchive | FileFormat::KaldiText => FileKind::Kaldi,
            FileFormat::Script => {
                let message = "The input is a list of utterances, either HTK's or Kaldi's: give --from htk or --from kaldi.";
                return Err(Failure::Usage(message.to_owned()));
            }
            other => {
                return Err(Failure::Data(format!(
                    "'{}' is {}, which cannot be converted. {}",
                    self.input.display(),
                    other.describe(),
                    advice_on(other, &text(&self.input))
                )));
            }
        })
    }

    fn kind_of_output(&self) -> Result<FileKind, Failure> {
        if let Some(kind) = self.to {
            return Ok(kind);
        }
        // A compressed file has the extension of its format before the extension of the
        // compression.
        let name = match self.is_named_as_compressed() {
            true => Path::new(self.output.file_stem().unwrap_or_default()),
            false => &self.output,
        };
        let end = name.extension().map(|end| end.to_string_lossy().to_lowercase());
        Ok(match end.as_deref() {
            Some("ctf" | "txt") => FileKind::Ctf,
            Some("cbf" | "bin") => FileKind::Cbf,
            Some("npy") => FileKind::Npy,
            Some("npz") => FileKind::Npz,
            Some("ark") => FileKind::Kaldi,
            Some("mlf") => FileKind::Mlf,
            Some("arrow" | "feather") => FileKind::Arrow,
            Some("parquet" | "pq") => FileKind::Parquet,
            Some("map") => FileKind::Map,
            _ => {
                let message = format!(
                    "The extension of '{}' does not tell which format to write: use .ctf, .cbf, .npy, \
                     .npz, .arrow, .parquet, .ark, .mlf or .map, or give --to.",
                    self.output.display()
                );
                return Err(Failure::Usage(message));
            }
        })
    }

    fn is_named_as_compressed(&self) -> bool {
        self.output.extension().is_some_and(|end| end == "zst" || end == "zstd")
    }

    /// Returns the compression level, if the output is to be compressed.
    fn compression(&self, to: FileKind) -> Result<Option<u32>, Failure> {
        let is_asked_for = self.compress.is_some() || self.level.is_some();
        let message = match self.is_named_as_compressed() {
            false if is_asked_for => {
                "The name of a compressed output must end in .zst, by which readers recognize it. Rename the output, or leave out --compress and --level."
            }
            false => return Ok(None),
            true if !matches!(to, FileKind::Ctf | FileKind::Cbf) => {
                "Only text and binary files (ctf, cbf) can be compressed. Choose a name without .zst for the output."
            }
            true => return Ok(Some(self.level.unwrap_or(CompressOptions::DEFAULT_LEVEL))),
        };
        Err(Failure::Usage(message.to_owned()))
    }

    /// Whether the output has everything from the input, unchanged.
    fn keeps_all(&self) -> bool {
        let is_selected = !self.stream.is_empty() || !self.one_hot.is_empty();
        !is_selected && self.precision.is_none() && !self.number_ids && self.chunk_size.is_none()
    }

    fn check_different(&self) -> Result<(), Failure> {
        let same = std::fs::canonicalize(&self.output)
            .is_ok_and(|path| std::fs::canonicalize(&self.input).is_ok_and(|input| input == path));
        match same {
            true => {
                Err(Failure::Usage("Input and output are the same file. Choose another output.".to_owned()))
            }
            false => Ok(()),
        }
    }

    /// Compresses the input byte for byte.
    fn compress_file(&self, kind: FileKind, level: Option<u32>, global: &Global) -> Result<Report, Failure> {
        self.check_different()?;
        let mut options = CompressOptions::default();
        options.level = level.unwrap_or(options.level);
        options.verify = !self.no_verify;
        let progress = Progress::bytes(global, "Compressing");
        compress_with(&text(&self.input), &text(&self.output), &options, &mut |at| {
            progress.set(at.bytes, at.total);
            ControlFlow::Continue(())
        })?;
        Ok(Report { is_verified: options.verify, ..self.report(kind, kind) })
    }

    /// Fails for inputs that cannot be converted in parts.
    fn check_part(&self, from: FileKind, global: &Global) -> Result<(), Failure> {
        let Some(part) = self.part.part else { return Ok(()) };
        let input = self.input.display();
        match from {
            FileKind::Config | FileKind::Cbf | FileKind::Ctf => {
                self.part.check(&Input::recognize(&self.input, global)?)
            }
            _ if is_data(from) => Err(Failure::Usage(format!(
                "--part {part} is for configurations and binary files (cbf). Convert '{input}' to a binary file first: cntk-reader convert \
                 {input} NEW.cbf"
            ))),
            _ => Err(Failure::Usage(format!(
                "--part {part} is for configurations and binary files (cbf). Leave it out: '{input}' is converted as a whole."
            ))),
        }
    }

    fn convert_data(
        &self,
        from: FileKind,
        to: FileKind,
        format: Option<Format>,
        compression: Option<u32>,
        global: &Global,
    ) -> Result<Report, Failure> {
        self.check_different()?;
        let Some(Kind::Records(kind)) = from.imported() else {
            let (mut data, share) = self.data(from, global)?;
            if !self.stream.is_empty() {
                data.select(&self.stream)?;
            }
            return self.write_data((data, share), (from, to), format, compression, global);
        };
        if !self.one_hot.is_empty() {
            let message = "--one-hot is for NumPy arrays, Arrow and Parquet files. Here a column of class \
                           numbers is --stream NAME:index=CLASSES.";
            return Err(Failure::Usage(message.to_owned()));
        }
        let mut import = self.import.options(&self.stream, self.element())?;
        import.may_repeat_keys = self.number_ids;
        import::convert(&text(&self.input), kind, &import, &text(&self.output), global, |data| {
            self.write_data((data, None), (from, to), format, compression, global)
        })
    }

    fn write_data(
        &self,
        (mut data, share): (Data, Option<Share>),
        (from, to): (FileKind, FileKind),
        format: Option<Format>,
        compression: Option<u32>,
        global: &Global,
    ) -> Result<Report, Failure> {
        let output = text(&self.output);
        if self.number_ids {
            data.number_keys();
        }
        let mut options = ConvertOptions::default();
        options.chunk_size = self.chunk_size.unwrap_or(options.chunk_size);
        options.compression = compression;
        options.verify = !self.no_verify;
        let streams = match self.part.part {
            Some(_) => data.streams().iter().map(StreamReport::new).collect(),
            None => Vec::new(),
        };
        if let (Some(own), Some(share)) = (self.part.part, share)
            && share.begin == share.end
        {
            part::remove_output(Path::new(&address::exact(&output)))?;
            return Ok(Report {
                sequences: Some(0),
                samples: Some(0),
                values: Some(0),
                digest: Some(Digest::default().to_string()),
                is_verified: options.verify,
                part: Some(PartReport::new(own, Some(share))),
                streams,
                ..self.report(from, to)
            });
        }
        let progress = Progress::sequences(global, "Converting");
        let digest = match (format, to.container()) {
            (None, Some(container)) => columns::write(data, container, &output, options.verify, &progress)?,
            (format, _) => convert(data, format.unwrap_or(Format::Text), &output, &options, &mut |at| {
                progress.set(at.sequences, at.total);
                ControlFlow::Continue(())
            })?,
        };
        Ok(Report {
            sequences: Some(digest.sequences),
            samples: Some(digest.samples),
            values: Some(digest.values),
            digest: Some(digest.to_string()),
            is_verified: options.verify,
            part: self.part.part.map(|part| PartReport::new(part, share)),
            streams,
            ..self.report(from, to)
        })
    }

    /// Opens the data of the input.
    fn data(&self, from: FileKind, global: &Global) -> Result<(Data, Option<Share>), Failure> {
        let data = match from {
            FileKind::Npy | FileKind::Npz => {
                let mut numpy = NumpyOptions::default();
                numpy.one_hot.clone_from(&self.one_hot);
                numpy.is_archive = Some(from == FileKind::Npz);
                numpy.stream = self.stream.first().filter(|_| from == FileKind::Npy).cloned();
                numpy.element = self.element();
                Data::of_numpy(&text(&self.input), &numpy)?
            }
            FileKind::Arrow | FileKind::Parquet => {
                let container = from.container().unwrap_or(Container::Arrow);
                let options = ColumnOptions {
                    element: self.element(),
                    one_hot: self.one_hot.clone(),
                    streams: self.stream.clone(),
                    sample: None,
                };
                columns::open(&text(&self.input), container, &options)?
            }
            _ => {
                if !self.one_hot.is_empty() {
                    let message = "--one-hot is for NumPy arrays, Arrow and Parquet files: other formats \
                                   say which values are sparse.";
                    return Err(Failure::Usage(message.to_owned()));
                }
                let input = Input::recognize(&self.input, global)?;
                let adjust = |reader: ReaderOptions| match self.element() {
                    Some(element) => reader.precision(element),
                    None => reader,
                };
                let builder = || open(&input, Scan::Whole, global, adjust);
                let (mut data, share) = match self.part.part {
                    Some(part) => {
                        let (data, share) = Data::of_part(builder()?, builder()?, part)?;
                        (data, Some(share))
                    }
                    None => (Data::of_reader(builder()?)?, None),
                };
                self.element().into_iter().for_each(|element| data.to_floats(element));
                return Ok((data, share));
            }
        };
        Ok((data, None))
    }

    fn element(&self) -> Option<ElementType> {
        self.precision.map(|precision| match precision {
            Precision::Float => ElementType::Float,
            Precision::Double => ElementType::Double,
        })
    }

    fn convert_speech(&self, from: FileKind, to: FileKind, global: &Global) -> Result<Report, Failure> {
        let convert = match (from, to) {
            (FileKind::Htk, FileKind::Kaldi) => speech::htk_to_kaldi,
            (FileKind::Htk, FileKind::Npz) => speech::htk_to_numpy,
            (FileKind::Kaldi, FileKind::Htk) => speech::kaldi_to_htk,
            (FileKind::Kaldi, FileKind::Npz) => speech::kaldi_to_numpy,
            (FileKind::Kaldi, FileKind::Mlf) => speech::kaldi_to_mlf,
            (FileKind::Mlf, FileKind::Kaldi) => speech::mlf_to_kaldi,
            (FileKind::Mlf, FileKind::Ctf) => speech::mlf_to_text,
            (FileKind::Mlf, FileKind::Npz) => speech::mlf_to_numpy,
            (FileKind::Ctf, FileKind::Mlf) => speech::text_to_mlf,
            _ => {
                let [from, to] = [from, to].map(FileKind::name);
                let message = format!(
                    "There is no conversion from {from} to {to}. Write a configuration that reads the input, and convert that.",
                );
                return Err(Failure::Usage(message));
            }
        };
        if to == FileKind::Htk && self.script.is_none() {
            let message = format!(
                "Utterances of an HTK archive can only be found by their script. Say where to write it: --script {}",
                self.output.with_extension("scp").display()
            );
            return Err(Failure::Usage(message));
        }
        let needs_stream =
            matches!((from, to), (FileKind::Mlf, FileKind::Ctf) | (FileKind::Ctf, FileKind::Mlf));
        let stream = match &self.stream[..] {
            [stream] => stream.clone(),
            [] if !needs_stream => String::new(),
            _ => return Err(Failure::Usage("Say which stream has the labels: --stream NAME.".to_owned())),
        };
        let conversion = SpeechConversion {
            input: text(&self.input),
            output: text(&self.output),
            script: self.script.clone(),
            states: self.states.clone(),
            stream,
            number_ids: self.number_ids,
        };
        let progress = Progress::bytes(global, "Converting");
        let done = convert(&conversion, &mut |at: speech::Progress| {
            progress.set(at.bytes, at.total);
            ControlFlow::Continue(())
        })?;
        Ok(Report { sequences: Some(done.sequences), ..self.report(from, to) })
    }

    fn report(&self, from: FileKind, to: FileKind) -> Report {
        Report {
            schema: SCHEMA,
            command: "convert",
            input: self.input.display().to_string(),
            from,
            output: self.output.display().to_string(),
            to,
            part: None,
            streams: Vec::new(),
            sequences: None,
            samples: None,
            values: None,
            digest: None,
            is_verified: false,
            bytes: 0,
            seconds: 0.0,
        }
    }
}

impl Report {
    fn line(&self) -> String {
        if let (Some(part), Some(0)) = (&self.part, self.sequences) {
            return format!("{}: not written, because part {part} has no sequences", self.output);
        }
        let what = match self.sequences {
            Some(sequences) => count(sequences, "sequence"),
            None => bytes(self.bytes),
        };
        let digest = self.digest.as_ref().map_or_else(String::new, |digest| format!(", digest {digest}"));
        let verified = match self.is_verified {
            true => ", verified",
            false if self.digest.is_some() => ", not verified",
            false => "",
        };
        format!("{}: {what} in {:.2} s{digest}{verified}", self.output, self.seconds)
    }
}
