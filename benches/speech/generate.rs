//! Generates the corpus: the same utterances as an HTK archive, as HTK files and as a Kaldi
//! archive, with labels.

use crate::random::Random;
use crate::sums::{Sums, UNIT};
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Length of a frame in units of 100 ns.
const PERIOD: u32 = 100_000;
/// HTK's code for filter bank features.
const FBANK: u16 = 7;
/// Number of label classes.
const STATES: u32 = 132;
/// Maximum length of a run of one class in frames.
const LONGEST: u32 = 9;

/// The size of a corpus.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Number of utterances.
    pub utterances: u32,
    /// Frames of each utterance.
    pub frames: u32,
    /// Values of each frame.
    pub values: u32,
}

/// Writes the corpus. The file `sums.json` is written last, and marks the corpus as complete.
///
/// All utterances are in the HTK file `archive.mfc` with the script `archive.scp`, and as matrices
/// in the Kaldi archive `archive.ark` with `ark.scp`; `with_files` also in one file each under
/// `files/`, with `files.scp`. `labels.mlf` and `states.list` hold the labels of all of them.
pub fn generate(folder: &Path, size: Size, with_files: bool) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(folder.join("files"))?;
    let root = std::path::absolute(folder)?;
    let root = root.to_str().ok_or("The path of the data is not UTF-8.")?;
    let create = |name: &str| File::create(folder.join(name)).map(BufWriter::new);
    let (mut archive, mut archive_scp) = (create("archive.mfc")?, create("archive.scp")?);
    let mut files_scp = create("files.scp")?;
    let (mut ark, mut ark_scp) = (create("archive.ark")?, create("ark.scp")?);
    let mut labels = create("labels.mlf")?;
    let Size { utterances, frames, values } = size;
    archive.write_all(&header(size, utterances * frames)?)?;
    writeln!(labels, "#!MLF!#")?;
    let mut sums = Sums::default();
    let mut ark_size = 0_u64;
    let (mut samples, mut bytes) = (vec![0.0_f32; (frames * values) as usize], Vec::new());
    for utterance in 0..utterances {
        let mut random = Random::new(11, utterance.into());
        samples.fill_with(|| (random.below(1024) as f32 - 512.0) * UNIT);
        for (frame, values) in (0..).zip(samples.chunks_exact(values as usize)) {
            sums.add(utterance.into(), frame, values);
        }
        let key = format!("utt{utterance:06}");

        bytes.clear();
        samples.iter().for_each(|value| bytes.extend(value.to_be_bytes()));
        archive.write_all(&bytes)?;
        let first = utterance * frames;
        writeln!(archive_scp, "{key}.mfc={root}/archive.mfc[{first},{}]", first + frames - 1)?;
        if with_files {
            let mut file = create(&format!("files/{key}.mfc"))?;
            file.write_all(&header(size, frames)?)?;
            file.write_all(&bytes)?;
            file.flush()?;
            writeln!(files_scp, "{key}.mfc={root}/files/{key}.mfc[0,{}]", frames - 1)?;
        }

        bytes.clear();
        write!(bytes, "{key} ")?;
        writeln!(ark_scp, "{key} {root}/archive.ark:{}", ark_size + bytes.len() as u64)?;
        bytes.extend(b"\0BFM ");
        for size in [frames, values] {
            bytes.push(4);
            bytes.extend(size.to_le_bytes());
        }
        samples.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
        ark.write_all(&bytes)?;
        ark_size += bytes.len() as u64;

        write_labels(&mut labels, &key, frames, &mut random)?;
    }
    for file in [archive, archive_scp, files_scp, ark, ark_scp, labels] {
        file.into_inner()?;
    }
    let states: String = (0..STATES).map(|state| format!("{}\n", state_name(state))).collect();
    std::fs::write(folder.join("states.list"), states)?;
    std::fs::write(folder.join("sums.json"), sums.json().to_string())?;
    Ok(())
}

/// Returns the header of an HTK file with this number of frames.
fn header(size: Size, frames: u32) -> Result<[u8; 12], Box<dyn Error>> {
    let mut header = [0; 12];
    header[0..4].copy_from_slice(&frames.to_be_bytes());
    header[4..8].copy_from_slice(&PERIOD.to_be_bytes());
    header[8..10].copy_from_slice(&u16::try_from(4 * size.values)?.to_be_bytes());
    header[10..12].copy_from_slice(&FBANK.to_be_bytes());
    Ok(header)
}

/// Writes the labels of an utterance: runs of random states.
fn write_labels(out: &mut impl Write, key: &str, frames: u32, random: &mut Random) -> std::io::Result<()> {
    writeln!(out, "\"*/{key}.lab\"")?;
    let mut begin = 0;
    while begin < frames {
        let end = (begin + 1 + random.below(LONGEST)).min(frames);
        let times = [begin, end].map(|frame| u64::from(frame) * u64::from(PERIOD));
        writeln!(out, "{} {} {}", times[0], times[1], state_name(random.below(STATES)))?;
        begin = end;
    }
    writeln!(out, ".")
}

/// Returns the name of a state, such as `p07_s3`: the middle state of a phone.
fn state_name(state: u32) -> String {
    format!("p{:02}_s{}", state / 3, state % 3 + 2)
}
