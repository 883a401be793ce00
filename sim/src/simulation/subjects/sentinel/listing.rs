//! The way through one list, as a process should go it.

use std::collections::BTreeSet;

use lockstep_core::engine::action::{Class, Outcome};

use super::oracle::Page;
use crate::simulation::subject::Testimony;

/// After so many pages in a row that can't be read it is not the pages.
const FAILED_MAX: usize = 6;

/// What came of the pages of a list.
#[derive(Default)]
pub(super) struct Listing {
    /// The pages that failed since one came.
    failed: BTreeSet<String>,
    /// The ids that came.
    ids: BTreeSet<String>,
    /// Whether the page that came last is the last of the list, or brought nothing that had not come before: who asks for more
    /// goes round.
    is_at_its_end: bool,
    /// Whether the API does not let the list be read.
    is_refused: bool,
}

impl Listing {
    /// Takes in what came of a page, which is none if the answer is no page.
    pub(super) fn answered(&mut self, url: &str, page: Option<&Page>, outcome: &Outcome) {
        match page {
            Some(page) => {
                self.failed.clear();
                let news = page.ids().filter(|id| self.ids.insert((*id).to_owned())).count();
                // Who asks for what follows an id and is given that id speaks to an API that does not understand it.
                let is_misunderstood = page.ids().any(|id| url.contains(id));
                self.is_at_its_end = page.is_last(url) || news == 0 || is_misunderstood;
            }
            None => {
                self.failed.insert(url.to_owned());
            }
        }
        let refusals = [Class::Forbidden, Class::NotFound, Class::Gone];
        self.is_refused = outcome.as_ref().is_err_and(|failure| refusals.contains(&failure.class));
    }

    /// Judges a list with which the process is through.
    pub(super) fn ended(&self) -> Result<(), Testimony> {
        let is_read = self.is_at_its_end && self.failed.is_empty();
        if is_read || self.is_refused || self.failed.len() >= FAILED_MAX {
            return Ok(());
        }
        Err(Testimony {
            invariant: "a_failing_page_holds_back_no_other",
            sentence: "A cycle asks for every page of the list, whichever of them fail, unless the API refuses or six fail in a row.",
            seen: format!(
                "the cycle ended before the end of the list; the pages that failed last: {:?}",
                self.failed
            ),
        })
    }
}
