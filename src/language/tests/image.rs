//! Sections of the image deserializers and of their transforms: defaults, and CNTK's errors in
//! CNTK's order.

use super::options::*;
use super::*;
use cntk_reader_core::format::options::Adapter;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::stream::ElementType;
use std::any::Any;
use std::sync::Arc;

const SCALE: &str = "[type=Scale;width=4;height=3;channels=2]";
const LABELS: &str = "labels=[labelDim=10]";

fn read_with(
    reader: &str,
    name: &str,
    input: &str,
    outer: &str,
    others: ExtensionTypes<'_>,
) -> Result<ReaderSettings> {
    let element = format!("[module=ImageReader;type={name};input=[{input}];{outer}]");
    let section = Section::parse("unknown", &format!("traceLevel=0\n{reader}\ndeserializers=({element})"))?;
    Config::from_section(&section).settings(others)
}

fn read(input: &str, outer: &str) -> Result<ImageOptions> {
    read_with("", "ImageDeserializer", input, outer, ExtensionTypes::default()).map(image)
}

fn image(settings: ReaderSettings) -> ImageOptions {
    settings.deserializers[0].of::<ImageOptions>().expect("images").clone()
}

/// Returns the transforms of a stream with these elements.
fn transforms(elements: &str) -> Result<Vec<TransformOptions>> {
    read(&format!("features=[transforms=({elements})]\n{LABELS}"), "file=m").map(|image| image.transforms)
}

fn crop(keys: &str) -> Result<CropOptions> {
    transforms(&format!("[type=Crop;{keys}]")).map(|transforms| match transforms.into_iter().next() {
        Some(TransformOptions::Crop(crop)) => crop,
        other => panic!("{other:?}"),
    })
}

#[test]
fn defaults() {
    let expected = ImageOptions {
        front_end: FrontEnd::default(),
        file: "m".into(),
        base64: false,
        features: "features".into(),
        transforms: Vec::new(),
        labels: "labels".into(),
        draws: None,
        label_dim: 10,
        dense_labels: false,
        grayscale: false,
        multi_view: false,
        cache_index: false,
        verbosity: 0,
        max_pixels: 1 << 28,
        reproducible: false,
        element: ElementType::Float,
        pixels: ElementType::Float,
        confinement: cntk_reader_core::file::Confinement::default(),
        as_cntk: false,
        max_errors: 0,
    };
    let input = format!("features=[transforms=()]\n{LABELS}");
    assert_eq!(read(&input, "file=m").unwrap(), expected);
    // Streams are recognized by their keys, not by their names. Only files with Base64 lines have
    // an index.
    let outer =
        "file=m;grayscale=1;multiViewCrop=1;cacheIndex=1;verbosity=2;maxPixels=7;reproducibleTransforms=1";
    let expected = ImageOptions {
        front_end: FrontEnd::default(),
        features: "b".into(),
        labels: "a".into(),
        grayscale: true,
        multi_view: true,
        verbosity: 2,
        max_pixels: 7,
        reproducible: true,
        element: ElementType::Double,
        pixels: ElementType::Double,
        ..expected
    };
    let input = "a=[labelDim=10]\nb=[transforms=()]\nc=[x=1]\nd=5";
    let double =
        |name| read_with("precision=double", name, input, outer, ExtensionTypes::default()).map(image);
    assert_eq!(double("ImageDeserializer").unwrap(), expected);
    let expected = ImageOptions { base64: true, cache_index: true, ..expected };
    assert_eq!(double("Base64ImageDeserializer").unwrap(), expected);
}

#[test]
fn reproducible_transforms_of_the_reader_or_of_a_deserializer() {
    let input = format!("features=[transforms=()]\n{LABELS}");
    for (reader, outer, expected) in
        [("1", "", true), ("1", ";reproducibleTransforms=0", false), ("0", "", false)]
    {
        let reader = format!("reproducibleTransforms={reader}");
        let outer = format!("file=m{outer}");
        let settings =
            read_with(&reader, "ImageDeserializer", &input, &outer, ExtensionTypes::default()).unwrap();
        assert_eq!(image(settings).reproducible, expected, "{reader} {outer}");
    }
}

