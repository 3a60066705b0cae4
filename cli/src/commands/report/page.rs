//! The page as HTML. All text from the data is escaped.

use super::values::{Classes, StreamValues};
use super::{Drawn, FINDINGS, Facts, charts, picture};
use crate::output::{bytes, count, number, storage_name};
use cntk_reader::StreamInfo;
use cntk_reader_tools::inspect::{Finding, InspectedMember, Lengths, Sequence, SequenceData, Severity};
use std::cmp::Reverse;
use std::fmt::Write;

/// Number of bars of the lengths of sequences.
const LENGTH_BARS: u32 = 40;
/// Number of classes shown.
const CLASSES: usize = 25;
/// Number of values of a sample shown, and of samples of a sequence.
const VALUES: usize = 24;
const SAMPLES: usize = 4;

const STYLE: &str = include_str!("style.css");

/// Writes the page.
pub fn write(facts: &Facts) -> String {
    let title = escape(&facts.file);
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}: data report</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header><h1>{title}</h1>\
         <p>{}, read by cntk-reader {}</p></header>\n<main>\n",
        escape(facts.format),
        env!("CARGO_PKG_VERSION")
    );
    for (name, content) in [
        ("Summary", summary(facts)),
        ("Streams", streams(facts)),
        ("Lengths of sequences", lengths(facts)),
        ("Values and classes", values(&facts.drawn)),
        ("Shuffling and padding", mixing(facts)),
        ("Findings", findings(facts)),
        ("Samples", samples(&facts.drawn)),
    ] {
        let id = name.to_lowercase().replace(' ', "-");
        let _ = writeln!(page, "<section id=\"{id}\">\n<h2>{name}</h2>\n{content}\n</section>");
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// Escapes text for HTML. Control characters become visible.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(' '),
            _ if char.is_control() => escaped.extend(char.escape_default()),
            _ => escaped.push(char),
        }
    }
    escaped
}

/// A table; the first column is text, the others are numbers.
fn table<const N: usize>(heading: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let line = |cells: &[String], tag: &str| {
        let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell)));
        format!("<tr>{}</tr>", cells.collect::<String>())
    };
    let head = line(&heading.map(str::to_owned), "th");
    let body: String = rows.into_iter().map(|row| line(&row, "td")).collect();
    format!("<div class=\"wide\"><table><thead>{head}</thead><tbody>{body}</tbody></table></div>")
}

fn paragraph(text: &str) -> String {
    format!("<p>{}</p>", escape(text))
}

fn summary(facts: &Facts) -> String {
    let row = |member: &InspectedMember| {
        let lengths = member.lengths();
        [
            member.name().to_owned(),
            member.type_name().to_owned(),
            member.file_bytes().map_or_else(String::new, bytes),
            number(lengths.sequences()),
            number(lengths.samples()),
            number(member.chunks()),
        ]
    };
    let heading = ["source", "type", "size", "sequences", "samples", "chunks"];
    let mut html = table(heading, facts.data.members().iter().map(row));
    let size = facts.window.bytes.map_or_else(String::new, |size| format!(", at most {}", bytes(size)));
    html.push_str(&paragraph(&format!(
        "The randomization window has {}, {}{size} in memory.",
        count(facts.window.chunks, "chunk"),
        count(facts.window.samples, "sample")
    )));
    let found =
        [(facts.summary.errors, "error"), (facts.summary.warnings, "warning"), (facts.summary.notes, "note")];
    let found = found.map(|(number, thing)| count(number, thing)).join(", ");
    let class = if facts.summary.errors > 0 { "error" } else { "good" };
    let _ = write!(html, "<p class=\"{class}\"><a href=\"#findings\">{found}</a></p>");
    html
}

