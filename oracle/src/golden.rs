//! The golden cases under tests/golden: recorded results of CNTK 2.7.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tooling::project::Project;

/// A recorded case.
#[derive(Clone)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Result of creating the reader.
    pub create: Value,
    /// The steps, in the syntax of the replay driver.
    pub steps: Vec<String>,
    /// Recorded result of each step.
    pub results: Vec<Value>,
    /// The reader's configuration.
    pub config: String,
    /// Name and content of each data file.
    pub files: Vec<(String, Vec<u8>)>,
    /// How this library's converters rewrite the first file before it is read, if they do.
    pub rewritten: Option<Rewritten>,
}

/// How a binary file is rewritten.
#[derive(Clone)]
pub struct Rewritten {
    /// Its streams, in the converter's syntax.
    pub streams: String,
    /// Size of a chunk in bytes.
    pub chunk_size: u64,
    /// `d` for double precision, `s` for the chunks of CNTK's script.
    pub flags: &'static str,
}

/// Loads all cases, file by file in alphabetical order.
pub fn load(project: &Project) -> Result<Vec<Case>> {
    let folder = project.path("tests/golden");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let parsed: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
        for case in list(&parsed)? {
            cases.push(Case::from_json(case).with_context(|| format!("in {}", file.display()))?);
        }
    }
    if cases.is_empty() {
        bail!("There are no cases in {}.", folder.display());
    }
    Ok(cases)
}

/// Returns the names of the cases in which CNTK mixes the channels of images, and this library
/// delivers the requested channels.
pub fn mixed(project: &Project) -> Result<Vec<String>> {
    let path = project.path("tests/golden/mixed-channels.txt");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

impl Case {
    /// Returns the case with the values of each image replaced by their number.
    pub fn without_pixels(&self) -> Case {
        let mut case = self.clone();
        for result in &mut case.results {
            let Some(streams) = result.get_mut("streams").and_then(Value::as_array_mut) else { continue };
            for stream in streams {
                let is_image = stream["shape"].as_array().is_some_and(|shape| shape.len() == 3);
                let columns = stream.get_mut("dense").and_then(Value::as_array_mut);
                for column in columns.into_iter().flatten().filter(|column| is_image && column.is_array()) {
                    *column = column.as_array().map_or(0, Vec::len).into();
                }
            }
        }
        case
    }

    fn from_json(case: &Value) -> Result<Case> {
        let name = text(&case["name"])?.to_owned();
        let mut files = Vec::new();
        for file in list(&case["files"])? {
            let content = match &file["hex"] {
                Value::String(digits) => bytes(digits)?,
                _ => lines(&file["lines"])?.into_bytes(),
            };
            files.push((text(&file["name"])?.to_owned(), content));
        }
        let (mut steps, mut results) = (Vec::new(), Vec::new());
        for step in list(&case["steps"])? {
            steps.push(text(&step["op"])?.to_owned());
            results.push(step["result"].clone());
        }
        Ok(Case {
            name,
            create: case["create"].clone(),
            steps,
            results,
            config: lines(&case["config"])?,
            files,
            rewritten: None,
        })
    }

    /// Writes the case's data, configuration and script into a folder, and returns the paths of the
    /// latter two. The driver replaces `@DIR@` in the configuration: it then passes the
    /// configuration as text, as when CNTK was recorded.
    pub fn unpack(&self, folder: &Path) -> Result<(PathBuf, PathBuf)> {
        std::fs::create_dir_all(folder)?;
        for (name, content) in &self.files {
            // Lists of files contain paths.
            match [".scp", ".list", ".toc", ".idx"].iter().any(|ending| name.ends_with(ending)) {
                true => {
                    let text = String::from_utf8_lossy(content);
                    let place = folder.display().to_string();
                    std::fs::write(folder.join(name), text.replace("@DIR@", &place))?;
                }
                false => std::fs::write(folder.join(name), content)?,
            }
        }
        let (config, script) = (folder.join("config.cntk"), folder.join("script.txt"));
        std::fs::write(&config, &self.config)?;
        std::fs::write(&script, self.steps.join("\n") + "\n")?;
        Ok((config, script))
    }
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().with_context(|| format!("{value} is not a string"))
}

fn list(value: &Value) -> Result<&Vec<Value>> {
    value.as_array().with_context(|| format!("{value} is not an array"))
}

fn lines(value: &Value) -> Result<String> {
    Ok(list(value)?.iter().map(text).collect::<Result<Vec<&str>>>()?.join("\n"))
}

fn bytes(digits: &str) -> Result<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}
