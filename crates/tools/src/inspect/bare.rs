//! Data files without a configuration, alone or several together.

use super::check::CheckSummary;
use super::inspector::Inspector;
use super::sequences::SequenceReader;
use super::{TextOutline, generated};
use crate::Look;
use cntk_reader::Reader;
use cntk_reader::language::values::Values;
use cntk_reader::language::{
    self, Base64ImageDeserializer, CbfDeserializer, Config, HtkFeatureDeserializer, HtkMlfDeserializer,
    ImageDeserializer, KaldiDeserializer, NumpyDeserializer, ReaderOptions, Section,
};
use cntk_reader_core::file::{DataFile, address};
use cntk_reader_core::format::recognize::FileFormat;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::stream::{ElementType, StreamInfo};
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::reader::build;
use cntk_reader_images::source;
use cntk_reader_speech::htk::mlf::LARGEST_DIM;
use cntk_reader_speech::{htk, kaldi};
use std::collections::BTreeSet;
use std::path::Path;

/// Data files without a configuration, each of which is recognized by its content. Several files
/// are joined by key, as the deserializers of a configuration are.
///
/// Dimensions of features and images come from the files. Numbers of classes and dimensions of
/// sparse streams are known only after reading the data: [`BareFiles::learn`].
#[derive(Debug, Clone)]
pub struct BareFiles(Vec<BareFile>);

/// One of [`BareFiles`].
#[derive(Debug, Clone)]
struct BareFile {
    path: String,
    source: BareSource,
    /// The path and the lines of a file that must be written beside this one before a configuration
    /// can read it, such as a script.
    companion: Option<(String, Vec<String>)>,
}

/// How a file is read. A path names a file in the file system or a generated file.
#[derive(Debug, Clone)]
enum BareSource {
    Text(TextOutline),
    Binary,
    HtkFeatures { script: String, stream: String, dim: usize },
    Kaldi { is_script: bool, stream: String, dim: usize, is_sparse: bool },
    Labels { states: Option<String>, stream: String, classes: usize },
    Array { stream: String },
    Images { map: String, streams: [String; 2], classes: usize, has_keys: bool },
    Base64Images { streams: [String; 2], classes: usize, has_keys: bool },
}

/// Number of lines of a companion file shown in a comment.
const SHOWN: usize = 5;

impl BareFiles {
    /// Recognizes the formats of files. Fails for a file that is not a data file, or cannot be read
    /// without further information.
    ///
    /// Labels (MLF) come last: they take their lengths from features, and cannot be the first
    /// deserializer of a reader.
    pub fn recognize(paths: &[&str]) -> Result<BareFiles> {
        let mut files = paths.iter().map(|path| BareFile::recognize(path)).collect::<Result<Vec<_>>>()?;
        files.sort_by_key(|file| matches!(file.source, BareSource::Labels { .. }));
        let mut names = BTreeSet::new();
        let named: Vec<(&str, Vec<String>)> = match paths {
            // The streams of a binary file are found by opening it.
            [] | [_] => Vec::new(),
            _ => files.iter().map(|file| (&*file.path, file.names_in_file())).collect(),
        };
        for (path, name) in named.iter().flat_map(|(path, own)| own.iter().map(move |name| (*path, name))) {
            if !names.insert(name.to_lowercase()) {
                let message = format!("Several of the files have a stream '{name}'.");
                let own = named.iter().filter(|(_, names)| names.contains(name));
                let list: Vec<String> = own.map(|(path, _)| format!("\"{path}\"")).collect();
                let detail = format!(
                    "Files that are given together are joined by key: each has different streams of the same sequences. If they are parts \
                     of one data set, give them one by one, or a configuration that lists them in one deserializer: file = ({}).",
                    list.join(" : ")
                );
                return Err(Error::data(message).with_detail(detail).in_file(path).in_stream(name));
            }
        }
        for name in files.iter_mut().flat_map(|file| file.source.stream_names()) {
            let mut number = 1;
            let base = name.clone();
            while !names.insert(name.to_lowercase()) {
                number += 1;
                *name = format!("{base}{number}");
            }
        }
        Ok(BareFiles(files))
    }

    /// Opens the data for inspection, like [`Look::inspect`]. Labels may be
    /// the only file.
    pub fn inspect(&self) -> Result<Inspector> {
        self.open(Inspector::open)
    }

    /// Opens the data to read single sequences, like [`Look::sequences`].
    /// Labels may be the only file.
    pub fn sequences(&self) -> Result<SequenceReader> {
        self.open(SequenceReader::open)
    }

