//! The value of `--what-if`: a step, and the edit of its event.

use lockstep_engine::action::ErrorKind;
use lockstep_engine::recording::edit::Edit;
use serde_json::Value;

/// The forms of an edit.
const FORMS: &str = "STEP:drop, STEP:fail=CLASS or STEP:patch=JSON";

/// An edit of one step.
#[derive(Debug, Clone)]
pub(super) struct EditedStep {
    /// The number of the step.
    pub(super) step: u64,
    pub(super) edit: Edit,
    /// The value as it was written.
    pub(super) text: String,
}

/// Parses the value of the flag.
pub(super) fn parse(text: &str) -> Result<EditedStep, String> {
    let Some((step, edit)) = text.split_once(':') else {
        return Err(format!("it has no colon; write {FORMS}"));
    };
    let step = step.parse().map_err(|_| {
        format!("{step:?} is not the number of a step; write {FORMS}, such as 31:drop for step 31")
    })?;
    let edit = match edit.split_once('=') {
        None if edit == "drop" => Edit::Drop,
        Some(("fail", class)) => Edit::Fail(parse_class(class)?),
        Some(("patch", patch)) => parse_patch(patch)?,
        _ => return Err(format!("{edit:?} is not an edit; write {FORMS}")),
    };
    Ok(EditedStep { step, edit, text: text.to_owned() })
}

fn parse_class(name: &str) -> Result<ErrorKind, String> {
    ErrorKind::ALL.into_iter().find(|class| class.name() == name).ok_or_else(|| {
        let classes = ErrorKind::ALL.map(ErrorKind::name).join(", ");
        format!("{name:?} is not a class of failure; these exist: {classes}")
    })
}

fn parse_patch(text: &str) -> Result<Edit, String> {
    const EXAMPLE: &str = r#"write a JSON object in quotes, such as '31:patch={"metadata":{"labels":null}}'"#;
    match serde_json::from_str(text) {
        Ok(Value::Object(patch)) => Ok(Edit::Patch(patch)),
        Ok(_) => Err(format!("the patch is not a JSON object; {EXAMPLE}")),
        Err(error) => Err(format!("the patch is not JSON ({error}); {EXAMPLE}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_parsed() {
        let read = |text: &str| parse(text).map(|edited| (edited.step, edited.edit));
        assert_eq!(read("31:drop"), Ok((31, Edit::Drop)));
        for class in ErrorKind::ALL {
            assert_eq!(read(&format!("7:fail={class}")), Ok((7, Edit::Fail(class))));
        }
        let patch = [("a".to_owned(), Value::from("x=:y"))].into_iter().collect();
        assert_eq!(read(r#"1:patch={"a":"x=:y"}"#), Ok((1, Edit::Patch(patch))));
    }

    #[test]
    fn an_unreadable_edit_is_explained() {
        let table = [
            ("31", "no colon"),
            ("", "no colon"),
            ("x:drop", "\"x\" is not the number of a step"),
            ("-1:drop", "\"-1\" is not the number of a step"),
            ("31:", "\"\" is not an edit"),
            ("31:drop=1", "is not an edit"),
            ("31:fail", "is not an edit"),
            ("31:fail=Forbidden", "these exist: not_found, "),
            ("31:patch={", "the patch is not JSON"),
            ("31:patch=[1]", "the patch is not a JSON object"),
        ];
        for (text, part) in table {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
