//! EXIF orientation.

use cntk_reader_core::image::Region;

/// An EXIF orientation, 1 (upright) to 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Orientation(u8);

impl Orientation {
    /// No change.
    pub const UPRIGHT: Orientation = Orientation(1);

    /// Parses EXIF data, which begin with a TIFF header. Damaged or unknown data mean upright.
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

    /// Returns whether rows become columns.
    fn transposes(self) -> bool {
        self.0 >= 5
    }

    /// Returns width and height after turning.
    pub fn size(self, width: u32, height: u32) -> (u32, u32) {
        if self.transposes() { (height, width) } else { (width, height) }
    }

    /// Returns whether the columns and the rows of the stored image are traversed in reverse when
    /// the rows of the turned image are followed.
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

    /// Returns the region of the stored image, which is `width` by `height`, that becomes `region`
    /// of the turned image.
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

    /// Turns a region with pixels of `N` bytes. `stored` holds the region `source`; `turned` has
    /// the same length.
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

    /// An image of 3 by 2: rows "abc" and "def".
    const STORED: &[u8] = b"abcdef";

    #[test]
    fn orientations_match_exif() {
        let turned = ["abcdef", "cbafed", "fedcba", "defabc", "adbecf", "daebfc", "fcebda", "cfbead"];
        for (value, expected) in (1..).zip(turned) {
            let orientation = Orientation(value);
            let mut output = [0; 6];
            orientation.turn::<1>(STORED, Region::whole(3, 2), &mut output);
            assert_eq!(std::str::from_utf8(&output).unwrap(), expected, "orientation {value}");
            // Any region of the turned image comes from the region returned by `source`.
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
    fn exif_accepts_both_byte_orders_and_damage_means_upright() {
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
