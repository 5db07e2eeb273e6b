//! JSON in a text column: key order survives on both databases, which `jsonb` would not keep.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::{Database, Decode, Encode, Type};

/// A value stored as compact JSON text.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonText<T>(pub T);

impl<T, DB: Database> Type<DB> for JsonText<T>
where
    String: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        <String as Type<DB>>::type_info()
    }
    fn compatible(ty: &DB::TypeInfo) -> bool {
        <String as Type<DB>>::compatible(ty)
    }
}

impl<'q, T: Serialize, DB: Database> Encode<'q, DB> for JsonText<T>
where
    String: Encode<'q, DB>,
{
    fn encode_by_ref(&self, buf: &mut DB::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
        serde_json::to_string(&self.0)?.encode(buf)
    }
}

impl<'r, T: DeserializeOwned, DB: Database> Decode<'r, DB> for JsonText<T>
where
    &'r str: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        let text = <&str as Decode<'r, DB>>::decode(value)?;
        Ok(Self(serde_json::from_str(text)?))
    }
}