/// The effect of the deserializer on its reader: keys are numbers, and a reader of images alone has
/// a window of one sample and frames.
#[test]
fn consequences_for_the_reader() {
    let input = format!("features=[transforms=()]\n{LABELS}");
    let one = |name: &str, reader: &str| {
        read_with(reader, name, &input, "file=m", ExtensionTypes::default()).unwrap()
    };
    let settings = one("ImageDeserializer", "");
    assert_eq!(settings.order, Order::Block { window: WindowSize::Samples(1), seed: 0 });
    assert_eq!((settings.shape, settings.packing), (Shape::Composite, Packing::Frame));
    assert!(settings.multithreaded && settings.numeric_keys);
    let settings = one("ImageDeserializer", "randomizationWindow=3;sampleBasedRandomizationWindow=false");
    assert_eq!(settings.order, Order::Block { window: WindowSize::Chunks(3), seed: 0 });
    let settings = one("ImageDeserializer", "randomize=false;multiThreadedDeserialization=false");
    assert_eq!(
        (settings.order, settings.packing, settings.multithreaded),
        (Order::InOrder, Packing::Sequence, false)
    );
    let settings = one("Base64ImageDeserializer", "");
    assert_eq!(settings.order, Order::Block { window: WindowSize::Samples((1 << 62) - 1), seed: 0 });
    assert_eq!((settings.packing, settings.multithreaded), (Packing::Sequence, true));
}

#[test]
fn every_transform() {
    let elements = format!(
        "{SCALE}:[type=Crop]:[type=Mean]:[type=Color]:[type=Intensity]:[type=Transpose]:[type=Cast;seed=3]:
         [type=Scale;width=1;height=2;channels=3;scaleMode=pad;padValue=7;interpolations=LANCZOS]:
         [type=Scale;width=1;height=2;channels=3;scaleMode=pad;interpolations=cubic]:
         [type=Scale;width=1;height=2;channels=3;scaleMode=crop;padValue=7;interpolations=Nearest]:
         [type=Mean;meanFile=mean.xml]:
         [type=Color;brightnessRadius=0.1;contrastRadius=0.2;saturationRadius=1;seed=4294967295]:
         [type=Intensity;intensityStdDev=0.5;intensityFile=i.xml;seed=5]"
    );
    let scale = ScaleOptions {
        width: 4,
        height: 3,
        channels: 2,
        interpolation: Interpolation::Linear,
        mode: ScaleMode::Fill,
    };
    let other = |interpolation, mode| {
        TransformOptions::Scale(ScaleOptions { width: 1, height: 2, channels: 3, interpolation, mode })
    };
    let crop = CropOptions {
        kind: CropKind::Center,
        size: (0, 0),
        ratio: CropRatio::None,
        aspect: (1.0, 1.0),
        jitter: false,
        flip: false,
        seed: 0,
    };
    let expected = [
        TransformOptions::Scale(scale),
        TransformOptions::Crop(crop),
        TransformOptions::Mean(None),
        TransformOptions::Color(ColorOptions { brightness: 0.0, contrast: 0.0, saturation: 0.0, seed: 0 }),
        TransformOptions::Intensity(IntensityOptions { std_dev: 0.0, file: None, seed: 0 }),
        TransformOptions::Transpose,
        TransformOptions::Cast,
        other(Interpolation::Lanczos, ScaleMode::Pad(Some(7))),
        other(Interpolation::Cubic, ScaleMode::Pad(None)),
        other(Interpolation::Nearest, ScaleMode::Crop),
        TransformOptions::Mean(Some("mean.xml".into())),
        TransformOptions::Color(ColorOptions {
            brightness: 0.1,
            contrast: 0.2,
            saturation: 1.0,
            seed: u32::MAX,
        }),
        TransformOptions::Intensity(IntensityOptions { std_dev: 0.5, file: Some("i.xml".into()), seed: 5 }),
    ];
    assert_eq!(transforms(&elements).unwrap(), expected);
}

#[test]
fn crops() {
    let sizes = [("0", (0, 0)), ("3", (3, 3)), ("3:4", (3, 4)), ("3:4:5", (3, 4))];
    for (text, size) in sizes {
        assert_eq!(crop(&format!("cropSize={text}")).unwrap().size, size, "{text}");
    }
    // Numbers of single precision.
    let fifth = f64::from(0.2f32);
    let ratios = [
        ("sideRatio=0.2", CropRatio::Side(fifth, fifth)),
        ("sideRatio=0.2:1;areaRatio=0:0", CropRatio::Side(fifth, 1.0)),
        ("sideRatio=0;areaRatio=(0.2:0.5)", CropRatio::Area(fifth, 0.5)),
    ];
    for (text, ratio) in ratios {
        assert_eq!(crop(text).unwrap().ratio, ratio, "{text}");
    }
    assert_eq!(crop("aspectRatio=0.2:3").unwrap().aspect, (fifth, 3.0));
    assert!(crop("jitterType=UniRatio").unwrap().jitter && !crop("jitterType=NONE").unwrap().jitter);
    let kinds = [
        ("cropType=\"\"", CropKind::Center, false),
        ("cropType=CENTER;hflip=1", CropKind::Center, true),
        ("cropType=randomSide", CropKind::Random, true),
        ("cropType=RandomArea;hflip=0", CropKind::Random, false),
        ("cropType=multiview10;hflip=1", CropKind::MultiView10, false),
    ];
    for (text, kind, flip) in kinds {
        let crop = crop(text).unwrap();
        assert_eq!((crop.kind, crop.flip), (kind, flip), "{text}");
    }
    assert_eq!(crop("seed=4294967295").unwrap().seed, u32::MAX);
}

