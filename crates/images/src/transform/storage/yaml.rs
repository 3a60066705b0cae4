//! Storage files in YAML 1.0: as much of it as OpenCV writes for numbers and matrices.

use super::{Fault, Node, Parts, too_many_nodes};
use cntk_reader_core::limits::MOST_STORAGE_NODES;

/// The nodes of a file. Everything that is neither a number nor a matrix becomes a text that nobody reads.
pub(super) fn parse(text: &str) -> Result<Vec<(String, Node)>, Fault> {
    let mut nodes: Vec<(String, Node)> = Vec::new();
    // The part of a matrix whose list goes on in further lines.
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
            if nodes.len() == MOST_STORAGE_NODES {
                return Err(too_many_nodes());
            }
            let is_matrix = value.starts_with("!!opencv-matrix");
            let node = if is_matrix { Node::Matrix(Parts::default()) } else { Node::Text(value.to_owned()) };
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

/// Adds a line to the list of the last matrix; returns whether the list goes on.
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
