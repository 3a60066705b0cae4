//! The parsers of text agree, in data and errors: the fast one and the exact one, which alone logs
//! details at trace level 2; one thread and several; each instruction set of this processor.

use super::text::Way;
use crate::case::Case;
use crate::common::reading::outcomes;
use crate::common::seen::Seen;
use cntk_reader::language::from_text;
use cntk_reader::set_threads;
use cntk_reader_core::fuzzing::{instruction_sets, leave_out_instruction_sets};

/// The input: choices of how to read, and a text file.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    let way = Way::chosen(&mut case.choices);
    let several = case.choices.once_in(8);
    let file = case.write("data.ctf", case.content);
    let read = |trace_level: u32| -> Vec<Result<Seen, String>> {
        let options = from_text(&way.configuration(&file, trace_level, "")).expect("a configuration");
        let outcomes = outcomes(&options, &way.epoch).into_iter();
        outcomes.map(|outcome| outcome.map_err(|error| format!("{:?} {error}", error.kind()))).collect()
    };
    let exact = read(2);
    for number in 0..instruction_sets() {
        leave_out_instruction_sets(number);
        assert_eq!(read(0), exact, "set of instructions {number}, and the exact parser");
    }
    leave_out_instruction_sets(0);
    assert_eq!(read(1), exact, "with warnings, and the exact parser");
    if several {
        set_threads(3);
        assert_eq!(read(0), exact, "three threads, and one");
        set_threads(1);
    }
}
