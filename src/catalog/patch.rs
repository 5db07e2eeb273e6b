//! A field of an edit: not there, null, or a value.

use serde::{Deserialize, Deserializer};

/// What an edit says of one field. Fields of this type need `#[serde(default)]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Patch<T> {
    /// The edit does not speak of it.
    #[default]
    Absent,
    /// It is to be emptied.
    Null,
    /// It is to be this.
    Value(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Patch<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Null, Self::Value))
    }
}

impl<T> Patch<T> {
    /// What the field becomes: `Some(None)` when it is emptied, `None` when it stays.
    pub fn change(self) -> Option<Option<T>> {
        match self {
            Self::Absent => None,
            Self::Null => Some(None),
            Self::Value(value) => Some(Some(value)),
        }
    }

    /// The value, where null means the same as nothing said.
    pub fn value(self) -> Option<T> {
        self.change().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_absent_from_null() {
        #[derive(Deserialize)]
        struct Edit {
            #[serde(default)]
            field: Patch<i64>,
        }
        let read = |json: &str| serde_json::from_str::<Edit>(json).map(|edit| edit.field.change());
        assert_eq!(read("{}").ok(), Some(None));
        assert_eq!(read(r#"{"field":null}"#).ok(), Some(Some(None)));
        assert_eq!(read(r#"{"field":1}"#).ok(), Some(Some(Some(1))));
        assert!(read(r#"{"field":"1"}"#).is_err());
    }
}
