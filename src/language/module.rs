//! CNTK's modules of deserializers and transforms, as configurations name them.

/// A module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Module {
    Text,
    Binary,
    Image,
    Htk,
}

impl Module {
    pub fn by_name(name: &str) -> Option<Module> {
        match name {
            "CNTKTextFormatReader" | "Cntk.Deserializers.TextFormat" => Some(Module::Text),
            "CNTKBinaryReader" | "Cntk.Deserializers.Binary" => Some(Module::Binary),
            "ImageReader" | "Cntk.Deserializers.Image" => Some(Module::Image),
            "HTKDeserializers" | "Cntk.Deserializers.HTK" => Some(Module::Htk),
            _ => None,
        }
    }

    /// Returns the name of the module's library, without the version.
    pub fn plugin(self) -> &'static str {
        match self {
            Module::Text => "Cntk.Deserializers.TextFormat",
            Module::Binary => "Cntk.Deserializers.Binary",
            Module::Image => "Cntk.Deserializers.Image",
            Module::Htk => "Cntk.Deserializers.HTK",
        }
    }
}