    fn open<R>(
        &self,
        open: impl FnOnce(
            &cntk_reader_engine::reader::settings::ReaderSettings,
            &build::Extensions<'_>,
        ) -> Result<R>,
    ) -> Result<R> {
        let section = |values: Values| Section::of_values("file", &values);
        let mut added =
            self.0.iter().map(|file| file.values(true).map(section)).collect::<Result<Vec<_>>>()?;
        let begins_with_labels =
            self.0.first().is_some_and(|file| matches!(file.source, BareSource::Labels { .. }));
        if begins_with_labels {
            // In a configuration, labels must follow features: a placeholder for features comes
            // first, and is removed from the settings below.
            added.insert(0, section(HtkFeatureDeserializer::new("placeholder", "placeholder", 1).values()?));
        }
        let others = language::ExtensionTypes { added: &added, ..language::ExtensionTypes::default() };
        let options = self.options().trace_level(0);
        let mut settings = Config::default().with_options(&options, others)?.settings(others)?;
        if begins_with_labels {
            settings.deserializers.remove(0);
            settings.descriptions.drain(..1.min(settings.descriptions.len()));
        }
        open(&settings, &build::Extensions { labels_may_be_first: true, ..build::Extensions::default() })
    }

    /// Returns the non-default options that a reader of the files needs.
    fn options(&self) -> ReaderOptions {
        let has_numbers = |file: &BareFile| match &file.source {
            BareSource::Text(outline) => outline.numeric_keys,
            BareSource::Images { has_keys, .. } | BareSource::Base64Images { has_keys, .. } => !has_keys,
            BareSource::Binary | BareSource::Array { .. } => true,
            BareSource::HtkFeatures { .. } | BareSource::Kaldi { .. } | BareSource::Labels { .. } => false,
        };
        match self.0.iter().all(has_numbers) {
            true => ReaderOptions::new(),
            false => ReaderOptions::new().numeric_keys(false),
        }
    }

    /// Adopts the results of a check: dimensions of sparse streams, and numbers of classes.
    pub fn learn(&mut self, data: &Inspector, summary: &CheckSummary) {
        for ((file, member), seen) in self.0.iter_mut().zip(data.members()).zip(&summary.streams) {
            for (info, seen) in member.streams().iter().zip(seen) {
                let dim = usize::try_from(seen.dim).unwrap_or(usize::MAX).max(1);
                match &mut file.source {
                    BareSource::Text(outline) => outline.set_sparse_dim(&info.name, dim),
                    BareSource::Kaldi { dim: own, is_sparse: true, .. }
                    | BareSource::Labels { classes: own, .. } => {
                        *own = dim;
                    }
                    _ => {}
                }
            }
        }
    }

    /// Returns the dimension of a stream, if it was found by reading the data.
    pub fn dim(&self, stream: &str) -> Option<usize> {
        self.0.iter().find_map(|file| match &file.source {
            BareSource::Text(outline) => {
                outline.streams.iter().find(|own| own.name == stream).map(|own| own.dim)
            }
            BareSource::Kaldi { stream: own, dim, is_sparse: true, .. } if own == stream => Some(*dim),
            BareSource::Labels { stream: own, classes, .. } if own == stream => Some(*classes),
            _ => None,
        })
    }

    /// Returns a configuration that reads the files. Comments in it contain the files that must be
    /// written first, such as a script for features or a map for a zip file.
    pub fn configuration(&self) -> Result<String> {
        let mut text = String::new();
        for (path, lines) in self.0.iter().filter_map(|file| file.companion.as_ref()) {
            text += &format!("# First write the file '{path}' with {} lines:\n", lines.len());
            lines.iter().take(SHOWN).for_each(|line| text += &format!("#   {line}\n"));
            if lines.len() > SHOWN {
                text += "#   ...\n";
            }
        }
        if matches!(&self.0[..], [BareFile { source: BareSource::Labels { .. }, .. }]) {
            text += "# Labels cannot stand alone: put the deserializer of the features before them.\n";
        }
        if self
            .0
            .iter()
            .any(|file| matches!(file.source, BareSource::Images { .. } | BareSource::Base64Images { .. }))
        {
            text +=
                "# Images of different sizes need a transform: \"Scale\", with width, height and channels.\n";
        }
        let text_of = |file: &BareFile| file.values(false)?.to_section();
        let deserializers = self.0.iter().map(text_of).collect::<Result<Vec<_>>>()?;
        let (options, deserializers) = (self.options().to_configuration()?, deserializers.join(" : "));
        Ok(format!("{text}randomize = true\n{options}deserializers = ( {deserializers} )"))
    }
}

impl BareSource {
    /// The names of the streams that the file does not name.
    fn stream_names(&mut self) -> Vec<&mut String> {
        match self {
            BareSource::Text(_) | BareSource::Binary => Vec::new(),
            BareSource::HtkFeatures { stream, .. }
            | BareSource::Kaldi { stream, .. }
            | BareSource::Labels { stream, .. }
            | BareSource::Array { stream } => vec![stream],
            BareSource::Images { streams, .. } | BareSource::Base64Images { streams, .. } => {
                streams.iter_mut().collect()
            }
        }
    }
}

