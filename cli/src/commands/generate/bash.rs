//! Completions for bash.
//!
//! `clap_complete` spells a hyphen in the program's name in two ways, so its script never finds the
//! options of a command. It also offers options where a file is expected.

use clap::{Arg, Command, ValueHint};
use std::fmt::Write;

/// Returns the completion script of a program that was built (`Command::build`).
pub fn script(program: &Command) -> String {
    let commands: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
    let (mut values, mut options, mut positionals) = (String::new(), String::new(), String::new());
    for (name, command) in
        std::iter::once(("", program)).chain(program.get_subcommands().map(|one| (one.get_name(), one)))
    {
        let mut words = Vec::new();
        for option in command.get_arguments().filter(|one| !one.is_positional()) {
            let spellings = spellings(option);
            if let (true, Some(action)) = (takes_value(option), values_of(option)) {
                let patterns: Vec<String> =
                    spellings.iter().map(|spelling| format!("{name},{spelling}")).collect();
                push(&mut values, &patterns.join("|"), &action);
            }
            words.extend(spellings);
        }
        push(&mut options, &format!("\"{name}\""), &format!("words=\"{}\"", words.join(" ")));
        for values in command.get_positionals().filter_map(possible) {
            push(&mut positionals, name, &format!("words=\"{values}\""));
        }
    }
    let pipe = commands.join("|");
    let commands = commands.join(" ");
    format!(
        r#"# Completions of cntk-reader for bash.
_cntk_reader() {{
    local current=$2 previous=$3 command="" word words=""
    COMPREPLY=()
    # bash takes the '=' of --option=value for a word.
    if [[ $current == "=" ]]; then
        current=""
    elif [[ $previous == "=" ]]; then
        previous=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case $word in
            {pipe})
                command=$word
                break
                ;;
        esac
    done
    case $command,$previous in
{values}        *)
            if [[ $current == -* ]]; then
                case $command in
{options}                esac
            else
                case $command in
                    ""|help) words="{commands}" ;;
{positionals}                esac
            fi
            ;;
    esac
    # Without words, bash completes the names of files.
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o bashdefault -o default -F _cntk_reader cntk-reader
"#,
        values = indented(&values, 8),
        options = indented(&options, 20),
        positionals = indented(&positionals, 20),
    )
}

fn push(cases: &mut String, pattern: &str, action: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(cases, "{pattern}) {action} ;;");
}

fn indented(lines: &str, by: usize) -> String {
    lines.lines().map(|line| format!("{:by$}{line}\n", "")).collect()
}

fn spellings(option: &Arg) -> Vec<String> {
    let short = option.get_short().map(|short| format!("-{short}"));
    short.into_iter().chain(option.get_long().map(|long| format!("--{long}"))).collect()
}

fn takes_value(option: &Arg) -> bool {
    option.get_action().takes_values()
}

/// Returns the possible values of an argument, if it has a list of them.
pub fn possible(argument: &Arg) -> Option<String> {
    let values = argument.get_possible_values();
    let names: Vec<&str> =
        values.iter().filter(|value| !value.is_hide_set()).map(|value| value.get_name()).collect();
    (!names.is_empty()).then(|| names.join(" "))
}

/// Returns the action that completes the value of an option; `None` for the names of files.
fn values_of(option: &Arg) -> Option<String> {
    match (possible(option), option.get_value_hint()) {
        (Some(values), _) => Some(format!("words=\"{values}\"")),
        (None, ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath) => Some("return".to_owned()),
        // A number or a name of the user's.
        (None, _) => Some("compopt +o default; return".to_owned()),
    }
}
