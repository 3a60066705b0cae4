//! Measurements, for `cargo test --release -- --ignored --nocapture htk::features::tests::speed`.

use super::*;
use crate::htk::features::script::{Rules, Script};
use crate::htk::features::table::UtteranceTable;

/// Number of utterances, and frames and values of each.
const UTTERANCES: u32 = 2000;
const FRAMES: u32 = 500;
const DIM: u16 = 40;

/// Returns the CPU time of this thread in seconds.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse::<f64>().ok()).expect("a time") / 1e9
}

/// Returns the minimum of several CPU times in seconds, which other programs hardly affect.
fn best(mut work: impl FnMut()) -> f64 {
    let time = |()| {
        let before = processor_time();
        work();
        processor_time() - before
    };
    [(); 7].map(time).into_iter().fold(f64::INFINITY, f64::min)
}

/// Runs `work` on a pool of one thread.
fn on_one_thread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread").install(work)
}

#[test]
#[ignore = "a measurement"]
fn opening() {
    let (_folder, path) = folder();
    let archived = |n: u32| {
        format!(
            "spk{:03}-utt{n:06}.mfc=/corpus/archives/a{:02}.mfc[{},{}]\n",
            n / 500,
            n / 5000,
            n * 9,
            n * 9 + 8
        )
    };
    let separate = |n: u32| {
        format!("spk{:03}-utt{n:06}.mfc=/corpus/features/spk{:03}/utt{n:06}.mfc[0,499]\n", n / 500, n / 500)
    };
    for (name, line) in [("archives", &archived as &dyn Fn(u32) -> String), ("separate files", &separate)] {
        let script = write(&path, "a.scp", (0..100_000).map(line).collect::<String>());
        let rules = Rules { prefix: "", max_frames: u32::MAX, expand: false };
        let mut bytes = 0;
        let parts = on_one_thread(|| {
            let parsing =
                best(|| drop(Script::read(std::slice::from_ref(&script), rules).expect("a script")));
            let all = best(|| {
                let script = Script::read(std::slice::from_ref(&script), rules).expect("a script");
                let table = UtteranceTable::select(script, &Corpus::symbolic(), false, 0, &mut Vec::new())
                    .expect("a table");
                bytes = table.bytes();
            });
            [parsing * 1e3, all * 1e3]
        });
        println!(
            "100,000 utterances, {name}: parsed, opened in {parts:.2?} ms, {} bytes each",
            bytes as f64 / 1e5
        );
    }
}

#[test]
#[ignore = "a measurement"]
fn loading() {
    let (_folder, path) = folder();
    let archive = write(&path, "a.mfc", feature_file(UTTERANCES * FRAMES, DIM));
    let line = |n: u32| format!("u{n}={archive}[{},{}]\n", n * FRAMES, (n + 1) * FRAMES - 1);
    let one = write(&path, "one.scp", (0..UTTERANCES).map(line).collect::<String>());
    let file = feature_file(FRAMES, DIM);
    let line = |n: u32| format!("u{n}={}[0,{}]\n", write(&path, &format!("{n}.mfc"), &file), FRAMES - 1);
    let many = write(&path, "many.scp", (0..UTTERANCES).map(line).collect::<String>());
    for (name, script) in [("one archive", one), ("separate files", many)] {
        let options = HtkFeatureOptions { dim: DIM.into(), ..options(&script) };
        let again = on_one_thread(|| {
            let opened = open(&options).expect("it opens");
            best(|| {
                (0..opened.chunks().len() as u32)
                    .for_each(|chunk| drop(opened.load(chunk).expect("it loads")))
            })
        });
        let fresh = on_one_thread(|| {
            best(|| {
                let opened = open(&options).expect("it opens");
                let chunks = 0..opened.chunks().len() as u32;
                drop(chunks.map(|chunk| opened.load(chunk).expect("it loads")).collect::<Vec<_>>());
            })
        });
        let gigabytes = f64::from(UTTERANCES * FRAMES * u32::from(DIM) * 4) / 1e9;
        for (kind, time) in [("used memory", again), ("fresh memory", fresh)] {
            let each = time * 1e6 / f64::from(UTTERANCES);
            println!("{name}, {kind}: {each:.1} us an utterance, {:.2} GB/s", gigabytes / time);
        }
    }
}
