//! The timeline as one self-contained page: a template with style, script and data.

use super::model::Timeline;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

pub(super) fn html(timeline: &Timeline) -> String {
    let data = serde_json::to_string(timeline).expect("a timeline is plain data");
    // No text in the data ends the element or the line that contains it.
    let escapes = [('<', "\\u003c"), ('>', "\\u003e"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")];
    let data = escapes.into_iter().fold(data, |data, (char, escape)| data.replace(char, escape));
    // The data is inserted last, so text in it that looks like a placeholder is not changed.
    TEMPLATE.replace("%style%", STYLE).replace("%script%", SCRIPT).replacen("%data%", &data, 1)
}
