//! The order as a picture: the position in time of each sequence over its position in the data.

use super::report::Report;
use crate::exit::Failure;
use cntk_reader::Error;
use cntk_reader_tools::order::{OrderedSequence, SequenceOrder};
use std::fmt::Write;
use std::path::Path;

/// Maximum number of points in the picture: at twice this number, every second point is dropped.
const POINTS: usize = 4000;

/// Number of bars in the histogram of displacements.
const BARS: usize = 40;

/// Sizes in pixels: the square of points, the histogram's width, and margins.
const SQUARE: f64 = 480.0;
const WIDTH: f64 = 320.0;
const MARGIN: f64 = 60.0;

/// Collects the points of the picture.
pub struct Plot {
    /// Time and position in the data of every `step`-th sequence, in samples.
    points: Vec<(u64, u64)>,
    step: u64,
    seen: u64,
    /// The number of the first sweep, which is the only one that is drawn.
    sweep: Option<u64>,
}

impl Default for Plot {
    fn default() -> Plot {
        Plot { points: Vec::new(), step: 1, seen: 0, sweep: None }
    }
}

impl Plot {
    /// Adds a sequence. Only the first sweep is drawn.
    pub fn add(&mut self, sequence: &OrderedSequence) {
        if *self.sweep.get_or_insert(sequence.sweep) != sequence.sweep {
            return;
        }
        if self.seen.is_multiple_of(self.step) {
            self.points.push((sequence.read_at, sequence.place));
            if self.points.len() == 2 * POINTS {
                let mut keep = false;
                self.points.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.step *= 2;
            }
        }
        self.seen += 1;
    }

    /// Writes the picture.
    pub fn write(&self, path: &Path, order: &SequenceOrder, report: &Report) -> Result<(), Failure> {
        let text = self.draw(order.samples().max(1) as f64, report);
        std::fs::write(path, text)
            .map_err(|cause| Error::io("Cannot write", &path.display().to_string(), &cause).into())
    }

    fn draw(&self, samples: f64, report: &Report) -> String {
        let (width, height) = (SQUARE + WIDTH + 3.0 * MARGIN, SQUARE + 2.0 * MARGIN + 40.0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        );
        self.draw_points(&mut svg, samples);
        self.draw_bars(&mut svg, samples);
        let share = |value: f64| 100.0 * value / samples;
        let lines = [
            format!(
                "Mean displacement {:.1} % of the sweep, mean distance of neighbours {:.1} % (a perfect shuffle: 33.3 % each).",
                share(report.displacement.mean),
                share(report.neighbours.mean)
            ),
            format!(
                "Chunks in a minibatch of {} samples: {:.1} (a perfect shuffle: {:.1}).",
                report.minibatch_size, report.chunks_in_minibatch.mean, report.chunks_in_minibatch.perfect
            ),
        ];
        for (line, y) in lines.iter().zip([height - 42.0, height - 20.0]) {
            // Writing to a string does not fail.
            let _ = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{y}\">{line}</text>");
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_points(&self, svg: &mut String, samples: f64) {
        let _ = writeln!(
            svg,
            "<g transform=\"translate({MARGIN} {MARGIN})\"><text y=\"-14\" font-weight=\"bold\">Where in the data sequences come \
             from</text>\n<rect width=\"{SQUARE}\" height=\"{SQUARE}\" fill=\"none\" stroke=\"#999\"/>\n\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">time in the sweep</text>\n\
             <text transform=\"translate(-14 {}) rotate(-90)\" text-anchor=\"middle\">place in the data</text>",
            SQUARE / 2.0,
            SQUARE + 24.0,
            SQUARE / 2.0
        );
        svg.push_str(
            "<path fill=\"none\" stroke=\"#1f5fa8\" stroke-width=\"2\" stroke-linecap=\"round\" stroke-opacity=\"0.7\" d=\"",
        );
        for &(read_at, place) in &self.points {
            let (x, y) = (SQUARE * read_at as f64 / samples, SQUARE * (1.0 - place as f64 / samples));
            let _ = write!(svg, "M{x:.1} {y:.1}h0");
        }
        svg.push_str("\"/></g>\n");
    }

    /// Draws the histogram of displacements, and the curve of a perfect shuffle: a displacement
    /// `d`, as a fraction of the sweep, has the density `2 (1 - d)`.
    fn draw_bars(&self, svg: &mut String, samples: f64) {
        let mut counts = [0u64; BARS];
        for &(read_at, place) in &self.points {
            let share = read_at.abs_diff(place) as f64 / samples;
            counts[((share * BARS as f64) as usize).min(BARS - 1)] += 1;
        }
        let all = self.points.len().max(1) as f64;
        let density = counts.map(|count| count as f64 / all * BARS as f64);
        let top = density.iter().copied().fold(2.0, f64::max);
        let _ = writeln!(
            svg,
            "<g transform=\"translate({} {MARGIN})\"><text y=\"-14\" font-weight=\"bold\">How far sequences move</text>\n\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">displacement, share of the sweep</text>\n\
             <text y=\"{}\">0</text><text x=\"{WIDTH}\" y=\"{}\" text-anchor=\"end\">1</text>",
            SQUARE + 2.0 * MARGIN,
            WIDTH / 2.0,
            SQUARE + 24.0,
            SQUARE + 24.0,
            SQUARE + 24.0
        );
        let bar = WIDTH / BARS as f64;
        for (number, density) in density.iter().enumerate() {
            let height = SQUARE * density / top;
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"#1f5fa8\" fill-opacity=\"0.7\"/>",
                number as f64 * bar,
                SQUARE - height,
                bar - 1.0
            );
        }
        let _ = writeln!(
            svg,
            "<path d=\"M0 {:.1}L{WIDTH} {SQUARE}\" stroke=\"#c03020\" stroke-width=\"1.5\" fill=\"none\"/>\n\
             <text x=\"{}\" y=\"18\" text-anchor=\"end\" fill=\"#c03020\">perfect shuffle</text>\n\
             <rect width=\"{WIDTH}\" height=\"{SQUARE}\" fill=\"none\" stroke=\"#999\"/></g>",
            SQUARE * (1.0 - 2.0 / top),
            WIDTH - 6.0,
        );
    }
}