/// CNTK 2.7 reports the same errors, also when there are two.
#[test]
fn errors_of_transforms() {
    let side = "Invalid sideRatio value, must be > 0 and <= 1. sideMin must <= sideMax";
    let aspect = "Invalid aspectRatio value, aspectMin must > 0 and <= aspectMax";
    let dimensions = "Invalid image dimensions.";
    let mode = "Invalid scaleMode value, must be fill, crop or pad (all lower case)";
    let pad = "Invalid padValue value, must be -1 (replicates border) or >= 0 (constant)";
    let seed = "ConfigValue (unsigned long): invalid input string 'q'";
    let bool_error = "ConfigValue (bool): boolean argument expected";
    let unknown = "Cannot create transformer. Please check the module and type in the configuration.";
    let missing = "configparameters: required parameter missing: unknown:deserializers[0]:input:features";
    let table = [
        ("Crop;cropSize=-1;sideRatio=2", R, "Invalid cropSize value, must be >= 0"),
        ("Crop;cropSize=2:3:a", R, "ConfigValue (long): invalid input string 'a'"),
        ("Crop;cropSize=-1;seed=q", R, seed),
        ("Crop;seed=-1", R, "ConfigValue (unsigned int): integer argument expected"),
        ("Crop;sideRatio=2;areaRatio=3", R, side),
        ("Crop;sideRatio=nan", R, side),
        ("Crop;sideRatio=0:0.5", R, side),
        ("Crop;sideRatio=0.5:0", R, side),
        (
            "Crop;areaRatio=3;aspectRatio=0",
            R,
            "Invalid areaRatio value, must be > 0 and <= 1. areaMin must <= areaMax",
        ),
        (
            "Crop;areaRatio=0.5;sideRatio=0.5;aspectRatio=0",
            R,
            "sideRatio and areaRatio cannot be specified simultaneously",
        ),
        ("Crop;aspectRatio=0;jitterType=x", R, aspect),
        ("Crop;aspectRatio=2:1", R, aspect),
        ("Crop;jitterType=x;cropType=y", R, "Invalid jitter type: x."),
        ("Crop;cropType=Random;hflip=z", R, "Invalid crop type: Random."),
        ("Crop;cropType=multiview10;hflip=z", R, bool_error),
        ("Scale;width=x", R, "ConfigValue (uint64_t): invalid input string 'x'"),
        ("Scale;width=0;height=1;channels=3;interpolations=x", R, dimensions),
        ("Scale;width=-1;height=1;channels=3", R, dimensions),
        ("Scale;width=1;height=1;channels=3;interpolations=x;scaleMode=y", R, mode),
        ("Scale;width=1;height=1;channels=3;padValue=-2;scaleMode=Fill", R, mode),
        ("Scale;width=1;height=1;channels=3;padValue=-2;interpolations=x", R, pad),
        (
            "Scale;width=1;height=1;channels=3;interpolations=linear:cubic",
            R,
            "Invalid interpolations value, must be nearest, cubic, lanczos or linear",
        ),
        ("Scale;seed=q", R, seed),
        ("Color;brightnessRadius=2;contrastRadius=q", I, "brightnessRadius must be >= 0.0 and <= 1.0"),
        ("Color;saturationRadius=2;contrastRadius=-1", I, "contrastRadius must be >= 0.0 and <= 1.0"),
        ("Color;saturationRadius=2;seed=q", R, seed),
        ("Intensity;intensityStdDev=x", R, "ConfigValue (double): invalid input string 'x'"),
        ("Mean;seed=q", R, seed),
        ("Transpose;seed=q", R, seed),
        ("Cast;seed=q", R, seed),
        ("crop", R, unknown),
        ("Flip;width=q", R, unknown),
        (
            "Crop;module=Nope",
            R,
            "Plugin not found: 'Nope-2.7.so' (error: no transforms of this module are known)",
        ),
        (
            "Crop;module=CNTKTextFormatReader",
            R,
            "Symbol 'CreateTransformer' not found in plugin 'Cntk.Deserializers.TextFormat-2.7.so'",
        ),
    ];
    for (element, class, message) in table {
        assert_error(transforms(&format!("[type={element}]")), class, message);
    }
    assert_error(transforms("[x=1]"), R, &format!("{missing}:transforms[0]:type"));
    assert_error(transforms("5"), R, &format!("{missing}:transforms[0]:type"));
    assert_error(transforms(&format!("{SCALE}:[type=Scale]")), R, &format!("{missing}:transforms[1]:width"));
    // Where CNTK crashes, or makes every value NaN.
    for element in [
        "Crop;cropSize=()",
        "Crop;aspectRatio=inf",
        "Color;contrastRadius=nan",
        "Scale;width=4294967297;height=1;channels=1",
        "Scale;width=2147483647;height=2147483647;channels=2147483647",
        "Intensity;intensityStdDev=inf",
    ] {
        let error = transforms(&format!("[type={element}]")).unwrap_err();
        assert_eq!(error.location().stream.as_deref(), Some("features"), "{error}");
    }
}

