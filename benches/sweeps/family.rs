//! Families of shapes: random ones, which no reader was tuned for, and look-alikes of public
//! corpora that users of CNTK train on.

use crate::member::{Comments, Ids, Lines, Member, Notation, Samples};
use crate::random::Random;
use crate::shapes::{Shape, Stream};
use crate::sums::StreamSums;

/// Number of random members of a family.
pub const DRAWN: u64 = 30;

/// Approximate size of the largest sequence in bytes.
const LARGEST_SEQUENCE: usize = 1 << 20;

/// Approximate size of a block in bytes.
const BLOCK: usize = 250_000;

/// Returns the names of the shapes of a family: the random ones and the look-alikes.
pub fn names(seed: u64) -> Vec<String> {
    let drawn = (1..=DRAWN).map(|number| format!("family-{seed}-{number:02}"));
    drawn.chain(LOOK_ALIKES.map(str::to_owned)).collect()
}

/// Finds a shape by its name; returns it with its description.
pub fn find(name: &str) -> Option<(Shape, String)> {
    if let Some(member) = look_alike(name) {
        let number = LOOK_ALIKES.iter().position(|&known| known == name)? as u64;
        return Some((shape(number, &member), member.to_string()));
    }
    let (seed, number) = name.strip_prefix("family-")?.split_once('-')?;
    let (seed, number): (u64, u64) = (seed.parse().ok()?, number.parse().ok()?);
    let number = seed * 1000 + number;
    let member = draw(&mut Random::new(number, u64::MAX));
    Some((shape(number, &member), member.to_string()))
}

/// Returns the shape of a member's data.
fn shape(number: u64, member: &Member) -> Shape {
    const TRIALS: u64 = 16;
    let size = |member: &Member| {
        let (mut text, mut random) = (Vec::new(), Random::new(number, u64::MAX - 1));
        let mut sums = vec![StreamSums::default(); member.samples.len()];
        (0..TRIALS).for_each(|id| member.write(&mut text, &mut random, id, &mut sums));
        text.len() / TRIALS as usize
    };
    let line = size(&Member { longest: 1, ..member.clone() });
    let member =
        Member { longest: member.longest.min((LARGEST_SEQUENCE / line) as u32).max(1), ..member.clone() };
    Shape {
        number,
        streams: member.samples.iter().map(|samples| samples.stream.clone()).collect(),
        block: (BLOCK / size(&member)).max(1) as u64,
        head: member.head(),
        options: member.options(),
        write: Box::new(move |text, random, id, sums| member.write(text, random, id, sums)),
    }
}

/// Draws a number from 1 to `limit`, uniform on a logarithmic scale.
fn size(random: &mut Random, limit: u32) -> u32 {
    let share = f64::from(random.below(1 << 20)) / f64::from(1 << 20);
    (f64::from(limit).powf(share).round() as u32).clamp(1, limit)
}

fn once_in(random: &mut Random, times: u32) -> bool {
    random.below(times) == 0
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len() as u32) as usize]
}

fn notation(random: &mut Random) -> Notation {
    match random.below(4) {
        0 => Notation::Integer(pick(random, &[10, 100, 256, 1000, 100_000])),
        1 => Notation::Fixed(1 + random.below(6)),
        2 => Notation::Trimmed(1 + random.below(6)),
        _ if once_in(random, 2) => Notation::Exponent,
        _ => Notation::Integer(2),
    }
}

fn samples(random: &mut Random, name: String, lines: Lines) -> Samples {
    let sparse = once_in(random, 2);
    let dim = if sparse { 1 + size(random, 200_000) } else { size(random, 20_000) };
    let is_one = sparse && once_in(random, 2);
    let notation = if is_one { Notation::One } else { notation(random) };
    Samples {
        stream: Stream { name, dim, sparse, scale: notation.scale() },
        notation,
        signs: !is_one && once_in(random, 2),
        entries: if is_one { 0 } else { size(random, 500.min(dim)) },
        empty: if sparse && once_in(random, 5) { 1 + size(random, 20) } else { 0 },
        lines,
    }
}

