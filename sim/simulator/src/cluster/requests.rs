//! Requests to the API server, and the changes that they make.

use bytes::Bytes;
use lockstep_apiserver::server::Response;

use super::faults::FaultModel;
use super::journal::{Author, Change, What};
use super::state::Cluster;

impl<W: FaultModel> Cluster<W> {
    /// Sends a request as a user would. The answer to a watch is its response head.
    pub fn request(&mut self, request: &http::Request<Bytes>) -> http::Response<Bytes> {
        self.request_as(Author::Client("user"), request)
    }

    /// Sends a request in the name of `author`.
    pub fn request_as(&mut self, author: Author, request: &http::Request<Bytes>) -> http::Response<Bytes> {
        let (now, before) = (self.timestamp(), self.server.revision());
        let response = match self.server.handle(request, now) {
            Response::Complete(response) => response,
            Response::Watch(head, id) => {
                self.server.cancel_watch(id);
                head.map(|()| Bytes::new())
            }
        };
        self.changed(author, before);
        response
    }

    /// Records a change of the server in the journal, notifies the watches and wakes the actors.
    pub(super) fn changed(&mut self, by: Author, before: u64) {
        if self.server.revision() == before {
            return;
        }
        for changed in self.server.changes_since(before) {
            let change = Change { by, object: changed.object, old: changed.old, new: changed.new };
            self.note(What::Changed(change));
        }
        self.tick_at = Some(self.clock);
        self.look();
    }
}
