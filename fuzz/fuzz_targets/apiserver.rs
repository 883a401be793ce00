#![no_main]

use std::sync::atomic::{AtomicU64, Ordering};

// The ordinary tests replay the corpus through the same function.
#[path = "../../tests/src/fuzz/apiserver.rs"]
mod target;

const MILLION: u64 = 1_000_000;

static SENT: AtomicU64 = AtomicU64::new(0);

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let sent = target::apiserver(data);
    let before = SENT.fetch_add(sent, Ordering::Relaxed);
    // The fuzzer counts inputs, of which each has any number of requests.
    if before / MILLION < (before + sent) / MILLION {
        eprintln!("{} million requests sent", (before + sent) / MILLION);
    }
});
