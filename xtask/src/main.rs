//! The project's own commands: `cargo xtask COMMAND`.
fn main() {}
