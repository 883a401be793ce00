//! The access to a cluster: server and credentials, as in a kubeconfig.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_engine::yaml;
use serde_json::{Value, json};

use super::cluster::KUBECONFIG_KEYS;

/// A server, and the credentials of a client. Unused fields are empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Its URL, without a slash at the end.
    pub server: String,
    /// The certificate authority of the server: PEM in base64.
    pub authority: String,
    /// Whether the server's certificate is not verified.
    pub insecure: bool,
    /// The client certificate: PEM in base64.
    pub certificate: String,
    /// The client key: PEM in base64.
    pub key: String,
    /// The bearer token.
    pub token: String,
    /// The user name.
    pub username: String,
    /// The password.
    pub password: String,
}

impl Access {
    /// Returns the access to a server with an authority, without credentials.
    fn at(server: &str) -> Self {
        let authority = STANDARD.encode("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n");
        Self { server: server.trim_end_matches('/').to_owned(), authority, ..Self::default() }
    }

    /// Returns an access by client certificate, with a base64 key.
    pub fn by_certificate(server: &str, key: &str) -> Self {
        let access = Self::at(server);
        Self { certificate: access.authority.clone(), key: key.to_owned(), ..access }
    }

    /// Returns an access by bearer token.
    pub fn by_token(server: &str, token: &str) -> Self {
        Self { token: token.to_owned(), ..Self::at(server) }
    }

    /// Returns it as a kubeconfig.
    pub fn kubeconfig(&self) -> String {
        let cluster = lines(&[
            ("certificate-authority-data", &self.authority),
            ("insecure-skip-tls-verify", if self.insecure { "true" } else { "" }),
            ("server", &self.server),
        ]);
        let user = lines(&[
            ("client-certificate-data", &self.certificate),
            ("client-key-data", &self.key),
            ("token", &self.token),
            ("username", &self.username),
            ("password", &self.password),
        ]);
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: cluster\n  cluster:\n{cluster}contexts:\n- name: admin\n  \
             context:\n    cluster: cluster\n    namespace: default\n    user: admin\ncurrent-context: admin\nusers:\n\
             - name: admin\n  user:\n{user}"
        )
    }

    /// Returns it as the data of a Secret.
    pub fn secret_data(&self) -> Value {
        json!({ KUBECONFIG_KEYS[0]: STANDARD.encode(self.kubeconfig()) })
    }

    /// Returns the access in the Secret of a kubeconfig. None if it has no kubeconfig, or one without a server.
    pub fn of_kubeconfig(secret: &Value) -> Option<Self> {
        let text = KUBECONFIG_KEYS.iter().find_map(|key| secret["data"][*key].as_str());
        text.and_then(Self::decode)
    }

    /// Parses the kubeconfig in a Secret. None if it is not a kubeconfig, or has no server.
    fn decode(encoded: &str) -> Option<Self> {
        let config: Value = yaml::read(std::str::from_utf8(&STANDARD.decode(encoded).ok()?).ok()?).ok()?;
        let named = |list: &str, name: &Value| {
            let all = config[list].as_array()?;
            all.iter().find(|entry| entry["name"] == *name).or_else(|| all.first().filter(|_| all.len() == 1))
        };
        let context = named("contexts", &config["current-context"]);
        let context = context.map_or(&Value::Null, |entry| &entry["context"]);
        let cluster = &named("clusters", &context["cluster"])?["cluster"];
        let user = &named("users", &context["user"])?["user"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let server = text(&cluster["server"]).trim_end_matches('/').to_owned();
        (!server.is_empty()).then(|| Self {
            server,
            authority: text(&cluster["certificate-authority-data"]),
            insecure: cluster["insecure-skip-tls-verify"] == true,
            certificate: text(&user["client-certificate-data"]),
            key: text(&user["client-key-data"]),
            token: text(&user["token"]),
            username: text(&user["username"]),
            password: text(&user["password"]),
        })
    }

    /// Parses the Secret that registers a cluster with Argo CD. None if it has no server, or an invalid configuration.
    pub fn of_argo(secret: &Value) -> Option<Self> {
        let text = |key: &str| String::from_utf8(STANDARD.decode(secret["data"][key].as_str()?).ok()?).ok();
        let config: Value = serde_json::from_str(&text("config")?).ok()?;
        let server = text("server")?.trim_end_matches('/').to_owned();
        let (tls, text) =
            (&config["tlsClientConfig"], |value: &Value| value.as_str().unwrap_or_default().to_owned());
        (!server.is_empty()).then(|| Self {
            server,
            authority: text(&tls["caData"]),
            insecure: tls["insecure"] == true,
            certificate: text(&tls["certData"]),
            key: text(&tls["keyData"]),
            token: text(&config["bearerToken"]),
            username: text(&config["username"]),
            password: text(&config["password"]),
        })
    }

    /// Checks whether a cluster with this kubeconfig accepts a client.
    ///
    /// # Errors
    ///
    /// The message of the client, if not.
    pub fn admits(&self, client: &Self) -> Result<(), &'static str> {
        if client.insecure && !client.authority.is_empty() {
            return Err("specifying a root certificates file with the insecure flag is not allowed");
        }
        if !client.insecure && client.authority != self.authority {
            return Err("tls: failed to verify certificate: x509: certificate signed by unknown authority");
        }
        let same = |ours: [&str; 2], shown: [&str; 2]| !ours[0].is_empty() && ours == shown;
        let knows = same([&self.certificate, &self.key], [&client.certificate, &client.key])
            || same([&self.token, ""], [&client.token, ""])
            || same([&self.username, &self.password], [&client.username, &client.password]);
        if knows { Ok(()) } else { Err("the server has asked for the client to provide credentials") }
    }
}