#[test]
fn errors_of_deserializers() {
    let number = |text: &str| format!("ConfigValue (long): invalid input string '{text}'");
    let size = "ConfigValue (uint64_t): invalid input string 'q'";
    let bool_error = "ConfigValue (bool): boolean argument expected";
    let features = "features=[transforms=()]";
    let both = &format!("{features}\n{LABELS}");
    let no_features = "ImageDeserializerBase requires transforms parameter.";
    let no_labels = "ImageDeserializerBase requires labelDim parameter.";
    let found = |features: u32, labels: u32| {
        format!(
            "Please specify a single feature and label stream. '{features}' features , '{labels}' labels found."
        )
    };
    let missing =
        |what: &str| format!("configparameters: required parameter missing: unknown:deserializers[0]:{what}");
    let bad_label = &format!("{features}\nlabels=[labelDim=q]");
    let table = [
        (LABELS, "verbosity=w", no_features.to_owned()),
        (features, "verbosity=w", no_labels.to_owned()),
        (features, "labelDim=7", no_labels.to_owned()),
        ("a=[transforms=()]\nb=[transforms=()]", "", no_labels.to_owned()),
        ("a=[transforms=()]\nb=[transforms=()]\nl=[labelDim=1]", "", found(2, 1)),
        ("a=[transforms=()]\nb=[labelDim=2]\nl=[labelDim=1]", "", found(1, 2)),
        ("a=[transforms=();labelDim=1]\nl=[labelDim=1]", "", found(1, 2)),
        (bad_label, "verbosity=w", number("w")),
        (bad_label, "grayscale=w", size.to_owned()),
        (both, "grayscale=w", bool_error.to_owned()),
        (both, "multiViewCrop=w", bool_error.to_owned()),
        (both, "", missing("file")),
        (&format!("{both}\nx=\"(1\""), "", "no closing ) found in parameters".to_owned()),
        (
            &format!("{features}\nlabels=[labelDim=3000000000]"),
            "",
            "Label dimension (3000000000) exceeds the maximum allowed value (2147483647)".to_owned(),
        ),
    ];
    for (input, outer, message) in table {
        assert_error(read(input, outer), R, &message);
    }
    let text = "traceLevel=0;deserializers=([type=ImageDeserializer;module=ImageReader;verbosity=w])";
    assert_error(from_text(text), R, &missing("input"));
    let precision =
        read_with("precision=half", "ImageDeserializer", both, "file=m", ExtensionTypes::default());
    assert_error(precision, I, "Unsupported precision 'half'");
}

#[test]
fn user_defined_transforms() {
    let users = ExtensionTypes { transforms: &["Mine", "Crop"], ..ExtensionTypes::default() };
    let of = |elements: &str, others| {
        let input = format!("features=[transforms=({elements})]\n{LABELS}");
        read_with("precision=double", "ImageDeserializer", &input, "file=m", others)
            .map(|all| image(all).transforms)
    };
    let found = of("[type=Mine;seed=3]:[type=Crop]:[type=Crop;module=ImageReader]", users).unwrap();
    match found.as_slice() {
        [TransformOptions::User(mine), TransformOptions::User(crop), TransformOptions::Crop(_)] => {
            assert_eq!((mine.name.as_str(), crop.name.as_str()), ("Mine", "Crop"));
            assert_eq!(mine.seed, 3);
        }
        other => panic!("{other:?}"),
    }
    let error = of("[type=mine]", users).unwrap_err();
    assert!(error.detail().contains("'Mine', 'Crop'"), "{error}");
}

