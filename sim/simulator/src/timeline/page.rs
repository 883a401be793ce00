//! The timeline as one self-contained page: a template with style, script and data.

use lockstep_apiserver::cause::json_in_html;

use super::model::Timeline;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

pub(super) fn html(timeline: &Timeline) -> String {
    let data = serde_json::to_value(timeline).expect("a timeline is plain data");
    // The data is inserted last, so text in it that looks like a placeholder is not changed.
    TEMPLATE.replace("%style%", STYLE).replace("%script%", SCRIPT).replacen("%data%", &json_in_html(&data), 1)
}
