//! Patterns of file names: `*`, `?` and `[a-z]`.

/// Whether a text has a character that patterns have a meaning for.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// A pattern of one component of a path.
pub struct Pattern {
    tokens: Vec<Token>,
}

#[derive(Debug, PartialEq)]
enum Token {
    /// Any characters, or none.
    Any,
    /// One character, whichever.
    One,
    /// One character in these ranges, or in none of them.
    Set { negated: bool, ranges: Vec<(char, char)> },
    /// This character.
    Char(char),
}

impl Token {
    fn takes(&self, c: char) -> bool {
        match self {
            Token::Any | Token::One => true,
            Token::Set { negated, ranges } => {
                ranges.iter().any(|&(first, last)| (first..=last).contains(&c)) != *negated
            }
            Token::Char(own) => *own == c,
        }
    }
}

impl Pattern {
    /// A bracket that is not closed stands for itself.
    pub fn new(text: &str) -> Pattern {
        let chars: Vec<char> = text.chars().collect();
        let (mut tokens, mut at) = (Vec::new(), 0);
        while let Some(&c) = chars.get(at) {
            at += 1;
            let token = match c {
                '*' => Token::Any,
                '?' => Token::One,
                '[' => match set(&chars[at..]) {
                    Some((set, length)) => {
                        at += length;
                        set
                    }
                    None => Token::Char(c),
                },
                c => Token::Char(c),
            };
            if token != Token::Any || tokens.last() != Some(&Token::Any) {
                tokens.push(token);
            }
        }
        Pattern { tokens }
    }

    /// Whether a name matches. A dot at its start is matched only by a dot.
    pub fn matches(&self, name: &str) -> bool {
        if name.starts_with('.') && self.tokens.first() != Some(&Token::Char('.')) {
            return false;
        }
        let name: Vec<char> = name.chars().collect();
        let (mut token, mut at) = (0, 0);
        // Where to go on if what follows the last `Any` does not match: after that token, one character later.
        let mut again = None;
        loop {
            match (self.tokens.get(token), name.get(at)) {
                (None, None) => return true,
                (Some(Token::Any), _) => {
                    again = Some((token, at));
                    token += 1;
                }
                (Some(one), Some(&c)) if one.takes(c) => {
                    token += 1;
                    at += 1;
                }
                _ => match again {
                    Some((any, from)) if from < name.len() => {
                        again = Some((any, from + 1));
                        (token, at) = (any + 1, from + 1);
                    }
                    _ => return false,
                },
            }
        }
    }
}

/// The set whose characters begin here, after its bracket, and their number with the closing bracket.
fn set(chars: &[char]) -> Option<(Token, usize)> {
    let negated = matches!(chars.first(), Some('!' | '^'));
    let first = usize::from(negated);
    // A closing bracket in the first place belongs to the set.
    let end = first + 1 + chars.get(first + 1..)?.iter().position(|&c| c == ']')?;
    let (mut ranges, mut at) = (Vec::new(), first);
    while at < end {
        match chars[at..end] {
            [from, '-', to, ..] => {
                ranges.push((from, to));
                at += 3;
            }
            _ => {
                ranges.push((chars[at], chars[at]));
                at += 1;
            }
        }
    }
    Some((Token::Set { negated, ranges }, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::new(pattern).matches(name)
    }

    #[test]
    fn what_matches() {
        for (pattern, names, others) in [
            ("*", &["", "a", "ab"][..], &[".a"][..]),
            ("a*b", &["ab", "aab", "a*b", "abab"], &["a", "aba", "cab"]),
            ("a*b*c", &["abc", "axbxc", "abcbc"], &["ab", "acb"]),
            ("part-?.ctf", &["part-1.ctf", "part-ä.ctf"], &["part-.ctf", "part-12.ctf"]),
            ("[a-c]x", &["ax", "cx"], &["dx", "-x", "x"]),
            ("[!a-c]x", &["dx", "äx"], &["ax"]),
            ("[^a]", &["b", "]"], &["a"]),
            ("[]a]", &["]", "a"], &["b"]),
            ("[!]a]", &["b"], &["]", "a"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[ab", &["[ab"], &["a"]),
            ("[]", &["[]"], &["", "]"]),
            (".*", &[".", ".a"], &["a"]),
        ] {
            names.iter().for_each(|name| assert!(matches(pattern, name), "{pattern} {name}"));
            others.iter().for_each(|name| assert!(!matches(pattern, name), "{pattern} {name}"));
        }
    }

    /// The same by trying every length of what a star stands for.
    fn reference(tokens: &[Token], name: &[char]) -> bool {
        match tokens.split_first() {
            None => name.is_empty(),
            Some((Token::Any, rest)) => (0..=name.len()).any(|at| reference(rest, &name[at..])),
            Some((token, rest)) => {
                name.split_first().is_some_and(|(&c, name)| token.takes(c) && reference(rest, name))
            }
        }
    }

    proptest! {
        #[test]
        fn finds_what_trying_all_finds(pattern in "[ab*?\\[\\]!-]{0,8}", name in "[ab-]{0,8}") {
            let chars: Vec<char> = name.chars().collect();
            prop_assert_eq!(matches(&pattern, &name), reference(&Pattern::new(&pattern).tokens, &chars));
        }
    }
}
