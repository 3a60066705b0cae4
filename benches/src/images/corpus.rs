//! The generated images, and configurations that read them.

use crate::data;
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::PathBuf;
use tooling::project::Project;

/// About the bytes of a file: `--size` divided by this is the number of images.
const BYTES: u64 = 57_500;

/// Columns and rows of what crops are scaled to.
pub const SIDE: u64 = 224;

/// What becomes of the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pipeline {
    /// As for training: a random part, mirrored at random, scaled, less the mean, transposed. In
    /// random order.
    Crops,
    /// As for training, but for the mean: the pixels stay bytes, and a model subtracts it.
    Bytes,
    /// Nothing: the pixels as decoded. In the order of the map file.
    Whole,
}

impl Pipeline {
    /// What it is called in tables.
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
    /// Where they are.
    pub folder: PathBuf,
    /// The program `benches/images`.
    pub program: String,
    /// How many there are.
    pub images: u64,
    /// Megabytes of all files.
    pub megabytes: f64,
}

impl Corpus {
    /// Images of about so many megabytes. Existing ones are used.
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

    /// A configuration, in a file of its own.
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
