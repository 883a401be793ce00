use proptest::prelude::*;

use super::*;

/// Returns a kubeconfig with these fields of its only cluster and its only user.
fn kubeconfig(cluster: &Value, user: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "admin",
        "contexts": [
            { "name": "other", "context": { "cluster": "elsewhere", "user": "missing" } },
            { "name": "admin", "context": { "cluster": "dpu", "user": "root" } },
        ],
        "clusters": [{ "name": "dpu", "cluster": cluster }],
        "users": [{ "name": "root", "user": user }],
    })
}

fn cluster() -> Value {
    json!({ "server": "https://10.0.0.1:6443", "certificate-authority-data": "Q0E=" })
}

fn user() -> Value {
    json!({ "client-certificate-data": "Q0VSVA==", "client-key-data": "S0VZ" })
}

/// Returns fields with others added or replaced.
fn with(mut fields: Value, more: &Value) -> Value {
    for (field, value) in more.as_object().unwrap() {
        fields[field.as_str()] = value.clone();
    }
    fields
}

fn read(kubeconfig: &Value) -> Value {
    match parse(kubeconfig.to_string().as_bytes()) {
        Ok(Connection { server, config }) => json!({ "server": server, "config": config }),
        Err(problem) => json!(problem),
    }
}

#[test]
fn every_form_is_converted_or_refused() {
    let plain = kubeconfig(&cluster(), &user());
    let of_cluster = |more: Value| kubeconfig(&with(cluster(), &more), &user());
    let of_user = |more: Value| kubeconfig(&cluster(), &with(user(), &more));
    let only = |user: Value| kubeconfig(&cluster(), &user);
    let mut alone = with(plain.clone(), &json!({ "current-context": "", "contexts": [] }));
    let alone_again = alone.clone();
    alone["users"] = json!([{ "name": "root", "user": user() }, { "name": "b", "user": user() }]);
    let table = [
        ("a client certificate", plain.clone()),
        ("a token", only(json!({ "token": "t0ken" }))),
        ("a name and password", only(json!({ "username": "root", "password": "s3cret" }))),
        ("a certificate and a token", of_user(json!({ "token": "t0ken" }))),
        ("no verification", of_cluster(json!({ "insecure-skip-tls-verify": true }))),
        ("another name in the certificate", of_cluster(json!({ "tls-server-name": "api.internal" }))),
        ("a slash at the end", of_cluster(json!({ "server": "https://10.0.0.1:6443/" }))),
        ("a line break within base64", of_cluster(json!({ "certificate-authority-data": "Q0\nE=" }))),
        ("neither context nor choice", alone_again),
        ("no context and two users", alone),
        ("a context that is not there", with(plain.clone(), &json!({ "current-context": "none" }))),
        ("a context with an unknown user", with(plain.clone(), &json!({ "current-context": "other" }))),
        ("no clusters", with(plain, &json!({ "clusters": null }))),
        ("no server", of_cluster(json!({ "server": null }))),
        ("a server that is no URL", of_cluster(json!({ "server": "10.0.0.1:6443" }))),
        ("a server with a password", of_cluster(json!({ "server": "https://root:s3cret@10.0.0.1" }))),
        ("a server that is a number", of_cluster(json!({ "server": 6443 }))),
        ("an authority in a file", of_cluster(json!({ "certificate-authority": "/ca.pem" }))),
        ("an authority that is no base64", of_cluster(json!({ "certificate-authority-data": "s3cret!" }))),
        ("a proxy", of_cluster(json!({ "proxy-url": "socks5://10.0.0.9" }))),
        ("a certificate in a file", only(json!({ "client-certificate": "/c.pem", "client-key": "/k.pem" }))),
        ("a certificate without its key", only(json!({ "client-certificate-data": "Q0VSVA==" }))),
        ("a key that is no base64", of_user(json!({ "client-key-data": "s3cret!" }))),
        ("a token in a file", only(json!({ "tokenFile": "/token" }))),
        ("a program", only(json!({ "exec": { "command": "aws", "args": ["s3cret"] } }))),
        ("an auth provider", only(json!({ "auth-provider": { "name": "oidc" } }))),
        ("impersonation", of_user(json!({ "as": "another" }))),
        ("a token and a name", only(json!({ "token": "t0ken", "username": "root" }))),
        ("nothing", only(json!({}))),
        ("empty fields", only(json!({ "token": "", "client-certificate-data": null }))),
    ];
    let outcomes: Vec<Value> =
        table.iter().map(|(form, kubeconfig)| json!({ "form": form, "gives": read(kubeconfig) })).collect();
    for outcome in &outcomes {
        let problem = outcome["gives"].as_str().unwrap_or_default();
        assert!(!problem.contains("s3cret") && !problem.contains("t0ken"), "{outcome}");
    }
    insta::assert_yaml_snapshot!(outcomes);
}

