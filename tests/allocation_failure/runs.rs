//! The data and configurations of the runs.

use crate::data::{STATES, VALUES, to_binary, write_all};
use crate::image::Cast;
use crate::user::{Arrays, Knows};
use cntk_reader::Result;
use cntk_reader::language::{UserType, from_text_with};
use cntk_reader::{CtfDeserializer, ReaderOptions};
use cntk_reader_core::format::user::Registered;
use cntk_reader_engine::reader::{Extensions, Reader};
use cntk_reader_tools::convert::{
    ConvertOptions, Data, Format, Listener, Progress, binary_to_text, convert, text_to_binary,
};
use cntk_reader_tools::speech::{self, SpeechConversion};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Work that is done once undisturbed, and then once for each failing allocation.
pub struct Run {
    pub name: &'static str,
    /// The short form fails one in this many allocations.
    pub step: usize,
    pub work: Work,
}

pub enum Work {
    Reading(Reading),
    Converting(Conversion),
}

/// A configuration that is read from beginning to end.
pub struct Reading {
    pub minibatch: u64,
    /// Whether a checkpoint is restored on the way.
    pub restores: bool,
    /// Maximum number of minibatches to read.
    pub most: usize,
    config: String,
    /// Names of user-defined deserializers.
    users: Vec<(&'static str, Arrays)>,
}

/// A conversion, and its output files.
pub struct Conversion {
    pub convert: Box<dyn Fn() -> Result<()>>,
    pub outputs: Vec<PathBuf>,
}

impl Reading {
    pub fn open(&self) -> Result<Reader> {
        let types: Vec<_> =
            self.users.iter().map(|(name, user)| UserType { name, composable: user.is_listed() }).collect();
        let options = from_text_with(&self.config, &types)?;
        let register = |(name, user): &(&str, Arrays)| Registered::new(*name, Arc::new(user.clone()));
        let registered = self.users.iter().map(register).collect::<Result<Vec<_>>>()?;
        Reader::open_with(&options, &Extensions { registered: &registered, ..Extensions::default() })
    }
}

/// Textual keys.
const TEXTS: &str = "useNumericSequenceKeys=false";

/// Writes all data to a folder, and returns the runs.
pub fn runs(folder: &Path) -> Vec<Run> {
    let path = |name: &str| folder.join(name).display().to_string();
    write_all(folder);

    let both = "x=[dim=4;format=dense];s=[dim=5000;format=sparse]";
    let section = |file: &str, input: &str, more: &str| {
        format!(
            "[type=CNTKTextFormatDeserializer;module=CNTKTextFormatReader;file=\"{}\";input=[{input}];{more}]",
            path(file)
        )
    };
    let text = |more: &str| section("text", both, more);
    let binary =
        format!("[type=CNTKBinaryFormatDeserializer;module=CNTKBinaryReader;file=\"{}\"]", path("binary"));
    let features = format!(
        "[type=HTKFeatureDeserializer;module=HTKDeserializers;input=[f=[scpFile=\"{}\";dim={VALUES}]]]",
        path("script")
    );
    let labels = format!(
        "[type=HTKMLFDeserializer;module=HTKDeserializers;input=[l=[mlfFile=\"{}\";labelMappingFile=\"{}\";dim=5]]]",
        path("labels"),
        path("states")
    );
    let many_features = format!(
        "[type=HTKFeatureDeserializer;module=HTKDeserializers;input=[f=[scpFile=\"{}\";dim={VALUES}]]]",
        path("many.scp")
    );
    let many_labels = |kind: &str, file: &str| {
        format!(
            "[type={kind};module=HTKDeserializers;input=[l=[mlfFile=\"{}\";labelMappingFile=\"{}\";dim={STATES}]]]",
            path(file),
            path("many.states")
        )
    };
    let (text_labels, binary_labels) =
        (many_labels("HTKMLFDeserializer", "many.mlf"), many_labels("HTKMLFBinaryDeserializer", "many.bin"));
    let kaldi =
        format!("[type=KaldiDeserializer;input=[f=[scpFile=\"{}\";dim={VALUES}]]]", path("kaldi.scp"));
    let pictures = |kind: &str, file: &str| {
        format!(
            "[type={kind};module=ImageReader;file=\"{}\";input=[x=[transforms=([type=Crop;cropType=Center;sideRatio=0.8]:\
             [type=Scale;width=224;height=224;channels=3]:[type=Transpose])];y=[labelDim=4]]]",
            path(file)
        )
    };
    let (images, base64) =
        (pictures("ImageDeserializer", "map"), pictures("Base64ImageDeserializer", "base64"));
    let small = "chunkSizeInBytes=200000";
    let reading = |minibatch, reader: &str, deserializers: &str| Reading {
        minibatch,
        // To restore truncated minibatches, the chunk of every queued sequence is loaded, which
        // takes long if there are many.
        restores: !reader.contains("truncated=true"),
        most: usize::MAX,
        config: format!("traceLevel=0\n{reader}\ndeserializers=({deserializers})\n"),
        users: Vec::new(),
    };
    let run = |name, minibatch, step, reader: &str, deserializers: &str| Run {
        name,
        step,
        work: Work::Reading(reading(minibatch, reader, deserializers)),
    };
    let user = |name, reader: &str, deserializers: &str, users: &[(&'static str, Arrays)]| {
        let reading = Reading { users: users.to_vec(), ..reading(9_000, reader, deserializers) };
        Run { name, step: 9, work: Work::Reading(reading) }
    };
    let mut runs = vec![
        run("text, randomized", 5_000, 3, "randomize=true;randomizationWindow=20000", &text(small)),
        run("text, one chunk", 9_000, 6, "randomize=true", &text("")),
        run("text, in its order", 5_000, 3, "randomize=false", &text(small)),
        run(
            "lines, single frames",
            5_000,
            3,
            "frameMode=true",
            &section("lines", both, "skipSequenceIds=true"),
        ),
        run("binary", 5_000, 4, "randomize=true", &binary),
        run("binary, in its order", 5_000, 2, "randomize=false", &binary),
        run(
            "text, truncated",
            6_000,
            3,
            "truncated=true;truncationLength=10",
            &text(small).replace("5000", "20"),
        ),
        run("text, kept in memory", 5_000, 4, "", &text("chunkSizeInBytes=200000;keepDataInMemory=true")),
        run(
            "bundle",
            5_000,
            9,
            "",
            &format!(
                "{}:{}",
                section("text", "x=[dim=4;format=dense]", small),
                section("text", "s=[dim=5000;format=sparse]", "chunkSizeInBytes=300000")
            ),
        ),
        run("features and labels", 20_000, 3, "", &format!("{features}:{labels}")),
        run("frames of features and labels", 20_000, 12, "frameMode=true", &format!("{features}:{labels}")),
        run("features, truncated", 20_000, 3, "truncated=true;truncationLength=50", &features),
        run("an archive of Kaldi", 20_000, 3, "", &kaldi),
        run("images", 5, 4, "", &images),
        run("images in Base64", 5, 4, "", &base64),
        run(
            "text, keys that are texts",
            9_000,
            6,
            TEXTS,
            &section("text with names", both, "chunkSizeInBytes=200000;maxErrors=1000000000"),
        ),
        Run {
            name: "text, truncated, restored",
            step: 6,
            work: Work::Reading(Reading {
                restores: true,
                most: 4,
                // In memory, the chunks of many queued sequences are restored quickly.
                ..reading(
                    4_400,
                    "truncated=true;truncationLength=2",
                    &text("chunkSizeInBytes=20000;keepDataInMemory=true").replace("=5000;", "=20;"),
                )
            }),
        },
        run("many utterances", 12_000, 12, "", &format!("{many_features}:{text_labels}")),
        run(
            "many utterances, hashed keys",
            12_000,
            12,
            "hashSequenceKeys=true",
            &format!("{many_features}:{binary_labels}"),
        ),
        user(
            "arrays of users",
            TEXTS,
            "[type=Arrays;input=[]]",
            &[("Arrays", Arrays::new("x", Knows::Keys))],
        ),
        user(
            "arrays of users, listed by chunks",
            "",
            "[type=Arrays;input=[]]",
            &[("Arrays", Arrays::new("x", Knows::Nothing))],
        ),
        user(
            "arrays of users, joined",
            TEXTS,
            "[type=Arrays;input=[]]:[type=Others;input=[]]",
            &[("Arrays", Arrays::new("x", Knows::Keys)), ("Others", Arrays::new("y", Knows::Keys))],
        ),
    ];
    runs.extend(conversions(folder));
    runs
}

/// Returns conversions of the data, each to its own files.
fn conversions(folder: &Path) -> Vec<Run> {
    let path = |name: &str| folder.join(name).display().to_string();
    let conversion = |name, outputs: &[&str], convert: Box<dyn Fn() -> Result<()>>| Run {
        name,
        step: 1,
        work: Work::Converting(Conversion {
            convert,
            outputs: outputs.iter().map(|output| folder.join(output)).collect(),
        }),
    };
    let to_binary = to_binary(folder, "made.bin");
    let (binary, back) = (path("binary"), path("made.txt"));
    let image = Cast::new();
    let speech = |name, convert: SpeechFunction, input: &str, output: &str| {
        let options = SpeechConversion {
            input: path(input),
            output: path(output),
            script: Some(path(&format!("{output}.scp"))),
            states: input.ends_with("mlf").then(|| path("many.states")),
            stream: "l".to_owned(),
            number_ids: false,
        };
        conversion(name, &[output], Box::new(move || convert(&options, &mut go_on).map(drop)))
    };
    let generic = |name, format, output: &str| {
        let (input, output_path) = (path("text"), path(output));
        let made = move || {
            let text = CtfDeserializer::new(input.as_str()).dense("x", 4).sparse("s", 5000);
            let options = ReaderOptions::new().trace_level(0);
            let data = Data::of_reader(cntk_reader::Reader::builder().options(options).ctf(text))?;
            convert(data, format, &output_path, &ConvertOptions::default(), &mut go_on).map(drop)
        };
        Run { step: 5, ..conversion(name, &[output], Box::new(made)) }
    };
    vec![
        conversion(
            "text to binary",
            &["made.bin"],
            Box::new(move || text_to_binary(&to_binary, &mut go_on).map(drop)),
        ),
        conversion(
            "binary to text",
            &["made.txt"],
            Box::new(move || binary_to_text(&binary, &back, &mut go_on).map(drop)),
        ),
        generic("data to text", Format::Text, "data.txt"),
        generic("data to binary", Format::Binary, "data.bin"),
        generic("data to arrays of NumPy", Format::NumpyArchive, "data.npz"),
        speech("HTK to Kaldi", speech::htk_to_kaldi, "many.scp", "made.ark"),
        speech("Kaldi to HTK", speech::kaldi_to_htk, "kaldi.scp", "made.mfc"),
        speech("labels to Kaldi", speech::mlf_to_kaldi, "many.mlf", "labels.ark"),
        conversion("an image of the C interface", &[], Box::new(move || image.apply())),
        speech("labels to text", speech::mlf_to_text, "many.bin", "labels.txt"),
    ]
}

type SpeechFunction = fn(&SpeechConversion, &mut Listener<'_>) -> Result<Progress>;

fn go_on(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
