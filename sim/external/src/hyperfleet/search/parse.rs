//! Parses tokens.
//!
//! ```text
//!   any     = all { "or" all }
//!   all     = one { "and" one }
//!   one     = "(" any ")" | field test
//!   test    = operator value | "in" "[" value { "," value } "]" | "like" text | "is" "null"
//! ```

use std::borrow::Cow;

use jiff::Timestamp;

use super::field::{Field, Type};
use super::lexer::{Token, tokens};
use super::refused::Refused;
use super::test::{Operator, Test};
use super::value::Value;
use crate::hyperfleet::dialect::Release;

/// Maximum depth of nested parentheses.
const DEEPEST: usize = 64;

pub(super) fn parse(text: &str, release: Release) -> Result<Test, Refused> {
    let mut parser = Parser { tokens: tokens(text)?.into_iter().peekable(), depth: 0, release };
    if parser.tokens.peek().is_none() {
        return Ok(Test::All(Vec::new()));
    }
    let test = parser.any()?;
    match parser.tokens.next() {
        None => Ok(test),
        Some(token) => Err(unexpected(Some(&token))),
    }
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    depth: usize,
    release: Release,
}

impl Parser {
    fn any(&mut self) -> Result<Test, Refused> {
        let mut tests = vec![self.all()?];
        while self.keyword("or") {
            tests.push(self.all()?);
        }
        Ok(if tests.len() == 1 { tests.remove(0) } else { Test::Any(tests) })
    }

    fn all(&mut self) -> Result<Test, Refused> {
        let mut tests = vec![self.one()?];
        while self.keyword("and") {
            tests.push(self.one()?);
        }
        Ok(if tests.len() == 1 { tests.remove(0) } else { Test::All(tests) })
    }

    fn one(&mut self) -> Result<Test, Refused> {
        if !self.symbol("(") {
            return self.test();
        }
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Refused(format!("more than {DEEPEST} nested parentheses")));
        }
        let test = self.any()?;
        self.expect(")")?;
        self.depth -= 1;
        Ok(test)
    }

    fn test(&mut self) -> Result<Test, Refused> {
        let field = match self.tokens.next() {
            Some(Token::Word(word)) => self.known(Field::parse(&word)?)?,
            other => return Err(unexpected(other.as_ref())),
        };
        if self.keyword("is") {
            return if self.keyword("null") && !field.is_of_condition() {
                Ok(Test::IsNull(field))
            } else {
                Err(Refused("is null does not apply here".to_owned()))
            };
        }
        if self.keyword("in") {
            return self.listed(field);
        }
        if self.keyword("like") {
            return match (field.holds(), self.tokens.next()) {
                (Type::Text | Type::Json, Some(Token::Text(pattern))) if !field.is_of_condition() => {
                    Ok(Test::Like(field, pattern))
                }
                (_, token) => Err(unexpected(token.as_ref())),
            };
        }
        let operator = match self.tokens.next() {
            Some(Token::Symbol("=")) => Operator::Equal,
            Some(Token::Symbol("!=")) => Operator::NotEqual,
            Some(Token::Symbol("<")) => Operator::Less,
            Some(Token::Symbol("<=")) => Operator::LessOrEqual,
            Some(Token::Symbol(">")) => Operator::Greater,
            Some(Token::Symbol(">=")) => Operator::GreaterOrEqual,
            other => return Err(unexpected(other.as_ref())),
        };
        if matches!(field, Field::Condition(_)) && operator != Operator::Equal {
            return Err(Refused("only = is supported for conditions".to_owned()));
        }
        let value = self.value(&field)?;
        Ok(Test::Compare(field, operator, value))
    }

    /// Checks the field against the release: 0.3.0 accepts few label keys.
    fn known(&self, field: Field) -> Result<Field, Refused> {
        let is_odd = |c: char| c.is_ascii_uppercase() || matches!(c, '.' | '/');
        match &field {
            Field::Label(key) if self.release == Release::V0_3_0 && key.contains(is_odd) => {
                Err(Refused(format!("labels.{key} is not a valid field name")))
            }
            _ => Ok(field),
        }
    }

    fn listed(&mut self, field: Field) -> Result<Test, Refused> {
        if self.release == Release::V0_3_0 {
            return Err(Refused("in is not supported".to_owned()));
        }
        if field.is_of_condition() {
            return Err(Refused("in does not apply to conditions".to_owned()));
        }
        self.expect("[")?;
        let mut values = vec![self.value(&field)?];
        while self.symbol(",") {
            values.push(self.value(&field)?);
        }
        self.expect("]")?;
        Ok(Test::In(field, values))
    }

    /// Parses a value that can be compared with the field.
    fn value(&mut self, field: &Field) -> Result<Value<'static>, Refused> {
        match (field.holds(), self.tokens.next()) {
            (Type::Text | Type::Json, Some(Token::Text(text))) => Ok(Value::Text(Cow::Owned(text))),
            (Type::Json | Type::Number, Some(Token::Number(number))) => Ok(Value::Number(number)),
            (Type::Time, Some(Token::Text(text))) => text
                .parse::<Timestamp>()
                .map(Value::Time)
                .map_err(|_| Refused(format!("{text:?} is not a time of RFC 3339"))),
            (_, token) => Err(unexpected(token.as_ref())),
        }
    }

    fn keyword(&mut self, word: &str) -> bool {
        let is_it = |token: &Token| matches!(token, Token::Word(found) if found.eq_ignore_ascii_case(word));
        self.tokens.next_if(is_it).is_some()
    }

    fn symbol(&mut self, symbol: &str) -> bool {
        self.tokens.next_if(|token| matches!(token, Token::Symbol(found) if *found == symbol)).is_some()
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Refused> {
        if self.symbol(symbol) { Ok(()) } else { Err(unexpected(self.tokens.peek())) }
    }
}

fn unexpected(token: Option<&Token>) -> Refused {
    Refused(match token {
        None => "syntax error at the end".to_owned(),
        Some(Token::Word(word)) => format!("syntax error near {word}"),
        Some(Token::Text(text)) => format!("syntax error near {text:?}"),
        Some(Token::Number(number)) => format!("syntax error near {number}"),
        Some(Token::Symbol(symbol)) => format!("syntax error near {symbol}"),
    })
}
