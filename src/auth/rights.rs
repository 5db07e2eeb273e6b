//! Who may follow what: the check that admits a stream is the one that keeps it open.

use futures_util::future::BoxFuture;

use super::Auth;
use crate::feed::{Rights, Verdict};
use crate::model::{Credential, Ended, Holder, Timestamp};
use crate::store::rights::{Asked, Found, look};
use crate::store::{Error, Result};

impl Auth {
    /// One verdict for each holder, in order, from one query.
    pub async fn check_holders(&self, holders: &[Holder]) -> Result<Vec<Verdict>> {
        let asked: Vec<Asked<'_>> = (0..)
            .zip(holders)
            .map(|(n, holder)| {
                let Credential::Session(session) = &holder.credential;
                let workspace = holder.workspace.as_str();
                Asked {
                    n,
                    session: session.as_str(),
                    user: holder.user.as_str(),
                    // No workspace has the empty id; PostgreSQL refuses some texts that are none.
                    workspace: if super::is_id(workspace) {
                        workspace
                    } else {
                        ""
                    },
                }
            })
            .collect();
        let found = look(&mut self.shared.db.read().await?, &asked).await?;
        if found.len() != holders.len() {
            return Err(Error::Corrupt("not one answer for each holder".to_owned()));
        }
        let now = self.shared.clock.now();
        Ok(found.iter().map(|found| verdict(found, now)).collect())
    }
}

impl Rights for Auth {
    fn check<'a>(&'a self, holders: &'a [Holder]) -> BoxFuture<'a, Result<Vec<Verdict>>> {
        Box::pin(self.check_holders(holders))
    }
}

fn verdict(found: &Found, now: Timestamp) -> Verdict {
    if !found.has_user {
        return Verdict::Ended(Ended::UserDeleted);
    }
    let Some(until) = found.expires_at else {
        return Verdict::Ended(Ended::SignedOut);
    };
    if until <= now {
        return Verdict::Ended(Ended::Expired);
    }
    if !found.has_workspace {
        return Verdict::Ended(Ended::WorkspaceDeleted);
    }
    if !found.has_grant {
        return Verdict::Ended(Ended::AccessRemoved);
    }
    Verdict::Allowed { until }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes one thing away.
    type Take = fn(&mut Found);

    #[test]
    fn the_first_thing_missing_is_the_reason() {
        let now = Timestamp::from_millis(1_000);
        let until = Timestamp::from_millis(1_001);
        let mut found = Found {
            n: 0,
            has_user: true,
            expires_at: Some(until),
            has_workspace: true,
            has_grant: true,
        };
        assert_eq!(verdict(&found, now), Verdict::Allowed { until });
        let cases: [(Take, Ended); 5] = [
            (|found| found.has_grant = false, Ended::AccessRemoved),
            (|found| found.has_workspace = false, Ended::WorkspaceDeleted),
            (
                |found| found.expires_at = Some(Timestamp::from_millis(1_000)),
                Ended::Expired,
            ),
            (|found| found.expires_at = None, Ended::SignedOut),
            (|found| found.has_user = false, Ended::UserDeleted),
        ];
        for (take, reason) in cases {
            take(&mut found);
            assert_eq!(verdict(&found, now), Verdict::Ended(reason));
        }
    }
}
