//! How fast the simulator searches: `cargo bench -p lockstep-subjects --bench simulation`.

use std::io::Write as _;
use std::time::{Duration, Instant};

use lockstep_sim::{Search, Simulation};
use lockstep_subjects as subjects;

const SEEDS: u64 = 1000;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    for subject in subjects::all() {
        let simulation = Simulation::new(subject);
        let search = Search {
            seeds: 0..SEEDS,
            stormy: Duration::from_hours(1),
            faults: Vec::new(),
            threads,
            keep_going: true,
        };
        let began = Instant::now();
        let summary = search.run(&simulation, &|_| ());
        let took = began.elapsed().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = |count: u64| count as f64 / took;
        writeln!(
            out,
            "{}: {SEEDS} seeds on {threads} threads in {took:.1} s: {:.0} simulated hours a minute, {:.0} steps and {:.0} \
             requests a second",
            subject.name(),
            summary.simulated.as_secs_f64() / 60.0 / took,
            rate(summary.steps),
            rate(summary.requests),
        )?;
    }
    Ok(())
}
