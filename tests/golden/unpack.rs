//! The data and the configuration of a case.

use serde_json::Value;
use std::path::Path;

/// Writes the files of a case to a folder, and returns its configuration.
pub fn unpack(case: &Value, folder: &Path) -> String {
    let place = folder.to_str().expect("a UTF-8 path");
    for file in case["files"].as_array().expect("a list of files") {
        let name = file["name"].as_str().expect("a name");
        let content = match &file["hex"] {
            Value::String(hex) => unhex(hex),
            // Lists of files contain paths.
            _ if name.ends_with(".scp") => lines(&file["lines"]).replace("@DIR@", place).into_bytes(),
            _ => lines(&file["lines"]).into_bytes(),
        };
        std::fs::write(folder.join(name), content).expect("writing the data of a case");
    }
    config(case, folder)
}

/// Returns the configuration of a case whose files are in this folder.
pub fn config(case: &Value, folder: &Path) -> String {
    lines(&case["config"]).replace("@DIR@", folder.to_str().expect("a UTF-8 path"))
}

fn lines(value: &Value) -> String {
    let lines = value.as_array().expect("a list of lines").iter();
    lines.map(|line| line.as_str().expect("a line")).collect::<Vec<_>>().join("\n")
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("a hexadecimal digit") as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
