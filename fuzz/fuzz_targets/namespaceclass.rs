#![no_main]

#[path = "../../tests/src/fuzz/always_ok.rs"]
mod always_ok;
// The ordinary tests replay the corpus through the same function.
#[path = "../../tests/src/fuzz/namespaceclass.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::namespaceclass(data));
