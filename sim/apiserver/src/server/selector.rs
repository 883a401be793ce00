//! Label and field selectors.

use serde_json::Value;

use super::status::{Status, quote};

/// A label selector: all requirements must be met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    Absent,
    Greater,
    Less,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
}

impl Labels {
    /// Parses `a=b,c!=d,e in (f,g),!h`.
    pub fn parse(text: &str) -> Result<Self, Status> {
        let unable = |why: String| Status::bad_request(format!("unable to parse requirement: {why}"));
        let tokens = tokens(text);
        let mut tokens = tokens.iter().peekable();
        let mut requirements = Vec::new();
        if let Some(token) = tokens.peek().filter(|token| !token.begins_requirement()) {
            let message = format!("found '{}', expected: !, identifier, or 'end of string'", token.text());
            return Err(Status::bad_request(message));
        }
        while tokens.peek().is_some() {
            requirements.push(requirement(&mut tokens).map_err(unable)?);
            match tokens.next() {
                None => break,
                Some(Token::Symbol(",")) => match tokens.peek() {
                    Some(token) if token.begins_requirement() => {}
                    other => {
                        let found = other.map_or("", |token| token.text());
                        let message = format!("found '{found}', expected: identifier after ','");
                        return Err(Status::bad_request(message));
                    }
                },
                Some(token) => {
                    let message = format!("found '{}', expected: ',' or 'end of string'", token.text());
                    return Err(Status::bad_request(message));
                }
            }
        }
        Ok(Self(requirements))
    }

    /// Returns whether it selects every object.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether an object's labels satisfy the selector.
    pub fn matches(&self, object: &Value) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let labels = super::meta::field(object, "labels");
        self.select(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
    }

    /// Returns whether labels satisfy the selector: `value` returns one by its key.
    pub fn select<'a>(&self, value: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.0.iter().all(|requirement| requirement.matches(value(&requirement.key)))
    }
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|wanted| wanted == value);
        let compare = |value: &str| {
            let wanted: i64 = self.values.first()?.parse().ok()?;
            Some(value.parse::<i64>().ok()?.cmp(&wanted))
        };
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::Absent => value.is_none(),
            Operator::Greater => value.and_then(compare).is_some_and(std::cmp::Ordering::is_gt),
            Operator::Less => value.and_then(compare).is_some_and(std::cmp::Ordering::is_lt),
        }
    }
}

impl Token {
    fn begins_requirement(&self) -> bool {
        matches!(self, Self::Word(_) | Self::Symbol("!"))
    }

    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Symbol(symbol) => symbol,
        }
    }
}

fn tokens(text: &str) -> Vec<Token> {
    const SYMBOLS: [&str; 9] = ["!=", "==", "=", "!", ",", "(", ")", ">", "<"];
    let mut rest = text.trim_start();
    let mut tokens = Vec::new();
    while !rest.is_empty() {
        if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol)) {
            tokens.push(Token::Symbol(symbol));
            rest = &rest[symbol.len()..];
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || "=!,()<>".contains(c)).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
    }
    tokens
}

type Tokens<'a> = std::iter::Peekable<std::slice::Iter<'a, Token>>;

fn requirement(tokens: &mut Tokens<'_>) -> Result<Requirement, String> {
    let absent = tokens.next_if_eq(&&Token::Symbol("!")).is_some();
    let key = match tokens.next() {
        Some(Token::Word(word)) => word.clone(),
        other => {
            return Err(format!("found '{}', expected: identifier", other.map_or("", Token::text)));
        }
    };
    let problems = super::names::qualified_name(&key);
    if let Some(problem) = problems.first() {
        return Err(format!("<nil>: Invalid value: {}: {problem}", quote(&key)));
    }
    if absent {
        return Ok(Requirement { key, operator: Operator::Absent, values: Vec::new() });
    }
    let operator = match tokens.peek() {
        None | Some(Token::Symbol(",")) => {
            return Ok(Requirement { key, operator: Operator::Exists, values: Vec::new() });
        }
        Some(Token::Symbol("=" | "==")) => Operator::In,
        Some(Token::Symbol("!=")) => Operator::NotIn,
        Some(Token::Symbol(">")) => Operator::Greater,
        Some(Token::Symbol("<")) => Operator::Less,
        Some(Token::Word(word)) if word == "in" => return set(tokens, key, Operator::In),
        Some(Token::Word(word)) if word == "notin" => return set(tokens, key, Operator::NotIn),
        Some(token) => {
            return Err(format!("found '{}', expected: in, notin, =, ==, !=, gt, lt", token.text()));
        }
    };
    tokens.next();
    let value = match tokens.next_if(|token| matches!(token, Token::Word(_))) {
        Some(Token::Word(word)) => word.clone(),
        _ => match tokens.peek() {
            None | Some(Token::Symbol(",")) => String::new(),
            Some(token) => return Err(format!("found '{}', expected: identifier", token.text())),
        },
    };
    check_value(&key, &value)?;
    if matches!(operator, Operator::Greater | Operator::Less) && value.parse::<i64>().is_err() {
        return Err(format!(
            "values[0]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
            quote(&value)
        ));
    }
    Ok(Requirement { key, operator, values: vec![value] })
}

/// Parses `in (a,b)`; an empty element is the empty value.
fn set(tokens: &mut Tokens<'_>, key: String, operator: Operator) -> Result<Requirement, String> {
    tokens.next();
    if tokens.next_if_eq(&&Token::Symbol("(")).is_none() {
        return Err(format!("found '{}' expected: '('", tokens.peek().map_or("", |token| token.text())));
    }
    let mut values = vec![String::new()];
    let mut expected = "',', ')' or identifier";
    loop {
        match tokens.next() {
            Some(Token::Word(word)) => {
                check_value(&key, word)?;
                values.last_mut().expect("starts with one element").clone_from(word);
                let next = tokens.peek().map_or("", |token| token.text());
                if !matches!(next, "," | ")") {
                    return Err(format!("found '{next}', expected: ',' or ')'"));
                }
            }
            Some(Token::Symbol(",")) => values.push(String::new()),
            Some(Token::Symbol(")")) => return Ok(Requirement { key, operator, values }),
            other => return Err(format!("found '{}', expected: {expected}", other.map_or("", Token::text))),
        }
        expected = "',', or identifier";
    }
}

