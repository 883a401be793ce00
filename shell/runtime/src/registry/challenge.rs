//! The authentication challenges of registries.

use http::HeaderMap;
use http::header::WWW_AUTHENTICATE;
use http_auth::ChallengeRef;
use http_auth::parser::ChallengeParser;

/// The authentication that a registry requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A token of this service.
    Bearer {
        /// The URL that issues tokens.
        realm: String,
        /// The name of the registry in requests to that URL.
        service: Option<String>,
    },
    /// The credentials themselves.
    Basic,
}

impl Challenge {
    /// Returns the best supported challenge, if any. Tokens are preferred, because then the credentials are sent to the token
    /// service and not with every request.
    pub(super) fn best(headers: &HeaderMap) -> Option<Self> {
        let texts = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let challenges =
            texts.flat_map(ChallengeParser::new).filter_map(|challenge| Self::read(&challenge.ok()?));
        challenges.max_by_key(|challenge| matches!(challenge, Self::Bearer { .. }))
    }

    fn read(challenge: &ChallengeRef<'_>) -> Option<Self> {
        let parameter = |wanted: &str| {
            let mut parameters = challenge.params.iter();
            parameters
                .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
                .map(|(_, value)| value.to_unescaped())
        };
        if challenge.scheme.eq_ignore_ascii_case("bearer") {
            Some(Self::Bearer { realm: parameter("realm")?, service: parameter("service") })
        } else {
            challenge.scheme.eq_ignore_ascii_case("basic").then_some(Self::Basic)
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn best(values: &[&str]) -> Option<Challenge> {
        let value = |value: &&str| (WWW_AUTHENTICATE, HeaderValue::from_str(value).unwrap());
        Challenge::best(&values.iter().map(value).collect())
    }

    #[test]
    fn a_token_is_preferred() {
        let token = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) })
        };
        let table: [(&[&str], _); 8] = [
            (
                &[
                    r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a:pull,push""#,
                ],
                token("https://auth.docker.io/token", Some("registry.docker.io")),
            ),
            (&[r#"bearer Service=x, REALM="https://a/\"q\"""#], token("https://a/\"q\"", Some("x"))),
            (&[r#"Basic realm="a, b", Bearer realm="https://a""#], token("https://a", None)),
            (&["Negotiate", r#"Bearer realm="https://a""#, "Basic"], token("https://a", None)),
            (&["Bearer service=x", r#"Basic realm="r""#], Some(Challenge::Basic)),
            (&["Digest realm=r"], None),
            (&["?!"], None),
            (&[], None),
        ];
        for (values, expected) in table {
            assert_eq!(best(values), expected, "{values:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(value in r#"(Bearer|Basic|realm|=|"|,| |\\|.){0,20}"#) {
            if let Ok(value) = HeaderValue::from_str(&value) {
                let _ = Challenge::best(&[(WWW_AUTHENTICATE, value)].into_iter().collect());
            }
        }
    }
}
