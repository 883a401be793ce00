//! One line of the live view.

use jiff::Timestamp;

/// The importance of a line, which determines its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Bad,
    Gone,
    Quiet,
}

/// An event: its object, its description and its time.
#[derive(Debug, Clone)]
pub(super) struct Line {
    at: Timestamp,
    kind: String,
    name: String,
    what: String,
    tone: Tone,
}

/// The widths of the columns; they fit most kinds and names.
const KIND: usize = 21;
const NAME: usize = 31;

impl Line {
    /// Creates a line about an event that has just occurred.
    pub(super) fn now(kind: &str, namespace: Option<&str>, name: &str, what: String, tone: Tone) -> Self {
        let name = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
        Self { at: Timestamp::now(), kind: kind.to_owned(), name, what, tone }
    }

    /// Returns the line as text, aligned with others.
    pub(super) fn render(&self, colours: bool) -> String {
        let at = self.at.strftime("%H:%M:%S%.3f");
        let Self { kind, name, what, .. } = self;
        // A message with control characters must not break the line.
        let what = what.replace(char::is_control, " ");
        let text = format!("{kind:KIND$} {name:NAME$} {what}");
        let colour = match self.tone {
            Tone::Plain => "",
            Tone::Good => "\x1b[32m",
            Tone::Bad => "\x1b[31m",
            Tone::Gone => "\x1b[33m",
            Tone::Quiet => "\x1b[2m",
        };
        if colours { format!("\x1b[2m{at}\x1b[0m  {colour}{text}\x1b[0m") } else { format!("{at}  {text}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(tone: Tone) -> Line {
        let line = Line::now("ConfigMap", Some("shop"), "web", "created\nby x".to_owned(), tone);
        Line { at: "2024-05-06T07:08:09.0105Z".parse().unwrap(), ..line }
    }

    #[test]
    fn lines_are_aligned_and_single() {
        let expected = "07:08:09.010  ConfigMap             shop/web                        created by x";
        assert_eq!(line(Tone::Good).render(false), expected);
    }

    #[test]
    fn colours_are_for_terminals() {
        assert!(line(Tone::Good).render(true).contains("\x1b[32m"));
    }
}
