//! Binary deserializers and readers.

use super::options::*;
use super::*;
use cntk_reader_core::stream::ElementType;

fn binary(text: &str) -> Result<(ReaderSettings, BinaryOptions)> {
    let options = from_text(text)?;
    let Some(binary) = options.deserializers[0].of::<BinaryOptions>().cloned() else { panic!("no binary") };
    Ok((options, binary))
}

const HEAD: &str = "type=CNTKBinaryFormatDeserializer;module=CNTKBinaryReader;file=f";

#[test]
fn sections_can_only_rename_streams() {
    let text = format!(
        "traceLevel=0;precision=double
         deserializers=([{HEAD};keepDataInMemory=true;input=[b=[alias=words;dim=3;format=dense];A=[alias=words];same=[]]])"
    );
    let (options, binary) = binary(&text).unwrap();
    assert_eq!((options.shape, options.element), (Shape::Composite, ElementType::Double));
    let renamed = [("A", "words"), ("b", "words"), ("same", "same")];
    assert_eq!(
        binary,
        BinaryOptions {
            files: cntk_reader_core::format::files::Files::named("f".into()).unwrap(),
            shared_ids: false,
            renamed: renamed.map(|(new, alias)| (new.into(), alias.into())).to_vec(),
            ids: Vec::new(),
            ignores_unmatched: false,
            keep_data_in_memory: true,
            log: Logger::new(0),
            element: ElementType::Double,
        }
    );
}

#[test]
fn windows() {
    let order = |text: &str| binary(text).unwrap().0.order;
    let block = |window| Order::Block { window, seed: 0 };
    let all = composite::AUTO_WINDOW;
    assert_eq!(order(&format!("traceLevel=0;deserializers=([{HEAD}])")), block(WindowSize::Samples(all)));
    let reader = "readerType=CNTKBinaryReader;traceLevel=0;file=f";
    assert_eq!(order(reader), block(WindowSize::Chunks(128)));
    assert_eq!(order(&format!("{reader};randomizationWindow=3")), block(WindowSize::Chunks(3)));
    assert_eq!(order(&format!("{reader};randomize=none")), Order::InOrder);
    let sampled = format!("{reader};sampleBasedRandomizationWindow=true");
    assert_eq!(order(&sampled), block(WindowSize::Samples(all)));
}

#[test]
fn legacy_binary_reader() {
    let (options, _) = binary("readerType=CNTKBinaryReader;traceLevel=0;file=f;frameMode=true").unwrap();
    assert_eq!((options.shape, options.packing), (Shape::BinaryReader, Packing::Sequence));
    assert!(!options.local_timeline);
    let bad = "Not supported precision 'half'. Expected 'double' or 'float'.";
    assert_error(binary("readerType=CNTKBinaryReader;traceLevel=0;precision=half;file=f"), R, bad);
}
