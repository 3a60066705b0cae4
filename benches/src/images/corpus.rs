//! The generated images, and configurations that read them.

use crate::data;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::PathBuf;
use tooling::project::Project;

/// Approximate size of a file in bytes. `--size` divided by it is the number of images.
const BYTES: u64 = 57_500;

/// Columns and rows of scaled crops.
pub const SIDE: u64 = 224;

/// The transforms of the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pipeline {
    /// For training, in random order: a random area, mirrored at random, scaled, less the mean,
    /// transposed.
    Crops,
    /// For training without the mean, which a model subtracts: pixels stay bytes.
    Bytes,
    /// None, in the order of the map file: the decoded pixels.
    Whole,
}

impl Pipeline {
    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Pipeline::Crops => "random crops",
            Pipeline::Bytes => "random crops, bytes",
            Pipeline::Whole => "whole images",
        }
    }
}

/// The generated images.
pub struct Corpus {
    /// The folder of the images.
    pub folder: PathBuf,
    /// The program `benches/images`.
    pub program: String,
    /// The number of images.
    pub images: u64,
    /// The size of all files in megabytes.
    pub megabytes: f64,
}

impl Corpus {
    /// Generates images of about this size. Existing ones are reused.
    pub fn new(project: &Project, megabytes: u64) -> Result<Corpus> {
        let program = data::program(project, "images")?;
        let images = (megabytes * 1_000_000 / BYTES).max(1);
        let folder = project.target.join(format!("bench-data/images/{images}"));
        let sums = folder.join("sums.json");
        if !sums.exists() {
            project.part(&format!("generating {images} images"), || {
                project.run(&program).arg("generate").arg(&folder).arg(images.to_string()).go()
            })?;
        }
        let sums: Value = serde_json::from_str(&std::fs::read_to_string(&sums)?)?;
        let bytes = sums["bytes"].as_f64().context("`sums.json` has no number of bytes")?;
        Ok(Corpus { folder, program, images, megabytes: bytes / 1e6 })
    }

    /// Writes a configuration, and returns its path.
    pub fn config(&self, pipeline: Pipeline) -> Result<PathBuf> {
        let folder = self.folder.to_str().context("the path is not UTF-8")?;
        let mean = match pipeline {
            Pipeline::Bytes => String::new(),
            _ => format!("[ type = \"Mean\" ; meanFile = \"{folder}/mean.xml\" ] :"),
        };
        let element = if pipeline == Pipeline::Bytes { " ; element = \"uint8\"" } else { "" };
        let (transforms, is_randomized) = match pipeline {
            Pipeline::Crops | Pipeline::Bytes => (
                format!(
                    "
        [ type = \"Crop\" ; cropType = \"RandomArea\" ; areaRatio = 0.08:1.0 ; aspectRatio = 0.75:1.0 ; jitterType = \"UniRatio\" ] :
        [ type = \"Scale\" ; width = {SIDE} ; height = {SIDE} ; channels = 3 ; interpolations = \"linear\" ] :
        {mean}
        [ type = \"Transpose\" ] "
                ),
                true,
            ),
            Pipeline::Whole => (String::new(), false),
        };
        let text = format!(
            "randomize = {is_randomized}
deserializers = (
  [ type = \"ImageDeserializer\" ; module = \"ImageReader\" ; file = \"{folder}/map.txt\"
    input = [
      features = [ transforms = ({transforms}){element} ]
      labels = [ labelDim = 1000 ] ] ] )
"
        );
        let path = self.folder.join(format!("{pipeline:?}.config").to_lowercase());
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}