/// Formats the fields that are not empty, as YAML within a list of maps.
fn lines(fields: &[(&str, &str)]) -> String {
    let used = fields.iter().filter(|(_, value)| !value.is_empty());
    used.map(|(field, value)| format!("    {field}: {value}\n")).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "https://192.0.2.1:6443";

    fn by_password(password: &str) -> Access {
        Access { username: "admin".to_owned(), password: password.to_owned(), ..Access::at(SERVER) }
    }

    #[test]
    fn a_kubeconfig_is_read_as_it_was_written() {
        let insecure = Access { insecure: true, authority: String::new(), ..Access::by_token(SERVER, "t") };
        for access in [
            Access::by_certificate(SERVER, "a2V5"),
            Access::by_token(SERVER, "t"),
            by_password("p"),
            insecure,
        ] {
            let text = access.kubeconfig();
            assert_eq!(Access::decode(&STANDARD.encode(&text)), Some(access), "{text}");
        }
    }

    #[test]
    fn a_kubeconfig_without_contexts_is_read_if_there_is_no_choice() {
        let one =
            "clusters: [{name: a, cluster: {server: 'https://a/'}}]\nusers: [{name: b, user: {token: t}}]";
        let read = Access::decode(&STANDARD.encode(one)).expect("a kubeconfig");
        assert_eq!((&*read.server, &*read.token), ("https://a", "t"));
        let two = one.replace("users: [", "users: [{name: c, user: {}}, ");
        for text in [&two, "", "{}", "clusters: []", ": :", "a: &a [*a]"] {
            assert_eq!(Access::decode(&STANDARD.encode(text)), None, "{text}");
        }
        assert_eq!(Access::decode("not base64"), None);
    }

    #[test]
    fn a_client_is_let_in_with_the_right_credentials_only() {
        let credentials = Err("the server has asked for the client to provide credentials");
        let authority =
            Err("tls: failed to verify certificate: x509: certificate signed by unknown authority");
        let both = Err("specifying a root certificates file with the insecure flag is not allowed");
        let (token, certificate) = (Access::by_token(SERVER, "t"), Access::by_certificate(SERVER, "a2V5"));
        let unknown = Access { authority: String::new(), ..token.clone() };
        let table = [
            (&token, token.clone(), Ok(())),
            (&token, Access::by_token(SERVER, "u"), credentials),
            (&token, Access::by_token(SERVER, ""), credentials),
            (&Access::by_token(SERVER, ""), Access::by_token(SERVER, ""), credentials),
            (&token, certificate.clone(), credentials),
            (&certificate, certificate.clone(), Ok(())),
            (&certificate, Access::by_certificate(SERVER, "b3RoZXI="), credentials),
            (&by_password("p"), by_password("p"), Ok(())),
            (&by_password("p"), by_password("q"), credentials),
            (&token, unknown.clone(), authority),
            (&token, Access { insecure: true, ..unknown.clone() }, Ok(())),
            (&token, Access { insecure: true, ..token.clone() }, both),
            (&unknown, token.clone(), authority),
        ];
        for (cluster, client, expected) in table {
            assert_eq!(cluster.admits(&client), expected, "{cluster:?} {client:?}");
        }
    }
}
