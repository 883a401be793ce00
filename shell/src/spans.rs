//! Exports spans to a collector of OpenTelemetry: OTLP over HTTP, as protobuf.
//!
//! Spans wait in a bounded queue and leave it in batches, on a thread of their own. A collector that is slow or away holds
//! nothing up: spans that find no room, and batches that it does not take in time, are lost, which is logged once.
//!
//! Without the feature `otlp`, [`Spans`] has no value: a program that is configured to export does not start.

#[cfg(not(feature = "otlp"))]
pub use self::disabled::Spans;
#[cfg(feature = "otlp")]
pub use self::otlp::Spans;
pub use self::settings::Settings;

#[cfg(feature = "otlp")]
mod carrier;
#[cfg(not(feature = "otlp"))]
mod disabled;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "otlp")]
mod publication;
mod settings;
