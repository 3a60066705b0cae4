//! The extent of tests: in every run, in the long form, and under Miri.

/// Returns whether tests run in their long form, as `cargo xtask test --long` requests.
pub fn is_long() -> bool {
    std::env::var_os("CNTK_READER_TEST_LONG").is_some()
}

/// Returns the number of random cases of a test that has `long` of them in the long form: a tenth,
/// but at least 32. Under Miri, which is some hundred times slower, at most 8.
pub fn cases(long: u32) -> u32 {
    match (cfg!(miri), is_long()) {
        (true, _) => long.min(8),
        (false, true) => long,
        (false, false) => (long / 10).max(long.min(32)),
    }
}