#[test]
fn foreign_transform_chains_are_left_to_others() {
    let with = |transforms: &str, foreign| {
        let text = format!(
            "traceLevel=0\ndeserializers=([module=ImageReader;type=ImageDeserializer;file=m;
                input=[features=[transforms=([type=Crop]:{transforms})]\n{LABELS}]])"
        );
        let others = ExtensionTypes { foreign, ..ExtensionTypes::default() };
        composite::read_with(&Section::parse("unknown", &text).unwrap(), others)
    };
    let mine = "[type=Scale;factor=3;module=mine.so]";
    let settings = with(mine, true).unwrap();
    let all = settings.deserializers[0].of::<ForeignOptions>().expect("a foreign deserializer");
    assert_eq!(all.name, "ImageDeserializer");
    assert_eq!(all.description.get::<Section>().unwrap().text("precision").unwrap(), "float");
    assert_eq!(settings.deserializers.len(), 1);
    let error = with(mine, false).unwrap_err();
    assert!(error.message().starts_with("Plugin not found: 'mine.so"), "{error}");
    let native = with("[type=Scale;width=3;height=3;channels=3;module=ImageReader]", true).unwrap();
    assert!(native.deserializers[0].of::<ImageOptions>().is_some());
}

/// Streams of deserializers of other data than images. Not in CNTK.
#[test]
fn transforms_of_other_streams() {
    let text = |stream: &str, outer: &str| {
        let text = format!(
            "traceLevel=0\ndeserializers=([type=CNTKTextFormatDeserializer;module=CNTKTextFormatReader;file=f;{outer}
                input=[a=[dim=24;format=dense]\nx=[dim=24;format=dense;{stream}]]])"
        );
        from_text(&text)
    };
    let settings =
        text("imageShape=3:4:2;transforms=([type=Transpose])", "reproducibleTransforms=1").unwrap();
    let stream = TransformedStream {
        stream: "x".into(),
        image: Some([3, 4, 2]),
        transforms: vec![TransformOptions::Transpose],
        reproducible: true,
    };
    let expected: Arc<dyn Adapter> = Arc::new(TransformedStreams { deserializer: 0, streams: vec![stream] });
    assert_eq!((settings.adapters, settings.multithreaded), (vec![expected], true));
    let missing = "Symbol 'CreateTransformer' not found in plugin 'Cntk.Deserializers.TextFormat-2.7.so'";
    assert_error(text("transforms=()", ""), R, missing);
    for shape in ["3:4", "3:4:0", "3:4:2:1", "-1:1:1", "4294967295:4294967295:4294967295"] {
        let stream = format!("imageShape={shape};transforms=()");
        let message = "'imageShape' in 'unknown:deserializers[0]:input:x' is not an image shape.";
        assert_error(text(&stream, ""), I, message);
    }
    assert!(text("imageShape=3:4:2", "").unwrap().adapters.is_empty());
    // Streams of user-defined deserializers have shapes.
    let users = [UserType { name: "Mine", composable: true }];
    let text = "traceLevel=0;deserializers=([type=Mine;input=[x=[transforms=([type=Mean]:[type=Flip])]]])";
    let others = ExtensionTypes { users: &users, transforms: &["Flip"], ..ExtensionTypes::default() };
    let settings = Config::from_text(text).unwrap().settings(others).unwrap();
    let [adapter] = settings.adapters.as_slice() else { panic!("{:?}", settings.adapters) };
    let adapter: &dyn Any = &**adapter;
    let Some(TransformedStreams { streams, .. }) = adapter.downcast_ref() else { panic!() };
    let [stream] = streams.as_slice() else { panic!("{streams:?}") };
    assert_eq!((stream.stream.as_str(), stream.image), ("x", None));
    assert!(matches!(&stream.transforms[1], TransformOptions::User(user) if user.name == "Flip"));
    assert!(!settings.multithreaded);
}

