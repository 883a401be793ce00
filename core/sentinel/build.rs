//! Collects the words that are no secrets in a recording.

fn main() {
    lockstep_words::collect();
}
