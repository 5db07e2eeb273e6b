//! Whether those who hold streams still may. The function that admits a stream is the one that
//! checks it later.

use super::{Auth, Result};
use crate::model::{Credential, Ended, Holder, Timestamp};
use crate::store::members::{self, MAX_HOLDERS, Standing};

/// What the rows say about one holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// They may follow, at least...
    Allowed {
        /// ...until then, unless something is taken away before.
        until: Timestamp,
    },
    /// They may not, or no longer.
    Ended(Ended),
}

impl Auth {
    /// Judges every holder, in the order given, with one statement (for up to 8,000).
    pub async fn check_holders(&self, holders: &[Holder]) -> Result<Vec<Verdict>> {
        let now = self.shared.clock.now();
        let mut conn = self.shared.db.read().await?;
        let mut verdicts = Vec::with_capacity(holders.len());
        for some in holders.chunks(MAX_HOLDERS) {
            let asked: Vec<_> = some
                .iter()
                .map(|holder| {
                    let Credential::Session(session) = &holder.credential;
                    (session, &holder.user, &holder.workspace)
                })
                .collect();
            let mut standings = members::standings(&mut conn, &asked).await?;
            standings.sort_unstable_by_key(|standing| standing.place);
            verdicts.extend(standings.iter().map(|standing| judge(standing, now)));
        }
        Ok(verdicts)
    }
}

fn judge(standing: &Standing, now: Timestamp) -> Verdict {
    if !standing.has_user {
        return Verdict::Ended(Ended::UserDeleted);
    }
    let Some(until) = standing.session_ends else {
        return Verdict::Ended(Ended::SignedOut);
    };
    if until <= now {
        Verdict::Ended(Ended::Expired)
    } else if !standing.has_workspace {
        Verdict::Ended(Ended::WorkspaceDeleted)
    } else if !standing.has_grant {
        Verdict::Ended(Ended::AccessRemoved)
    } else {
        Verdict::Allowed { until }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes one thing away.
    type Take = fn(&mut Standing);

    #[test]
    fn the_first_thing_missing_is_the_reason() {
        let now = Timestamp::from_millis(1_000);
        let whole = Standing {
            place: 0,
            has_user: true,
            session_ends: Some(Timestamp::from_millis(1_001)),
            has_workspace: true,
            has_grant: true,
        };
        let until = Timestamp::from_millis(1_001);
        assert_eq!(judge(&whole, now), Verdict::Allowed { until });
        let cases: [(Take, Ended); 5] = [
            (|s| s.has_grant = false, Ended::AccessRemoved),
            (|s| s.has_workspace = false, Ended::WorkspaceDeleted),
            (
                |s| s.session_ends = Some(Timestamp::from_millis(1_000)),
                Ended::Expired,
            ),
            (|s| s.session_ends = None, Ended::SignedOut),
            (|s| s.has_user = false, Ended::UserDeleted),
        ];
        let mut standing = whole;
        for (take, reason) in cases {
            take(&mut standing);
            assert_eq!(judge(&standing, now), Verdict::Ended(reason));
        }
    }
}
