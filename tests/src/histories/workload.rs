//! The requests of a client, drawn from its seed and from what it has read.

use std::collections::BTreeMap;

use lockstep_engine::random::Random;

use super::history::{Answer, Data, Request, Stored};

/// The names of the objects of a history, besides [`LAST`](super::LAST).
pub const NAMES: [&str; 3] = ["a", "b", "c"];

/// What a client has read last about each object. The object may have changed since then, or be gone.
type Known = BTreeMap<String, Stored>;

/// The requests of one client. Each write has a value of its own, so its effect can be recognised.
#[derive(Debug)]
pub struct Workload {
    client: usize,
    random: Random,
    known: Known,
    drawn: usize,
}

/// The kinds of requests, in the frequency in which they are drawn.
const KINDS: [Kind; 26] = {
    use Kind::{Create, Delete, DeleteUid, DeleteVersion, Get, List, Patch, Replace, Update, UpdateVersion};
    [
        Create,
        Create,
        Create,
        Create, //
        Update,
        Update,
        Update,
        UpdateVersion,
        UpdateVersion,
        UpdateVersion,
        UpdateVersion,
        UpdateVersion, //
        Replace,
        Replace,
        Patch,
        Patch,
        Patch,
        Patch, //
        Delete,
        DeleteUid,
        DeleteVersion, //
        Get,
        Get,
        Get,
        List,
        List,
    ]
};

#[derive(Debug, Clone, Copy)]
enum Kind {
    Create,
    Update,
    UpdateVersion,
    /// An update with the data and the version that the client has read, which changes nothing.
    Replace,
    Patch,
    Delete,
    DeleteUid,
    DeleteVersion,
    Get,
    List,
}

impl Workload {
    /// Returns the workload of a client.
    pub fn new(seed: u64, client: usize) -> Self {
        let random = Random::from_seed(Random::from_seed(seed).bits() ^ client as u64);
        Self { client, random, known: Known::new(), drawn: 0 }
    }

    /// Draws the next request.
    pub fn draw(&mut self) -> Request {
        self.drawn += 1;
        let name = self.random.pick(&NAMES).to_owned();
        let value = format!("{}-{}", self.client, self.drawn);
        let data = Data::from([("v".to_owned(), value.clone())]);
        let known = self.known.get(&name);
        match (self.random.pick(&KINDS), known) {
            (Kind::Create, _) => Request::Create { name, data },
            (Kind::Update, _) => Request::Update { name, data, version: None },
            (Kind::UpdateVersion, Some(known)) => {
                Request::Update { name, data, version: Some(known.version) }
            }
            (Kind::Replace, Some(known)) => {
                Request::Update { name, data: known.data.clone(), version: Some(known.version) }
            }
            (Kind::Patch, _) => Request::Patch { name, key: format!("p{}", self.client % 2), value },
            (Kind::Delete, _) => Request::Delete { name, uid: None, version: None },
            (Kind::DeleteUid, Some(known)) => {
                Request::Delete { name, uid: Some(known.uid.clone()), version: None }
            }
            (Kind::DeleteVersion, Some(known)) => {
                Request::Delete { name, uid: None, version: Some(known.version) }
            }
            (Kind::List, _) => Request::List,
            (Kind::Get, _)
            | (Kind::UpdateVersion | Kind::Replace | Kind::DeleteUid | Kind::DeleteVersion, None) => {
                Request::Get { name }
            }
        }
    }

    /// Draws whether the client gives up a request; the number of its scheduling turns before that.
    pub fn draw_loss(&mut self, request: &Request) -> Option<u64> {
        let is_lost = request.is_write() && self.random.below(30) == 0;
        is_lost.then(|| 1 << self.random.below(12))
    }

    /// Takes note of the answer to the last request.
    pub fn learn(&mut self, request: &Request, answer: &Answer) {
        match (request.name(), answer) {
            (Some(name), Answer::Object(stored)) => {
                self.known.insert(name.to_owned(), stored.clone());
            }
            (_, Answer::List { items, .. }) => {
                self.known.extend(items.iter().map(|(name, stored)| (name.clone(), stored.clone())));
            }
            _ => {}
        }
    }
}
