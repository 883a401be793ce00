//! The path of a value inside of an object. Only messages need it as text, and most values are valid.

use std::fmt;

/// A path, as a list from the value up to the object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'p> {
    /// The object itself: an empty path.
    Root,
    /// A field. At the top it has no dot before it.
    Field(&'p Place<'p>, &'p str),
    /// A name after a dot, also at the top.
    Dotted(&'p Place<'p>, &'p str),
    /// A key of a map, in brackets.
    Key(&'p Place<'p>, &'p str),
    /// An item of a list, in brackets.
    Item(&'p Place<'p>, usize),
}

impl Place<'_> {
    /// Returns whether its text is empty.
    pub(super) fn is_empty(self) -> bool {
        match self {
            Self::Root => true,
            Self::Field(parent, name) => name.is_empty() && parent.is_empty(),
            Self::Dotted(..) | Self::Key(..) | Self::Item(..) => false,
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(parent, name) if parent.is_empty() => f.write_str(name),
            Self::Field(parent, name) | Self::Dotted(parent, name) => write!(f, "{parent}.{name}"),
            Self::Key(parent, key) => write!(f, "{parent}[{key}]"),
            Self::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}
