//! Generates the images: JPEG files that resemble photographs, of noise at all scales, shapes and
//! grain.

use crate::random::Random;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Columns and rows of an image.
const SIZE: (usize, usize) = (500, 375);
/// JPEG quality, with color at half the resolution in both directions (4:2:0).
const QUALITY: u8 = 90;
/// Columns and rows of the mean image.
const MEAN_SIZE: (usize, usize) = (224, 224);
/// Number of label classes.
const CLASSES: u32 = 1000;
/// Octaves of noise in brightness: random values on a grid with cells of this many pixels, and
/// their amplitude. Amplitudes decrease with the frequency, as in photographs.
const BRIGHTNESS: [(usize, f32); 7] =
    [(192, 60.0), (96, 36.0), (48, 21.0), (24, 12.0), (12, 8.0), (6, 6.5), (3, 6.0)];
/// Octaves of noise in color.
const COLOR: [(usize, f32); 4] = [(160, 40.0), (80, 22.0), (40, 11.0), (20, 5.0)];
/// Maximum amplitude of grain.
const GRAIN: f32 = 9.0;
/// Number of shapes in front of the noise.
const SHAPES: u32 = 14;

/// Writes `count` images, from `files/000000.jpg` on, the map file `map.txt`, and `mean.xml`. The
/// file `sums.json` is written last, and marks the folder as complete.
pub fn generate(folder: &Path, count: u32) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder.join("files"))?;
    let next = AtomicU32::new(0);
    let write_images = || -> Result<u64, String> {
        let (mut scene, mut bytes) = (Scene::default(), 0);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return Ok(bytes);
            }
            let file = encode(scene.paint(number)).map_err(|error| error.to_string())?;
            let path = folder.join(format!("files/{number:06}.jpg"));
            std::fs::write(&path, &file).map_err(|error| format!("{}: {error}", path.display()))?;
            bytes += file.len() as u64;
        }
    };
    let threads = std::thread::available_parallelism()?.get();
    let bytes = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(write_images)).collect();
        let results = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        results.sum::<Result<u64, String>>()
    })?;
    let mut map = String::new();
    for number in 0..count {
        // The reader replaces `...` by the folder of the map file.
        writeln!(map, ".../files/{number:06}.jpg\t{}", Random::new(23, number.into()).below(CLASSES))?;
    }
    std::fs::write(folder.join("map.txt"), map)?;
    std::fs::write(folder.join("mean.xml"), mean())?;
    std::fs::write(
        folder.join("sums.json"),
        serde_json::json!({"images": count, "bytes": bytes}).to_string(),
    )?;
    Ok(())
}

/// Returns a mean image in OpenCV's XML format.
fn mean() -> String {
    let (columns, rows) = MEAN_SIZE;
    let mut text = format!(
        "<?xml version=\"1.0\"?>\n<opencv_storage>\n<Channel>3</Channel>\n<Row>{rows}</Row>\n<Col>{columns}</Col>\n\
         <MeanImg type_id=\"opencv-matrix\"><rows>1</rows><cols>{}</cols><dt>f</dt><data>\n",
        3 * rows * columns
    );
    for value in 0..3 * rows * columns {
        // From 100 to 131.75.
        let quarters = 400 + value % 128;
        let end = if value % 16 == 15 { '\n' } else { ' ' };
        write!(text, "{}.{:02}{end}", quarters / 4, quarters % 4 * 25).expect("writing to a string");
    }
    text + "</data></MeanImg>\n</opencv_storage>\n"
}

fn encode(rgb: &[u8]) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, QUALITY);
    encoder.set_sampling_factor(SamplingFactor::R_4_2_0);
    encoder.encode(rgb, u16::try_from(SIZE.0)?, u16::try_from(SIZE.1)?, ColorType::Rgb)?;
    Ok(file)
}

/// Buffers in which images are painted, one after the other.
#[derive(Default)]
struct Scene {
    /// Brightness, and two color differences.
    planes: [Vec<f32>; 3],
    rgb: Vec<u8>,
}

