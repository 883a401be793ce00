//! Where the chart of a DPUService comes from.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A Helm chart in a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!self.repoURL.startsWith('oci://') || self.repoURL.matches(r'^oci://[^/]*(/[a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*)*/?$')",
        "message": "a path in an OCI registry has lower-case letters and digits, with '.', '_', '__' or '-' between them, such as oci://registry.example.com/team/charts",
        "fieldPath": ".repoURL",
    },
    {
        "rule": "!self.repoURL.startsWith('oci://') || self.chart.matches(r'^[a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*$')",
        "message": "the name of a chart in an OCI registry has lower-case letters and digits, with '.', '_', '__' or '-' between them",
        "fieldPath": ".chart",
    },
]))]
pub struct Source {
    /// The URL of the chart's repository, such as `https://helm.ngc.nvidia.com/nvidia` or `oci://registry.example.com/charts`.
    /// Credentials for it are a repository Secret of Argo CD.
    #[serde(rename = "repoURL")]
    #[schemars(schema_with = "repo_url")]
    pub repo_url: String,
    /// The chart's version, such as v1.1.1, or a range of which the newest version is taken, such as 1.x.
    #[schemars(schema_with = "version")]
    pub version: String,
    /// The chart's name.
    #[schemars(schema_with = "chart")]
    pub chart: String,
}

/// RFC 3986 without a fragment, and without a user: every Application would contain the password.
fn repo_url(_: &mut SchemaGenerator) -> Schema {
    let label = "[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?";
    let host = format!(r"({label}(\.{label})*\.?|\[[0-9A-Fa-f:.]+\])(:[0-9]{{1,5}})?");
    let character = r"[A-Za-z0-9._~!$&()*+,;=:@%/-]";
    json_schema!({
        "type": "string",
        "maxLength": 2048,
        "x-kubernetes-validations": [{
            "rule": format!(r"self.matches(r'^(oci|https?)://{host}(/{character}*)?(\?{character}*)?$')"),
            "message": "must be the URL of a chart repository: oci://, https:// or http://, a host, and a path if need be, such as https://helm.ngc.nvidia.com/nvidia; a user and a password belong into a repository Secret of Argo CD",
        }],
    })
}

/// What Helm takes: a semantic version, of which parts may be missing, or comparisons of such versions.
fn version(_: &mut SchemaGenerator) -> Schema {
    let number = "(0|[1-9][0-9]{0,17}|[xX*])";
    let identifier = "(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)";
    let version = format!(
        r"v?{number}(\.{number})?(\.{number})?(-{identifier}(\.{identifier})*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
    );
    let comparison = format!("((=|!=|>|<|>=|=>|<=|=<|~|~>|\\^) *)?{version}");
    let alternative = format!("({comparison}(( *, *| +){comparison})*|{version} +- +{version})");
    json_schema!({
        "type": "string",
        "maxLength": 256,
        "x-kubernetes-validations": [{
            "rule": format!(r"self.matches(r'^{alternative}( *\|\| *{alternative})*$')"),
            "message": "must be a semantic version such as 1.1.1 or v1.1.1, or a range of versions as Helm takes it, such as 1.x, ^1.2 or '>=1.2 <2'",
        }],
    })
}

/// What Helm takes; folders belong to the URL.
fn chart(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "maxLength": 250,
        "x-kubernetes-validations": [{
            "rule": "self.matches('^[A-Za-z0-9][A-Za-z0-9._-]*$')",
            "message": "must be the name of a chart: letters, digits, '.', '_' and '-', beginning with a letter or digit; folders belong into repoURL",
        }],
    })
}
