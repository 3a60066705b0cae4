//! Tests of tables with random values, and of batches.

use super::*;
use crate::convert::{ConvertOptions, Format, convert};
use cntk_reader_core::testing::cases;
use proptest::prelude::*;
use std::ops::ControlFlow;

fn open(path: &str, options: &ImportOptions) -> Import {
    Import::open(path, ImportFormat::Csv, options, &mut |_, _| ()).expect("an import")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(100)) })]

    #[test]
    fn tables_keep_numbers_and_texts(
        rows in prop::collection::vec((any::<f32>(), any::<i16>(), "[ab,\"\n;é ]{0,4}"), 1..30)
    ) {
        let rows: Vec<_> = rows.into_iter().filter(|(x, ..)| x.is_finite()).collect();
        prop_assume!(rows.iter().any(|(.., text)| !text.trim().is_empty()));
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.csv").display().to_string();
        let mut table = ::csv::Writer::from_path(&path).expect("a table");
        table.write_record(["x", "n", "text"]).expect("writing");
        for (x, n, text) in &rows {
            table.write_record([x.to_string(), n.to_string(), text.clone()]).expect("writing");
        }
        table.flush().expect("writing");
        drop(table);
        let import = open(&path, &ImportOptions::default());
        prop_assert_eq!(import.records, Some(rows.len() as u64));
        let Kind::Category(names) = &import.schema.streams[1].kind else { panic!("categories") };
        let mut data = import.data().expect("data");
        let batch = data.next_batch().expect("a batch").expect("sequences");
        let expected: Vec<f32> = rows.iter().flat_map(|(x, n, _)| [*x, f32::from(*n)]).collect();
        let found: Vec<f32> = bytemuck::pod_collect_to_vec(&batch.columns[0].values);
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&found), bits(&expected));
        let mut indices = batch.columns[1].indices.iter();
        for ((.., text), count) in rows.iter().zip(&batch.columns[1].counts) {
            let text = text.trim();
            prop_assert_eq!(*count, u32::from(!text.is_empty()));
            if !text.is_empty() {
                prop_assert_eq!(&names[*indices.next().expect("an index") as usize], text);
            }
        }
        // Compares what a reader reads with the data.
        for (format, output) in [(Format::Text, "a.ctf"), (Format::Binary, "a.cbf")] {
            let output = folder.path().join(output).display().to_string();
            let go_on = &mut |_| ControlFlow::Continue(());
            convert(import.data().expect("data"), format, &output, &ConvertOptions::default(), go_on)
                .expect("a verified output");
        }
    }
}

#[test]
fn sequences_are_whole_at_the_ends_of_batches() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.csv").display().to_string();
    let rows: String = (0..40_000).map(|row| format!("{},{row}\n", row / 7)).collect();
    std::fs::write(&path, format!("id,x\n{rows}")).expect("writing");
    let options = ImportOptions { key: Some("id".to_owned()), ..ImportOptions::default() };
    let import = open(&path, &options);
    assert_eq!((import.records, import.sequences), (Some(40_000), Some(5715)));
    let mut data = import.data().expect("data");
    let (mut lengths, mut batches) = (Vec::new(), 0);
    while let Some(batch) = data.next_batch().expect("a batch") {
        assert_eq!(batch.keys.len(), batch.columns[0].lengths.len());
        lengths.extend_from_slice(&batch.columns[0].lengths);
        batches += 1;
    }
    assert!(batches > 1);
    assert_eq!((lengths.len(), lengths.pop()), (5715, Some(2)));
    assert!(lengths.iter().all(|&length| length == 7));
}

#[test]
fn formats_are_recognized_by_content_and_name() {
    for (found, path, expected) in [
        (FileFormat::Csv, "a.txt", Some(ImportFormat::Csv)),
        (FileFormat::Text, "a.csv.gz", Some(ImportFormat::Csv)),
        (FileFormat::CtfLines, "a.csv", None),
        (FileFormat::CtfIds, "a.vw", Some(ImportFormat::VowpalWabbit)),
        (FileFormat::Tsv, "a.CONLLU", Some(ImportFormat::Conll)),
        (FileFormat::Utf16, "a.csv", None),
        (FileFormat::Gzip, "a.csv", None),
        (FileFormat::Text, "a.txt", None),
    ] {
        assert_eq!(ImportFormat::of(found, path), expected, "{path}");
    }
}
