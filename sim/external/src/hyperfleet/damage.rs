//! Corrupts answers in ways that clients may encounter.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::respond::response;

/// Size of a [huge](Damage::HugeBody) body, in bytes.
pub const HUGE: usize = 65 * 1024 * 1024;

/// The corruption of an answer. Item numbers wrap around: on a page of three items, 4 is the second. If an answer has no items, a
/// corruption of an item does not change it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Damage {
    /// 200 with a page of HTML, as from portals and proxies.
    Html,
    /// The response head without a body.
    EmptyBody,
    /// The same JSON with 65 MiB of whitespace after it.
    HugeBody,
    /// JSON that is truncated in the middle.
    TruncatedJson,
    /// The times in an item's status are not times.
    WrongTimeFormat {
        /// The item.
        item: usize,
    },
    /// An item has no id.
    MissingId {
        /// The item.
        item: usize,
    },
    /// An item is a string.
    ItemNotAnObject {
        /// The item.
        item: usize,
    },
    /// An item has a null status.
    NullStatus {
        /// The item.
        item: usize,
    },
    /// An error of the server or of a proxy in front of it.
    ServerError(u16),
    /// 429.
    Throttled {
        /// The `Retry-After`, in seconds.
        retry_after: u32,
    },
}

impl Damage {
    /// Returns the answer with the corruption.
    pub fn inflict(self, answer: http::Response<Bytes>) -> http::Response<Bytes> {
        match self {
            Self::Html => {
                let page =
                    Bytes::from_static(b"<!DOCTYPE html>\n<html><body><h1>Sign in</h1></body></html>\n");
                response(StatusCode::OK, "text/html; charset=utf-8", page)
            }
            Self::EmptyBody => answer.map(|_| Bytes::new()),
            Self::HugeBody => answer.map(|body| {
                let mut huge = body.to_vec();
                huge.resize(HUGE.max(body.len()), b' ');
                huge.into()
            }),
            Self::TruncatedJson => answer.map(|body| body.slice(..body.len() / 2)),
            Self::WrongTimeFormat { item } => on_item(answer, item, |item| wrong_times(&mut item["status"])),
            Self::MissingId { item } => on_item(answer, item, |item| {
                item.as_object_mut().map(|item| item.remove("id"));
            }),
            Self::ItemNotAnObject { item } => on_item(answer, item, |item| *item = "cluster".into()),
            Self::NullStatus { item } => on_item(answer, item, |item| item["status"] = Value::Null),
            Self::ServerError(code) => {
                let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                response(status, "text/plain", Bytes::from_static(b"upstream connect error"))
            }
            Self::Throttled { retry_after } => {
                let body = json!({"title": "Too Many Requests", "status": 429}).to_string();
                let mut answer =
                    response(StatusCode::TOO_MANY_REQUESTS, "application/problem+json", body.into());
                answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(retry_after));
                answer
            }
        }
    }
}

fn on_item(
    answer: http::Response<Bytes>,
    item: usize,
    damage: impl FnOnce(&mut Value),
) -> http::Response<Bytes> {
    answer.map(|body| {
        let Ok(mut list) = serde_json::from_slice::<Value>(&body) else { return body };
        let items = list.get_mut("items").and_then(Value::as_array_mut).filter(|items| !items.is_empty());
        let Some(items) = items else { return body };
        let at = item % items.len();
        damage(&mut items[at]);
        list.to_string().into()
    })
}

/// Replaces every time by the output format of Go.
fn wrong_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if name.ends_with("_time") || name.ends_with("Time") {
                    *field = "2026-05-04 09:31:10 +0000 UTC".into();
                } else {
                    wrong_times(field);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(wrong_times),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::hyperfleet::{API, Dialect, HyperFleet, Labels};

    fn answer(dialect: Dialect) -> http::Response<Bytes> {
        let mut fleet = HyperFleet::new(dialect, 0);
        fleet.create("a", Labels::new(), Timestamp::UNIX_EPOCH);
        fleet.create("b", Labels::new(), Timestamp::UNIX_EPOCH);
        let path = format!("{API}/clusters?order=id");
        let request = http::Request::get(path).body(Bytes::new()).unwrap();
        fleet.handle(&request, Timestamp::UNIX_EPOCH)
    }

    fn items(answer: &http::Response<Bytes>) -> Value {
        serde_json::from_slice::<Value>(answer.body()).unwrap()["items"].take()
    }

    #[test]
    fn damage_to_an_item_spares_the_others() {
        for dialect in [Dialect::Documented, Dialect::Released] {
            let whole = items(&answer(dialect));
            let hurt = |damage: Damage| {
                let damaged = items(&damage.inflict(answer(dialect)));
                assert_eq!(damaged[0], whole[0], "{damage:?}");
                damaged[1].clone()
            };
            assert!(hurt(Damage::MissingId { item: 3 }).get("id").is_none());
            assert!(hurt(Damage::ItemNotAnObject { item: 1 }).is_string());
            assert!(hurt(Damage::NullStatus { item: 1 })["status"].is_null());
            let status = hurt(Damage::WrongTimeFormat { item: 1 })["status"].to_string();
            assert!(status.contains("+0000 UTC") && !status.contains("1970-01-01T"), "{status}");
        }
    }

    #[test]
    fn damage_to_a_body_is_what_its_name_says() {
        let inflict = |damage: Damage| damage.inflict(answer(Dialect::Released));
        let whole = answer(Dialect::Released).into_body();
        assert!(inflict(Damage::EmptyBody).body().is_empty());
        assert!(inflict(Damage::Html).body().starts_with(b"<!DOCTYPE html>"));
        let huge = inflict(Damage::HugeBody).into_body();
        assert_eq!(huge.len(), HUGE);
        assert!(huge.starts_with(&whole) && serde_json::from_slice::<Value>(&huge).is_ok());
        let truncated = inflict(Damage::TruncatedJson).into_body();
        assert!(whole.starts_with(&truncated) && serde_json::from_slice::<Value>(&truncated).is_err());
        assert_eq!(inflict(Damage::ServerError(503)).status(), StatusCode::SERVICE_UNAVAILABLE);
        let throttled = inflict(Damage::Throttled { retry_after: 7 });
        assert_eq!(
            (throttled.status().as_u16(), &throttled.headers()["retry-after"]),
            (429, &"7".parse().unwrap())
        );
    }

    #[test]
    fn an_answer_without_items_keeps_them_unharmed() {
        let problem = http::Response::new(Bytes::from_static(b"not JSON"));
        let damaged = Damage::MissingId { item: 0 }.inflict(problem);
        assert_eq!(damaged.body(), "not JSON");
    }
}
