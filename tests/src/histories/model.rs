//! The sequential specification of one object.

use super::history::{Answer, Data, Request, Stored};

/// The state of an object, as far as the calls so far determine it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// It does not exist. The next one has a version above this.
    Absent { above: u64 },
    /// It exists.
    Present(Present),
}

/// An existing object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Present {
    /// Its uid; `None` after a creation without an answer.
    uid: Option<String>,
    version: Version,
    data: Data,
}

/// The version of an existing object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    Is(u64),
    /// It is above this one, because a write without an answer has set it.
    Above(u64),
}

/// What a call does to an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Effect<'h> {
    /// It has read this state.
    Read(Option<&'h Stored>),
    /// It was answered so; `None` if the answer was lost.
    Write(&'h Request, Option<&'h Answer>),
}

impl State {
    /// Returns the state after a call; `None` if the call can't have this answer in this state.
    ///
    /// A call without an answer takes effect here; if it never does, it is not a step.
    pub(super) fn after(&self, effect: Effect<'_>) -> Option<Self> {
        match effect {
            Effect::Read(None) => self.is_absent().then(|| self.clone()),
            Effect::Read(Some(stored)) => self.observed(stored),
            Effect::Write(request, None) => self.changed(request),
            Effect::Write(request, Some(answer)) => self.answered(request, answer),
        }
    }

    fn answered(&self, request: &Request, answer: &Answer) -> Option<Self> {
        let is_creation = matches!(request, Request::Create { .. });
        let is_absent = self.is_absent();
        match answer {
            Answer::Object(stored) => self.changed(request)?.observed(stored),
            Answer::Deleted { uid } => {
                let Self::Present(present) = self else { return None };
                let is_deletion = matches!(request, Request::Delete { .. });
                if is_deletion && present.may_have_uid(uid) { self.changed(request) } else { None }
            }
            Answer::AlreadyExists => (is_creation && !is_absent).then(|| self.clone()),
            Answer::NotFound => (!is_creation && is_absent).then(|| self.clone()),
            Answer::Conflict => self.may_conflict(request).then(|| self.clone()),
            Answer::List { .. } => None,
        }
    }

    /// Returns the state after a request that succeeds; `None` if it can't succeed in this state.
    fn changed(&self, request: &Request) -> Option<Self> {
        match (self, request) {
            (Self::Absent { above }, Request::Create { data, .. }) => Some(Self::Present(Present {
                uid: None,
                version: Version::Above(*above),
                data: data.clone(),
            })),
            (Self::Present(present), Request::Update { data, version, .. }) => {
                Some(present.expecting(*version)?.with(data.clone()))
            }
            (Self::Present(present), Request::Patch { key, value, .. }) => {
                let mut data = present.data.clone();
                data.insert(key.clone(), value.clone());
                Some(present.clone().with(data))
            }
            (Self::Present(present), Request::Delete { uid, version, .. }) => {
                let present = present.expecting(*version)?;
                let has_uid = uid.as_ref().is_none_or(|uid| present.may_have_uid(uid));
                has_uid.then(|| Self::Absent { above: present.version.least() })
            }
            (Self::Absent { .. }, _)
            | (Self::Present(_), Request::Create { .. } | Request::Get { .. } | Request::List) => None,
        }
    }

    fn is_absent(&self) -> bool {
        matches!(self, Self::Absent { .. })
    }

    /// Returns the state of which this was read; `None` if it can't be this one.
    fn observed(&self, stored: &Stored) -> Option<Self> {
        let Self::Present(present) = self else { return None };
        let is_same = present.data == stored.data
            && present.version.may_be(stored.version)
            && present.may_have_uid(&stored.uid);
        is_same.then(|| {
            Self::Present(Present {
                uid: Some(stored.uid.clone()),
                version: Version::Is(stored.version),
                data: stored.data.clone(),
            })
        })
    }

    fn may_conflict(&self, request: &Request) -> bool {
        let Self::Present(present) = self else { return false };
        let other_version =
            |version: &Option<u64>| version.is_some_and(|version| present.version != Version::Is(version));
        match request {
            Request::Update { version, .. } => other_version(version),
            Request::Delete { uid, version, .. } => {
                other_version(version) || (uid.is_some() && present.uid != *uid)
            }
            Request::Create { .. } | Request::Patch { .. } | Request::Get { .. } | Request::List => false,
        }
    }
}

impl Present {
    fn may_have_uid(&self, uid: &str) -> bool {
        self.uid.as_deref().is_none_or(|own| own == uid)
    }

    /// Returns the object if it may have the expected version.
    fn expecting(&self, version: Option<u64>) -> Option<Self> {
        let Some(version) = version else { return Some(self.clone()) };
        let is_met = self.version.may_be(version);
        is_met.then(|| Self { version: Version::Is(version), ..self.clone() })
    }

    /// Returns the state with other data. A write that changes nothing keeps the version.
    fn with(self, data: Data) -> State {
        if data == self.data {
            return State::Present(self);
        }
        State::Present(Self { version: Version::Above(self.version.least()), data, ..self })
    }
}

impl Version {
    fn may_be(self, version: u64) -> bool {
        match self {
            Self::Is(own) => own == version,
            Self::Above(least) => version > least,
        }
    }

    /// Returns the version that it is, or that it is above.
    fn least(self) -> u64 {
        match self {
            Self::Is(version) | Self::Above(version) => version,
        }
    }
}
