//! Reads a recording. The bytes are untrusted: the result is lines, or an error that states what to do.

use serde::Deserialize;
use serde_json::Value;

use super::{FORMAT, Header, Line};

/// Why a recording can't be read, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is empty.
    #[error("the file is empty; a recording begins with a header as `lockstep run --record` writes it")]
    Empty,
    /// The first line is not a header.
    #[error(
        "line 1 is not the header of a recording ({why}); replay a file that `lockstep run --record` wrote, from its \
         first line"
    )]
    NoHeader {
        /// The reason.
        why: String,
    },
    /// Another version of the format.
    #[error(
        "line 1: this is a recording of format {found}, and this lockstep reads format {FORMAT}; replay it with \
         lockstep {program}, which wrote it"
    )]
    Format {
        /// Its format.
        found: u64,
        /// The version of the program that wrote it.
        program: String,
    },
    /// A line in the middle can't be read.
    #[error("line {line} is broken ({why}); {remedy}")]
    Broken {
        /// The line, from one.
        line: u64,
        /// What is wrong with it.
        why: String,
        /// What to do.
        remedy: String,
    },
}

/// The lines of a recording after its header.
#[derive(Debug, Clone)]
pub struct Lines<'a> {
    rest: &'a [u8],
    line: u64,
    last_step: Option<u64>,
    is_cut: bool,
}

/// Reads the header; the following lines are read one by one.
pub fn open(bytes: &[u8]) -> Result<(Header, Lines<'_>), Unreadable> {
    let mut lines = Lines { rest: bytes, line: 0, last_step: None, is_cut: false };
    let (first, _) = lines.text().ok_or(Unreadable::Empty)?;
    let no_header = |why: String| Unreadable::NoHeader { why };
    let value: Value =
        serde_json::from_slice(first).map_err(|error| no_header(message_without_line(&error)))?;
    let header = &value["header"];
    let Some(format) = header["format"].as_u64() else {
        return Err(no_header("it names no format".to_owned()));
    };
    if format != FORMAT {
        let program = header["program"].as_str().unwrap_or("of the version").to_owned();
        return Err(Unreadable::Format { found: format, program });
    }
    let header = Header::deserialize(header).map_err(|error| no_header(message_without_line(&error)))?;
    Ok((header, lines))
}

impl<'a> Lines<'a> {
    /// Returns whether the last line is truncated, as when the program crashed while it wrote. Such a line is left out.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the next line, and whether it is complete.
    fn text(&mut self) -> Option<(&'a [u8], bool)> {
        if self.rest.is_empty() {
            return None;
        }
        self.line += 1;
        if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = (&self.rest[..end], &self.rest[end + 1..]);
            self.rest = rest;
            return Some((line, true));
        }
        Some((std::mem::take(&mut self.rest), false))
    }

    fn read(&mut self, text: &[u8]) -> Result<Line, Unreadable> {
        let line: Line =
            serde_json::from_slice(text).map_err(|error| self.broken(message_without_line(&error)))?;
        if let Line::Step(taken) = &line {
            let follows = self.last_step.is_none_or(|last| last.checked_add(1) == Some(taken.number));
            if let (Some(last), false) = (self.last_step, follows) {
                return Err(self.broken(format!("step {} follows step {last}", taken.number)));
            }
            self.last_step = Some(taken.number);
        }
        Ok(line)
    }

    fn broken(&self, why: String) -> Unreadable {
        let remedy = match self.last_step {
            Some(last) => format!("--until {last} replays the steps before it"),
            None => "there are no steps before it to replay".to_owned(),
        };
        Unreadable::Broken { line: self.line, why, remedy }
    }
}

impl Iterator for Lines<'_> {
    type Item = Result<Line, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        let (text, whole) = self.text()?;
        let read = self.read(text);
        if read.is_err() {
            // Nothing after a broken line can be relied on.
            self.rest = &[];
            if !whole {
                self.is_cut = true;
                return None;
            }
        }
        Some(read)
    }
}

/// Returns the message of a JSON error without its line number: each line is parsed as a text of its own.
fn message_without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(what) => format!("{what} at column {}", error.column()),
        None => text,
    }
}

#[cfg(test)]
mod tests;
