//! The files of the page. They are in the program, and the page loads nothing else.

/// The page.
pub(super) const HTML: &str = include_str!("page.html");
/// Its style.
pub(super) const CSS: &str = include_str!("page.css");
/// Its script.
pub(super) const SCRIPT: &str = include_str!("page.js");
/// Its icon.
pub(super) const ICON: &str = include_str!("icon.svg");
