//! How fast the simulator searches: `cargo bench -p lockstep-subjects --bench simulation -- [SEEDS] [CONTROLLER]`.

use std::io::Write as _;
use std::time::Instant;

use lockstep_sim::{Search, Simulation};
use lockstep_subjects as subjects;

const SEEDS: u64 = 100;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let seeds = std::env::args().find_map(|given| given.parse().ok()).unwrap_or(SEEDS);
    let named: Vec<_> = std::env::args().collect();
    let all = || subjects::all().into_iter();
    let chosen: Vec<_> = all().filter(|subject| named.iter().any(|name| name == subject.name())).collect();
    for subject in if chosen.is_empty() { all().collect() } else { chosen } {
        let simulation = Simulation::new(subject);
        for threads in [1, 2] {
            let stormy = subject.stormy();
            let search = Search { seeds: 0..seeds, stormy, faults: Vec::new(), threads, keep_going: true };
            let began = Instant::now();
            let summary = search.run(&simulation, &|_| ());
            let took = began.elapsed().as_secs_f64();
            #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
            let rate = |count: u64| count as f64 / took;
            writeln!(
                out,
                "{}: {seeds} seeds on {threads} threads in {took:.1} s: {} requests, {:.0} requests and {:.0} steps a second, \
                 {:.0} simulated hours a minute, hash {}",
                subject.name(),
                summary.requests,
                rate(summary.requests),
                rate(summary.steps),
                summary.simulated.as_secs_f64() / 60.0 / took,
                summary.hash,
            )?;
        }
    }
    Ok(())
}
