//! Guesses where a quote or a bracket is missing in a text with unbalanced quotes or brackets.
//!
//! A parser notices the mistake only at the end of the text, or at a bracket far below: an
//! unterminated quote ends at the next quote, lines further down. Line structure and indentation
//! are better evidence of the intent.

/// A position where a quote or bracket is probably missing, and an explanation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Suspect {
    pub at: usize,
    pub why: &'static str,
}

/// Returns the most likely position in a text with unbalanced brackets or quotes.
pub(super) fn suspect(text: &str) -> Option<Suspect> {
    unpaired_quote(text).or_else(|| unclosed_line(text))
}

/// Finds the first line with an odd number of quotes.
fn unpaired_quote(text: &str) -> Option<Suspect> {
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let quotes: Vec<usize> = line.match_indices('"').map(|(at, _)| at).collect();
        if quotes.len() % 2 == 1 {
            // A string that contains a '=' has swallowed the text after it.
            let swallowing = quotes.chunks_exact(2).find(|pair| line[pair[0]..pair[1]].contains('='));
            let at = swallowing.map_or(quotes[quotes.len() - 1], |pair| pair[0]);
            return Some(Suspect {
                at: start + at,
                why: "The quotes of this line do not come in pairs: add the one that is missing.",
            });
        }
        start += line.len();
    }
    None
}

/// Finds a line that has more text after an opening bracket and is followed by a line that is not
/// indented further.
fn unclosed_line(text: &str) -> Option<Suspect> {
    // Offset of the bracket, its line, the line's indentation, and whether anything but brackets
    // follows it on that line.
    let mut open: Vec<(usize, usize, usize, bool)> = Vec::new();
    let kind = |bracket: u8| match bracket {
        b'[' | b']' => 0,
        b'{' | b'}' => 1,
        _ => 2,
    };
    // Number of open brackets of each kind. Each bracket is pushed and popped once, so the time is
    // linear even for hostile text.
    let mut counts = [0_usize; 3];
    let mut start = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let content = line.trim_start_matches([' ', '\t']);
        let indent = line.len() - content.len();
        let content = content.trim_end();
        let is_comment = content.is_empty() || content.starts_with('#');
        if !is_comment
            && !content.starts_with([']', '}', ')', '[', '{', '(', ':'])
            && let Some(&(at, opened, of_line, true)) = open.last()
            && opened < number
            && indent <= of_line
        {
            return Some(Suspect {
                at,
                why: "This bracket seems to lack its counterpart at the end of the line.",
            });
        }
        let mut is_quoted = false;
        // The next character of the line that is neither white space nor an opening bracket.
        let mut next: Option<usize> = Some(0);
        for (at, byte) in line.bytes().enumerate().filter(|_| !is_comment) {
            match byte {
                b'"' => is_quoted = !is_quoted,
                _ if is_quoted => {}
                b'[' | b'{' | b'(' => {
                    if next.is_some_and(|next| next <= at) {
                        let rest = &line[at + 1..];
                        let found = rest.find(|c: char| !c.is_whitespace() && !"[{(".contains(c));
                        next = found.map(|found| at + 1 + found);
                    }
                    let goes_on = next.is_some_and(|next| line.as_bytes()[next] != b'#');
                    open.push((start + at, number, indent, goes_on));
                    counts[kind(byte)] += 1;
                }
                // Brackets inside that are still open were forgotten; the parser reports those.
                b']' | b'}' | b')' => {
                    let wanted = counts[kind(byte)].saturating_sub(1);
                    while counts[kind(byte)] > wanted
                        && let Some((at, ..)) = open.pop()
                    {
                        counts[kind(text.as_bytes()[at])] -= 1;
                    }
                }
                _ => {}
            }
        }
        start += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_of(text: &str) -> Option<(usize, usize)> {
        let at = suspect(text)?.at;
        let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
        Some((text[..at].matches('\n').count() + 1, at - start + 1))
    }

    #[test]
    fn the_line_of_a_missing_quote_is_found() {
        assert_eq!(line_of("a = \"x\"\nfile = \"train.ctf\nb = \"y\"\n"), Some((2, 8)));
        assert_eq!(line_of("file = train.ctf\"\nb = \"y\"\n"), Some((1, 17)));
        assert_eq!(line_of("x = [ alias = \"x ; format = \"dense\" ]\n"), Some((1, 15)));
    }

    #[test]
    fn the_line_of_a_missing_bracket_is_found() {
        let text = "input = [\n  x = [ dim = 3 ; format = \"dense\"\n  y = [ dim = 2 ]\n]\n";
        assert_eq!(line_of(text), Some((2, 7)));
        // No suspect: the following lines are indented further, or nothing follows the bracket.
        assert_eq!(line_of("a = [ b = 1\n      c = 2\n"), None);
        assert_eq!(line_of("a = [\nb = 1\nc = 2\n"), None);
        assert_eq!(line_of("a = (\n[ b = 1 ] :\n[ b = 2 ]\n"), None);
        // Comments, and lines that begin with a bracket or a colon, tell nothing.
        for line in ["# c", "]", "}", ")", "[", "{", "(", ": c", "   ", "\t# c"] {
            assert_eq!(line_of(&format!("a = [ b = 1\n{line}\n  c = 2")), None, "{line}");
            assert_eq!(
                line_of(&format!("a = [ b = 1\n{line}\nc")).is_some(),
                !"][{(".contains(line),
                "{line}"
            );
        }
        // Brackets inside quotes and comments do not count, and each kind closes its own.
        assert_eq!(line_of("a = \"[ b\" ; c\nd\n"), None);
        assert_eq!(line_of("  # a = [ b\nd\n"), None);
        assert_eq!(line_of("a = [ # b\nd\n"), None);
        assert_eq!(line_of("a = ( [ { b ] ; c\nd\n"), Some((1, 5)));
        assert_eq!(line_of("a = { b ) ; c\nd\n"), Some((1, 5)));
        assert_eq!(line_of("a = { b ( c } ; d\ne\n"), None);
        assert_eq!(line_of("\ta = { b\n\tc\n"), Some((1, 6)));
        assert_eq!(line_of("\ta = { b\n\t c\n"), None);
        assert_eq!(line_of("a = [ b = ( [\nc\n"), None);
        assert_eq!(line_of("a = [ ( b\nc\n"), Some((1, 7)));
        // The parser reports a bracket that is closed by another kind.
        assert_eq!(line_of("a = ([ b = 1\n c = 2 )\nd = 3\n"), None);
    }
}
