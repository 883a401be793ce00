#![no_main]

// The ordinary tests replay the corpus through the same function.
#[path = "../../tests/src/fuzz/bridge_input.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::bridge_input(data));
