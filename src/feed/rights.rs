//! What the feed asks of whoever knows rights. `auth` answers.

use std::fmt;

use futures_util::future::BoxFuture;

use crate::model::{Ended, Holder, Timestamp};
use crate::store::{Handle, Result};

/// Whether a holder may have a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Yes, until the credential runs out.
    Allowed {
        /// When that is.
        until: Timestamp,
    },
    /// No, and this is what an open stream is told.
    Ended(Ended),
}

/// Knows who may follow what. The same answer admits a stream and keeps it open.
pub trait Rights: Send + Sync + fmt::Debug {
    /// One verdict for each holder, in order, from one query on this connection.
    fn check<'a>(
        &'a self,
        connection: Handle,
        holders: &'a [Holder],
    ) -> BoxFuture<'a, Result<Vec<Verdict>>>;
}