fn check_value(key: &str, value: &str) -> Result<(), String> {
    match super::names::label_value(value) {
        Some(problem) => Err(format!("values[0][{key}]: Invalid value: {}: {problem}", quote(value))),
        None => Ok(()),
    }
}

/// A field selector: all requirements must be met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(Vec<(String, bool, String)>);

impl Fields {
    /// Parses `metadata.name=a,status.phase!=b`.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        let mut requirements = Vec::new();
        for term in terms(text).into_iter().filter(|term| !term.is_empty()) {
            let Some((key, operator, value)) = split(term) else {
                let why = format!("invalid selector: '{text}'; can't understand '{term}'");
                return Err(Status::bad_request(why));
            };
            requirements.push((key.to_owned(), operator != "!=", unescaped(value)?));
        }
        Ok(Self(requirements))
    }

    /// Returns the same selector with its fields renamed.
    #[must_use]
    pub(crate) fn renamed(mut self, rename: impl Fn(&str) -> String) -> Self {
        for (key, _, _) in &mut self.0 {
            *key = rename(key);
        }
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _, _)| key.as_str())
    }

    /// Returns the required value of `metadata.name`, if the selector has one.
    pub(crate) fn exact_name(&self) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, equal, _)| key == "metadata.name" && *equal)
            .map(|(_, _, value)| value.as_str())
    }

    /// Returns whether an object satisfies the selector.
    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|(key, equal, wanted)| (field_text(object, key) == *wanted) == *equal)
    }
}

/// Returns the terms of a field selector, separated by unescaped commas.
fn terms(text: &str) -> Vec<&str> {
    let (mut terms, mut start, mut escaped) = (Vec::new(), 0, false);
    for (index, c) in text.char_indices() {
        if c == ',' && !escaped {
            terms.push(&text[start..index]);
            start = index + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    terms.push(&text[start..]);
    terms
}

/// Splits a term into field, operator and value, at the first operator.
fn split(term: &str) -> Option<(&str, &str, &str)> {
    let (index, operator) = term.char_indices().find_map(|(index, _)| {
        let operator = ["!=", "==", "="].into_iter().find(|operator| term[index..].starts_with(operator))?;
        Some((index, operator))
    })?;
    Some((&term[..index], operator, &term[index + operator.len()..]))
}

/// Removes the backslashes before `\\`, `,` and `=` from a value.
fn unescaped(value: &str) -> Result<String, Status> {
    let refused = |why: String| Status::bad_request(format!("invalid field selector: {why}"));
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                next => {
                    let sequence: String = [Some('\\'), next].into_iter().flatten().collect();
                    return Err(refused(format!("invalid escape sequence: {sequence}")));
                }
            },
            ',' | '=' => {
                return Err(refused(format!("unescaped character in value: {}", u32::from(c))));
            }
            c => plain.push(c),
        }
    }
    Ok(plain)
}

/// Returns the text of a field by its dotted path, empty if there is none.
fn field_text(object: &Value, path: &str) -> String {
    match path.split('.').try_fold(object, |value, key| value.get(key)) {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => String::new(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selects(selector: &str) -> bool {
        let object = json!({"metadata": {"labels": {"app": "web", "tier": "front", "weight": "7"}}});
        Labels::parse(selector).unwrap().matches(&object)
    }

    #[test]
    fn label_selectors_select() {
        for selector in [
            "",
            "app",
            "app=web",
            "app==web",
            "app!=db",
            "app in (db, web)",
            "app notin (db)",
            "!missing",
            "missing!=x",
            "missing notin (x)",
            "weight>6",
            "weight<8",
            "app=web,tier in (front)",
        ] {
            assert!(selects(selector), "{selector}");
        }
        for selector in ["app=", "!app", "app notin (web,db)", "missing", "weight>7", "app=web,tier=back"] {
            assert!(!selects(selector), "{selector}");
        }
    }

    #[test]
    fn malformed_label_selectors_are_refused() {
        for selector in [
            "=x",
            "a in b",
            "a in (b",
            "a in (b c)",
            "a b",
            "a,",
            "a,=b",
            "a=b c",
            "!",
            "-a=b",
            "a=b$",
            "a>x",
        ] {
            assert_eq!(Labels::parse(selector).unwrap_err().code, 400, "{selector}");
        }
    }

    #[test]
    fn field_selectors_select() {
        let object = json!({"metadata": {"name": "x"}, "status": {"phase": "Running"}});
        for selector in ["", "metadata.name=x", "metadata.name==x,status.phase!=Failed", "spec.node="] {
            assert!(Fields::parse(selector).unwrap().matches(&object), "{selector}");
        }
        assert!(!Fields::parse("metadata.name!=x").unwrap().matches(&object));
        assert!(Fields::parse("nonsense").is_err());
    }

    #[test]
    fn values_of_field_selectors_may_be_escaped() {
        let object = json!({"metadata": {"name": "a,b=c"}});
        assert!(Fields::parse(r"metadata.name=a\,b\=c").unwrap().matches(&object));
        for selector in [r"metadata.name=\b", r"metadata.name=a\", "metadata.name=a=b"] {
            assert_eq!(Fields::parse(selector).unwrap_err().code, 400, "{selector}");
        }
    }
}
