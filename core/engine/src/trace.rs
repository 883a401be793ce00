//! Traces in the format of W3C Trace Context: `00-<trace>-<span>-01`, all of them sampled.
//!
//! The id of a trace's first span is the second half of the trace's own id. So from any span of the trace, the id of the span
//! that contains all others is known.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::random::Random;

/// A trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    id: [u64; 2],
}

impl Trace {
    /// Starts a new trace.
    pub fn begin(random: &mut Random) -> Self {
        // An id of zeros alone is not valid.
        Self { id: [random.bits(), random.bits() | 1] }
    }

    /// Returns its first span, which contains all others.
    pub fn first(&self) -> String {
        self.with(self.id[1])
    }

    /// Returns another span.
    pub fn span(&self, random: &mut Random) -> String {
        self.with(random.bits() | 1)
    }

    fn with(&self, span: u64) -> String {
        let [high, low] = self.id;
        format!("00-{high:016x}{low:016x}-{span:016x}-01")
    }
}

/// Returns the ids in a `traceparent`: that of the trace and that of the span. `None` if it is not a valid one.
pub fn ids(traceparent: &str) -> Option<(&str, &str)> {
    let mut parts = traceparent.split('-').skip(1);
    parts.next().zip(parts.next())
}

/// Returns the id of the parent of a span, given the ids of its trace and its own; `None` for the first span of the trace.
pub fn parent<'t>(trace: &'t str, span: &str) -> Option<&'t str> {
    trace.get(16..).filter(|first| *first != span)
}

/// Replaces the span with a new one of the same trace.
pub fn again(traceparent: &mut String, random: &mut Random) {
    // The span is the third field, after version and trace and before the flags.
    traceparent.replace_range(36..52, &format!("{:016x}", random.bits() | 1));
}

/// A finished span.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Its trace and its own id.
    pub traceparent: String,
    /// Its name, such as `sentinel.poll`.
    pub name: Cow<'static, str>,
    /// How long it took.
    pub took: Duration,
    /// Its attributes: texts and numbers.
    pub attributes: BTreeMap<Cow<'static, str>, Value>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spans_of_a_trace_lie_in_its_first() {
        let mut random = Random::from_seed(1);
        let trace = Trace::begin(&mut random);
        let (first, span) = (trace.first(), trace.span(&mut random));
        let (id, first) = ids(&first).unwrap();
        assert_eq!(parent(id, first), None);
        assert_eq!(ids(&span).map(|(of, span)| (of, parent(id, span))), Some((id, Some(first))));

        let mut next = span.clone();
        again(&mut next, &mut random);
        assert_eq!(next.len(), span.len());
        assert_eq!((&next[..36], &next[52..]), (&span[..36], &span[52..]));
        assert_ne!(next, span);
        assert_eq!(ids("00-"), None);
    }
}
