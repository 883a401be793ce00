//! Splits a text into tokens.

use super::refused::Refused;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A field or a keyword. Slashes and dots belong to it; hyphens do not.
    Word(String),
    Text(String),
    Number(i64),
    Symbol(&'static str),
}

/// Longer symbols come before their prefixes. The hyphen is a token only so that the parser can refuse it.
const SYMBOLS: [&str; 12] = ["!=", "<=", ">=", "=", "<", ">", "(", ")", "[", "]", ",", "-"];

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Refused> {
    let mut rest = text.trim_start();
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (token, length) = if matches!(first, '\'' | '"') {
            quoted(rest, first)?
        } else if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            (Token::Symbol(symbol), symbol.len())
        } else {
            word(rest)?
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

/// Reads a string in single or double quotes; a backslash escapes the quote after it.
fn quoted(text: &str, quote: char) -> Result<(Token, usize), Refused> {
    let mut value = String::new();
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' if letters.peek().is_some_and(|(_, next)| *next == quote) => {
                value.push(quote);
                letters.next();
            }
            _ if letter == quote => {
                // The released server replaces an empty string by this.
                let value = if value.is_empty() { "=".to_owned() } else { value };
                return Ok((Token::Text(value), at + 1));
            }
            _ => value.push(letter),
        }
    }
    Err(Refused("unterminated string".to_owned()))
}

fn word(text: &str) -> Result<(Token, usize), Refused> {
    let part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '/');
    let length = text.find(|letter| !part(letter)).unwrap_or(text.len());
    let word = &text[..length];
    if word.starts_with(|letter: char| letter.is_ascii_digit()) {
        let number = word.parse().map_err(|_| Refused(format!("{word} is not a whole number")))?;
        return Ok((Token::Number(number), length));
    }
    if word.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_') {
        return Ok((Token::Word(word.to_owned()), length));
    }
    Err(Refused(format!("unexpected character {:?}", text.chars().next().unwrap_or_default())))
}