fn streams(facts: &Facts) -> String {
    let members = facts.data.members().iter().zip(&facts.summary.streams);
    let rows = members.flat_map(|(member, seen)| member.streams().iter().zip(seen)).map(|(info, seen)| {
        let shape: Vec<String> = info.shape.iter().map(usize::to_string).collect();
        let shape = match facts.found.dim(&info.name) {
            _ if info.has_late_shape() => "varies".to_owned(),
            Some(dim) => dim.to_string(),
            None => shape.join(" × "),
        };
        [
            info.name.clone(),
            storage_name(info.storage).to_owned(),
            info.element.name().to_owned(),
            shape,
            seen.dim.to_string(),
            number(seen.samples),
            number(seen.values),
        ]
    });
    let heading = ["stream", "storage", "element", "shape", "dimension seen", "samples", "values"];
    table(heading, rows.collect::<Vec<_>>())
}

fn lengths(facts: &Facts) -> String {
    let mut html = String::new();
    for member in facts.data.members() {
        let lengths = member.lengths();
        let at = |share| lengths.quantile(share).map_or_else(String::new, |length| number(length.into()));
        let _ = write!(html, "<h3>{}</h3>", escape(member.name()));
        match (lengths.quantile(0.0), lengths.quantile(1.0)) {
            (Some(least), Some(most)) if least < most => {
                let counts = length_counts(&lengths, least, most);
                let title = "Number of sequences by length in samples";
                html.push_str(&charts::histogram(&counts, &least.to_string(), &most.to_string(), title));
            }
            (Some(length), _) => {
                let samples = count(length.into(), "sample");
                html.push_str(&paragraph(&format!("All sequences have {samples}.")));
                continue;
            }
            _ => {
                html.push_str(&paragraph("There are no sequences."));
                continue;
            }
        }
        let heading = ["", "mean", "min", "25 %", "50 %", "75 %", "90 %", "99 %", "max"];
        let shares = [0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0].map(at);
        let [min, p25, p50, p75, p90, p99, max] = shares;
        let mean = format!("{:.1}", lengths.mean());
        html.push_str(&table(heading, [["samples".to_owned(), mean, min, p25, p50, p75, p90, p99, max]]));
    }
    html
}

/// Returns the number of sequences in ranges of lengths of equal width.
fn length_counts(lengths: &Lengths, least: u32, most: u32) -> Vec<u64> {
    let bars = (most - least).saturating_add(1).min(LENGTH_BARS);
    let mut counts = vec![0; bars as usize];
    for (length, sequences) in lengths.counts() {
        let place = u64::from(length - least) * u64::from(bars) / (u64::from(most - least) + 1);
        counts[place as usize] += sequences;
    }
    counts
}

fn values(drawn: &Drawn) -> String {
    let of = format!("From {} of {}, drawn at random.", number(drawn.read), count(drawn.all, "sequence"));
    let mut html = paragraph(&of);
    if drawn.left_out > 0 {
        let invalid = count(drawn.left_out, "drawn sequence");
        html.push_str(&paragraph(&format!(
            "The reader leaves out {invalid}, because of errors in the data."
        )));
    }
    if let Some(error) = &drawn.error {
        let _ = write!(html, "<p class=\"error\">Some could not be read: {}</p>", escape(&error.to_string()));
    }
    for (info, values) in drawn.streams.iter().zip(&drawn.values) {
        let _ = write!(html, "<h3>{}</h3>", escape(&info.name));
        html.push_str(&values_of(values));
    }
    html
}