/// Draws a random member.
fn draw(random: &mut Random) -> Member {
    let ids = pick(
        random,
        &[Ids::None, Ids::None, Ids::Short, Ids::Short, Ids::Short, Ids::Long, Ids::Digits, Ids::Text],
    );
    let longest = if ids == Ids::None { 1 } else { size(random, 2000) };
    let count = 1 + random.below(6) as usize;
    let mut names: Vec<String> = (0..count)
        .map(|number| {
            let length = random.below(20) as usize;
            let letters = (0..length).map(|_| char::from(b'a' + random.below(26) as u8));
            // The first letter makes names distinct.
            std::iter::once(char::from(b'a' + number as u8)).chain(letters).collect()
        })
        .collect();
    names.sort();
    let mut order: Vec<usize> = (0..count).collect();
    for place in (1..count).rev() {
        order.swap(place, random.below(place as u32 + 1) as usize);
    }
    // The first stream has a sample on all lines, so that no line is empty.
    let samples = names.into_iter().enumerate().map(|(stream, name)| {
        let may_be_short = longest > 1 && stream != order[0];
        let lines = if may_be_short {
            pick(random, &[Lines::All, Lines::All, Lines::First, Lines::Last])
        } else {
            Lines::All
        };
        samples(random, name, lines)
    });
    let samples = samples.collect();
    let comments = once_in(random, 3).then(|| Comments {
        longest: 1 + size(random, 200),
        every: pick(random, &[1, 1, 3, 20]),
        each_sample: once_in(random, 2),
    });
    Member {
        samples,
        order,
        ids,
        longest,
        comments,
        gap: pick(random, b"  \t"),
        blank: pick(random, b"    \t"),
        trailing: if once_in(random, 6) { 1 + random.below(3) as usize } else { 0 },
        crlf: once_in(random, 6),
    }
}

fn of(name: &str, dim: u32, sparse: bool, notation: Notation, lines: Lines) -> Samples {
    let stream = Stream { name: name.to_owned(), dim, sparse, scale: notation.scale() };
    Samples { stream, notation, signs: false, entries: 0, empty: 0, lines }
}

fn plain(samples: Vec<Samples>, ids: Ids, longest: u32) -> Member {
    Member {
        order: (0..samples.len()).collect(),
        samples,
        ids,
        longest,
        comments: None,
        gap: b' ',
        blank: b' ',
        trailing: 0,
        crlf: false,
    }
}

/// Names of the shapes that look like public corpora in the text format.
const LOOK_ALIKES: [&str; 6] = ["slots", "phonemes", "handwriting", "reviews", "speech", "series"];

fn look_alike(name: &str) -> Option<Member> {
    match name {
        "slots" => Some(slots()),
        "phonemes" => Some(phonemes()),
        "handwriting" => Some(handwriting()),
        "reviews" => Some(reviews()),
        "speech" => Some(speech()),
        "series" => Some(series()),
        _ => None,
    }
}

/// Air travel queries: words, their slots, and the intent on the first line; a comment after each
/// sample.
fn slots() -> Member {
    Member {
        comments: Some(Comments { longest: 12, every: 1, each_sample: true }),
        gap: b'\t',
        ..plain(
            vec![
                of("S0", 943, true, Notation::One, Lines::All),
                of("S1", 26, true, Notation::One, Lines::First),
                of("S2", 129, true, Notation::One, Lines::All),
            ],
            Ids::Short,
            22,
        )
    }
}

/// Letters and phonemes of words, with comments.
fn phonemes() -> Member {
    Member {
        comments: Some(Comments { longest: 6, every: 1, each_sample: true }),
        gap: b'\t',
        ..plain(
            vec![
                of("S0", 69, true, Notation::One, Lines::All),
                of("S1", 69, true, Notation::One, Lines::All),
            ],
            Ids::Short,
            15,
        )
    }
}

/// Pixels as whole numbers, after a dense label.
fn handwriting() -> Member {
    let pixels = of("features", 784, false, Notation::Integer(256), Lines::All);
    let label = of("labels", 10, false, Notation::Integer(2), Lines::All);
    Member { order: vec![1, 0], ..plain(vec![pixels, label], Ids::None, 1) }
}

/// Word counts of reviews, after a class.
fn reviews() -> Member {
    let words = Samples { entries: 120, ..of("words", 60_000, true, Notation::Integer(10), Lines::All) };
    Member {
        order: vec![1, 0],
        ..plain(vec![of("class", 5, true, Notation::One, Lines::All), words], Ids::None, 1)
    }
}

/// Frames of utterances, with their states.
fn speech() -> Member {
    let features = Samples { signs: true, ..of("features", 39, false, Notation::Fixed(6), Lines::All) };
    plain(vec![features, of("labels", 9000, true, Notation::One, Lines::All)], Ids::Long, 800)
}

/// Time series, with the value to predict on the first line.
fn series() -> Member {
    let inputs = Samples { signs: true, ..of("n", 1, false, Notation::Trimmed(6), Lines::All) };
    plain(vec![inputs, of("o", 1, false, Notation::Trimmed(6), Lines::First)], Ids::Short, 20)
}
