//! The registry's answer about a release image.
//!
//! A registry that does not answer proves nothing: the last answer counts, and without one the image is accepted. The status
//! reports that, and the registry is queried again until it has answered. A verified image is not queried again.

use std::time::Duration;

use lockstep_engine::action::{ErrorKind, Failure};
use lockstep_engine::backoff::RETRY_AFTER_MAX;
use lockstep_engine::image::FoundImage;
use lockstep_engine::time::Monotonic;
use serde::{Deserialize, Serialize};

use crate::parse::version::ReleaseVersion;

/// The time for which a registry's answer is valid.
const FRESH: Duration = Duration::from_mins(10);

/// The delay until a registry that did not answer is queried again.
const RETRY: Duration = Duration::from_mins(1);

/// A registry's answer about an image.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Checked {
    image: String,
    /// The version of the pull secret that was used.
    secret: String,
    at: Monotonic,
    answer: Result<FoundImage, Failure>,
    /// The failure of the last query, if the registry has not answered since.
    problem: Option<Failure>,
}

impl Checked {
    /// Stores an answer. If the registry did not answer, the last answer about the same image is kept.
    pub fn take(
        before: Option<Self>,
        image: &str,
        secret: String,
        answer: Result<FoundImage, Failure>,
        now: Monotonic,
    ) -> Self {
        match (before.filter(|before| before.is_of(image) && before.is_definite()), answer) {
            (Some(before), Err(failure)) if !is_definite(&failure) => {
                Self { secret, at: now, problem: Some(failure), ..before }
            }
            (_, answer) => Self { image: image.to_owned(), secret, at: now, answer, problem: None },
        }
    }

    /// Returns whether it is about this image.
    pub fn is_of(&self, image: &str) -> bool {
        self.image == image
    }

    /// Returns when the registry is due for the next query with this version of the pull secret.
    pub fn due(&self, secret: &str) -> Monotonic {
        if self.secret == secret { self.at + self.fresh() } else { Monotonic::START }
    }

    /// Returns when the next query is due, unless the registry has the image.
    pub fn retry_at(&self) -> Option<Monotonic> {
        self.answer.is_err().then(|| self.at + self.fresh())
    }

    fn fresh(&self) -> Duration {
        let failure = self.problem.as_ref().or(self.answer.as_ref().err());
        let retry_after = failure.and_then(|failure| failure.retry_after).unwrap_or_default();
        retry_after.min(RETRY_AFTER_MAX).max(if self.is_definite() && self.problem.is_none() {
            FRESH
        } else {
            RETRY
        })
    }

    fn is_definite(&self) -> bool {
        self.answer.as_ref().map_or_else(is_definite, |_| true)
    }

    /// Returns whether the registry has the image, as far as is known.
    pub fn is_found(&self) -> bool {
        self.answer.is_ok()
    }

    /// Returns why it is not known whether the registry has the image, and when the next query is due.
    pub fn doubt(&self) -> Option<String> {
        let failure = self.answer.as_ref().err().filter(|failure| !is_definite(failure))?;
        Some(format!(
            "release image {} could not be checked ({}); the registry is asked again until it answers, and HyperShift pulls \
             the image itself",
            self.image, failure.message
        ))
    }

    /// Returns the version from the registry.
    pub fn release(&self) -> Option<ReleaseVersion> {
        ReleaseVersion::of_release(self.answer.as_ref().ok()?.release.as_deref()?)
    }

    /// Returns why the image can't be used, and how to fix that.
    pub fn refusal(&self) -> Option<String> {
        let (image, failure) = (&self.image, self.answer.as_ref().err()?);
        match failure.class {
            ErrorKind::NotFound => Some(format!(
                "release image {image} does not exist in its registry; correct spec.ocpReleaseImage"
            )),
            ErrorKind::Forbidden => Some(format!(
                "the registry of release image {image} does not accept the pull secret ({}); add credentials for it to the \
                 Secret that spec.pullSecretRef names",
                failure.message
            )),
            ErrorKind::Invalid => Some(format!("release image {image}: {}", failure.message)),
            // The result is unknown; the cluster is created all the same.
            ErrorKind::KindNotServed
            | ErrorKind::AlreadyExists
            | ErrorKind::Conflict
            | ErrorKind::Gone
            | ErrorKind::Throttled
            | ErrorKind::Unavailable
            | ErrorKind::Unknown => None,
        }
    }
}

fn is_definite(failure: &Failure) -> bool {
    matches!(failure.class, ErrorKind::NotFound | ErrorKind::Forbidden | ErrorKind::Invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: &str = "registry.example.com/ocp-release:4.20.1-multi";

    fn at(seconds: u64) -> Monotonic {
        Monotonic::START + Duration::from_secs(seconds)
    }

    fn take(before: Option<Checked>, answer: Result<(), ErrorKind>, seconds: u64) -> Checked {
        let found = FoundImage { digest: "sha256:1".to_owned(), release: None };
        let answer = answer.map(|()| found).map_err(|class| Failure::new(class, "no"));
        Checked::take(before, IMAGE, "1".to_owned(), answer, at(seconds))
    }

    #[test]
    fn the_last_answer_counts_while_the_registry_does_not_answer() {
        let found = take(None, Ok(()), 0);
        assert_eq!((found.is_found(), found.due("1"), found.due("2")), (true, at(600), Monotonic::START));
        let silent = take(Some(found.clone()), Err(ErrorKind::Unavailable), 600);
        assert_eq!((silent.is_found(), silent.due("1"), silent.doubt()), (true, at(660), None));
        let refused = take(Some(silent), Err(ErrorKind::Forbidden), 660);
        assert_eq!((refused.is_found(), refused.due("1")), (false, at(1260)));
        let silent = take(Some(refused), Err(ErrorKind::Unavailable), 1260);
        assert!(
            silent.refusal().is_some_and(|refusal| refusal.contains("pull secret")),
            "nothing is known to be better"
        );
        assert!(take(Some(silent), Ok(()), 1320).is_found());
    }

    #[test]
    fn without_an_answer_there_is_doubt() {
        let silent = take(None, Err(ErrorKind::Unavailable), 0);
        assert!(silent.doubt().is_some() && silent.refusal().is_none());
        assert_eq!((silent.due("1"), silent.retry_at()), (at(60), Some(at(60))));
        let still = take(Some(silent), Err(ErrorKind::Unknown), 60);
        assert_eq!((still.due("1"), still.is_found()), (at(120), false));
        assert_eq!(take(Some(still), Ok(()), 120).retry_at(), None);
    }

    #[test]
    fn a_registry_can_ask_for_a_pause_of_five_minutes_at_most() {
        for (class, pause, due) in [
            (ErrorKind::Throttled, Duration::from_mins(2), 120),
            (ErrorKind::Throttled, Duration::from_hours(24), 300),
            // Refusals are checked again after ten minutes.
            (ErrorKind::Forbidden, Duration::from_hours(24), 600),
        ] {
            let failure = Failure { retry_after: Some(pause), ..Failure::new(class, "no") };
            let asked = Checked::take(None, IMAGE, "1".to_owned(), Err(failure), at(0));
            assert_eq!(asked.due("1"), at(due), "{class} {pause:?}");
        }
    }
}
