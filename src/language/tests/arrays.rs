//! The deserializer for NumPy arrays, which CNTK does not have.

use super::*;
use crate::language::options::{ArrayOptions, ArrayStream, Order, WindowSize};

fn arrays(inside: &str) -> Result<ArrayOptions> {
    let text = format!("deserializers=([type=NumpyDeserializer;{inside}])");
    from_text(&text).map(|settings| settings.deserializers[0].of::<ArrayOptions>().unwrap().clone())
}

#[test]
fn keys_become_options_and_so_do_methods() {
    let stream = |name: &str, file: &str, defines_mb_size| ArrayStream {
        name: name.into(),
        file: file.into(),
        defines_mb_size,
    };
    let expected = ArrayOptions {
        streams: vec![stream("x", "x.npy", false), stream("y", "y.npy", true)],
        lengths: Some("n.npy".into()),
        chunk_size: 7,
        element: ElementType::Float,
    };
    let text = "input=[x=[file=x.npy];y=[file=y.npy;definesMBSize=true]];lengths=n.npy;chunkSizeInBytes=7";
    assert_eq!(arrays(text).unwrap(), expected);
    let typed = NumpyDeserializer::new().array("x", "x.npy").array("y", "y.npy").defines_minibatch_size();
    let typed = typed.lengths("n.npy").chunk_size(7);
    let text = format!("deserializers=({})", typed.to_configuration().unwrap());
    let settings = from_text(&text).unwrap();
    assert_eq!(settings.deserializers[0].of::<ArrayOptions>(), Some(&expected));
    // Rows have numbers, so keys are not textual.
    assert!(settings.numeric_keys);
    // A window in chunks, which fits into memory, not all of the data.
    assert!(matches!(settings.order, Order::Block { window: WindowSize::Chunks(128), .. }));
    assert!(NumpyDeserializer::new().defines_minibatch_size().to_configuration().is_err());
    let double = "precision=double;deserializers=([type=NumpyDeserializer;input=[x=[file=x]]])";
    let double = from_text(double).unwrap();
    assert_eq!(double.deserializers[0].of::<ArrayOptions>().unwrap().element, ElementType::Double);
}

#[test]
fn errors_name_what_is_missing() {
    for (inside, message) in [
        ("lengths=n", "'deserializers[0]' has no 'input'."),
        ("input=[]", "'deserializers[0]:input' has no 'file'."),
        ("file=x;input=[x=[dim=1]]", "'deserializers[0]:input:x' has no 'file'."),
        ("input=[x=[file=x]];chunkSizeInBytes=0", "‹array_chunk_size›"),
    ] {
        let error = arrays(inside).unwrap_err();
        let message = FrontEnd::Configuration.say(message);
        assert!(error.message().contains(message.trim_matches('\'')), "{error}");
    }
    let error = arrays("input=[x=[]]").unwrap_err();
    let detail = "Arrays are streams, each with its file: 'input = [ features = [ file = \"x.npy\" ] ]'.";
    assert_eq!((error.detail(), error.class()), (detail, I));
    assert_eq!(error.location().stream.as_deref(), Some("x"));
    let misspelt = arrays("inputs=[x=[file=x]]").unwrap_err();
    assert!(misspelt.detail().ends_with("'inputs' has no effect. Did you mean 'input'?"), "{misspelt}");
    assert_eq!(arrays("input=[x=[file=x]];lengths=\"\"").unwrap().lengths, None);
    let error = arrays("input=[x=[file=x;transforms=([type=Crop])]]").unwrap_err();
    assert!(error.to_string().contains("which its format does not take"), "{error}");
    let error = arrays("module=ImageReader;input=[x=[file=x]]").unwrap_err();
    assert!(error.to_string().contains("the type 'NumpyDeserializer'"), "{error}");
}