fn values_of(values: &StreamValues) -> String {
    let mut html = String::new();
    let show = |value: f64| format!("{value:.5}").trim_end_matches('0').trim_end_matches('.').to_owned();
    if let Some(classes) = values.classes() {
        html.push_str(&classes_of(&classes));
        if let Some((least, most)) = values.stored.filter(|_| !classes.is_one_of) {
            let stored = values.values as f64 / values.samples.max(1) as f64;
            let text = format!("Stored values of a sample: {stored:.1} on average, from {least} to {most}.");
            html.push_str(&paragraph(&text));
        }
    }
    if let (Some((mean, deviation)), Some(histogram)) = (values.moments(), values.histogram()) {
        let (least, most) = histogram.range;
        if histogram.counts.len() > 1 {
            let title = "Number of values by size";
            html.push_str(&charts::histogram(&histogram.counts, &show(least), &show(most), title));
        }
        let heading = ["", "values", "min", "max", "mean", "standard deviation", "zeros", "not finite"];
        let zeros = format!("{:.1} %", 100.0 * values.zeros as f64 / values.values.max(1) as f64);
        let row = [
            "values".to_owned(),
            number(values.values),
            show(least),
            show(most),
            show(mean),
            show(deviation),
            zeros,
            number(values.not_finite),
        ];
        html.push_str(&table(heading, [row]));
    } else if values.not_finite > 0 {
        html.push_str(&paragraph(&format!("All {} are NaN or infinite.", count(values.not_finite, "value"))));
    }
    if html.is_empty() {
        html = paragraph("There are no values.");
    }
    html
}

fn classes_of(classes: &Classes<'_>) -> String {
    let mut rows: Vec<(String, u64)> =
        classes.counts.iter().map(|(class, &count)| (class.to_string(), count)).collect();
    let all: u64 = rows.iter().map(|row| row.1).sum();
    let (name, names) = if classes.is_one_of { ("class", "classes") } else { ("index", "indices") };
    let least = rows.iter().map(|row| row.1).min().unwrap_or(0);
    // Few classes stay in their order, so that gaps show.
    if rows.len() > CLASSES {
        rows.sort_by_key(|row| Reverse(row.1));
    }
    let most = rows.iter().map(|row| row.1).max().unwrap_or(0);
    let (number_of, more) = (number(rows.len() as u64), if classes.is_partial { " or more" } else { "" });
    let ends = (classes.counts.first_key_value(), classes.counts.last_key_value());
    let mut text = match ends {
        (Some((first, _)), Some((last, _))) if first < last => format!(
            "{number_of}{more} {names}, numbered from {first} to {last}. {}",
            balance(name, most, least)
        ),
        (Some((only, _)), _) => format!("One {name}, {only}."),
        _ => return paragraph("There are no values."),
    };
    let shown = rows.len().min(CLASSES);
    if shown < rows.len() {
        let _ = write!(text, " The {shown} most frequent ones:");
    }
    paragraph(&text) + &charts::bars(&rows[..shown], all, name)
}

/// Compares the most frequent class with the rarest.
fn balance(name: &str, most: u64, least: u64) -> String {
    match ratio(most, least).as_str() {
        "1.0" => "All are about equally frequent.".to_owned(),
        ratio => format!("The most frequent {name} has {ratio} times as many samples as the rarest."),
    }
}

fn ratio(most: u64, least: u64) -> String {
    let ratio = most as f64 / least.max(1) as f64;
    if ratio < 10.0 { format!("{ratio:.1}") } else { number(ratio.round() as u64) }
}

fn mixing(facts: &Facts) -> String {
    let measured = match &facts.mixing {
        Ok(measured) => measured,
        Err(reason) => return paragraph(reason),
    };
    let rows = measured.iter().map(|one| {
        [
            number(one.minibatch_size),
            number(one.minibatches),
            format!("{:.1}", one.sequences),
            format!("{:.1}", one.chunks),
            format!("{:.1} %", 100.0 * one.displacement),
            format!("{:.1} %", 100.0 * one.padding),
        ]
    });
    let heading = ["minibatch size", "minibatches", "sequences", "chunks", "mean displacement", "padding"];
    let explained = "The first sweep of one worker. Sequences and chunks are means per minibatch. Displacement is the distance \
                     between the place of a sequence in the data and in the sweep; a perfect shuffle has 33.3 % of the samples. \
                     Padding is the unused part of minibatches of whole sequences.";
    table(heading, rows.collect::<Vec<_>>()) + &paragraph(explained)
}

