//! Bar charts as SVG.

use super::page::escape;
use std::fmt::Write;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 120.0;

/// A histogram: bars of equal width between two labels.
pub fn histogram(counts: &[u64], left: &str, right: &str, title: &str) -> String {
    let most = counts.iter().copied().max().unwrap_or(0).max(1) as f64;
    let width = WIDTH / counts.len().max(1) as f64;
    let mut svg = format!(
        "<svg class=\"chart\" role=\"img\" viewBox=\"0 0 {WIDTH} {}\" width=\"{WIDTH}\"><title>{}</title>",
        HEIGHT + 20.0,
        escape(title)
    );
    for (at, &count) in counts.iter().enumerate() {
        // A bar that stands for something is visible.
        let height = if count == 0 { 0.0 } else { (HEIGHT * count as f64 / most).max(1.0) };
        let (x, y) = (width * at as f64, HEIGHT - height);
        let _ = write!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>{count}</title></rect>",
            (width - 1.0).max(0.5)
        );
    }
    let _ = write!(
        svg,
        "<line x1=\"0\" y1=\"{HEIGHT}\" x2=\"{WIDTH}\" y2=\"{HEIGHT}\"/><text x=\"0\" y=\"{y}\">{}</text>\
         <text x=\"{WIDTH}\" y=\"{y}\" text-anchor=\"end\">{}</text></svg>",
        escape(left),
        escape(right),
        y = HEIGHT + 15.0
    );
    svg
}

/// A table with a bar for each row: name and count.
pub fn bars(rows: &[(String, u64)], all: u64, heading: &str) -> String {
    let most = rows.iter().map(|row| row.1).max().unwrap_or(0).max(1) as f64;
    let mut html = format!(
        "<table class=\"bars\"><thead><tr><th>{}</th><th>count</th><th>share</th><th></th></tr></thead><tbody>",
        escape(heading)
    );
    for (name, count) in rows {
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{:.1} %</td><td><span class=\"bar\" style=\"width:{:.1}%\"></span></td></tr>",
            escape(name),
            crate::output::number(*count),
            100.0 * *count as f64 / all.max(1) as f64,
            100.0 * *count as f64 / most
        );
    }
    html.push_str("</tbody></table>");
    html
}
