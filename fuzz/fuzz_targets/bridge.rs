#![no_main]

#[path = "../../tests/src/fuzz/always_ok.rs"]
mod always_ok;
#[path = "../../tests/src/fuzz/documents.rs"]
mod documents;
// The ordinary tests replay the corpus through the same function.
#[path = "../../tests/src/fuzz/bridge.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::bridge(data));
