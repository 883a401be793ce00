use proptest::prelude::*;
use serde_json::json;

use super::*;

fn config(auths: &[(&str, &str)]) -> DockerConfig {
    let auths: Map<_, _> = auths
        .iter()
        .map(|(key, credentials)| ((*key).to_owned(), json!({"auth": BASE64.encode(credentials)})))
        .collect();
    DockerConfig::parse(json!({"auths": auths}).to_string().as_bytes()).unwrap()
}

fn chosen(config: &DockerConfig, image: &str) -> Option<String> {
    let image = ImageReference::parse(image).unwrap();
    config.credentials_for(&image).map(|credentials| credentials.reveal().to_owned())
}

#[test]
fn the_most_specific_entry_is_taken() {
    let config = config(&[
        ("*.example.com", "any:1"),
        ("*.example.com/team", "any-team:2"),
        ("quay.io", "host:3"),
        ("https://quay.io/v2/team/", "team:4"),
        ("quay.io/team/app", "app:5"),
        ("reg.example.com", "exact:6"),
        ("http://host:5000", "port:7"),
        ("https://index.docker.io/v1/", "hub:8"),
        ("mirror-*.example.org", "part:9"),
        ("node-*-a.example.net", "middle:10"),
    ]);
    let table = [
        ("quay.io/other/app:1", Some("host:3")),
        ("quay.io/team/other:1", Some("team:4")),
        ("quay.io/team:1", Some("team:4")),
        ("quay.io/team/app:1", Some("app:5")),
        ("quay.io/team/app/part", Some("app:5")),
        ("quay.io/team/apple", Some("team:4")),
        ("quay.io/teams/app", Some("host:3")),
        ("quay.io:443/team/app", None),
        ("reg.example.com/other", Some("exact:6")),
        ("REG.example.com/other", Some("exact:6")),
        ("reg.example.com/team/app", Some("any-team:2")),
        ("new.example.com/app", Some("any:1")),
        ("very.new.example.com/app", None),
        ("example.com/app", None),
        ("host:5000/app", Some("port:7")),
        ("host:5001/app", None),
        ("busybox", Some("hub:8")),
        ("docker.io/grafana/grafana", Some("hub:8")),
        ("mirror-eu.example.org/app", Some("part:9")),
        ("mirror.example.org/app", None),
        ("node--a.example.net/app", Some("middle:10")),
        ("node-1-a.example.net/app", Some("middle:10")),
        ("node-a.example.net/app", None),
    ];
    for (image, expected) in table {
        assert_eq!(chosen(&config, image).as_deref(), expected, "{image}");
    }
}

#[test]
fn credentials_are_read_in_either_form() {
    let table = [
        (json!({"auth": "dXNlcjpwYXNz"}), Some("user:pass")),
        (json!({"auth": "dXNlcjpwYXNzMQ==", "email": "x"}), Some("user:pass1")),
        (json!({"auth": "dXNlcjpwYXNzMQ"}), Some("user:pass1")),
        (json!({"auth": "dXNlcjpwYXNz", "username": "a", "password": "b"}), Some("user:pass")),
        (json!({"auth": "", "username": "a", "password": "b:c"}), Some("a:b:c")),
        (json!({"username": "a", "password": "b"}), Some("a:b")),
        (json!({}), None),
        (json!({"auth": null}), None),
    ];
    for (entry, expected) in table {
        let text = json!({"auths": {"quay.io": entry, "other.io": {"auth": "bzpw"}}}).to_string();
        let config = DockerConfig::parse(text.as_bytes()).unwrap();
        assert_eq!(chosen(&config, "quay.io/a").as_deref(), expected, "{text}");
    }
}

