//! Decides which cluster owns a server. Argo CD identifies clusters by their server: with two Secrets for one server, it
//! would look for deployed objects on the wrong cluster.
//!
//! Source: decisions on clusters that are gone.

use lockstep_engine::object::Name;

use crate::model::cluster::Cluster;
use crate::store::Store;
use crate::store::cluster_access::{Found, Rival};

/// Returns the clusters that have not been reconciled yet.
fn unresolved(store: &Store) -> impl Iterator<Item = &Name> {
    let is_unresolved = |name: &Name, cluster: &Cluster| {
        let uids =
            [store.found.get(name).map(|found| &found.uid), store.claims.get(name).map(|claim| &claim.uid)];
        !uids.contains(&Some(&cluster.uid))
    };
    store.staying().filter(move |(name, cluster)| is_unresolved(name, cluster)).map(|(name, _)| name)
}

/// Returns whether an older cluster has not been reconciled yet.
pub fn has_unresolved_older(store: &Store, key: &Name) -> bool {
    unresolved(store).any(|name| name != key && store.is_older(name, key))
}

/// Returns the oldest of the clusters that have not been reconciled yet: it does not wait for others.
pub fn eldest_unresolved(store: &Store) -> Option<&Name> {
    unresolved(store).reduce(|one, other| if store.is_older(other, one) { other } else { one })
}

/// Returns another cluster with the same server. It is the cluster whose Secret names the server. Otherwise it is the
/// cluster whose Secret is being written. Otherwise, if this cluster never owned the server, it is an older one that
/// waits for it too.
pub fn older_claimant(store: &Store, key: &Name, server: &str) -> Option<Rival> {
    let says = |name: &Name| store.found.get(name).and_then(|found| found.server.as_deref());
    let is_older = |rival: &&Name| *rival != key && store.is_older(rival, key);
    let rival = if store.clusters_with_server(server).any(|holder| holder == key) {
        let mut holders =
            store.clusters_with_server(server).filter(|name| says(name).is_none_or(|said| said == server));
        holders.find(is_older)
    } else {
        let mut holders =
            store.clusters_with_server(server).filter(|holder| !waits_for(store, holder, server, key));
        let sharers = || {
            store.found.iter().filter(|(name, found)| {
                *name != key && found.server.as_deref() == Some(server) && store.stays(name).is_some()
            })
        };
        let mut claims = store.claims.iter().filter(|(name, claim)| *name != key && claim.server == server);
        let has_claimed = store.claims.get(key).is_some_and(|claim| claim.server == server);
        let had_it =
            has_claimed || store.found.get(key).and_then(Found::used_server).as_deref() == Some(server);
        holders
            .next()
            .or_else(|| claims.next().map(|(name, _)| name))
            .or_else(|| sharers().find(|(_, found)| found.rival.is_none()).map(|(name, _)| name))
            .or_else(|| sharers().map(|(name, _)| name).filter(|_| !had_it).find(is_older))
    };
    rival.map(|cluster| Rival { cluster: cluster.clone(), stays: store.stays(cluster).is_some() })
}

/// Returns whether the holder of a server waits for another server, whose holder waits in turn, and so on, down to this
/// cluster: then one of them has to begin.
fn waits_for(store: &Store, holder: &Name, server: &str, key: &Name) -> bool {
    let (mut holder, mut held) = (holder, server);
    for _ in 0..store.found.len() {
        let said = store.found.get(holder).and_then(|found| found.server.as_deref());
        let Some(wanted) = said.filter(|said| *said != held) else { return false };
        let Some(next) = store.clusters_with_server(wanted).find(|next| *next != holder) else {
            return false;
        };
        if next == key {
            return true;
        }
        (holder, held) = (next, wanted);
    }
    false
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{Fixture, cluster};
    use crate::names::SERVER;
    use crate::store::cluster_access::Claim;

    /// Clusters `a`, `b` and `c`, the oldest first; the servers in their Secrets and in their kubeconfigs; empty means none.
    fn store(secrets: [&str; 3], kubeconfigs: [&str; 3]) -> Store {
        let mut fixture = Fixture::default();
        let names = ["a", "b", "c"];
        for name in names {
            fixture.cluster(name, "Ready");
        }
        for (name, server) in names.into_iter().zip(secrets).filter(|(_, server)| !server.is_empty()) {
            fixture.secret(name, |object| object["metadata"]["annotations"][SERVER] = json!(server));
        }
        for (name, server) in names.into_iter().zip(kubeconfigs).filter(|(_, server)| !server.is_empty()) {
            fixture.found(name, server);
        }
        fixture.store
    }

    fn rival(store: &Store, of: &str, server: &str) -> Option<String> {
        older_claimant(store, &cluster(of), server).map(|rival| rival.cluster.name)
    }

    #[test]
    fn a_server_belongs_to_the_cluster_with_a_secret_and_kubeconfig_that_name_it() {
        for (secrets, kubeconfigs, of, expected) in [
            // Both have it: the older one, as long as its kubeconfig has not left it.
            (["s", "s", ""], ["s", "s", ""], "b", Some("a")),
            (["s", "s", ""], ["", "s", ""], "b", Some("a")),
            (["s", "s", ""], ["t", "s", ""], "b", None),
            (["s", "s", ""], ["s", "s", ""], "a", None),
            // Another has it, whether it is older or not.
            (["", "s", ""], ["s", "s", ""], "a", Some("b")),
            (["", "s", ""], ["s", "t", ""], "a", Some("b")),
            (["s", "", ""], ["t", "s", ""], "b", Some("a")),
            // Each waits for the server of the next one: one of them has to begin.
            (["t", "s", ""], ["s", "t", ""], "a", None),
            (["t", "u", "s"], ["s", "t", "u"], "a", None),
            (["t", "u", "s"], ["s", "t", "s"], "a", Some("c")),
            (["t", "u", "s"], ["s", "u", "u"], "a", Some("c")),
            // None has it.
            (["", "", ""], ["s", "s", ""], "b", Some("a")),
            (["", "", ""], ["", "s", "s"], "a", Some("b")),
            (["", "", ""], ["t", "s", ""], "b", None),
        ] {
            let store = store(secrets, kubeconfigs);
            assert_eq!(
                rival(&store, of, "s").as_deref(),
                expected,
                "{of}: Secrets {secrets:?}, kubeconfigs {kubeconfigs:?}"
            );
        }
    }

    #[test]
    fn a_secret_that_is_being_written_claims_its_server() {
        let mut store = store(["", "", ""], ["", "", ""]);
        let claim = |server: &str| Claim { uid: "c".into(), server: server.to_owned() };
        store.claims.insert(cluster("c"), claim("s"));
        assert_eq!(rival(&store, "a", "s").as_deref(), Some("c"));
        assert_eq!(rival(&store, "c", "s"), None, "its own claim");
        assert_eq!(rival(&store, "a", "t"), None);
    }

    /// Each waits for an older one, and the oldest for none.
    #[test]
    fn of_clusters_that_wait_for_a_server_the_oldest_gets_it() {
        let mut store = store(["", "", ""], ["s", "s", "s"]);
        let waits = Rival { cluster: cluster("gone"), stays: false };
        for found in store.found.values_mut() {
            found.rival = Some(waits.clone());
        }
        let rivals = ["a", "b", "c"].map(|of| rival(&store, of, "s"));
        assert_eq!(rivals.map(Option::unwrap_or_default), ["", "a", "a"]);
    }
}
