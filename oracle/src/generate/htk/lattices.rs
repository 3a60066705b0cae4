//! Generates lattices: opaque bytes, compared as whole words.

use super::super::rng::Rng;
use super::{Corpus, Part, section};
use std::fmt::Write;

/// Generates one or two tables of contents, each with one or two files. Sizes are multiples of 4:
/// otherwise the padding of the last word would depend on how CNTK keeps its chunks in memory.
pub fn write(rng: &mut Rng, corpus: &Corpus) -> Part {
    let tables = 1 + rng.below(2);
    let mut files = Vec::new();
    let mut index = String::new();
    for table in 0..tables {
        let (mut toc, mut content, mut part) = (String::new(), Vec::new(), 0);
        let own = corpus.utterances.iter().enumerate().filter(|(number, _)| number % tables == table);
        let mut path = String::new();
        for (_, utterance) in own {
            if rng.once_in(20) {
                continue;
            }
            if path.is_empty() || rng.once_in(6) {
                if !path.is_empty() {
                    files.push((format!("t{table}-{part}.lat"), std::mem::take(&mut content)));
                    part += 1;
                }
                path = format!("@DIR@/t{table}-{part}.lat");
                writeln!(toc, "{}={path}[0]", utterance.key).unwrap_or_default();
            } else {
                let shown = if rng.once_in(2) { path.as_str() } else { "" };
                writeln!(toc, "{}={shown}[{}]", utterance.key, content.len()).unwrap_or_default();
            }
            let words = 1 + rng.below(20);
            content.extend((0..words).flat_map(|_| (rng.bits() as u32).to_le_bytes()));
        }
        if !path.is_empty() {
            files.push((format!("t{table}-{part}.lat"), content));
        }
        files.push((format!("t{table}.toc"), toc.into_bytes()));
        writeln!(index, "@DIR@/t{table}.toc").unwrap_or_default();
    }
    files.push(("lat.idx".to_owned(), index.into_bytes()));
    let mut entries = vec!["latticeIndexFile = \"@DIR@/lat.idx\"".to_owned()];
    if rng.once_in(5) {
        entries.push("cacheIndex = true".to_owned());
    }
    let outer = if rng.once_in(4) { vec!["chunkSizeInBytes = 40".to_owned()] } else { Vec::new() };
    Part { section: section("LatticeDeserializer", "lattice", &entries, &outer), files }
}
