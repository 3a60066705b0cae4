//! Patterns of file names: `*`, `?` and `[a-z]`.

/// Whether a text has a character with a special meaning in patterns.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// A pattern for one component of a path.
pub struct Pattern {
    tokens: Vec<Token>,
}

#[derive(Debug, PartialEq)]
enum Token {
    /// Any number of characters.
    Any,
    /// Any one character.
    One,
    /// One character inside (or, if negated, outside) these ranges.
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
    /// Parses a pattern. An unclosed bracket stands for itself.
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

    /// Whether a name matches. Only an explicit dot matches a leading dot.
    pub fn matches(&self, name: &str) -> bool {
        if name.starts_with('.') && self.tokens.first() != Some(&Token::Char('.')) {
            return false;
        }
        let name: Vec<char> = name.chars().collect();
        let (mut token, mut at) = (0, 0);
        // Where to backtrack if the text after the last `Any` does not match: after that token, one
        // character further on.
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

/// Parses the set whose characters begin here, after its bracket. Returns it with its length,
/// including the closing bracket.
fn set(chars: &[char]) -> Option<(Token, usize)> {
    let negated = matches!(chars.first(), Some('!' | '^'));
    let first = usize::from(negated);
    // A closing bracket in first position belongs to the set.
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
    fn patterns_match_names() {
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

    /// Reference implementation that tries every length for a star.
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
        fn agrees_with_exhaustive_search(pattern in "[ab*?\\[\\]!-]{0,8}", name in "[ab-]{0,8}") {
            let chars: Vec<char> = name.chars().collect();
            prop_assert_eq!(matches(&pattern, &name), reference(&Pattern::new(&pattern).tokens, &chars));
        }
    }
}
