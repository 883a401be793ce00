//! Traces, as W3C Trace Context writes them: `00-<trace>-<span>-01`, all of them sampled.
//!
//! The id of a trace's first span is the second half of the trace's own id: who knows any span of the trace knows the span that
//! all the others lie in.

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
    /// A new one.
    pub fn begin(random: &mut Random) -> Self {
        // An id of zeros alone is not valid.
        Self { id: [random.bits(), random.bits() | 1] }
    }

    /// Its first span, within which all others lie.
    pub fn first(&self) -> String {
        self.with(self.id[1])
    }

    /// Another span.
    pub fn span(&self, random: &mut Random) -> String {
        self.with(random.bits() | 1)
    }

    fn with(&self, span: u64) -> String {
        let [high, low] = self.id;
        format!("00-{high:016x}{low:016x}-{span:016x}-01")
    }
}

/// The ids in a `traceparent`: that of the trace and that of the span. None if it is none.
pub fn ids(traceparent: &str) -> Option<(&str, &str)> {
    let mut parts = traceparent.split('-').skip(1);
    parts.next().zip(parts.next())
}

/// The id of the span within which a span lies, given the ids of its trace and its own; none for the first of the trace.
pub fn parent<'t>(trace: &'t str, span: &str) -> Option<&'t str> {
    trace.get(16..).filter(|first| *first != span)
}

/// The same trace with another span.
pub fn again(traceparent: &mut String, random: &mut Random) {
    // Of version, trace, span and flags, the span is the third.
    traceparent.replace_range(36..52, &format!("{:016x}", random.bits() | 1));
}

/// Something that took a while and has ended: a span as it is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Its trace and its own id.
    pub traceparent: String,
    /// What it was, such as `sentinel.poll`.
    pub name: Cow<'static, str>,
    /// How long it took.
    pub took: Duration,
    /// What is known about it: texts and numbers.
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
