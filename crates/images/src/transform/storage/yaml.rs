//! Storage files in YAML 1.0: the subset that OpenCV writes for numbers and matrices.

use super::{Fault, Node, RawMatrix, too_many_nodes};
use cntk_reader_core::limits::MAX_STORAGE_NODES;

/// Parses the nodes of a file. Anything but a number or matrix becomes a text, which is never read.
pub(super) fn parse(text: &str) -> Result<Vec<(String, Node)>, Fault> {
    let mut nodes: Vec<(String, Node)> = Vec::new();
    // Whether the data list of the last matrix continues on the next line.
    let mut open_list = false;
    for (number, line) in (1u64..).zip(text.lines()) {
        let content = without_comment(line);
        if content.trim().is_empty() || number == 1 || matches!(content.trim(), "---" | "...") {
            continue;
        }
        if open_list {
            open_list = extend(&mut nodes, content);
            continue;
        }
        let is_nested = content.starts_with([' ', '\t', '-']);
        let Some((name, value)) = content.split_once(':') else {
            if is_nested {
                continue;
            }
            return Err(Fault::new(
                number,
                format!("'{}' was found where 'name: value' was expected.", content.trim()),
            ));
        };
        let (name, value) = (name.trim().trim_matches('"'), value.trim());
        if !is_nested {
            if nodes.len() == MAX_STORAGE_NODES {
                return Err(too_many_nodes());
            }
            let is_matrix = value.starts_with("!!opencv-matrix");
            let node =
                if is_matrix { Node::Matrix(RawMatrix::default()) } else { Node::Text(value.to_owned()) };
            nodes.push((name.to_owned(), node));
        } else if let Some((_, Node::Matrix(parts))) = nodes.last_mut() {
            match name {
                "rows" => parts.rows = value.to_owned(),
                "cols" => parts.columns = value.to_owned(),
                "dt" => parts.element = value.to_owned(),
                "data" => {
                    let Some(list) = value.strip_prefix('[') else {
                        return Err(Fault::new(number, "'data' has no list in brackets."));
                    };
                    open_list = extend(&mut nodes, list);
                }
                _ => {}
            }
        }
    }
    match open_list {
        true => Err(Fault::new(None, "The list of the last matrix is not closed by ']'.")),
        false => Ok(nodes),
    }
}

/// Adds a line to the data list of the last matrix. Returns whether the list continues.
fn extend(nodes: &mut [(String, Node)], line: &str) -> bool {
    let (numbers, goes_on) = match line.split_once(']') {
        Some((numbers, _)) => (numbers, false),
        None => (line, true),
    };
    if let Some((_, Node::Matrix(parts))) = nodes.last_mut() {
        parts.data.push_str(numbers);
        parts.data.push(' ');
    }
    goes_on
}

fn without_comment(line: &str) -> &str {
    match line.find('#') {
        Some(at) if at == 0 || line[..at].ends_with([' ', '\t']) => &line[..at],
        _ => line,
    }
}