#[test]
fn unread_keys_are_reported() {
    let text = format!(
        "deserializers=([module=ImageReader;type=ImageDeserializer;file=m;greyscale=1;traceLevel=1;precision=float
            input=[features=[transforms=([type=Crop;cropRatio=0.5;seed=1]:[type=Mine;a=b])]\n{LABELS}\nx=[y=1]]])"
    );
    let section = Section::parse("unknown", &text).unwrap();
    let others = ExtensionTypes { transforms: &["Mine"], ..ExtensionTypes::default() };
    composite::read_with(&section, others).unwrap();
    let line = |key: &str, path: &str, hint: &str| {
        format!("The configuration key '{key}' in 'unknown:deserializers[0]{path}' has no effect{hint}")
    };
    let expected = [
        line("greyscale", "", "; did you mean 'grayscale'?"),
        line("x", ":input", ""),
        line("cropRatio", ":input:features:transforms[0]", "; did you mean 'sideRatio'?"),
    ];
    assert_eq!(section.log().unread(section.path()), expected);
}

/// Builders create the same sections as texts.
#[test]
fn builders() {
    use crate::language::typed::image::{Cast, Color, Crop, Intensity, Mean, Scale, Transform, Transpose};
    let images = crate::ImageDeserializer::new("a # \"b\".map", "pixels", "classes", 7)
        .grayscale(true)
        .multi_view(true)
        .max_pixels(99)
        .reproducible_transforms(true)
        .add_transform(
            Crop::random().area_ratio(0.1, 1.0).aspect_ratio(0.5, 2.0).jitter(true).flip(false).seed(3),
        )
        .add_transform(Crop::center().size(4, 5).side_ratio(0.5, 0.5))
        .add_transform(Crop::multi_view())
        .add_transform(Scale::new(4, 3, 1).interpolation(Interpolation::Cubic).mode(ScaleMode::Pad(Some(9))))
        .add_transform(Scale::new(4, 3, 1).mode(ScaleMode::Pad(None)))
        .add_transform(Mean::new("m.xml"))
        .add_transform(Color::new().brightness(0.25).contrast(0.5).saturation(1.0).seed(4))
        .add_transform(Intensity::new(0.5, "i.xml").seed(5))
        .add_transform(Transform::named("Mine"))
        .add_transform(Transpose::new())
        .add_transform(Cast::new());
    let settings = |section: Section| {
        let others = ExtensionTypes { added: &[section], transforms: &["Mine"], ..ExtensionTypes::default() };
        Config::from_text("traceLevel=0").unwrap().settings(others).map(image)
    };
    let mut built = settings(Section::of_values("images", &images.values().unwrap())).unwrap();
    assert_eq!((built.features.as_str(), built.labels.as_str(), built.label_dim), ("pixels", "classes", 7));
    assert_eq!(built.file, "a # \"b\".map");
    assert!(built.grayscale && built.multi_view && built.reproducible && built.max_pixels == 99);
    let mine = built.transforms.remove(8);
    assert!(matches!(mine, TransformOptions::User(user) if user.name == "Mine"));
    let text = "[type=Crop;cropType=RandomSide;areaRatio=0.1:1;aspectRatio=0.5:2;jitterType=uniratio;hflip=0;seed=3]:
        [type=Crop;cropSize=4:5;sideRatio=0.5]:[type=Crop;cropType=MultiView10]:
        [type=Scale;width=4;height=3;channels=1;interpolations=cubic;scaleMode=pad;padValue=9]:
        [type=Scale;width=4;height=3;channels=1;scaleMode=pad]:[type=Mean;meanFile=m.xml]:
        [type=Color;brightnessRadius=0.25;contrastRadius=0.5;saturationRadius=1;seed=4]:
        [type=Intensity;intensityStdDev=0.5;intensityFile=i.xml;seed=5]:[type=Transpose]:[type=Cast]";
    assert_eq!(built.transforms, transforms(text).unwrap());
    let images = crate::Base64ImageDeserializer::new("b", "x", "y", 2).cache_index(true);
    let built = settings(Section::of_values("images", &images.values().unwrap())).unwrap();
    assert!(built.base64 && built.cache_index && built.transforms.is_empty());
    // They write the equivalent text.
    let text = format!("traceLevel=0\ndeserializers=({})", images.to_configuration().unwrap());
    assert_eq!(image(from_text(&text).unwrap()), built);
    let of = |features: &str, labels: &str| crate::ImageDeserializer::new("m", features, labels, 2);
    for wrong in [of("x", "X"), of("", "y"), of("x", "")] {
        assert!(wrong.values().is_err(), "{wrong:?}");
    }
    let odd = of("x", "y").add_transform(Mean::new("a\"b #c"));
    let built = settings(Section::of_values("images", &odd.values().unwrap())).unwrap();
    assert_eq!(built.transforms, [TransformOptions::Mean(Some("a\"b #c".to_owned()))]);
}