fn findings(facts: &Facts) -> String {
    if facts.findings.is_empty() {
        return paragraph("None: the data are sound.");
    }
    let row = |finding: &Finding| {
        let (severity, place) = (severity(finding.severity), &finding.location);
        let line = place.line.map(|line| format!("line {line}"));
        let offset = place.offset.filter(|_| line.is_none()).map(|offset| format!("offset {offset}"));
        let stream = place.stream.as_ref().map(|stream| format!("stream {stream}"));
        let key = place.key.as_ref().map(|key| format!("key {key}"));
        let place = [place.file.clone(), line, offset, stream, key];
        let place = place.into_iter().flatten().collect::<Vec<_>>().join(", ");
        let message = [finding.message.as_str(), finding.detail.as_str()].join(" ");
        format!(
            "<tr><td class=\"{severity}\">{severity}</td><td>{}</td><td>{}</td></tr>",
            escape(&place),
            escape(message.trim())
        )
    };
    let rows: String = facts.findings.iter().map(row).collect();
    let all = facts.summary.errors + facts.summary.warnings + facts.summary.notes;
    let more = match all > FINDINGS as u64 {
        true => {
            paragraph(&format!("The first {FINDINGS} of {}; 'cntk-reader validate' lists all.", number(all)))
        }
        false => String::new(),
    };
    format!(
        "<div class=\"wide\"><table class=\"findings\"><thead><tr><th>severity</th><th>place</th><th>message</th></tr></thead>\
         <tbody>{rows}</tbody></table></div>{more}"
    )
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        _ => "note",
    }
}

fn samples(drawn: &Drawn) -> String {
    drawn.samples.iter().map(|sequence| sample(&drawn.streams, sequence)).collect()
}

fn sample(streams: &[StreamInfo], sequence: &Sequence) -> String {
    let mut html = format!("<h3>Sequence {}, key {}</h3>", sequence.number, escape(&sequence.key));
    let Some(data) = &sequence.streams else {
        return html + &paragraph("The reader leaves it out, because of errors in the data.");
    };
    html.push_str("<table class=\"sample\"><tbody>");
    for (info, data) in streams.iter().zip(data) {
        let _ = write!(
            html,
            "<tr><th>{}</th><td>{}</td><td>{}</td></tr>",
            escape(&info.name),
            count(data.samples as u64, "sample"),
            contents(data)
        );
    }
    html.push_str("</tbody></table>");
    html
}

fn contents(data: &SequenceData) -> String {
    let mut html = String::new();
    for sample in 0..data.samples.min(SAMPLES) {
        match picture::of(data, sample) {
            Some(picture) => {
                let (width, height) = picture.size;
                // Small pictures are enlarged.
                let factor = (96 / width.max(height)).max(1);
                let _ = write!(
                    html,
                    "<img alt=\"sample {sample}\" width=\"{}\" height=\"{}\" src=\"{}\">",
                    width * factor,
                    height * factor,
                    picture.address
                );
            }
            None => {
                let _ = write!(html, "<code>{}</code><br>", escape(&numbers(data, sample)));
            }
        }
    }
    if data.samples > SAMPLES {
        html.push_str("<code>...</code>");
    }
    html
}

fn numbers(data: &SequenceData, sample: usize) -> String {
    let places = data.places(sample);
    let mut text = String::new();
    for place in places.clone().take(VALUES) {
        if let Some(index) = data.indices.get(place) {
            let _ = write!(text, "{index}:");
        }
        if let Some(number) = data.values.number(place) {
            let _ = write!(text, "{number} ");
        }
    }
    if places.len() > VALUES {
        text.push_str("...");
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("<a href=\"x\">&'\n\u{1b}"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39; \\u{1b}");
    }

    #[test]
    fn ratios_are_rounded() {
        assert_eq!([(3, 2), (100, 3), (5, 0)].map(|(most, least)| ratio(most, least)), ["1.5", "33", "5.0"]);
        assert!(balance("class", 270, 264).contains("equally"));
        assert!(balance("class", 3, 2).contains("class has 1.5 times"));
    }
}
