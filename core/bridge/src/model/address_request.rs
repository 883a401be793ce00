//! The requests for an address from MetalLB.

use std::net::IpAddr;
use std::time::Duration;

use lockstep_engine::backoff::Backoff;
use lockstep_engine::time::Monotonic;
use serde::{Deserialize, Serialize};

/// The backoff of repeated requests for a free address that MetalLB has not assigned.
pub const BACKOFF: Backoff = Backoff { initial: Duration::from_secs(30), max: Duration::from_mins(10) };

/// The last request for a free address.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AddressRequest {
    /// The address.
    pub address: IpAddr,
    at: Monotonic,
    times: u32,
}

impl AddressRequest {
    /// Returns a request that is made now, after an earlier one for the same address.
    pub fn after(earlier: Option<&Self>, address: IpAddr, now: Monotonic) -> Self {
        let times = earlier.map_or(0, |earlier| earlier.times).saturating_add(1);
        Self { address, at: now, times }
    }

    /// Returns when it is due to be repeated.
    pub fn due(&self) -> Monotonic {
        self.at + BACKOFF.ceiling(self.times)
    }
}