/// Every option of the builders of images and transforms, as text.
#[test]
fn builders_write_every_option() {
    use crate::language::typed::image::{Color, Crop, Scale, Transform, Transpose};
    let written = |transform: Transform| {
        let images = crate::ImageDeserializer::new("m", "x", "y", 2).add_transform(transform);
        let text = images.to_configuration().unwrap();
        let section = Section::parse("text", &text).unwrap().section("input").unwrap().child("x").unwrap();
        shown(&section.array("transforms").unwrap().sections().next().unwrap().unwrap())
    };
    let scale = |scale: Scale| written(scale.into());
    let size = "height=2|interpolations={}|type=Scale|width=1";
    for (interpolation, word) in [
        (Interpolation::Nearest, "nearest"),
        (Interpolation::Linear, "linear"),
        (Interpolation::Cubic, "cubic"),
        (Interpolation::Lanczos, "lanczos"),
    ] {
        let text = scale(Scale::new(1, 2, 3).interpolation(interpolation));
        assert_eq!(text, format!("channels=3|{}", size.replace("{}", word)));
    }
    for (mode, word, value) in [
        (ScaleMode::Fill, "fill", -1),
        (ScaleMode::Crop, "crop", -1),
        (ScaleMode::Pad(None), "pad", -1),
        (ScaleMode::Pad(Some(7)), "pad", 7),
    ] {
        let text = scale(Scale::new(1, 2, 3).mode(mode));
        let expected = format!("channels=3|height=2|padValue={value}|scaleMode={word}|type=Scale|width=1");
        assert_eq!(text, expected);
    }
    assert_eq!(
        written(Crop::center().jitter(false).flip(true).into()),
        "cropType=Center|hflip=true|jitterType=None|type=Crop"
    );
    assert_eq!(
        written(Crop::random().jitter(true).into()),
        "cropType=RandomSide|jitterType=UniRatio|type=Crop"
    );
    assert_eq!(written(Color::default().into()), "type=Color");
    assert_eq!(written(Transpose::default().into()), "type=Transpose");
    assert_eq!(written(Transform::named("Mine")), "type=Mine");
    let all = crate::ImageDeserializer::new("m", "x", "y", 2).element(ElementType::UInt8).draws("z");
    let section = Section::parse("text", &all.to_configuration().unwrap()).unwrap();
    assert_eq!(section.section("input").unwrap().child("z").unwrap().raw("draw"), Some("true"));
    let settings = from_text(&format!("traceLevel=0;deserializers=({})", all.to_configuration().unwrap()));
    let images = image(settings.unwrap());
    assert_eq!((images.pixels, images.draws.as_deref()), (ElementType::Float, Some("z")));
    let message = |images: crate::ImageDeserializer| images.values().unwrap_err().message().to_owned();
    for name in ["X", "Y"] {
        let images = crate::ImageDeserializer::new("m", "x", "y", 2).draws(name);
        assert_eq!(message(images), format!("The stream of draws needs a name of its own, not '{name}'."));
    }
    let same = crate::ImageDeserializer::new("m", "x", "X", 2);
    assert_eq!(message(same), "Images and labels need streams of different names, not 'X'.");
}

/// The stream of draws and the element type of images, which CNTK does not have.
#[test]
fn draws_and_bytes_of_images() {
    let native = |input: &str| {
        let element =
            format!("type = ImageDeserializer ; module = ImageReader ; file = m ; input = [ {input} ]");
        let settings = Config::from_text(&format!("deserializers = ([ {element} ])"))?;
        settings.settings(ExtensionTypes::default()).map(image)
    };
    let labels = "y = [ labelDim = 2 ]";
    for (input, draws, pixels) in [
        ("x = [ transforms = () ]", None, ElementType::Float),
        ("x = [ transforms = () ; element = uint8 ] ; z = [ draw = true ]", Some("z"), ElementType::UInt8),
        ("x = [ transforms = () ; draw = false ] ; z = [ draw = false ]", None, ElementType::Float),
        ("x = [ transforms = () ; element = float32 ]", None, ElementType::Float),
    ] {
        let images = native(&format!("{input} ; {labels}")).unwrap();
        assert_eq!((images.draws.as_deref(), images.pixels), (draws, pixels), "{input}");
    }
    for (input, stream) in [
        ("x = [ transforms = () ; draw = true ]", "x"),
        ("x = [ transforms = () ] ; z = [ draw = true ] ; w = [ draw = true ]", "z"),
    ] {
        let error = native(&format!("{input} ; {labels}")).unwrap_err();
        let message = format!("'deserializers[0]:input:{stream}' cannot be a stream of draws.");
        assert_eq!((error.message(), error.class()), (&*message, I));
        assert_eq!(error.location().stream.as_deref(), Some(stream));
    }
    let error = native(&format!("x = [ transforms = () ; element = int16 ] ; {labels}")).unwrap_err();
    assert!(error.detail().starts_with("Expected one of the words uint8, float32."), "{error}");
}

