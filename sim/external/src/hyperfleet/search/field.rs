//! The fields of a search.

use std::borrow::Cow;

use super::refused::Refused;
use super::value::Value;
use crate::hyperfleet::resource::{Condition, Resource, USER};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Field {
    Id,
    Name,
    Generation,
    User,
    CreatedTime,
    UpdatedTime,
    DeletedTime,
    Owner,
    Label(String),
    /// A path into the specification.
    Spec(Vec<String>),
    /// The status of a condition; it supports only equality.
    Condition(String),
    LastUpdated(String),
    LastTransition(String),
    ObservedGeneration(String),
}

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    /// A text column of the database.
    Text,
    /// A text within JSON, which may be compared with numbers.
    Json,
    Number,
    Time,
}

impl Field {
    pub(crate) fn parse(name: &str) -> Result<Self, Refused> {
        let unknown = || Refused(format!("{name} is not a valid field name"));
        Ok(match name {
            "id" => Self::Id,
            "name" => Self::Name,
            "generation" => Self::Generation,
            "created_by" | "updated_by" => Self::User,
            "created_time" => Self::CreatedTime,
            "updated_time" => Self::UpdatedTime,
            "deleted_time" => Self::DeletedTime,
            "owner_id" => Self::Owner,
            _ => {
                let below = |prefix| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
                if let Some(key) = below("labels.") {
                    Self::Label(key.to_owned())
                } else if let Some(path) = below("spec.") {
                    Self::Spec(path.split('.').map(str::to_owned).collect())
                } else if let Some(condition) = below("status.conditions.") {
                    Self::of_condition(condition).ok_or_else(unknown)?
                } else {
                    return Err(unknown());
                }
            }
        })
    }

    fn of_condition(path: &str) -> Option<Self> {
        let Some((kind, part)) = path.split_once('.') else { return Some(Self::Condition(path.to_owned())) };
        let kind = kind.to_owned();
        Some(match part {
            "last_updated_time" => Self::LastUpdated(kind),
            "last_transition_time" => Self::LastTransition(kind),
            "observed_generation" => Self::ObservedGeneration(kind),
            _ => return None,
        })
    }

    pub(super) fn holds(&self) -> Type {
        match self {
            Self::Id | Self::Name | Self::User | Self::Owner | Self::Condition(_) => Type::Text,
            Self::Label(_) | Self::Spec(_) => Type::Json,
            Self::Generation | Self::ObservedGeneration(_) => Type::Number,
            Self::CreatedTime
            | Self::UpdatedTime
            | Self::DeletedTime
            | Self::LastUpdated(_)
            | Self::LastTransition(_) => Type::Time,
        }
    }

    /// Returns whether it refers to a condition.
    pub(crate) fn is_of_condition(&self) -> bool {
        matches!(
            self,
            Self::Condition(_) | Self::LastUpdated(_) | Self::LastTransition(_) | Self::ObservedGeneration(_)
        )
    }

    /// Returns the resource's value; none for SQL's NULL.
    pub(crate) fn of<'a>(&self, resource: &'a Resource) -> Option<Value<'a>> {
        let text = |text: &'a str| Value::Text(Cow::Borrowed(text));
        let condition = |kind: &str| -> Option<&'a Condition> { resource.condition(kind) };
        match self {
            Self::Id => Some(text(&resource.id)),
            Self::Name => Some(text(&resource.name)),
            Self::Generation => Some(Value::Number(resource.generation)),
            Self::User => Some(text(USER)),
            Self::CreatedTime => Some(Value::Time(resource.created)),
            Self::UpdatedTime => Some(Value::Time(resource.updated)),
            Self::DeletedTime => resource.deleted.map(Value::Time),
            Self::Owner => resource.owner.as_deref().map(text),
            Self::Label(key) => resource.labels.get(key).map(|value| text(value)),
            Self::Spec(path) => match path.iter().try_fold(&*resource.spec, |value, key| value.get(key))? {
                serde_json::Value::Null => None,
                serde_json::Value::String(found) => Some(text(found)),
                other => Some(Value::Text(Cow::Owned(other.to_string()))),
            },
            Self::Condition(kind) => condition(kind).map(|found| text(found.status.name())),
            Self::LastUpdated(kind) => condition(kind).map(|found| Value::Time(found.last_updated_time)),
            Self::LastTransition(kind) => {
                condition(kind).map(|found| Value::Time(found.last_transition_time))
            }
            Self::ObservedGeneration(kind) => {
                condition(kind).map(|found| Value::Number(found.observed_generation))
            }
        }
    }
}
