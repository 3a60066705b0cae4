use super::*;
use crate::transform::options::*;
use cntk_reader_core::image::Pixels;
use cntk_reader_core::testing::cases;
use proptest::prelude::*;
use std::collections::HashMap;

/// Parses transforms, each given as `Name key=value ...`.
pub fn options(transforms: &[String]) -> Vec<TransformOptions> {
    transforms.iter().map(|text| option(text)).collect()
}

fn option(text: &str) -> TransformOptions {
    let (name, keys) = text.split_once(' ').unwrap_or((text, ""));
    let keys: HashMap<&str, &str> =
        keys.split_terminator(' ').filter_map(|key| key.split_once('=')).collect();
    let number = |key: &str| keys.get(key).map(|value| value.parse::<f64>().expect("a number"));
    let radius = |key: &str| number(key).unwrap_or(0.0);
    let size = |text: &str| {
        let (width, height) = text.split_once(':').expect("width and height");
        (width.parse().expect("a width"), height.parse().expect("a height"))
    };
    match name {
        "Crop" => TransformOptions::Crop(CropOptions {
            kind: match keys.get("cropType") {
                Some(_) => CropKind::Random,
                None => CropKind::Center,
            },
            size: size(keys["cropSize"]),
            ratio: CropRatio::None,
            aspect: (1.0, 1.0),
            jitter: false,
            flip: keys.get("hflip") == Some(&"true"),
            seed: 0,
        }),
        "Scale" => TransformOptions::Scale(ScaleOptions {
            width: radius("width") as u32,
            height: radius("height") as u32,
            channels: radius("channels") as u32,
            interpolation: Interpolation::Linear,
            mode: match keys["scaleMode"] {
                "fill" => ScaleMode::Fill,
                "crop" => ScaleMode::Crop,
                _ => ScaleMode::Pad(number("padValue").map(|value| value as u32)),
            },
        }),
        "Color" => TransformOptions::Color(ColorOptions {
            brightness: 0.0,
            contrast: radius("contrastRadius"),
            saturation: radius("saturationRadius"),
            seed: 0,
        }),
        "Mean" => TransformOptions::Mean(None),
        other => panic!("{other}"),
    }
}

fn chain(transforms: &[String]) -> Chain {
    Chain::new(&options(transforms), &[], ElementType::Float, false).expect("a chain")
}

/// Returns a region of an image with pseudo-random pixels.
pub fn image(of: ImageInfo, part: Region) -> Image {
    let rows = part.top..part.top + part.height;
    let columns = part.left * of.channels..(part.left + part.width) * of.channels;
    let value = |y: u32, x: u32| ((y * of.width * of.channels + x).wrapping_mul(2_654_435_761) >> 24) as u8;
    let values = rows.flat_map(|y| columns.clone().map(move |x| value(y, x))).collect();
    Image {
        width: part.width,
        height: part.height,
        channels: of.channels,
        planar: false,
        pixels: Pixels::Bytes(values),
    }
}

fn run(chain: &Chain, plan: &Plan, of: ImageInfo) -> Image {
    let mut image = image(of, plan.region());
    chain.apply(plan, &mut image, &mut Scratch::default()).expect("the planned image");
    image
}

/// Generates transforms that crop, pad and change values, with small sizes so that resizing is
/// rare.
pub fn transform() -> impl Strategy<Value = String> {
    let crop = (1u32..9, 1u32..9, any::<bool>()).prop_map(|(width, height, flip)| {
        format!("Crop cropType=RandomSide cropSize={width}:{height} hflip={flip}")
    });
    let modes = prop::sample::select(&["fill", "crop", "pad", "pad padValue=7"][..]);
    let scale = (1u32..12, 1u32..12, any::<bool>(), modes).prop_map(|(width, height, square, mode)| {
        let height = if square { width } else { height };
        format!("Scale width={width} height={height} channels=1 scaleMode={mode}")
    });
    let others =
        prop::sample::select(&["Color contrastRadius=0.5", "Color saturationRadius=0.5", "Mean"][..]);
    prop_oneof![3 => crop, 3 => scale, 1 => others.prop_map(str::to_owned)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_global_rejects: 1 << 16, ..ProptestConfig::with_cases(cases(4000)) })]

    /// Decoding and resizing the whole image must give the same values as the planned parts.
    #[test]
    fn planned_parts_match_the_whole_image(
        transforms in prop::collection::vec(transform(), 1..6),
        (width, height) in (1u32..14, 1u32..14),
        channels in prop::sample::select(&[1u32, 3][..]),
    ) {
        let (chain, of) = (chain(&transforms), ImageInfo::decoded(width, height, channels));
        let mut plan = Plan::default();
        let draw = Draw { slot: 0, copy: 0, identity: (0, 0) };
        // Some scales do not fit the image size.
        prop_assume!(chain.plan(draw, of, &mut plan).is_ok());
        let planned = run(&chain, &plan, of);
        plan.region = plan.window;
        for Planned { step, .. } in &mut plan.steps {
            if let Step::Scale(Fit { resize: Some(Resize { width, height, cut, .. }), .. }) = step {
                *cut = Region::whole(*width, *height);
            }
        }
        prop_assert_eq!(planned, run(&chain, &plan, of), "{:?}", transforms);
    }
}

/// Returns the decoded region of an image of 500 columns and 375 rows.
fn decoded(transforms: &[&str]) -> Region {
    let transforms: Vec<String> = transforms.iter().map(|&text| text.to_owned()).collect();
    let mut plan = Plan::default();
    let draw = Draw { slot: 0, copy: 0, identity: (0, 0) };
    chain(&transforms).plan(draw, ImageInfo::decoded(500, 375, 3), &mut plan).expect("a plan");
    plan.region()
}

#[test]
fn only_padding_reads_beyond_a_crop() {
    let crop = "Crop cropSize=100:20";
    let pad = "Scale width=100 height=120 channels=3 scaleMode=pad";
    let middle = Region { left: 200, top: 177, width: 100, height: 20 };
    assert_eq!(decoded(&[crop, "Scale width=200 height=200 channels=3 scaleMode=pad"]), middle, "resized");
    assert_eq!(decoded(&[crop, pad]), Region { top: 127, height: 120, ..middle });
    assert_eq!(decoded(&[crop, "Mean", pad]), Region { top: 127, height: 120, ..middle });
    assert_eq!(decoded(&[crop, "Color contrastRadius=0.1", pad]), middle, "a separate image");
    assert_eq!(
        decoded(&[crop, "Scale width=100 height=1020 channels=3 scaleMode=pad"]),
        Region { top: 0, height: 375, ..middle }
    );
}
