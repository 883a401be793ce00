//! Logs, on stderr.

use anyhow::Context as _;
use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// What libraries tell where the level is a plain one; whatever matters of it comes to us as errors.
const LIBRARIES: &str =
    "kube_runtime=off,hyper=warn,hyper_util=warn,opentelemetry_sdk=warn,tower=warn,rustls=warn,h2=warn";

/// The kube client logs bodies that it can't read, which may be Secrets, and lapin the frames of its logins.
const NEVER: [&str; 5] =
    ["kube_client=off", "kube_client::client=off", "lapin=off", "lapin::io_loop=off", "lapin::frames=off"];

/// Begins to log. `level` is a level or a list of directives such as `info,lockstep_shell=debug`.
pub(crate) fn start(level: &str, format: Format) -> anyhow::Result<()> {
    let plain = level.parse::<LevelFilter>().is_ok();
    let directives = if plain { format!("{level},{LIBRARIES}") } else { level.to_owned() };
    let mut filter = EnvFilter::try_new(directives).with_context(|| format!("log level {level:?}"))?;
    for directive in NEVER {
        filter = filter.add_directive(directive.parse()?);
    }
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        Format::Text => {
            builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).with_target(false).init();
        }
        Format::Json => builder.json().flatten_event(true).with_target(false).init(),
    }
    Ok(())
}
