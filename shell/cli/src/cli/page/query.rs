//! What a page asks for, in the query of its URL.

use std::collections::BTreeMap;

use http::Uri;
use reqwest::Url;

/// The number of rows unless the page asks for more, and the maximum.
const ROWS: usize = 200;
const ROWS_MAX: usize = 1000;

/// The longest filter that is used, in characters.
const FILTER_MAX: usize = 200;

/// The selection of a page.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    /// The words of the filter, in lower case. An object must have all of them.
    pub(super) words: Vec<String>,
    /// The kind of the objects; `None` for all.
    pub(super) kind: Option<String>,
    /// Whether only objects with problems are shown.
    pub(super) problems: bool,
    /// The maximum number of rows.
    pub(super) rows: usize,
    /// The path of the selected object.
    pub(super) object: Option<String>,
}

impl Query {
    pub(super) fn read(uri: &Uri) -> Self {
        let mut fields = fields(uri);
        let mut take = |field: &str| fields.remove(field).filter(|text| !text.is_empty());
        let filter: String = take("filter").unwrap_or_default().chars().take(FILTER_MAX).collect();
        Self {
            words: filter.to_lowercase().split_whitespace().map(str::to_owned).collect(),
            kind: take("kind"),
            problems: take("problems").is_some(),
            rows: take("rows").and_then(|rows| rows.parse().ok()).unwrap_or(ROWS).min(ROWS_MAX),
            object: take("object"),
        }
    }
}

/// Returns the fields of a query, decoded.
pub(super) fn fields(uri: &Uri) -> BTreeMap<String, String> {
    let url = Url::parse(&format!("http://localhost/?{}", uri.query().unwrap_or_default()));
    let pairs = url.map(|url| url.query_pairs().into_owned().collect());
    pairs.unwrap_or_default()
}
