//! How much a server may send, and how long it may take.

use std::time::Duration;

/// The bounds of one link. The default is what the service uses; tests make some of it smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Pages of a listing.
    pub pages: usize,
    /// Tools of a listing.
    pub tools: usize,
    /// Bytes of an answer, of an event, and of all pages of a listing together.
    pub bytes: usize,
    /// Time for a whole listing.
    pub listing: Duration,
    /// Time for each step of a beginning.
    pub opening: Duration,
    /// Time for a push channel to open.
    pub push_opening: Duration,
    /// Time without a byte after which a push channel is taken for dead.
    pub silence: Duration,
    /// Bytes that a push channel may send without saying anything.
    pub noise: usize,
    /// A push channel that lived for this long was a healthy one.
    pub healthy: Duration,
    /// The first pause before a push channel is opened again.
    pub retry: Duration,
    /// The longest pause before a push channel is opened again.
    pub longest_retry: Duration,
    /// The pause before a server that says it has no push channel is asked again.
    pub recheck: Duration,
    /// Time for the goodbye.
    pub closing: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pages: 100,
            tools: 10_000,
            bytes: 16 << 20,
            listing: Duration::from_mins(1),
            opening: Duration::from_secs(15),
            push_opening: Duration::from_secs(10),
            silence: Duration::from_mins(5),
            noise: 1 << 20,
            healthy: Duration::from_secs(10),
            retry: Duration::from_secs(1),
            longest_retry: Duration::from_mins(1),
            recheck: Duration::from_mins(10),
            closing: Duration::from_secs(1),
        }
    }
}