#[test]
fn each_problem_is_reported_with_its_position() {
    let one = |entry: Value| json!({"auths": {"https://me:hunter2@quay.io/team": entry}}).to_string();
    let table = [
        (String::new(), "it is not JSON (line 1"),
        ("{\"auths\": \"hunter2".to_owned(), "it is not JSON (line 1, column 18)"),
        ("[]".to_owned(), "no `auths`"),
        (json!({"quay.io": {"auth": "x"}}).to_string(), "no `auths`"),
        (json!({"auths": "hunter2"}).to_string(), "`auths` is not an object"),
        (json!({"auths": {}}).to_string(), "`auths` has no credentials"),
        (one(json!({})), "`auths` has no credentials"),
        (one(json!("hunter2")), r#"auths["quay.io/team"] is not an object"#),
        (one(json!({"auth": ["hunter2"]})), r#"auths["quay.io/team"].auth is not a string"#),
        (one(json!({"auth": "hunter2!"})), r#"auths["quay.io/team"].auth is not base64"#),
        (
            json!({"auths": {"https://me:hunter2/hunter2@quay.io/team": {"auth": "!"}}}).to_string(),
            r#"auths["quay.io/team"].auth is not base64"#,
        ),
        (one(json!({"auth": "aHVudGVyMg=="})), r#"auths["quay.io/team"].auth has no colon"#),
        (one(json!({"auth": "/zp4"})), r#"auths["quay.io/team"].auth is not the base64 of a text"#),
        (one(json!({"username": "me"})), r#"auths["quay.io/team"] has a username without a password"#),
        (one(json!({"password": "hunter2"})), r#"auths["quay.io/team"] has a password without a username"#),
        (one(json!({"username": "me", "password": 7})), r#"auths["quay.io/team"].password is not a string"#),
    ];
    for (text, expected) in table {
        let error = DockerConfig::parse(text.as_bytes()).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
        assert!(!error.contains("hunter2") && !error.contains("aHVud"), "{error}");
    }
}

#[test]
fn nothing_of_it_is_shown() {
    assert_eq!(format!("{:?}", config(&[("quay.io", "user:hunter2")])), "DockerConfig(***)");
}

proptest! {
    #[test]
    fn an_entry_serves_its_own_images_and_no_others(
        host in "[a-z]{1,4}\\.[a-z]{2}(:[1-9][0-9]{0,3})?",
        path in "([a-z]{1,3}(/[a-z]{1,3}){0,2})?",
        other in "[a-z]{1,3}(/[a-z]{1,3}){0,3}",
        scheme in prop::sample::select(vec!["", "https://", "http://"]),
        password in ".{0,20}",
    ) {
        let credentials = format!("user:{password}");
        let key = format!("{scheme}{host}{}{path}", if path.is_empty() { "" } else { "/" });
        let config = config(&[(&key, &credentials)]);
        let parts = |text: &str| text.split('/').map(str::to_owned).filter(|part| !part.is_empty()).collect::<Vec<_>>();
        for repository in [other.clone(), format!("{path}/{other}").trim_matches('/').to_owned()] {
            let image = format!("{host}/{repository}");
            let expected = parts(&repository).starts_with(&parts(&path)).then(|| credentials.clone());
            prop_assert_eq!(chosen(&config, &image), expected, "{} {}", key, image);
            let elsewhere = format!("not-{image}");
            prop_assert_eq!(chosen(&config, &elsewhere), None);
        }
    }

    #[test]
    fn nothing_panics_and_nothing_is_shown(data in proptest::collection::vec(any::<u8>(), 0..60), key in ".{0,10}", auth in ".{0,10}") {
        let _ = DockerConfig::parse(&data);
        let secret = format!("hunter2{auth}");
        let text = json!({"auths": {key: {"auth": secret}}}).to_string();
        if let Err(error) = DockerConfig::parse(text.as_bytes()) {
            prop_assert!(!error.contains("hunter2"), "{}", error);
        }
    }
}

#[test]
fn a_stand_in_is_read_in_the_same_way() {
    let hide = |part: &[u8]| format!("hidden-{}", part.len());
    let entry = |auth: Value| json!({ "auths": { "quay.io/team": auth } }).to_string();
    let texts = [
        entry(json!({ "auth": BASE64.encode("me:hunter2"), "email": "hunter2@example.com" })),
        entry(json!({ "username": "me", "password": "hunter2" })),
        entry(json!({ "username": "me" })),
        entry(json!({ "password": "hunter2" })),
        entry(json!({ "auth": "hunter2!" })),
        entry(json!({ "auth": BASE64.encode("hunter2") })),
        entry(json!({ "auth": BASE64.encode(b"\xfe\xff") })),
        entry(json!({ "auth": 7 })),
        entry(json!({})),
        entry(json!("hunter2")),
        json!({ "auths": { } }).to_string(),
        json!({ "auths": [] }).to_string(),
        json!({ "hunter": "hunter2" }).to_string(),
        "{\n  \"auths\": hunter2".to_owned(),
        "hunter2".to_owned(),
        "{\"auths\": ".to_owned(),
        "{\n  \"hunter2\": 1,\n".to_owned(),
        "{\n".to_owned(),
        String::new(),
    ];
    for text in texts {
        let stand_in = stand_in(text.as_bytes(), &hide);
        let image = ImageReference::parse("quay.io/team/app:1").unwrap();
        let verdict = |text: &str| {
            DockerConfig::parse(text.as_bytes()).map(|config| config.credentials_for(&image).is_some())
        };
        assert_eq!(verdict(&stand_in), verdict(&text), "{text} became {stand_in}");
        assert!(!stand_in.contains("hunter2"), "{stand_in}");
    }
}
