//! `cntk-reader report`: the HTML page about a data set.

#[allow(dead_code, reason = "not every test program needs every helper")]
mod common;

use common::run;
use std::path::Path;

/// Writes data, runs the command, and returns its exit code, the page, and standard error.
fn report(folder: &Path, text: &str, options: &[&str]) -> (i32, String, String) {
    std::fs::write(folder.join("data.ctf"), text).expect("writing");
    let (code, out, errors) = run(folder, &[&["report", "data.ctf"], options].concat());
    assert_eq!(out, "");
    (code, std::fs::read_to_string(folder.join("data.ctf.html")).unwrap_or_default(), errors)
}

/// Returns a section of the page.
fn section<'a>(page: &'a str, id: &str) -> &'a str {
    let start = page.find(&format!("<section id=\"{id}\">")).unwrap_or_else(|| panic!("no section {id}"));
    let end = start + page[start..].find("</section>").expect("an end");
    &page[start..end]
}

/// Sequences of 1 to 4 samples, with a class that is 2 in half of them.
fn text() -> String {
    let mut text = String::new();
    for sequence in 0..100 {
        for sample in 0..=sequence % 4 {
            let class = if sequence % 2 == 0 { 2 } else { sequence % 10 };
            text += &format!("{sequence} |x {sample} {sequence}");
            text += &if sample == 0 { format!(" |y {class}:1\n") } else { "\n".to_owned() };
        }
    }
    text
}

#[test]
fn page_describes_the_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, page, errors) = report(folder.path(), &text(), &["--minibatch-size", "10,50"]);
    assert_eq!((code, errors.as_str()), (0, "Wrote data.ctf.html: 0 errors, 0 warnings.\n"));
    let summary = section(&page, "summary");
    assert!(summary.contains("<td>100</td><td>250</td>"), "{summary}");
    let streams = section(&page, "streams");
    assert!(streams.contains("<td>x</td><td>dense</td>"), "{streams}");
    assert!(streams.contains("<td>y</td><td>sparse</td>"), "{streams}");
    let lengths = section(&page, "lengths-of-sequences");
    // Four bars of 25 sequences.
    assert_eq!(lengths.matches("<title>25</title>").count(), 4, "{lengths}");
    assert!(lengths.contains("<td>2.5</td><td>1</td>"), "{lengths}");
    let values = section(&page, "values-and-classes");
    assert!(values.contains("<tr><td>2</td><td>50</td><td>50.0 %</td>"), "{values}");
    assert!(values.contains("6 classes, numbered from 1 to 9"), "{values}");
    assert!(values.contains("5.0 times as many samples as the rarest"), "{values}");
    assert!(values.contains("<td>500</td><td>0</td><td>99</td>"), "values of x: {values}");
    let mixing = section(&page, "shuffling-and-padding");
    assert!(mixing.contains("<td>10</td>") && mixing.contains("<td>50</td>"), "{mixing}");
    assert!(section(&page, "findings").contains("line"), "y has fewer samples than lines: a note");
    assert_eq!(section(&page, "samples").matches("<h3>").count(), 6);
}

#[test]
fn findings_name_line_and_stream_and_the_exit_code_is_that_of_wrong_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, page, errors) = report(folder.path(), &(text() + "100 |x 1 nonsense\n"), &[]);
    assert_eq!(code, 1, "{errors}");
    let findings = section(&page, "findings");
    assert!(findings.contains("<td class=\"error\">error</td><td>data.ctf, line 251"), "{findings}");
}

#[test]
fn names_from_the_data_are_escaped() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("<script>.ctf"), "<b>7 |x 1 2\n<b>8 |x 3 nonsense\n").expect("writing");
    let (code, _, errors) = run(folder.path(), &["report", "<script>.ctf", "-o", "page.html"]);
    assert_eq!(code, 1, "{errors}");
    let page = std::fs::read_to_string(folder.path().join("page.html")).expect("the page");
    assert!(page.contains("&lt;script&gt;.ctf") && page.contains("&lt;b&gt;7"), "{page}");
    assert!(!page.contains("<script") && !page.contains("<b>"), "{page}");
}

#[test]
fn images_become_pictures() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let mut picture = b"P6 8 8 255\n".to_vec();
    picture.extend((0..64 * 3).map(|value| value as u8));
    std::fs::write(path("a.ppm"), picture).expect("writing");
    std::fs::write(path("map.txt"), "a.ppm\t3\n").expect("writing");
    let (code, _, errors) = run(folder.path(), &["report", "map.txt", "-o", "page.html", "-q"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    let page = std::fs::read_to_string(path("page.html")).expect("the page");
    assert!(page.contains("width=\"96\" height=\"96\" src=\"data:image/bmp;base64,"), "{page}");
    let mixing = section(&page, "shuffling-and-padding");
    assert!(mixing.contains("info FILE --config"), "{mixing}");
}

#[test]
fn empty_data_and_an_unwritable_page_are_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.ctf"), "|x 1\n").expect("writing");
    let (code, _, errors) = run(folder.path(), &["report", "a.ctf", "-o", "missing/page.html"]);
    assert_eq!(code, 3);
    assert!(errors.contains("missing/page.html"), "{errors}");
    let (code, _, errors) = run(folder.path(), &["report", "a.ctf", "--minibatch-size", "0"]);
    assert_eq!(code, 2, "{errors}");
}
