//! Parts of text, binary, speech and joined data: together they are the whole.

use super::*;
use crate::Part;
use cntk_reader::{Builder, Reader};
use cntk_reader_core::stream::ElementType;
use std::fmt::Write as _;
use std::path::Path;

/// Lines of `count` sequences of several lengths; every `skip`th id is left out.
fn lines(count: u32, skip: u32) -> String {
    let mut text = String::new();
    for id in (0..count).filter(|id| skip == 0 || id % skip > 0) {
        for line in 0..1 + id * 7 % 5 {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{id} |x {id} {line}.5 |y {}:1 {}:-2", id % 7, 7 + line % 2);
        }
    }
    text
}

/// A text deserializer with small chunks.
fn text(path: &Path, names: [&str; 2]) -> String {
    format!(
        "[ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; file = \"{}\" ; chunkSizeInBytes = 700 ; \
         input = [ {} = [ alias = x ; dim = 2 ; format = \"dense\" ] ; {} = [ alias = y ; dim = 9 ; format = \"sparse\" ] ] ]",
        path.display(),
        names[0],
        names[1]
    )
}

/// Digests of the parts have to give the digest of the whole, and their keys the keys of the whole.
///
/// There are enough chunks for `fair` parts of about equal size.
fn check(name: &str, least: u64, fair: u64, open: &dyn Fn() -> Builder) {
    let read = |mut data: Data| {
        let mut digester = Digester::new(data.streams());
        let mut keys = Vec::new();
        while let Some(batch) = data.next_batch().expect("a batch") {
            digester.add(batch);
            keys.extend_from_slice(&batch.keys);
        }
        (digester.finish(), keys)
    };
    let (whole, keys) = read(Data::of_reader(open()).expect("data"));
    assert!(whole.sequences >= least, "{name}");
    for parts in 1..=7 {
        let (mut sum, mut all, mut end) = (Digest::default(), Vec::new(), 0);
        for number in 1..=parts {
            let part = Part::new(number, parts).expect("a part");
            let (data, share) = Data::of_part(open(), open(), part).expect("data");
            assert_eq!(
                (share.begin, data.sequences()),
                (end, Some(share.end - share.begin)),
                "{name} {part}"
            );
            let (digest, own) = read(data);
            assert_eq!(digest.sequences, share.end - share.begin, "{name} {part}");
            let is_fair = digest.sequences > 0 && digest.sequences < whole.sequences * 2 / parts + 20;
            assert!(is_fair || parts > fair, "{name} {part}: {}", digest.sequences);
            sum.append(&digest);
            all.extend(own);
            end = share.end;
        }
        assert_eq!((sum, end), (whole, whole.sequences), "{name} in {parts} parts");
        assert_eq!(all, keys, "{name} in {parts} parts");
    }
}

#[test]
fn parts_of_all_formats_are_together_the_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let write = |name: &str, content: &str| std::fs::write(path(name), content).expect("writing");
    write("a.ctf", &lines(300, 0));
    write("b.ctf", &lines(300, 4));
    write("numbers.ctf", &"|x 1 2 |y 3:1\n|x 3 4 |y 4:1\n".repeat(200));
    let config = |name: &str, deserializers: &str, options: &str| {
        write(name, &format!("randomize = true\n{options}\ndeserializers = ( {deserializers} )"));
        let path = path(name);
        move || Reader::builder().config_file(&path).expect("a configuration")
    };
    let [a, b] = [("a.ctf", ["x", "y"]), ("b.ctf", ["u", "v"])].map(|(name, names)| text(&path(name), names));
    let of_text = config("text.cntk", &a, "");
    check("text", 300, 7, &of_text);
    check("double frames", 300, 7, &config("frames.cntk", &a, "precision = \"double\" ; frameMode = true"));
    check("lines", 400, 7, &config("lines.cntk", &text(&path("numbers.ctf"), ["x", "y"]), ""));
    check("joined", 225, 7, &config("joined.cntk", &format!("{a} : {b}"), ""));
    let binary = path("a.cbf").display().to_string();
    let options = ConvertOptions { chunk_size: 900, ..ConvertOptions::default() };
    let data = Data::of_reader(of_text()).expect("data");
    convert(data, Format::Binary, &binary, &options, &mut |_| ControlFlow::Continue(())).expect("binary");
    check("binary", 300, 7, &|| Reader::builder().cbf(cntk_reader::CbfDeserializer::new(&binary)));
}

#[test]
fn parts_of_speech_are_together_the_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("features.ark");
    let mut archive = Vec::new();
    // A chunk of speech has 15 minutes of frames.
    for utterance in 0..70u32 {
        let frames = 9000 + utterance * 17 % 500;
        archive.extend(format!("u{utterance} \0BFM \x04").bytes());
        archive.extend(frames.to_le_bytes());
        archive.extend(b"\x04\x01\0\0\0");
        archive.extend((0..frames).flat_map(|frame| ((frame * 7 + utterance) as f32).to_le_bytes()));
    }
    std::fs::write(&path, archive).expect("writing");
    let open = || Reader::builder().kaldi(cntk_reader::KaldiDeserializer::archive("features", &path, 1));
    assert_eq!(open().open().expect("a reader").streams()[0].element, ElementType::Float);
    check("speech", 70, 3, &open);
}
