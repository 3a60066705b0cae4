//! Turning images as their EXIF data say.

use cntk_reader_core::image::Region;

/// How an image must be turned: EXIF's orientation, 1 (not at all) to 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Orientation(u8);

impl Orientation {
    /// As it is stored.
    pub const UPRIGHT: Orientation = Orientation(1);

    /// From EXIF data, which begin with a TIFF header. What is damaged or unknown means upright.
    pub fn from_exif(data: &[u8]) -> Orientation {
        Self::find(data).filter(|value| (1..=8).contains(value)).map_or(Self::UPRIGHT, Orientation)
    }

    fn find(data: &[u8]) -> Option<u8> {
        let is_big = match data.get(..2)? {
            b"MM" => true,
            b"II" => false,
            _ => return None,
        };
        let short = |at: usize| {
            let bytes = data.get(at..)?.first_chunk::<2>()?;
            Some(if is_big { u16::from_be_bytes(*bytes) } else { u16::from_le_bytes(*bytes) })
        };
        let long = |at: usize| {
            let bytes = data.get(at..)?.first_chunk::<4>()?;
            Some(if is_big { u32::from_be_bytes(*bytes) } else { u32::from_le_bytes(*bytes) } as usize)
        };
        let directory = long(4)?;
        let entries = usize::from(short(directory)?);
        (0..entries).find_map(|i| {
            let entry = directory + 2 + 12 * i;
            (short(entry)? == 0x0112)
                .then(|| short(entry + 8))
                .flatten()
                .and_then(|value| u8::try_from(value).ok())
        })
    }

    /// Rows become columns.
    fn transposes(self) -> bool {
        self.0 >= 5
    }

    /// Width and height after turning.
    pub fn size(self, width: u32, height: u32) -> (u32, u32) {
        if self.transposes() { (height, width) } else { (width, height) }
    }

    /// Steps of the walk through the stored image that follows the rows of the turned one: whether columns and rows are
    /// counted from their ends. Rows and columns are those of the stored image.
    fn mirrors(self) -> (bool, bool) {
        match self.0 {
            2 => (true, false),
            3 => (true, true),
            4 => (false, true),
            6 => (false, true),
            7 => (true, true),
            8 => (true, false),
            _ => (false, false),
        }
    }

    /// Which region of the stored image, `width` times `height`, becomes `region` of the turned one.
    pub fn source(self, region: Region, width: u32, height: u32) -> Region {
        let Region { left, top, width: columns, height: rows } = region;
        let (left, top, columns, rows) =
            if self.transposes() { (top, left, rows, columns) } else { (left, top, columns, rows) };
        let (mirror_x, mirror_y) = self.mirrors();
        Region {
            left: if mirror_x { width - left - columns } else { left },
            top: if mirror_y { height - top - rows } else { top },
            width: columns,
            height: rows,
        }
    }

    /// Turns a region's pixels of `N` bytes each: `stored` has `source`, `turned` gets as many.
    pub fn turn<const N: usize>(self, stored: &[u8], source: Region, turned: &mut [u8]) {
        let (stored, turned) = (stored.as_chunks::<N>().0, turned.as_chunks_mut::<N>().0);
        let (width, height) = (source.width as usize, source.height as usize);
        let (mirror_x, mirror_y) = self.mirrors();
        let columns = if self.transposes() { height } else { width };
        for (y, row) in turned.chunks_exact_mut(columns.max(1)).enumerate() {
            for (x, pixel) in row.iter_mut().enumerate() {
                let (x, y) = if self.transposes() { (y, x) } else { (x, y) };
                let x = if mirror_x { width - 1 - x } else { x };
                let y = if mirror_y { height - 1 - y } else { y };
                *pixel = stored[y * width + x];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture of 3 times 2: rows "abc" and "def".
    const STORED: &[u8] = b"abcdef";

    #[test]
    fn each_orientation_turns_as_exif_says() {
        let turned = ["abcdef", "cbafed", "fedcba", "defabc", "adbecf", "daebfc", "fcebda", "cfbead"];
        for (value, expected) in (1..).zip(turned) {
            let orientation = Orientation(value);
            let mut output = [0; 6];
            orientation.turn::<1>(STORED, Region::whole(3, 2), &mut output);
            assert_eq!(std::str::from_utf8(&output).unwrap(), expected, "orientation {value}");
            // Any region of the turned image comes from the region that `source` names.
            let (width, height) = orientation.size(3, 2);
            for left in 0..width {
                for top in 0..height {
                    let region = Region { left, top, width: width - left, height: height - top };
                    let source = orientation.source(region, 3, 2);
                    let stored: Vec<u8> = (0..source.height)
                        .flat_map(|y| (0..source.width).map(move |x| (x, y)))
                        .map(|(x, y)| STORED[((source.top + y) * 3 + source.left + x) as usize])
                        .collect();
                    let mut part = vec![0; stored.len()];
                    orientation.turn::<1>(&stored, source, &mut part);
                    let cut: Vec<u8> = (top..height)
                        .flat_map(|y| (left..width).map(move |x| (y * width + x) as usize))
                        .map(|at| output[at])
                        .collect();
                    assert_eq!(part, cut, "orientation {value}, from {left}, {top}");
                }
            }
        }
    }

    #[test]
    fn exif_data_of_both_byte_orders_are_understood_and_damage_means_upright() {
        let big = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        let little = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x08\0\0\0\0\0\0\0";
        assert_eq!(Orientation::from_exif(big), Orientation(6));
        assert_eq!(Orientation::from_exif(little), Orientation(8));
        for length in 0..20 {
            assert_eq!(Orientation::from_exif(&big[..length.min(19)]), Orientation::UPRIGHT);
        }
        let mut none = *big;
        none[19] = 9;
        assert_eq!(Orientation::from_exif(&none), Orientation::UPRIGHT);
        none[4..8].fill(0xFF);
        assert_eq!(Orientation::from_exif(&none), Orientation::UPRIGHT);
    }
}
