//! An API server that serves one request at a time, as a map.

use std::collections::BTreeMap;

use lockstep_tests::histories::{Answer, Data, Request, Stored, WatchEvent};

/// The server.
#[derive(Debug, Default)]
pub(crate) struct Reference {
    pub(crate) revision: u64,
    pub(crate) objects: BTreeMap<String, Stored>,
    /// The events of all changes.
    pub(crate) log: Vec<WatchEvent>,
}

impl Reference {
    /// Executes a request.
    pub(crate) fn answer(&mut self, request: &Request) -> Answer {
        match request {
            Request::Create { name, data } => self.create(name, data),
            Request::Update { name, data, version } => match self.objects.get(name) {
                None => Answer::NotFound,
                Some(stored) if version.is_some_and(|version| version != stored.version) => Answer::Conflict,
                Some(_) => self.modify(name, data.clone()),
            },
            Request::Patch { name, key, value } => match self.objects.get(name) {
                None => Answer::NotFound,
                Some(stored) => {
                    let mut data = stored.data.clone();
                    data.insert(key.clone(), value.clone());
                    self.modify(name, data)
                }
            },
            Request::Delete { name, uid, version } => self.delete(name, uid.as_deref(), *version),
            Request::Get { name } => self.objects.get(name).cloned().map_or(Answer::NotFound, Answer::Object),
            Request::List => Answer::List { revision: self.revision, items: self.objects.clone() },
        }
    }

    fn create(&mut self, name: &str, data: &Data) -> Answer {
        if self.objects.contains_key(name) {
            return Answer::AlreadyExists;
        }
        self.revision += 1;
        let uid = format!("uid-{}", self.revision);
        let stored = Stored { uid, version: self.revision, data: data.clone() };
        self.objects.insert(name.to_owned(), stored.clone());
        self.log.push(WatchEvent::Added(name.to_owned(), stored.clone()));
        Answer::Object(stored)
    }

    fn modify(&mut self, name: &str, data: Data) -> Answer {
        let stored = self.objects.get_mut(name).expect("the object exists");
        if stored.data != data {
            self.revision += 1;
            *stored = Stored { version: self.revision, data, ..stored.clone() };
            self.log.push(WatchEvent::Modified(name.to_owned(), stored.clone()));
        }
        Answer::Object(stored.clone())
    }

    fn delete(&mut self, name: &str, uid: Option<&str>, version: Option<u64>) -> Answer {
        let Some(stored) = self.objects.get(name) else { return Answer::NotFound };
        if uid.is_some_and(|uid| uid != stored.uid)
            || version.is_some_and(|version| version != stored.version)
        {
            return Answer::Conflict;
        }
        self.revision += 1;
        let last = Stored { version: self.revision, ..stored.clone() };
        self.objects.remove(name);
        let uid = last.uid.clone();
        self.log.push(WatchEvent::Deleted(name.to_owned(), last));
        Answer::Deleted { uid }
    }
}
