//! The versions of MCP that are spoken here.

/// The version without sessions and without `initialize`: every request says everything.
pub(super) const MODERN: &str = "2026-07-28";

/// A version that begins with `initialize`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Version {
    V2024_10_07,
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
}

impl Version {
    const ALL: [Self; 5] = [
        Self::V2024_10_07,
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
    ];
    /// What a client that names none, or one that we do not know, is offered (contract 4.4).
    pub(super) const NEWEST: Self = Self::V2025_11_25;

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_10_07 => "2024-10-07",
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.as_str() == text)
    }

    /// As one byte of a token.
    pub(super) const fn code(self) -> u8 {
        self as u8
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.code() == code)
    }

    /// Whether a stream begins with an event that has an id and no data. Clients of older versions
    /// take one for a broken message.
    pub(super) fn primes(self) -> bool {
        self >= Self::V2025_11_25
    }

    /// Whether a list of messages may come in one body: in one version they must be taken.
    pub(super) fn batches(self) -> bool {
        self == Self::V2025_03_26
    }
}
