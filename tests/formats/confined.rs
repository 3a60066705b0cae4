//! `confinePaths`: paths that data files name must lead to the folder of the file that names them,
//! or to allowed folders.

use crate::common;

use cntk_reader::{Error, Reader, ReaderOptions};
use std::fs;

/// A folder with the folders `own` and `other`, both with the same files.
struct Data(tempfile::TempDir);

impl Data {
    fn new() -> Data {
        common::quiet();
        let data = Data(tempfile::tempdir().expect("a folder"));
        let header = [10u32, 100_000, 4 << 16 | 9].into_iter().flat_map(u32::to_be_bytes);
        let features: Vec<u8> = header.chain([0; 40]).collect();
        let matrix = [b"\0BFM \x04\x0a\0\0\0\x04\x01\0\0\0".as_slice(), &[0; 40]].concat();
        for folder in ["own", "other"] {
            fs::create_dir(data.0.path().join(folder)).expect("a folder");
            data.write(&format!("{folder}/a.mfc"), &features);
            data.write(&format!("{folder}/a.ark"), &matrix);
            data.write(&format!("{folder}/a.lat"), [1; 64]);
            let key = if folder == "own" { "u0" } else { "u1" };
            data.write(&format!("{folder}/a.mlf"), format!("#!MLF!#\n\"{key}\"\n0 1000000 a\n.\n"));
            let recorded = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/images/files/c.zip");
            data.write(&format!("{folder}/a.zip"), fs::read(recorded).expect("a zip file"));
        }
        data.write("own/states", "a\n");
        data
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).expect("writing");
    }

    /// Writes two lines to a file in `own`: the first names the file in `own`, the second the file
    /// in `other`.
    fn list(&self, name: &str, line: impl Fn(usize, String) -> String, file: &str) -> String {
        let lines = ["own", "other"].iter().enumerate();
        let text: String = lines
            .map(|(number, folder)| line(number, self.path(&format!("{folder}/{file}"))) + "\n")
            .collect();
        self.write(&format!("own/{name}"), text);
        self.path(&format!("own/{name}"))
    }

    fn features(&self, list: &str) -> String {
        let scp = if list.is_empty() { self.path("own/all.scp") } else { list.to_owned() };
        let path = self.path("own/a.mfc");
        self.write("own/all.scp", format!("u0.mfc={path}[0,9]\nu1.mfc={path}[0,9]\n"));
        format!("[type=HTKFeatureDeserializer;module=HTKDeserializers;input=[x=[scpFile=\"{scp}\";dim=1]]]")
    }
}

fn open(options: ReaderOptions, deserializers: &str) -> Result<(), Error> {
    let text = format!("traceLevel=0\nrandomize=false\ndeserializers=({deserializers})");
    Reader::builder().config_text(&text)?.options(options).open().map(drop)
}

/// Checks that the path in the second line of `list` is refused.
fn check(data: &Data, what: &str, deserializers: &str, list: &str, path: &str) {
    let path = data.path(path);
    let result = open(ReaderOptions::new(), deserializers);
    assert!(result.is_ok(), "{what}: {:?}", result.err());
    let error = open(ReaderOptions::new().confine_paths::<&str>(&[]), deserializers).expect_err(what);
    let message = format!("The path '{path}' leads outside the allowed folders.");
    assert_eq!(error.message(), message, "{what}");
    let location = (error.location().file.as_deref(), error.location().line);
    assert_eq!(location, (Some(list), Some(2)), "{what}");
    assert!(error.detail().contains("'allowedFolders'"), "{what}: {error}");
    let allowed = ReaderOptions::new().confine_paths(&[data.path("other")]);
    let result = open(allowed, deserializers);
    assert!(result.is_ok(), "{what}: {:?}", result.err());
}

#[test]
fn paths_of_speech_are_confined() {
    let data = Data::new();
    let list = data.list("x.scp", |number, path| format!("u{number}.mfc={path}[0,9]"), "a.mfc");
    check(&data, "HTK", &data.features(&list), &list, "other/a.mfc");

    let list = data.list("k.scp", |number, path| format!("u{number} {path}"), "a.ark");
    let kaldi = format!("[type=KaldiDeserializer;input=[x=[scpFile=\"{list}\";dim=1]]]");
    check(&data, "Kaldi", &kaldi, &list, "other/a.ark");

    let list = data.list("labels", |_, path| path, "a.mlf");
    let states = data.path("own/states");
    let labels = format!(
        "[type=HTKMLFDeserializer;module=HTKDeserializers;\
         input=[y=[mlfFileList=\"{list}\";labelMappingFile=\"{states}\";dim=1]]]"
    );
    let labels = format!("{}:{labels}", data.features(""));
    check(&data, "labels", &labels, &list, "other/a.mlf");

    let toc = data.list("toc", |number, path| format!("u{number}={path}[0]"), "a.lat");
    let index = data.path("own/index");
    fs::write(&index, format!("{toc}\n")).expect("writing");
    let lattices = format!(
        "{}:[type=LatticeDeserializer;module=HTKDeserializers;input=[l=[latticeIndexFile=\"{index}\"]]]",
        data.features("")
    );
    check(&data, "lattices", &lattices, &toc, "other/a.lat");
    // A table of contents elsewhere, in the same folder as its lattices.
    fs::write(&toc, format!("u0={}[0]\n", data.path("own/a.lat"))).expect("writing");
    data.write("other/toc", format!("u1={}[0]\n", data.path("other/a.lat")));
    fs::write(&index, format!("{toc}\n{}\n", data.path("other/toc"))).expect("writing");
    check(&data, "tables of contents", &lattices, &index, "other/toc");
}

#[cfg(feature = "images")]
#[test]
fn paths_of_images_are_confined() {
    let data = Data::new();
    let images = |list: &str| {
        format!(
            "[type=ImageDeserializer;module=ImageReader;file=\"{list}\";\
             input=[labels=[labelDim=2];features=[transforms=([type=Transpose])]]]"
        )
    };
    let list = data.list("zips", |_, path| format!("{path}@/s420.jpg\t0"), "a.zip");
    check(&data, "zip files", &images(&list), &list, "other/a.zip");
    // Members of zip files are never written to disk, so their names are harmless.
    let list = data.list("files", |_, path| format!("{path}\t0"), "a.mfc");
    check(&data, "image files", &images(&list), &list, "other/a.mfc");
    let up = data.path("own/../other/a.mfc");
    fs::write(&list, format!("{}\t0\n{up}\t0\n", data.path("own/a.mfc"))).expect("writing");
    check(&data, "parent folders", &images(&list), &list, "own/../other/a.mfc");
}

#[test]
fn allowed_folders_without_confinement_are_refused() {
    let data = Data::new();
    let list = data.list("x.scp", |number, path| format!("u{number}.mfc={path}[0,9]"), "a.mfc");
    let text = format!("traceLevel=0\nallowedFolders=(/tmp)\ndeserializers=({})", data.features(&list));
    let opened = Reader::builder().config_text(&text).and_then(|builder| builder.open());
    let error = opened.map(drop).expect_err("no confinement");
    assert!(error.message().contains("'confinePaths'"), "{error}");
}