impl BareFile {
    fn recognize(path: &str) -> Result<BareFile> {
        let file = DataFile::open(path)?;
        let format = FileFormat::of_data(&file)?;
        let mut companion = None;
        let mut stand_in = |ending: &str, lines: Vec<String>| -> Result<String> {
            let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
            let mut text = lines.join("\n").into_bytes();
            text.push(b'\n');
            companion = Some((format!("{path}.{ending}"), lines));
            generated::add(&format!("{name}.{ending}"), text)
        };
        let features = || "features".to_owned();
        let labels = || "labels".to_owned();
        let source = match format {
            FileFormat::CtfLines | FileFormat::CtfIds | FileFormat::CtfTextIds => {
                BareSource::Text(TextOutline::of_sample(path)?)
            }
            FileFormat::Cbf => BareSource::Binary,
            FileFormat::HtkFeatures => {
                let key = Path::new(path).file_stem().unwrap_or_default().to_string_lossy();
                let last = htk::frames_of(&file)?.saturating_sub(1);
                let script = stand_in("scp", vec![format!("{key}={path}[0,{last}]")])?;
                let dim = htk::values_of_frames(&script)?;
                BareSource::HtkFeatures { script, stream: features(), dim }
            }
            FileFormat::Script if is_htk_script(&file)? => {
                let dim = htk::values_of_frames(path)?;
                BareSource::HtkFeatures { script: path.to_owned(), stream: features(), dim }
            }
            FileFormat::Script | FileFormat::KaldiArchive | FileFormat::KaldiText => {
                let is_script = format == FileFormat::Script;
                let dim = Pool::shared()?.install(|| kaldi::values_of_frames(path, is_script))?;
                BareSource::Kaldi {
                    is_script,
                    stream: if dim.is_some() { features() } else { labels() },
                    dim: dim.map_or(LARGEST_DIM as usize, |dim| dim as usize),
                    is_sparse: dim.is_none(),
                }
            }
            FileFormat::Mlf => {
                let states = match htk::mlf::state_names(&file)? {
                    Some(names) => Some(stand_in("states", names)?),
                    None => None,
                };
                BareSource::Labels { states, stream: labels(), classes: LARGEST_DIM as usize }
            }
            FileFormat::Npy => BareSource::Array { stream: features() },
            FileFormat::ImageMap => images(path.to_owned(), source::summary_of_map(path)?),
            FileFormat::Base64Images => {
                let source::MapSummary { classes, has_text_keys } = source::summary_of_base64(&file)?;
                let streams = ["features".to_owned(), "labels".to_owned()];
                BareSource::Base64Images { streams, classes, has_keys: has_text_keys }
            }
            FileFormat::Zip => {
                let lines = source::map_of_zip(path)?;
                let map = stand_in("map", lines)?;
                let summary = source::summary_of_map(&map)?;
                images(map, summary)
            }
            other => {
                let message = format!(
                    "'{path}' is {}. A configuration was expected, or a file of text, binary data, arrays, features, labels or images.",
                    other.describe()
                );
                return Err(Error::data(message).with_detail(other.remedy_for(path)).in_file(path));
            }
        };
        Ok(BareFile { path: path.to_owned(), source, companion })
    }

    /// Returns the names of the streams, if the file itself has them. A file that cannot be opened
    /// is reported when it is read.
    fn names_in_file(&self) -> Vec<String> {
        let names = |streams: &[StreamInfo]| streams.iter().map(|stream| stream.name.clone()).collect();
        match &self.source {
            BareSource::Text(outline) => outline.streams.iter().map(|stream| stream.name.clone()).collect(),
            BareSource::Binary => [ElementType::Float, ElementType::Double]
                .into_iter()
                .find_map(|element| {
                    let cbf = CbfDeserializer::new(Path::new(&address::exact(&self.path)));
                    let options = ReaderOptions::new().precision(element).trace_level(0);
                    let data = Reader::builder().options(options).cbf(cbf).inspect().ok()?;
                    let member = data.members().first().filter(|member| member.error().is_none())?;
                    Some(names(member.streams()))
                })
                .unwrap_or_default(),
            _ => Vec::new(),
        }
    }

