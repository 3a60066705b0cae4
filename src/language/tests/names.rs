use crate::language::from_text;
use crate::language::options::TextOptions;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::message::names::COMPARISONS;
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_engine::compose::bundle::check_names;
use cntk_reader_text::ctf::parse::rules::Rules;
use std::fmt::Write;
use std::sync::Arc;

/// Distinct names are compared at most once each, and hardly more often by accident.
#[test]
fn stream_names_are_not_compared_pairwise() {
    const STREAMS: usize = 20_000;
    let mut text = String::from(
        "deserializers = ([ type = \"CNTKTextFormatDeserializer\" ; module = \"CNTKTextFormatReader\" ; file = \"x\" ; input = [\n",
    );
    (0..STREAMS).for_each(|number| _ = writeln!(text, "s{number} = [ dim = 1 ; format = \"dense\" ]"));
    text += "] ])";
    COMPARISONS.set(0);
    let options = from_text(&text).expect("a configuration");
    let options = options.deserializers[0].of::<TextOptions>().expect("a text file");
    let rules = Rules::new(options, &Arc::new(Corpus::Numeric)).expect("names that differ");
    assert_eq!(rules.streams.len(), STREAMS);
    let streams: Vec<_> =
        options.streams.iter().map(|stream| StreamInfo::dense(&*stream.name, &[1])).collect();
    let named: Vec<_> = streams.iter().map(|stream| ("x", stream)).collect();
    check_names(&named).expect("names that differ");
    assert!(COMPARISONS.get() < 3 * STREAMS, "{} comparisons", COMPARISONS.get());
}
