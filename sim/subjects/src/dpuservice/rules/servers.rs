//! The servers in Argo CD's Secrets.

use std::collections::BTreeMap;
use std::time::Duration;

use lockstep_dpuservice::names::{self, ARGO_NAMESPACE};
use lockstep_engine::machine::Event;
use lockstep_engine::object::{Name, ObjectRef, metadata};
use lockstep_sim::cluster::What;
use lockstep_sim::history::reference;
use lockstep_sim::invariant::Moment;

use super::super::identity;
use super::super::setup::{cluster_ref, decoded, named_kubeconfig};
use super::past::{STALE, is_leaving};

pub(super) fn a_server_has_one_secret(moment: &Moment<'_>) -> Result<(), String> {
    let process = match &moment.entry.what {
        // In a conflict, a process may write nothing until the next resync, and nothing then.
        What::Stepped { process, event: Event::TimerFired, .. } => Some(*process),
        _ => moment.entry.by_process().map(|(process, _)| process),
    };
    let state = process.and_then(|process| moment.history.process(process));
    let Some(state) = state.filter(|state| state.leading) else { return Ok(()) };
    // While a kind can't be watched, nothing is written.
    let is_recent = |listed: &Duration| *listed + STALE >= moment.entry.at;
    if !state.refused.is_empty() || state.listed.values().any(is_recent) {
        return Ok(());
    }
    let is_settled = |target: &ObjectRef| {
        let last = moment.history.versions(target).last();
        last.is_none_or(|version| version.object.is_some() && version.at + STALE < moment.entry.at)
    };
    let mut known: BTreeMap<String, Name> = BTreeMap::new();
    for secret in moment.server.objects(&names::secret()) {
        let is_argos = metadata(&secret, "namespace") == ARGO_NAMESPACE;
        let Some(cluster) = identity::of_secret(&secret).filter(|_| is_argos) else { continue };
        let server = decoded(&secret, "server");
        // The next attempt to remove one of them may be minutes away.
        if state.is_failing("cluster", &cluster_ref(&cluster)) {
            continue;
        }
        // Without a kubeconfig nothing shows which of two Secrets is right, so both stay.
        let kubeconfig = moment.server.object(&cluster_ref(&cluster)).and_then(|it| named_kubeconfig(it));
        let Some(kubeconfig) = kubeconfig else { continue };
        let targets = [reference(&names::secret(), &secret), cluster_ref(&cluster), kubeconfig];
        // If two clusters swap their servers, one of them may be stuck in an intermediate state.
        let kubeconfig = moment.server.object(&targets[2]);
        let is_usable =
            kubeconfig.is_some_and(|it| decoded(it, "super-admin.conf").contains("server: https"));
        let stays = is_usable && !is_leaving(moment.server.object(&targets[1]));
        if server.is_empty() || !stays || !targets.iter().all(is_settled) {
            continue;
        }
        if let Some(other) = known.insert(server.clone(), cluster.clone()) {
            return Err(format!("Argo CD knows both {other} and {cluster} by {server}"));
        }
    }
    Ok(())
}
