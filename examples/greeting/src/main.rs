//! Runs the greeter on the cluster of the kubeconfig, or on the one that it runs in.

use greeting::Operator;
use lockstep_engine::operator::Config;
use lockstep_runtime::clock::Clock;
use lockstep_runtime::manager::Manager;
use lockstep_runtime::metrics::Metrics;
use lockstep_runtime::{connect, shutdown};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().init();
    let metrics = Metrics::new(prometheus::Registry::new())?;
    let client = connect::client(connect::configuration(None, None).await?, &metrics)?;
    let seed = u64::from(std::process::id());
    let clock = Clock::start(jiff::Timestamp::now);
    let mut manager = Manager::new(client, clock, seed, metrics);
    manager.add(Box::new(Operator::new(Config { seed, ..Config::default() })));
    let (stop, stopped) = shutdown::channel();
    tokio::spawn(async move {
        let _interrupt = tokio::signal::ctrl_c().await;
        stop.pull();
    });
    Ok(manager.run(stopped).await?)
}
