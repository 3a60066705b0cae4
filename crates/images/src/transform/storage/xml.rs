//! Storage files in XML.

use super::{Fault, Node, RawMatrix, too_many_nodes};
use cntk_reader_core::limits::MAX_STORAGE_NODES;
use roxmltree::{Document, Node as Element, ParsingOptions};

/// Parses the nodes of a file.
pub(super) fn parse(text: &str) -> Result<Vec<(String, Node)>, Fault> {
    if !text.starts_with("<?xml") {
        return Err(Fault::new(1, "Valid XML should start with '<?xml ...?>'."));
    }
    // Each element and each attribute has at least one of these characters. The parser reserves
    // memory by their number.
    if memchr::memchr2_iter(b'<', b'=', text.as_bytes()).nth(MAX_STORAGE_NODES).is_some() {
        return Err(too_many_nodes());
    }
    let document = Document::parse_with_options(text, ParsingOptions::default())
        .map_err(|fault| Fault::new(u64::from(fault.pos().row), format!("{fault}.")))?;
    let root = document.root_element();
    if !root.has_tag_name("opencv_storage") {
        let found = root.tag_name().name();
        return Err(Fault::new(None, format!("<{found}> was found where <opencv_storage> was expected.")));
    }
    Ok(root.children().filter(Element::is_element).map(|child| (name(child), node(child))).collect())
}

fn name(element: Element<'_, '_>) -> String {
    element.tag_name().name().to_owned()
}

fn node(element: Element<'_, '_>) -> Node {
    if element.attribute("type_id") != Some("opencv-matrix") {
        return Node::Text(text(element));
    }
    let part = |name| {
        let part = element.children().find(|child| child.has_tag_name(name));
        part.map(text).unwrap_or_default()
    };
    Node::Matrix(RawMatrix {
        rows: part("rows"),
        columns: part("cols"),
        element: part("dt"),
        data: part("data"),
    })
}

/// Returns the text of an element, without comments.
fn text(element: Element<'_, '_>) -> String {
    element.children().filter(Element::is_text).filter_map(|child| child.text()).collect()
}
