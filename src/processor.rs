//! What the processor can do, found out when the program runs.

use std::sync::LazyLock;

/// Whose instructions are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processor {
    /// What [`Processor::Avx2`] has, and AVX-512 F, BW, DQ, VL, VBMI, VBMI2 and VNNI: Intel since Ice Lake, AMD since Zen 4.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// Newer x86-64: AVX2, BMI1, BMI2, LZCNT, POPCNT.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Every x86-64.
    #[cfg(target_arch = "x86_64")]
    Sse2,
    /// Any other.
    Any,
}

impl Processor {
    /// All that this build knows, the best first.
    pub const ALL: &[Processor] = &[
        #[cfg(target_arch = "x86_64")]
        Processor::Avx512,
        #[cfg(target_arch = "x86_64")]
        Processor::Avx2,
        #[cfg(target_arch = "x86_64")]
        Processor::Sse2,
        Processor::Any,
    ];

    /// This one.
    pub fn detect() -> Processor {
        static HERE: LazyLock<Processor> = LazyLock::new(|| {
            let here = |processor: &Processor| processor.is_here();
            Processor::ALL.iter().copied().find(here).unwrap_or(Processor::Any)
        });
        *HERE
    }

    /// Whether this one has all that `self` needs.
    pub fn is_here(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Processor::Avx512 => {
                Processor::Avx2.is_here()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vbmi")
                    && is_x86_feature_detected!("avx512vbmi2")
                    && is_x86_feature_detected!("avx512vnni")
            }
            #[cfg(target_arch = "x86_64")]
            Processor::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
                    && is_x86_feature_detected!("lzcnt")
                    && is_x86_feature_detected!("popcnt")
            }
            #[cfg(target_arch = "x86_64")]
            Processor::Sse2 => true,
            Processor::Any => true,
        }
    }
}
