//! Reads outcomes: each kind of action has one type of value.

use std::sync::Arc;

use serde_json::Value;

use super::{Failure, Outcome, Success};
use crate::image::FoundImage;
use crate::object::Kind;

/// Reads the outcome of an action. What carries out actions gives each one the value that it asked for
/// ([`wire::decode`](crate::wire::decode)). Any other value is a bug, and no decision may follow from it: these functions
/// panic.
pub trait Answer {
    /// Returns the object that a get, apply, create, update or patch read or wrote.
    fn object(self) -> Result<Arc<Value>, Failure>;

    /// Returns the object that a get read; `None` if it does not exist, or if its kind is not served.
    fn found(self) -> Result<Option<Arc<Value>>, Failure>;

    /// Returns the object that a write left, such as one with finalizers after its delete; `None` if it is gone.
    fn remaining(self) -> Result<Option<Arc<Value>>, Failure>;

    /// Returns the objects of a list.
    fn objects(self) -> Result<Vec<Arc<Value>>, Failure>;

    /// Returns the kinds that a discovery found.
    fn kinds(self) -> Result<Vec<Arc<Kind>>, Failure>;

    /// Returns the image that a registry has.
    fn image(self) -> Result<FoundImage, Failure>;

    /// Returns the result of each event of a publish, in their order.
    fn published(self) -> Result<Vec<Result<(), Failure>>, Failure>;
}

impl Answer for Outcome {
    fn object(self) -> Result<Arc<Value>, Failure> {
        match self? {
            Success::Object(object) => Ok(object),
            other => impossible("an action on one object", &other),
        }
    }

    fn found(self) -> Result<Option<Arc<Value>>, Failure> {
        match self {
            Err(failure) if failure.is_absence() => Ok(None),
            outcome => outcome.object().map(Some),
        }
    }

    fn remaining(self) -> Result<Option<Arc<Value>>, Failure> {
        match self? {
            Success::Object(object) => Ok(Some(object)),
            Success::Done => Ok(None),
            other => impossible("a write", &other),
        }
    }

    fn objects(self) -> Result<Vec<Arc<Value>>, Failure> {
        match self? {
            Success::Objects(objects) => Ok(objects),
            other => impossible("a list", &other),
        }
    }

    fn kinds(self) -> Result<Vec<Arc<Kind>>, Failure> {
        match self? {
            Success::Kinds(kinds) => Ok(kinds),
            other => impossible("a discovery", &other),
        }
    }

    fn image(self) -> Result<FoundImage, Failure> {
        match self? {
            Success::Image(image) => Ok(image),
            other => impossible("a query of a registry", &other),
        }
    }

    fn published(self) -> Result<Vec<Result<(), Failure>>, Failure> {
        match self? {
            Success::Published(results) => Ok(results),
            other => impossible("a publish", &other),
        }
    }
}

fn impossible(action: &str, answer: &Success) -> ! {
    unreachable!("{action} was answered with {answer:?}")
}

/// Returns the outcome of a batch of one action.
pub fn only(outcomes: Vec<Outcome>) -> Outcome {
    match <[Outcome; 1]>::try_from(outcomes) {
        Ok([outcome]) => outcome,
        Err(outcomes) => unreachable!("one action has {} outcomes", outcomes.len()),
    }
}

/// Returns the outcome of the next action of a batch.
pub fn next(outcomes: &mut impl Iterator<Item = Outcome>) -> Outcome {
    outcomes.next().unwrap_or_else(|| unreachable!("an action of the batch has no outcome"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::action::Class;

    #[test]
    fn a_missing_object_is_no_failure_of_a_read() {
        let object = Arc::new(json!({ "kind": "Secret" }));
        let read = || Ok(Success::Object(Arc::clone(&object)));
        assert_eq!(read().found(), Ok(Some(Arc::clone(&object))));
        assert_eq!(read().object(), Ok(object.clone()));
        let failed = |class| Outcome::Err(Failure::new(class, "no"));
        for class in Class::ALL {
            let is_absence = matches!(class, Class::NotFound | Class::KindNotServed);
            assert_eq!(failed(class).found().is_ok(), is_absence, "{class}");
            assert_eq!(failed(class).object(), Err(Failure::new(class, "no")));
        }
    }

    #[test]
    fn a_write_leaves_an_object_or_nothing() {
        let object = Arc::new(json!({ "kind": "Secret" }));
        assert_eq!(Ok(Success::Object(Arc::clone(&object))).remaining(), Ok(Some(object)));
        assert_eq!(Outcome::Ok(Success::Done).remaining(), Ok(None));
        // A delete that fails has not shown that the object is gone.
        assert!(Outcome::Err(Failure::new(Class::NotFound, "no")).remaining().is_err());
    }

    #[test]
    #[should_panic = "an action on one object was answered with Done"]
    fn an_impossible_answer_is_rejected_loudly() {
        let _ = Outcome::Ok(Success::Done).object();
    }

    #[test]
    #[should_panic = "a list was answered with Done"]
    fn a_list_is_not_answered_with_anything_else() {
        let _ = Outcome::Ok(Success::Done).objects();
    }

    #[test]
    #[should_panic = "one action has 2 outcomes"]
    fn one_action_has_one_outcome() {
        let _ = only(vec![Ok(Success::Done), Ok(Success::Done)]);
    }
}
