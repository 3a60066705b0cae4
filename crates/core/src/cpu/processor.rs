//! Instruction sets: detection, and the single place that selects one, [`dispatch`].
//!
//! Code that is compiled once per instruction set is generic over [`InstructionSet`]. A value of
//! such a type is a proof: it can only be created if the processor has the instructions, so
//! functions that take the value may use them. The generic function must be inlined into a function
//! that is compiled for the instructions; `dispatch!` writes that function.

#![allow(unsafe_code, reason = "calls of functions for instructions that the processor was found to have")]

use std::sync::LazyLock;

/// A set of instructions, as a type whose values prove that this processor has them.
pub trait InstructionSet: Copy {
    /// Returns the set as a [`Processor`]. The compiler knows its variant, unless the type is
    /// [`Processor`] itself.
    fn processor(self) -> Processor;
}

/// No instructions beyond the target's baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Portable;

impl InstructionSet for Portable {
    #[inline(always)]
    fn processor(self) -> Processor {
        Processor::Portable(self)
    }
}

/// AVX2, FMA, BMI1, BMI2, LZCNT and POPCNT: nearly every x86-64 processor since 2015.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// Returns a value if this processor has the instructions.
    fn detect() -> Option<Avx2> {
        let is_here = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        is_here.then_some(Avx2(()))
    }
}

#[cfg(target_arch = "x86_64")]
impl InstructionSet for Avx2 {
    #[inline(always)]
    fn processor(self) -> Processor {
        Processor::Avx2(self)
    }
}

/// All of [`Avx2`], and AVX-512 F, BW, DQ, VL, VBMI, VBMI2 and VNNI: Intel since Ice Lake, AMD
/// since Zen 4.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Avx512(Avx2);

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// Returns a value if this processor has the instructions.
    fn detect() -> Option<Avx512> {
        let is_here = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("avx512vnni");
        Avx2::detect().filter(|_| is_here).map(Avx512)
    }

    /// Returns the smaller set, which is part of this one.
    #[inline(always)]
    pub fn avx2(self) -> Avx2 {
        self.0
    }
}

#[cfg(target_arch = "x86_64")]
impl InstructionSet for Avx512 {
    #[inline(always)]
    fn processor(self) -> Processor {
        Processor::Avx512(self)
    }
}

/// An instruction set that this processor has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processor {
    /// The processor has [`Avx512`].
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    /// The processor has [`Avx2`].
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// [`Portable`] code, which every processor runs.
    Portable(Portable),
}

impl InstructionSet for Processor {
    #[inline(always)]
    fn processor(self) -> Processor {
        self
    }
}

impl Processor {
    /// Returns the largest set of this processor.
    pub fn detect() -> Processor {
        #[cfg(fuzzing)]
        if let Some(smaller) =
            Processor::all().nth(fuzzing::LEFT_OUT.load(std::sync::atomic::Ordering::Relaxed))
        {
            return smaller;
        }
        static LARGEST: LazyLock<Processor> =
            LazyLock::new(|| Processor::all().next().unwrap_or(Processor::Portable(Portable)));
        *LARGEST
    }

    /// Returns all sets of this processor, the largest first.
    pub fn all() -> impl Iterator<Item = Processor> {
        [
            #[cfg(target_arch = "x86_64")]
            Avx512::detect().map(Processor::Avx512),
            #[cfg(target_arch = "x86_64")]
            Avx2::detect().map(Processor::Avx2),
            Some(Processor::Portable(Portable)),
        ]
        .into_iter()
        .flatten()
    }
}

/// Defines a function that calls another function, compiled for the instruction set that its caller
/// passes, as a [`Processor`] or one of its sets:
///
/// ```ignore
/// dispatch! {
///     /// Sums up.
///     fn sum<T: Number>(numbers: &[T]) -> T = sum_with;
/// }
/// // Defines: fn sum<T: Number>(instructions: impl InstructionSet, numbers: &[T]) -> T
/// // Calls:   fn sum_with<T: Number, S: InstructionSet>(instructions: S, numbers: &[T]) -> T
/// ```
///
/// The called function must be `#[inline(always)]`, and so must everything that it calls. Code that
/// the compiler does not inline, such as a closure, is compiled without the instructions, and each
/// intrinsic in it becomes a call, which made parsing decimals with AVX-512 three times as slow.
///
/// A caller that is compiled for the same set inlines the function, unless it is
/// `#[inline(never)]`. That attribute pays off where vector instructions are a part of a larger
/// loop: the compiler loads all their constants before the loop and, having too few registers for
/// them, again after each call. (The attribute is on the outer function because rustc 1.95 ignores
/// it on functions that enable features.)
#[macro_export]
macro_rules! dispatch {
    (
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident $(<$($generic:ident: $bound:path),+>)? (
            $($argument:ident: $type:ty),* $(,)?
        ) $(-> $result:ty)? = $body:path;
    ) => {
        $(#[$attribute])*
        $visibility fn $name $(<$($generic: $bound),+>)? (
            instructions: impl $crate::cpu::processor::InstructionSet,
            $($argument: $type),*
        ) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
            fn avx2 $(<$($generic: $bound),+>)? (
                instructions: $crate::cpu::processor::Avx2,
                $($argument: $type),*
            ) $(-> $result)? {
                $body(instructions, $($argument),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx512vnni")]
            fn avx512 $(<$($generic: $bound),+>)? (
                instructions: $crate::cpu::processor::Avx512,
                $($argument: $type),*
            ) $(-> $result)? {
                $body(instructions, $($argument),*)
            }

            match instructions.processor() {
                // SAFETY: the `Avx512` inside `instructions` can only come from `Avx512::detect`,
                // which checked every feature that `avx512` enables.
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::processor::Processor::Avx512(instructions) => unsafe { avx512(instructions, $($argument),*) },
                // SAFETY: the `Avx2` inside `instructions` can only come from `Avx2::detect`, which
                // checked every feature that `avx2` enables.
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::processor::Processor::Avx2(instructions) => unsafe { avx2(instructions, $($argument),*) },
                $crate::cpu::processor::Processor::Portable(instructions) => $body(instructions, $($argument),*),
            }
        }
    };
}

pub use dispatch;

/// Runs a block for each instruction set of this processor, with a value of its type.
#[cfg(any(test, feature = "test-support"))]
#[macro_export]
macro_rules! for_each_instruction_set {
    ($instructions:ident => $block:block) => {
        for processor in $crate::cpu::processor::Processor::all() {
            match processor {
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::processor::Processor::Avx512($instructions) => $block,
                #[cfg(target_arch = "x86_64")]
                $crate::cpu::processor::Processor::Avx2($instructions) => $block,
                $crate::cpu::processor::Processor::Portable($instructions) => $block,
            }
        }
    };
}

#[cfg(any(test, feature = "test-support"))]
pub use for_each_instruction_set;

/// Hooks with which fuzz targets compare the sets.
#[cfg(fuzzing)]
pub mod fuzzing {
    use super::Processor;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Number of sets to leave out, the largest first.
    pub(super) static LEFT_OUT: AtomicUsize = AtomicUsize::new(0);

    /// Returns how many sets this processor has.
    pub fn instruction_sets() -> usize {
        Processor::all().count()
    }

    /// Leaves out the `count` largest sets from now on.
    pub fn leave_out_instruction_sets(count: usize) {
        LEFT_OUT.store(count, Ordering::Relaxed);
    }
}
