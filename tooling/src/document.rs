//! Parses code blocks in the project's documents.

/// A block of code in a document.
#[derive(Debug, PartialEq)]
pub struct Block<'a> {
    /// The text after the opening fence.
    pub language: &'a str,
    /// The code.
    pub text: &'a str,
    /// The text between the previous block and this one.
    pub before: &'a str,
    /// The text up to the next block.
    pub after: &'a str,
    /// The number of the line with the opening fence, from 1.
    pub line: usize,
}

/// Returns the code blocks of a document.
pub fn blocks(document: &str) -> Vec<Block<'_>> {
    let parts: Vec<&str> = document.split("```").collect();
    let mut line = 1;
    let mut found = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        if let (1, Some((language, text))) = (at % 2, part.split_once('\n')) {
            let after = parts.get(at + 1).copied().unwrap_or_default();
            found.push(Block { language, text, before: parts[at - 1], after, line });
        }
        line += part.matches('\n').count();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_text_around_them() {
        let document = "text\n```sh\nmake\n```\nbetween\n```cntk\na = 1\n```\n![after](images/a.png)\n";
        let found = blocks(document);
        let expected = [
            Block { language: "sh", text: "make\n", before: "text\n", after: "\nbetween\n", line: 2 },
            Block {
                language: "cntk",
                text: "a = 1\n",
                before: "\nbetween\n",
                after: "\n![after](images/a.png)\n",
                line: 6,
            },
        ];
        assert_eq!(found, expected);
    }
}
