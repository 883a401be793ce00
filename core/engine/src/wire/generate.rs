//! Values of Secrets that are generated on the way to the API server, and that do not come back from it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::action::{ErrorKind, Failure, KubeRequest};

/// Returns a request with the values that have to be generated; any other request as it is. `random` fills its argument with
/// random bytes. The result must not be logged, but it has to be passed to [`decode`](super::decode), which keeps the values out
/// of messages.
pub fn generated(
    request: &KubeRequest,
    mut random: impl FnMut(&mut [u8]) -> Result<(), Failure>,
) -> Result<Cow<'_, KubeRequest>, Failure> {
    let KubeRequest::CreateSecret { target, manifest, generate } = request else {
        return Ok(Cow::Borrowed(request));
    };
    let mut manifest = Value::clone(manifest);
    for (key, length) in generate {
        let mut value = vec![0; *length];
        random(&mut value)?;
        manifest["data"][key] = STANDARD.encode(&value).into();
    }
    let (target, manifest, generate) = (target.clone(), Arc::new(manifest), generate.clone());
    Ok(Cow::Owned(KubeRequest::CreateSecret { target, manifest, generate }))
}

/// Checks that all values were generated. Otherwise the Secret would lack them.
pub(super) fn check(manifest: &Value, generate: &BTreeMap<String, usize>) -> Result<(), Failure> {
    match generate.keys().find(|key| !manifest["data"][key.as_str()].is_string()) {
        Some(key) => Err(Failure::new(ErrorKind::Invalid, format!("the value of {key:?} was not generated"))),
        None => Ok(()),
    }
}

/// Returns the metadata of a Secret, and the number of bytes under each key of its data.
pub fn lengths(secret: &Value) -> Value {
    let values = secret["data"].as_object().into_iter().flatten();
    let lengths = values.map(|(key, value)| {
        let bytes = STANDARD.decode(value.as_str().unwrap_or_default()).unwrap_or_default();
        (key.clone(), bytes.len().into())
    });
    json!({ "metadata": secret["metadata"], "lengths": lengths.collect::<Map<String, Value>>() })
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::super::{decode, encode};
    use super::*;
    use crate::action::Success;
    use crate::object::{Kind, ObjectRef};

    fn request() -> KubeRequest {
        let target = ObjectRef::namespaced(&Kind::known("", "v1", "Secret", "secrets", true), "ns", "a");
        let manifest = Arc::new(json!({ "metadata": { "name": "a" }, "data": { "fixed": "eA==" } }));
        KubeRequest::CreateSecret { target, manifest, generate: BTreeMap::from([("key".to_owned(), 6)]) }
    }

    fn filled(request: &KubeRequest) -> Cow<'_, KubeRequest> {
        let fill = |value: &mut [u8]| {
            value.copy_from_slice(b"secret");
            Ok(())
        };
        generated(request, fill).unwrap()
    }

    #[test]
    fn values_are_sent_and_do_not_come_back() {
        let request = request();
        let generated = filled(&request);
        let sent = encode(&generated, "test").unwrap();
        assert_eq!(sent.uri(), "/api/v1/namespaces/ns/secrets?fieldManager=test");
        let body: Value = serde_json::from_slice(sent.body()).unwrap();
        assert_eq!(body["data"], json!({ "fixed": "eA==", "key": "c2VjcmV0" }));
        let answer = decode(&generated, StatusCode::CREATED, None, sent.body()).unwrap();
        let expected = json!({ "metadata": { "name": "a" }, "lengths": { "fixed": 1, "key": 6 } });
        assert_eq!(answer, Success::Object(Arc::new(expected)));
    }

    #[test]
    fn a_refusal_does_not_quote_them() {
        let request = request();
        let generated = filled(&request);
        let text = "refused: secret (c2VjcmV0)";
        let body = json!({ "kind": "Status", "reason": "Invalid", "message": text }).to_string();
        let failure = decode(&generated, StatusCode::UNPROCESSABLE_ENTITY, None, body.as_bytes());
        assert_eq!(failure.unwrap_err().message, "refused: *** (***)");
    }

    #[test]
    fn without_its_values_a_secret_is_not_sent() {
        let failure = encode(&request(), "test").unwrap_err();
        assert_eq!(failure.message, "the value of \"key\" was not generated");
        let none = |_: &mut [u8]| Err(Failure::new(ErrorKind::Unavailable, "no entropy"));
        assert_eq!(generated(&request(), none).unwrap_err().message, "no entropy");
    }

    #[test]
    fn a_secret_is_read_without_its_values() {
        let KubeRequest::CreateSecret { target, .. } = request() else { unreachable!() };
        let read = KubeRequest::GetLengths { target };
        assert_eq!(*filled(&read), read);
        for (data, lengths) in [
            (json!({ "key": "c2VjcmV0", "bad": "!" }), json!({ "key": 6, "bad": 0 })),
            (Value::Null, json!({})),
        ] {
            let body = json!({ "kind": "Secret", "metadata": { "uid": "u" }, "data": data }).to_string();
            let answer = decode(&read, StatusCode::OK, None, body.as_bytes()).unwrap();
            let expected = json!({ "metadata": { "uid": "u" }, "lengths": lengths });
            assert_eq!(answer, Success::Object(Arc::new(expected)));
        }
    }
}