/// A recording leads to the same decisions: the Secret that is made from a placeholder is the placeholder of the Secret.
#[test]
fn a_stand_in_converts_to_the_stand_in_of_the_converted_original() {
    let hide = |secret: &[u8]| format!("hidden-{}", lockstep_engine::digest::digest(&json!(secret)));
    let users = [
        user(),
        json!({ "token": "t0ken" }),
        json!({ "username": "root", "password": "s3cret" }),
        json!({ "client-certificate-data": "Q0VS\nVA==", "client-key-data": "s3cret!" }),
        json!({ "exec": { "command": "s3cret" } }),
        json!({}),
    ];
    for user in users {
        let text = kubeconfig(&cluster(), &user).to_string();
        let hidden = stand_in(text.as_bytes(), &hide);
        assert!(!hidden.contains("s3cret") && !hidden.contains("t0ken"), "{hidden}");
        match (parse(text.as_bytes()), parse(hidden.as_bytes())) {
            (Ok(original), Ok(recorded)) => {
                assert_eq!(original.server, recorded.server);
                let config = config_stand_in(original.config.to_string().as_bytes(), &hide);
                assert_eq!(config, recorded.config.to_string());
            }
            (original, recorded) => assert_eq!(original.err(), recorded.err()),
        }
    }
    let original = kubeconfig(&cluster(), &json!({ "token": "t0ken" })).to_string();
    let twice = original.replacen('{', "{\"users\": [], ", 1);
    let odd = original.replacen('{', "{1: 2, \"preferences\": {3: 4}, ", 1);
    let numbers = kubeconfig(&cluster(), &json!({ "username": "root", "password": 5_337_533 })).to_string();
    let misplaced = "current-context: a\ncontexts: [{name: a, context: {cluster: c, user: u, extensions: [s3cret]}}]\n\
                     clusters: [{name: c, token: s3cret, cluster: {server: 'https://root:s3cret@host'}}]\n\
                     users: [{name: u, token: s3cret, user: {token: 5337533}}, s3cret]\npreferences: s3cret";
    let strange = [
        "",
        "[]",
        "s3cret",
        "[",
        "{\"users\": \"s3cret\"}",
        "{\"users\": [\"s3cret\"]}",
        "users: [{name: a, user: s3cret}]\nclusters: [{name: a, cluster: {server: 'https://a'}}]",
        "users: [{name: a, token: s3cret}]\nclusters: [{name: a, cluster: {server: 'https://a'}}]",
        "users: [{name: a, user: {token: 5337533}}]\nclusters: [{name: a, cluster: {server: 'https://a'}}]",
        &twice,
        &odd,
        &numbers,
        misplaced,
    ];
    for text in strange.map(str::as_bytes).into_iter().chain([&[0xff, 0xfe][..]]) {
        let hidden = stand_in(text, &hide);
        assert!(!["s3cret", "t0ken", "5337533"].iter().any(|secret| hidden.contains(secret)), "{hidden}");
        assert_eq!(parse(text).err(), parse(hidden.as_bytes()).err(), "{}", text.escape_ascii());
    }
}

#[test]
fn an_invalid_kubeconfig_is_reported_without_quoting_it() {
    for text in
        ["s3cret", "[s3cret]", "users: s3cret", "a: [", "users: [{user: s3cret}]", "\u{0}", "{\"s3cret\": "]
    {
        let problem = parse(text.as_bytes()).err().expect(text);
        assert!(!problem.contains("s3cret"), "{problem}");
    }
    assert!(parse(&[0xff, 0xfe]).is_err());
}

#[test]
fn the_first_key_of_a_secret_that_is_there_counts() {
    let text = |server: &str| {
        STANDARD.encode(kubeconfig(&with(cluster(), &json!({ "server": server })), &user()).to_string())
    };
    let (today, before) = (text("https://a"), text("https://b"));
    let of = |data: Value| of_secret(&json!({ "data": data })).map(|connection| connection.server);
    assert_eq!(of(json!({ "admin.conf": before, "super-admin.conf": today })).unwrap(), "https://a");
    assert_eq!(of(json!({ "admin.conf": before, "kubeconfig": today })).unwrap(), "https://b");
    assert_eq!(of(json!({ "kubeconfig": today })).unwrap(), "https://a");
    insta::assert_yaml_snapshot!([
        of(json!({ "other": today })).unwrap_err(),
        of(json!({ "kubeconfig": "!" })).unwrap_err(),
        of(json!({ "kubeconfig": "e30=" })).unwrap_err(),
    ]);
}

proptest! {
    #[test]
    fn whatever_it_is_reading_it_ends(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }

    /// All credentials are written, and written where Argo CD looks for them.
    #[test]
    fn credentials_arrive_as_they_are(token in "[!-~]{1,40}", authority in proptest::collection::vec(any::<u8>(), 1..40)) {
        let authority = STANDARD.encode(authority);
        let cluster = json!({ "server": "https://10.0.0.1:6443", "certificate-authority-data": authority });
        let connection = parse(kubeconfig(&cluster, &json!({ "token": token })).to_string().as_bytes()).unwrap();
        prop_assert_eq!(&connection.config["bearerToken"], &json!(token));
        prop_assert_eq!(&connection.config["tlsClientConfig"]["caData"], &json!(authority));
    }
}

#[test]
fn a_stand_in_has_no_text_of_nested_fields() {
    let secrets = json!({
        "exec": { "command": "login", "args": ["hunter2"], "env": [{ "name": "TOKEN", "value": "hunter3" }] },
        "extra": ["hunter4", { "a": "hunter5" }],
        "pin": 4711,
        "token": "hunter6",
    });
    let document = json!({ "users": [{ "name": "a", "user": secrets }], "clusters": [{ "name": "c", "cluster": { "extensions": ["hunter7"] } }] });
    let config = json!({ "bearerToken": "hunter8", "execProviderConfig": { "args": ["hunter9"] }, "tlsClientConfig": { "more": ["hunter1"] } });
    let hide: Hide<'_> = &|_| "hidden".to_owned();
    for stand_in in [
        stand_in(document.to_string().as_bytes(), hide),
        config_stand_in(config.to_string().as_bytes(), hide),
    ] {
        assert!(!stand_in.contains("hunter") && !stand_in.contains("4711"), "{stand_in}");
    }
}
