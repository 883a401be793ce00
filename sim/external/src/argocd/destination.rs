//! The clusters that are registered with Argo CD, each by a Secret, and the access to them.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_engine::object::{ObjectRef, ResourceVersion, label, metadata};
use lockstep_engine::time::Monotonic;
use serde_json::Value;

use super::model::{NAMESPACE, SECRET_TYPE};
use crate::dpu_clusters::{Access, Kubeconfigs, cluster_kind, is_reachable};
use crate::kinds::{reference, secret_kind};
use crate::read_view::ReadView;

/// How long Argo CD uses its cache after a cluster has started to refuse its credentials: its open watches continue.
const UNNOTICED: Duration = Duration::from_secs(75);

/// The clusters that Argo CD has accessed, by server.
pub(super) type Cache = BTreeMap<String, Known>;

/// A cluster in Argo CD's cache.
#[derive(Debug, Clone)]
pub(super) struct Known {
    /// The version of the Secret that gave access.
    secret: ResourceVersion,
    cluster: ObjectRef,
    /// Since when the credentials are refused.
    refused: Option<Monotonic>,
}

/// The destination of an Application.
#[derive(Debug)]
pub(super) struct Destination<'a> {
    /// The Secret that registers the cluster with Argo CD.
    pub(super) secret: &'a Value,
    pub(super) server: String,
    pub(super) name: String,
    access: Option<Access>,
}

/// Returns the destination of an Application, or what is wrong with it.
pub(super) fn find<'a>(look: &ReadView<'a>, application: &Value) -> Result<Destination<'a>, String> {
    let wanted = &application["spec"]["destination"];
    let (name, server) = (text(&wanted["name"]), text(&wanted["server"]).trim_end_matches('/'));
    if !name.is_empty() && !server.is_empty() {
        return Err(format!(
            "application destination can't have both name and server defined: {name} {server}"
        ));
    }
    if name.is_empty() && server.is_empty() {
        return Err("Destination server missing from app spec".to_owned());
    }
    let known = look.all(&secret_kind()).filter(|secret| {
        metadata(secret, "namespace") == NAMESPACE && label(secret, SECRET_TYPE) == Some("cluster")
    });
    let mut known = known.filter_map(|secret| {
        let (of_server, of_name) = (decoded(secret, "server"), decoded(secret, "name"));
        let of_server = of_server.trim_end_matches('/');
        let is_meant = if name.is_empty() { of_server == server } else { of_name == name };
        is_meant.then(|| Destination {
            secret,
            server: of_server.to_owned(),
            name: of_name,
            access: Access::of_argo(secret),
        })
    });
    let found = known.next();
    found.ok_or_else(|| match name {
        "" => format!(
            "error getting cluster by server {server:?}: rpc error: code = NotFound desc = cluster {server:?} not found"
        ),
        name => format!("there are no clusters with this name: {name}"),
    })
}

impl Destination<'_> {
    #[cfg(test)]
    pub(super) fn for_tests<'a>(secret: &'a Value, server: &str, name: &str) -> Destination<'a> {
        Destination { secret, server: server.to_owned(), name: name.to_owned(), access: None }
    }

    /// Returns the DPUCluster from Argo CD's cache, and why it is unreachable. Argo CD notices an unreachable cluster only when a
    /// change has to be deployed, and refused credentials after a while. A cluster that was never accessed, or with another
    /// Secret since, is not in the cache.
    pub(super) fn look_up<'a>(
        &self,
        look: &mut ReadView<'a>,
        kubeconfigs: &mut Kubeconfigs,
        cache: &mut Cache,
    ) -> Result<(&'a Value, Option<String>), String> {
        let version = ResourceVersion::of(self.secret);
        let why = match self.reach(look, kubeconfigs) {
            Ok(cluster) => {
                let known =
                    Known { secret: version, cluster: reference(&cluster_kind(), cluster), refused: None };
                cache.insert(self.server.clone(), known);
                return Ok((cluster, None));
            }
            Err(why) => why,
        };
        let Some(known) = cache.get_mut(&self.server).filter(|known| known.secret == version) else {
            return Err(why);
        };
        let Some(cluster) = look.get(&known.cluster) else { return Err(why) };
        let is_there = kubeconfigs.access(look, cluster).is_ok_and(|access| access.server == self.server);
        let is_unnoticed = if is_reachable(cluster) {
            let since = *known.refused.get_or_insert(look.now.monotonic);
            is_there && !look.put_off_until(&known.cluster, "notice a refusal", since + UNNOTICED, false)
        } else {
            true
        };
        if is_unnoticed { Ok((cluster, Some(why))) } else { Err(why) }
    }

    /// Returns the DPUCluster at that server; an error if Argo CD has no access.
    pub(super) fn reach<'a>(
        &self,
        look: &ReadView<'a>,
        kubeconfigs: &mut Kubeconfigs,
    ) -> Result<&'a Value, String> {
        let server = &self.server;
        let fails = |why: &str| {
            format!("failed to get cluster info for {server:?}: error synchronizing cache state : {why}")
        };
        let Some(client) = &self.access else {
            return Err(fails("failed to unmarshal cluster config"));
        };
        let mut refused = "dial tcp: connect: no route to host";
        for cluster in look.all(&cluster_kind()).filter(|cluster| is_reachable(cluster)) {
            match kubeconfigs.access(look, cluster) {
                Ok(access) if access.server == *server => match access.admits(client) {
                    Ok(()) => return Ok(cluster),
                    Err(why) => refused = why,
                },
                _ => {}
            }
        }
        Err(fails(&format!("Get \"{server}/version?timeout=32s\": {refused}")))
    }
}

fn decoded(secret: &Value, key: &str) -> String {
    let decoded = STANDARD.decode(text(&secret["data"][key])).unwrap_or_default();
    String::from_utf8(decoded).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
