//! Logs, on stderr.

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::misuse::Misuse;

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// The log levels of libraries for a plain level. Their important errors are returned to our code.
const LIBRARIES: &str =
    "kube_runtime=off,hyper=warn,hyper_util=warn,opentelemetry_sdk=warn,tower=warn,rustls=warn,h2=warn";

/// Targets that are never logged. The kube client logs bodies that it can't parse, which may be Secrets, and lapin logs the
/// frames of its logins.
const NEVER: [&str; 5] =
    ["kube_client=off", "kube_client::client=off", "lapin=off", "lapin::io_loop=off", "lapin::frames=off"];

/// Starts logging. `level` is a level or a list of directives such as `info,lockstep=debug`.
pub(crate) fn start(level: &str, format: Format) -> anyhow::Result<()> {
    let filter = filter(level).with_context(|| format!("log level {level:?}")).map_err(Misuse::of)?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        Format::Text => {
            builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).with_target(false).init();
        }
        Format::Json => builder.json().flatten_event(true).with_target(false).init(),
    }
    Ok(())
}

fn filter(level: &str) -> anyhow::Result<EnvFilter> {
    // A filter reads a bare word that is no level as the name of a module, so a misspelt level would silence all other modules.
    let is_misspelt = |word: &&str| !word.contains(['=', '[']) && !is_level(word);
    if let Some(word) = level.split(',').find(is_misspelt) {
        bail!(
            "{word:?} is not a log level; use off, error, warn, info, debug or trace, or directives such as \
             info,lockstep=debug"
        );
    }
    let directives = if is_level(level) { format!("{level},{LIBRARIES}") } else { level.to_owned() };
    let mut filter = EnvFilter::try_new(directives)?;
    for directive in NEVER {
        filter = filter.add_directive(directive.parse()?);
    }
    Ok(filter)
}

fn is_level(word: &str) -> bool {
    // The empty word would be parsed as a level.
    !word.is_empty() && word.parse::<LevelFilter>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_directives_are_taken() {
        for level in ["off", "error", "warn", "INFO", "debug", "trace", "3", "lockstep=debug,info"] {
            assert!(filter(level).is_ok(), "{level}");
        }
    }

    #[test]
    fn a_misspelt_level_is_refused() {
        for level in ["warning", "verbose", "inof", "", "inof,lockstep=debug", "info,lockstep"] {
            let error = filter(level).expect_err(level).to_string();
            assert!(error.contains("off, error, warn, info, debug or trace"), "{error}");
        }
        assert!(filter("lockstep=loud").is_err());
    }
}