fn legacy(reader: &str) -> Result<ReaderSettings> {
    from_text(&format!("traceLevel=0;readerType=ImageReader\n{reader}"))
}

#[test]
fn legacy_readers() {
    let features = "features=[width=4;height=3;channels=1;cropType=MultiView10;meanFile=mean.xml;seed=3]";
    let settings = legacy(&format!("file=m\n{features}\n{LABELS}")).unwrap();
    assert_eq!((settings.shape, settings.packing), (Shape::ImageReader, Packing::Frame));
    assert_eq!(settings.order, Order::Block { window: WindowSize::Samples(1), seed: 0 });
    assert!(settings.multithreaded && !settings.numeric_keys && settings.local_timeline);
    let options = image(settings);
    assert!(options.grayscale && options.dense_labels && options.multi_view && !options.base64);
    let names: Vec<_> = options
        .transforms
        .iter()
        .map(|transform| match transform {
            TransformOptions::Crop(crop) => format!("crop {}", crop.seed),
            TransformOptions::Scale(scale) => format!("scale {}x{}", scale.width, scale.height),
            TransformOptions::Color(color) => format!("color {}", color.seed),
            TransformOptions::Intensity(intensity) => format!("intensity {}", intensity.seed),
            TransformOptions::Mean(file) => format!("mean {file:?}"),
            TransformOptions::Transpose => "transpose".into(),
            TransformOptions::Cast => "cast".into(),
            TransformOptions::User(user) => user.name.clone(),
        })
        .collect();
    let all =
        ["crop 3", "scale 4x3", "color 3", "intensity 3", "mean Some(\"mean.xml\")", "transpose", "cast"];
    assert_eq!(names, all);
    let features = "a=[width=4;height=3;channels=3;mbFormat=Legacy]";
    let rest =
        "b=[labelDim=2]\nfile=m;grayscale=1;numCPUThreads=2;randomize=NONE;precision=double;maxPixels=9";
    let settings = legacy(&format!("{features}\n{rest}")).unwrap();
    assert_eq!((settings.order, settings.element), (Order::InOrder, ElementType::Double));
    let options = image(settings);
    assert_eq!((options.features.as_str(), options.labels.as_str(), options.label_dim), ("a", "b", 2));
    assert!(options.grayscale && !options.multi_view && options.max_pixels == 9);
    assert!(!options.transforms.contains(&TransformOptions::Transpose));
}

#[test]
fn errors_of_legacy_readers() {
    let features = "features=[width=4;height=3;channels=1]";
    let all = format!("{features}\n{LABELS}\nfile=m\n");
    let table = [
        (format!("{LABELS}\nfile=m"), "ImageReader requires width parameter."),
        (format!("{features}\nfile=m"), "ImageReader requires labelDim parameter."),
        (
            format!("{all}b=[width=1]"),
            "ImageReader currently supports a single feature and label stream. '2' features , '1' labels found.",
        ),
        (
            format!("{LABELS}\nf=[width=1;height=1;channels=1;mbFormat=cudnn]"),
            "ImageReader does not support the sample format 'cudnn', only 'nchw' and 'nhwc' are supported.",
        ),
        (format!("{all}randomize=true"), "'randomize' parameter must be set to 'auto' or 'none'"),
        (format!("{all}numCPUThreads=q"), "ConfigValue (long): invalid input string 'q'"),
        (format!("{LABELS}\nfile=m\nf=[width=0;height=1;channels=1]"), "Invalid image dimensions."),
        (format!("{all}precision=half"), "Not supported precision 'half'. Expected 'double' or 'float'."),
        (format!("{all}foo=\"x(1\""), "no closing ) found in parameters"),
    ];
    for (text, message) in table {
        assert_error(legacy(&text), R, message);
    }
}