    /// Returns the options that read the file. `is_looked_at`: for inspection, with the generated
    /// file in place of the companion, and with any dimension of sparse streams.
    fn values(&self, is_looked_at: bool) -> Result<Values> {
        let beside = |generated: &String| match &self.companion {
            Some((path, _)) if !is_looked_at => path.clone(),
            _ => generated.clone(),
        };
        match &self.source {
            BareSource::Text(outline) => {
                let ctf = if is_looked_at { outline.with_any_dim() } else { outline.deserializer() };
                ctf.values()
            }
            BareSource::Binary => {
                let cbf = CbfDeserializer::new(Path::new(&address::exact(&self.path)));
                cbf.values()
            }
            BareSource::HtkFeatures { script, stream, dim } => {
                let features =
                    HtkFeatureDeserializer::new(stream, Path::new(&address::exact(&beside(script))), *dim);
                features.values()
            }
            BareSource::Kaldi { is_script, stream, dim, is_sparse } => {
                let path = address::exact(&self.path);
                let path = Path::new(&path);
                let kaldi = match is_script {
                    true => KaldiDeserializer::script(stream, path, *dim),
                    false => KaldiDeserializer::archive(stream, path, *dim),
                };
                let kaldi = if *is_sparse { kaldi.sparse() } else { kaldi };
                kaldi.values()
            }
            BareSource::Labels { states, stream, classes } => {
                let labels =
                    HtkMlfDeserializer::new(stream, Path::new(&address::exact(&self.path)), *classes);
                let labels = match states {
                    Some(states) => labels.state_list(Path::new(&address::exact(&beside(states)))),
                    None => labels,
                };
                labels.values()
            }
            BareSource::Array { stream } => {
                let arrays = NumpyDeserializer::new().array(stream, Path::new(&address::exact(&self.path)));
                arrays.values()
            }
            BareSource::Images { map, streams: [features, labels], classes, .. } => {
                let images = ImageDeserializer::new(
                    Path::new(&address::exact(&beside(map))),
                    features,
                    labels,
                    *classes,
                );
                images.values()
            }
            BareSource::Base64Images { streams: [features, labels], classes, .. } => {
                let path = address::exact(&self.path);
                let images = Base64ImageDeserializer::new(Path::new(&path), features, labels, *classes);
                images.values()
            }
        }
    }
}

/// Describes the images of a map file.
fn images(map: String, summary: source::MapSummary) -> BareSource {
    let streams = ["features".to_owned(), "labels".to_owned()];
    BareSource::Images { map, streams, classes: summary.classes, has_keys: summary.has_text_keys }
}

/// Whether a script is HTK's: `key=path[first,last]`. Kaldi's scripts have blanks between key and
/// path.
fn is_htk_script(file: &DataFile) -> Result<bool> {
    let mut head = vec![0; 4096];
    let count = file.read_at(0, &mut head)?;
    let line =
        head[..count].split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).find(|line| !line.is_empty());
    let line = line.unwrap_or_default();
    Ok(line.iter().position(|&byte| byte == b'=').is_some_and(|at| !line[..at].contains(&b' ')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::CheckOptions;
    use cntk_reader::Epoch;
    use std::ops::ControlFlow;

    #[test]
    fn unknown_formats_are_refused_with_the_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.ctf").display().to_string();
        std::fs::write(&path, "").expect("writing");
        let error = BareFiles::recognize(&[&path]).expect_err("an error");
        assert_eq!(error.location().file.as_deref(), Some(&path[..]));
    }

    #[test]
    fn dimensions_are_learned_from_the_data() {
        let folder = tempfile::tempdir().expect("a folder");
        let [text, labels] = ["a.ctf", "b.mlf"].map(|name| folder.path().join(name).display().to_string());
        std::fs::write(&text, "u |x 1 2 |y 7:1 |z 0:1\nv |x 3 4 |y 2:1 |z 3:1\n").expect("writing");
        std::fs::write(&labels, "#!MLF!#\n\"u.lab\"\n0 1 s 5\n.\n\"v.lab\"\n0 1 s 0\n.\n").expect("writing");
        let mut files = BareFiles::recognize(&[&text, &labels]).expect("data files");
        let data = files.inspect().expect("data");
        let summary = data.check(&CheckOptions::default(), &mut |_| ControlFlow::Continue(()), &mut |_| ());
        files.learn(&data, &summary.expect("a summary"));
        let dims = ["x", "y", "z", "labels", "other"].map(|stream| files.dim(stream));
        assert_eq!(dims, [Some(2), Some(8), Some(4), Some(6), None]);
        let configuration = files.configuration().expect("a configuration");
        let mut reader = Config::from_text(&configuration)
            .and_then(|config| Reader::builder().config(config).open())
            .expect("a reader");
        let mut shapes: Vec<_> =
            reader.streams().iter().map(|stream| (stream.name.clone(), stream.shape.clone())).collect();
        shapes.sort();
        let expected = [("labels", 6), ("x", 2), ("y", 8), ("z", 4)];
        assert_eq!(shapes, expected.map(|(name, dim)| (name.to_owned(), vec![dim])));
        let minibatches = reader.epoch(Epoch::sweeps(1).minibatch_size(10)).expect("an epoch");
        assert_eq!(
            minibatches.map(|minibatch| minibatch.expect("a minibatch").sequences()).sum::<usize>(),
            2
        );
    }
}
