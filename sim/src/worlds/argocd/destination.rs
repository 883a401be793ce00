//! The clusters that Argo CD knows, each by a Secret, and how it gets in.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lockstep_core::object::{ObjectRef, label, metadata, resource_version};
use serde_json::Value;

use super::{NAMESPACE, SECRET_TYPE};
use crate::worlds::dpf::cluster_kind;
use crate::worlds::dpu_clusters::{Access, Kubeconfigs, is_reachable};
use crate::worlds::look::Look;
use crate::worlds::{reference, secret_kind};

/// By server: the version of the Secret by which Argo CD got in there last, and where.
pub(super) type Cache = BTreeMap<String, (u64, ObjectRef)>;

/// Where an Application goes.
#[derive(Debug)]
pub(super) struct Destination<'a> {
    /// By which Argo CD knows the cluster.
    pub(super) secret: &'a Value,
    pub(super) server: String,
    pub(super) name: String,
    access: Option<Access>,
}

/// The destination of an Application, or what is wrong with it.
pub(super) fn find<'a>(look: &Look<'a>, application: &Value) -> Result<Destination<'a>, String> {
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
        "" => format!("error getting cluster by server {server:?}: cluster {server:?} not found"),
        name => format!("there are no clusters with this name: {name}"),
    })
}

impl Destination<'_> {
    #[cfg(test)]
    pub(super) fn for_tests<'a>(secret: &'a Value, server: &str, name: &str) -> Destination<'a> {
        Destination { secret, server: server.to_owned(), name: name.to_owned(), access: None }
    }

    /// The DPUCluster as Argo CD has it in its cache, and why it is not reached: that a cluster does not answer any more is noticed
    /// only when something is to be changed there. What was never reached, or has another Secret since, is in no cache.
    pub(super) fn look_up<'a>(
        &self,
        look: &Look<'a>,
        kubeconfigs: &mut Kubeconfigs,
        cache: &mut Cache,
    ) -> Result<(&'a Value, Option<String>), String> {
        let version = resource_version(self.secret);
        match self.reach(look, kubeconfigs) {
            Ok(cluster) => {
                cache.insert(self.server.clone(), (version, reference(&cluster_kind(), cluster)));
                Ok((cluster, None))
            }
            Err(why) => {
                let known = cache.get(&self.server).filter(|(known, _)| *known == version);
                let cluster = known.and_then(|(_, target)| look.get(target));
                match cluster.filter(|cluster| !is_reachable(cluster)) {
                    Some(cluster) => Ok((cluster, Some(why))),
                    None => Err(why),
                }
            }
        }
    }

    /// The DPUCluster that is reached there; an error if Argo CD does not get in.
    pub(super) fn reach<'a>(
        &self,
        look: &Look<'a>,
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
