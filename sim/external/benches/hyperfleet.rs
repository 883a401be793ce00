//! What a page of the HyperFleet model costs: `cargo bench -p lockstep-external --bench hyperfleet`.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use jiff::Timestamp;
use lockstep_external::hyperfleet::{API, Dialect, HyperFleet, Kind, Labels};

const RESOURCES: usize = 100_000;

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let regions: [Arc<Labels>; 2] = ["us-east", "eu-west"]
        .map(|region| Arc::new([("region".to_owned(), region.to_owned())].into_iter().collect()));
    let began = Instant::now();
    let mut fleet = HyperFleet::new(Dialect::Released, 0);
    fleet.populate(RESOURCES, |number| Arc::clone(&regions[number % 2]), Timestamp::UNIX_EPOCH);
    writeln!(out, "{RESOURCES} clusters created in {:?}", began.elapsed())?;

    let ids: Vec<String> = fleet.resources(Kind::Cluster).map(|cluster| cluster.id.clone()).collect();
    let began = Instant::now();
    for id in &ids {
        fleet.report(id, true, Timestamp::UNIX_EPOCH);
    }
    writeln!(out, "{RESOURCES} clusters reported in {:?}", began.elapsed())?;

    let shard = "labels.region%3D'us-east'%20and%20";
    for (name, search) in [("all clusters", ""), ("half of the clusters", shard)] {
        let (mut after, mut times, mut bytes) = ("0", Vec::new(), 0);
        loop {
            let uri = format!("{API}/clusters?order=id%20asc&size=100&search={search}id%20%3E%20'{after}'");
            let request = http::Request::get(uri).body(Bytes::new()).map_err(std::io::Error::other)?;
            let began = Instant::now();
            let answer = fleet.handle(&request, Timestamp::UNIX_EPOCH);
            times.push(began.elapsed());
            bytes += answer.body().len();
            // Every second cluster is in the shard; the pages of either walk end where the ids do.
            let step = if search.is_empty() { 100 } else { 200 };
            match ids.get(times.len() * step - 1) {
                Some(last) => after = last,
                None => break,
            }
        }
        let first = times[0];
        times.sort();
        writeln!(
            out,
            "{name}: {} pages in {:?}, {} KiB each; the first {first:?}, median {:?}, longest {:?}",
            times.len(),
            times.iter().sum::<Duration>(),
            bytes / times.len() / 1024,
            times[times.len() / 2],
            times[times.len() - 1],
        )?;
    }

    let mut fleet = HyperFleet::new(Dialect::Documented, 0);
    fleet.populate(RESOURCES, |number| Arc::clone(&regions[number % 2]), Timestamp::UNIX_EPOCH);
    let request =
        http::Request::get(format!("{API}/clusters")).body(Bytes::new()).map_err(std::io::Error::other)?;
    let began = Instant::now();
    let answer = fleet.handle(&request, Timestamp::UNIX_EPOCH);
    writeln!(out, "documented: one page of {} KiB in {:?}", answer.body().len() / 1024, began.elapsed())
}
