//! Mistakes with the IPAddressPools and L2Advertisements of bridges.

use std::sync::Arc;

use lockstep_bridge::names::{BRIDGE_NAME, is_labelled};
use lockstep_engine::action::{Action, KubeRequest, Outcome, Request, Success};
use lockstep_engine::machine::{Event, Step};
use lockstep_engine::object::{Name, is_deleting, label};
use lockstep_sim::bugs::Flaw;
use serde_json::{Value, json};

use super::super::common::{Known, as_if_done, is, retell};

/// It does not see the addresses of pools of other clients.
#[derive(Default)]
pub(super) struct Overlaps;

impl Flaw for Overlaps {
    fn event(&mut self, event: Event) -> Option<Event> {
        Some(retell(event, "IPAddressPool", |pool| {
            // A bridge without a pool of its own needs these.
            let is_shared = pool["metadata"]["name"] == "vips";
            if label(pool, BRIDGE_NAME).is_none() && !is_shared {
                pool["spec"]["addresses"] = json!([]);
            }
        }))
    }
}

#[derive(Default)]
pub(super) struct KeepsChanges;

impl Flaw for KeepsChanges {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        is(&request.action, "apply", "IPAddressPool").then(|| Ok(as_if_done(&request.action)))
    }
}

#[derive(Default)]
pub(super) struct LeavesPool;

impl Flaw for LeavesPool {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        is(&request.action, "delete", "IPAddressPool").then_some(Ok(Success::Done))
    }
}

#[derive(Default)]
pub(super) struct DeletesFirst {
    known: Known,
    going: Vec<Name>,
}

impl Flaw for DeletesFirst {
    fn event(&mut self, event: Event) -> Option<Event> {
        if let Some((_, bridge)) = self.known.absorb(&event, "DPFHCPBridge")
            && is_deleting(&bridge)
        {
            self.going.push(Name::of(&bridge));
        }
        Some(event)
    }

    fn step(&mut self, step: &mut Step) {
        for bridge in std::mem::take(&mut self.going) {
            self.known.remove(step, "IPAddressPool", |pool| is_labelled(pool, &bridge));
        }
    }
}

#[derive(Default)]
pub(super) struct ForgetsAdvertisement;

impl Flaw for ForgetsAdvertisement {
    fn request(&mut self, request: &mut Request) -> Option<Outcome> {
        let Action::Kube(KubeRequest::Create { target, manifest }) = &request.action else { return None };
        if target.kind.kind != "L2Advertisement" {
            return None;
        }
        let mut created = Value::clone(manifest);
        created["metadata"]["uid"] = json!("not-there");
        // Newer than everything that was listed.
        created["metadata"]["resourceVersion"] = json!("1000000000");
        Some(Ok(Success::Object(Arc::new(created))))
    }
}
