//! How much tests do: in every run, in the long form, and under Miri.

/// Whether tests take their long form: `cargo xtask test --long` asks for it.
pub fn is_long() -> bool {
    std::env::var_os("CNTK_READER_TEST_LONG").is_some()
}

/// The number of random cases of a test that has `long` of them in the long form: a tenth, and at
/// least 32. Under Miri, which is some hundred times slower, 8.
pub fn cases(long: u32) -> u32 {
    match (cfg!(miri), is_long()) {
        (true, _) => long.min(8),
        (false, true) => long,
        (false, false) => (long / 10).max(long.min(32)),
    }
}
