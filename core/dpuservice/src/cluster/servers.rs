//! Decides which cluster owns a server. Argo CD identifies clusters by their server: with two Secrets for one server, it
//! would look for deployed objects on the wrong cluster.
//!
//! Source: decisions on clusters that are gone.

use lockstep_engine::object::Name;
use serde::{Deserialize, Serialize};

use super::Found;
use crate::world::{Cluster, Secret};
use crate::{Controller, Key};

/// A server for which the Secret of a cluster is about to be written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The cluster's uid.
    pub(super) uid: String,
    pub(super) server: String,
}

/// Another cluster with the same server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rival {
    cluster: Name,
    /// Whether it is not being deleted.
    stays: bool,
}

/// Returns the server that a cluster owns.
pub(super) fn used_server(found: &Found) -> Option<String> {
    found.server.clone().filter(|_| found.rival.is_none())
}

/// Returns the result without the request for a server that the cluster never owned.
pub(super) fn unclaimed(found: Found) -> Found {
    Found { server: used_server(&found), rival: None, ..found }
}

impl Rival {
    pub(super) fn words(&self, server: &str) -> String {
        let cluster = &self.cluster;
        if self.stays {
            format!(
                "DPUCluster {cluster} has the same server {server}, by which Argo CD tells clusters apart; give one of them another"
            )
        } else {
            format!(
                "DPUCluster {cluster}, which goes, has the same server {server} until nothing of it is left"
            )
        }
    }
}

impl Controller {
    /// Enqueues the keys that depend on a changed Secret: services depend on the server in it, and other clusters may wait
    /// for that server.
    pub(crate) fn secret_changed(&mut self, before: Option<&Secret>, secret: &Secret) {
        let told = |secret: &Secret| (secret.cluster.clone(), secret.server.clone(), secret.deleting);
        let is_argos = secret.cluster.is_some() || before.is_some_and(|before| before.cluster.is_some());
        if is_argos && before.map(told) != Some(told(secret)) {
            self.wake_services();
        }
        if let Some(Secret { cluster: Some(cluster), server, .. }) = before
            && (cluster, server) != (secret.cluster.as_ref().unwrap_or(cluster), &secret.server)
        {
            self.wake_sharers(cluster, server.as_deref());
        }
    }

    /// Returns the clusters that have not been reconciled yet.
    fn unknown(&self) -> impl Iterator<Item = &Name> {
        let is_unknown = |name: &Name, cluster: &Cluster| {
            let uids = [
                self.world.found.get(name).map(|found| &found.uid),
                self.world.claims.get(name).map(|claim| &claim.uid),
            ];
            !uids.contains(&Some(&cluster.uid))
        };
        self.world.staying().filter(move |(name, cluster)| is_unknown(name, cluster)).map(|(name, _)| name)
    }

    /// Returns whether an older cluster has not been reconciled yet.
    pub(super) fn has_unresolved_older(&self, key: &Name) -> bool {
        self.unknown().any(|name| name != key && self.world.is_older(name, key))
    }

    /// Enqueues the oldest of the clusters that wait for older ones: it no longer has to wait.
    pub(crate) fn wake_eldest_unknown(&mut self) {
        let eldest =
            self.unknown().reduce(|one, other| if self.world.is_older(other, one) { other } else { one });
        self.outbox.woken.extend(eldest.cloned().map(Key::Cluster));
    }

    /// Returns another cluster with the same server. It is the cluster whose Secret names the server. Otherwise it is the
    /// cluster whose Secret is being written. Otherwise, if this cluster never owned the server, it is an older one that
    /// waits for it too.
    pub(super) fn older_claimant(&self, key: &Name, server: &str) -> Option<Rival> {
        let world = &self.world;
        let says = |name: &Name| world.found.get(name).and_then(|found| found.server.as_deref());
        let is_older = |rival: &&Name| *rival != key && world.is_older(rival, key);
        let rival = if world.clusters_with_server(server).any(|holder| holder == key) {
            let mut holders = world
                .clusters_with_server(server)
                .filter(|name| says(name).is_none_or(|said| said == server));
            holders.find(is_older)
        } else {
            let mut holders =
                world.clusters_with_server(server).filter(|holder| !self.waits_for(holder, server, key));
            let sharers = || {
                world.found.iter().filter(|(name, found)| {
                    *name != key && found.server.as_deref() == Some(server) && world.stays(name).is_some()
                })
            };
            let mut claims =
                world.claims.iter().filter(|(name, claim)| *name != key && claim.server == server);
            let has_claimed = world.claims.get(key).is_some_and(|claim| claim.server == server);
            let had_it = has_claimed || world.found.get(key).and_then(used_server).as_deref() == Some(server);
            holders
                .next()
                .or_else(|| claims.next().map(|(name, _)| name))
                .or_else(|| sharers().find(|(_, found)| found.rival.is_none()).map(|(name, _)| name))
                .or_else(|| sharers().map(|(name, _)| name).filter(|_| !had_it).find(is_older))
        };
        rival.map(|cluster| Rival { cluster: cluster.clone(), stays: world.stays(cluster).is_some() })
    }

    /// Returns whether the holder of a server waits for another server, whose holder waits in turn, and so on, down to this
    /// cluster: then one of them has to begin.
    fn waits_for(&self, holder: &Name, server: &str, key: &Name) -> bool {
        let (mut holder, mut held) = (holder, server);
        for _ in 0..self.world.found.len() {
            let said = self.world.found.get(holder).and_then(|found| found.server.as_deref());
            let Some(wanted) = said.filter(|said| *said != held) else { return false };
            let Some(next) = self.world.clusters_with_server(wanted).find(|next| *next != holder) else {
                return false;
            };
            if next == key {
                return true;
            }
            (holder, held) = (next, wanted);
        }
        false
    }

    /// Enqueues the other clusters with this server: they may own it now, or have to release it.
    pub(crate) fn wake_sharers(&mut self, cluster: &Name, server: Option<&str>) {
        let Some(server) = server else { return };
        let sharers = self
            .world
            .found
            .iter()
            .filter(|(other, found)| *other != cluster && found.server.as_deref() == Some(server));
        self.outbox.woken.extend(sharers.map(|(other, _)| Key::Cluster(other.clone())));
    }
}
