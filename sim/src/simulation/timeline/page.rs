//! The timeline as one self-contained page: style, script and data are put into a template.

use super::Timeline;
use crate::cause::text;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

pub(super) fn html(timeline: &Timeline) -> String {
    let data = serde_json::to_value(timeline).expect("a timeline is plain data");
    // The data comes last: what looks like a placeholder in it stays as it is.
    TEMPLATE.replace("%style%", STYLE).replace("%script%", SCRIPT).replacen("%data%", &text::json(&data), 1)
}