impl Scene {
    /// Paints an image, and returns red, green and blue of each pixel. Uses basic arithmetic only,
    /// which every machine rounds the same way.
    fn paint(&mut self, number: u32) -> &[u8] {
        let (columns, rows) = SIZE;
        let random = &mut Random::new(17, number.into());
        for (plane, octaves) in self.planes.iter_mut().zip([&BRIGHTNESS[..], &COLOR, &COLOR]) {
            plane.clear();
            plane.resize(columns * rows, 0.0);
            // A slope over the whole image.
            let (right, down) = (between(random, -40.0, 40.0), between(random, -40.0, 40.0));
            let share = octaves[0].1 / BRIGHTNESS[0].1;
            for (y, row) in plane.chunks_exact_mut(columns).enumerate() {
                for (x, value) in row.iter_mut().enumerate() {
                    let (x, y) = (x as f32 / columns as f32 - 0.5, y as f32 / rows as f32 - 0.5);
                    *value = share * (right * x + down * y);
                }
            }
            for &(cell, amplitude) in octaves {
                add_noise(plane, cell, amplitude, random);
            }
        }
        for _ in 0..SHAPES {
            self.add_shape(random);
        }
        self.rgb.clear();
        let [brightness, red, blue] = &self.planes;
        for ((&y, &red), &blue) in brightness.iter().zip(red).zip(blue) {
            let y = 120.0 + y + between(random, -GRAIN, GRAIN);
            let rgb = [y + red, y - 0.5 * red - 0.2 * blue, y + blue];
            self.rgb.extend(rgb.map(|value| value.clamp(0.0, 255.0) as u8));
        }
        &self.rgb
    }

    /// Changes brightness and color within an ellipse or a rectangle, with an edge of one pixel.
    fn add_shape(&mut self, random: &mut Random) {
        let (columns, rows) = SIZE;
        let center = (between(random, 0.0, columns as f32), between(random, 0.0, rows as f32));
        let radius = (between(random, 8.0, 90.0), between(random, 8.0, 90.0));
        let is_round = random.below(2) == 0;
        let change = [60.0, 30.0, 30.0].map(|most| between(random, -most, most));
        let range = |center: f32, radius: f32, size: usize| {
            ((center - radius).max(0.0) as usize)..((center + radius + 1.0) as usize).min(size)
        };
        for y in range(center.1, radius.1, rows) {
            for x in range(center.0, radius.0, columns) {
                let (dx, dy) = ((x as f32 - center.0) / radius.0, (y as f32 - center.1) / radius.1);
                let inside = if is_round { 1.0 - dx * dx - dy * dy } else { 1.0 - dx.abs().max(dy.abs()) };
                let share = (inside * radius.0.min(radius.1)).clamp(0.0, 1.0);
                for (plane, change) in self.planes.iter_mut().zip(change) {
                    plane[y * columns + x] += share * change;
                }
            }
        }
    }
}

/// Adds an octave of noise to a plane: random values on a grid, smoothly interpolated.
fn add_noise(plane: &mut [f32], cell: usize, amplitude: f32, random: &mut Random) {
    let (columns, rows) = SIZE;
    let (across, down) = (columns / cell + 2, rows / cell + 2);
    let grid: Vec<f32> = (0..across * down).map(|_| between(random, -amplitude, amplitude)).collect();
    let smooth = |place: usize| {
        let part = (place % cell) as f32 / cell as f32;
        part * part * (3.0 - 2.0 * part)
    };
    let mut line = vec![0.0; across];
    for (y, row) in plane.chunks_exact_mut(columns).enumerate() {
        let (above, share) = (&grid[y / cell * across..], smooth(y));
        for (x, value) in line.iter_mut().enumerate() {
            *value = above[x] + share * (above[across + x] - above[x]);
        }
        for (x, value) in row.iter_mut().enumerate() {
            let left = line[x / cell];
            *value += left + smooth(x) * (line[x / cell + 1] - left);
        }
    }
}

fn between(random: &mut Random, low: f32, high: f32) -> f32 {
    low + (high - low) * (random.bits() >> 40) as f32 / (1 << 24) as f32
}
