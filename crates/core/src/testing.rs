//! For tests: their extent in every run, in the long form, and under Miri; the system's messages.

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

/// Returns the system's message for an error number. C libraries differ in it.
pub fn system_message(number: i32) -> String {
    let text = std::io::Error::from_raw_os_error(number).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
