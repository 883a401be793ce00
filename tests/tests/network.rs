//! The real shell and the real kube client on a simulated network: a hundred seeds, each twice.

use lockstep_tests::network::{self};

#[test]
fn trial() {
    let from: u64 = std::env::var("FROM").map_or(0, |v| v.parse().unwrap());
    let to: u64 = std::env::var("TO").map_or(10, |v| v.parse().unwrap());
    for seed in from..to {
        let began = std::time::Instant::now();
        let report = network::run(seed, None, std::env::var("TIMELINE").is_ok());
        println!(
            "{seed} {:?} {} settled {:?} elapsed {:?} late {} {:?} {:?}",
            began.elapsed(),
            &report.hash[..12],
            report.settled_after,
            report.elapsed,
            report.late_writes,
            report.faults,
            report.violated
        );
        if std::env::var("TIMELINE").is_ok() {
            println!("{}", report.timeline);
        }
    }
}
