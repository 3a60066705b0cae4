//! Output of commands. A thread that runs a step in parallel with others can collect its output
//! until the step ends.

use std::cell::RefCell;
use std::fmt::Arguments;
use std::io::Write;

thread_local! {
    /// The output of this thread, while it is collected.
    static KEPT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Prints a line.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => { $crate::console::print(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints text immediately. If the reader has closed the pipe, as in `cargo xtask fuzz --list |
/// head`, the text is lost.
pub fn print(text: Arguments<'_>) {
    KEPT.with_borrow_mut(|kept| match kept {
        Some(kept) => *kept += &text.to_string(),
        None => {
            let mut console = std::io::stdout().lock();
            let _ = console.write_fmt(text).and_then(|()| console.flush());
        }
    });
}

/// Runs `work`, and returns what it printed on this thread.
pub fn keep<T>(work: impl FnOnce() -> T) -> (T, String) {
    KEPT.set(Some(String::new()));
    let result = work();
    (result, KEPT.take().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collected_output_is_not_printed() {
        let (result, printed) = keep(|| {
            say!("a {}", 1);
            print(format_args!("b"));
            7
        });
        assert_eq!((result, printed.as_str()), (7, "a 1\nb"));
    }
}
