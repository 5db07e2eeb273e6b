//! Time as a parameter, so that tests can hold it.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::{Decode, Encode, Postgres, Sqlite, Type};

/// A UTC instant with millisecond precision: what JavaScript clients can represent and what both
/// databases round-trip exactly (`timestamptz` in PostgreSQL, unix milliseconds in SQLite).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// After everything.
    pub const NEVER: Self = Self(i64::MAX);

    /// From milliseconds since the unix epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the unix epoch.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// This instant moved into the future.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    /// This instant moved into the past.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(
            self.0
                .saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)),
        )
    }

    fn to_chrono(self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.0).unwrap_or(DateTime::<Utc>::MAX_UTC)
    }
}

/// ISO-8601 in UTC with three digits of milliseconds (contract 1.4).
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            &self
                .to_chrono()
                .to_rfc3339_opts(SecondsFormat::Millis, true),
        )
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DateTime::<Utc>::deserialize(deserializer).map(|at| Self(at.timestamp_millis()))
    }
}

impl Type<Postgres> for Timestamp {
    fn type_info() -> <Postgres as sqlx::Database>::TypeInfo {
        <DateTime<Utc> as Type<Postgres>>::type_info()
    }
}

impl Encode<'_, Postgres> for Timestamp {
    fn encode_by_ref(
        &self,
        buf: &mut <Postgres as sqlx::Database>::ArgumentBuffer,
    ) -> Result<IsNull, BoxDynError> {
        <DateTime<Utc> as Encode<'_, Postgres>>::encode_by_ref(&self.to_chrono(), buf)
    }
}

impl Decode<'_, Postgres> for Timestamp {
    fn decode(value: <Postgres as sqlx::Database>::ValueRef<'_>) -> Result<Self, BoxDynError> {
        <DateTime<Utc> as Decode<'_, Postgres>>::decode(value).map(|at| Self(at.timestamp_millis()))
    }
}

impl Type<Sqlite> for Timestamp {
    fn type_info() -> <Sqlite as sqlx::Database>::TypeInfo {
        <i64 as Type<Sqlite>>::type_info()
    }
    fn compatible(ty: &<Sqlite as sqlx::Database>::TypeInfo) -> bool {
        <i64 as Type<Sqlite>>::compatible(ty)
    }
}

impl Encode<'_, Sqlite> for Timestamp {
    fn encode_by_ref(
        &self,
        buf: &mut <Sqlite as sqlx::Database>::ArgumentBuffer,
    ) -> Result<IsNull, BoxDynError> {
        <i64 as Encode<'_, Sqlite>>::encode_by_ref(&self.0, buf)
    }
}

impl Decode<'_, Sqlite> for Timestamp {
    fn decode(value: <Sqlite as sqlx::Database>::ValueRef<'_>) -> Result<Self, BoxDynError> {
        <i64 as Decode<'_, Sqlite>>::decode(value).map(Self)
    }
}

/// Where the product asks for the time. One is made at the start and handed down; tests hand down
/// one they can move.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The wall clock, now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that asks the machine"
    )]
    fn now(&self) -> Timestamp {
        Timestamp(Utc::now().timestamp_millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_three_digits_of_milliseconds_in_utc() {
        assert_eq!(
            Timestamp::from_millis(1_770_685_323_456).to_string(),
            "2026-02-10T01:02:03.456Z"
        );
        assert_eq!(
            Timestamp::from_millis(0).to_string(),
            "1970-01-01T00:00:00.000Z"
        );
    }

    #[test]
    fn moves_without_overflow() {
        assert_eq!(
            Timestamp::from_millis(5).plus(Duration::MAX).millis(),
            i64::MAX
        );
        assert_eq!(
            Timestamp::from_millis(5)
                .minus(Duration::from_millis(7))
                .millis(),
            -2
        );
    }
}
