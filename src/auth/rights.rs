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
                let (session, key) = match &holder.credential {
                    Credential::Session(session) => (session.as_str(), ""),
                    Credential::Key(key) | Credential::WorkspaceKey(key) => ("", key.as_str()),
                };
                let workspace = holder.workspace.as_str();
                Asked {
                    n,
                    session,
                    key,
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
        let verdicts = found.iter().zip(holders);
        Ok(verdicts
            .map(|(found, holder)| verdict(found, &holder.credential, now))
            .collect())
    }
}

impl Rights for Auth {
    fn check<'a>(&'a self, holders: &'a [Holder]) -> BoxFuture<'a, Result<Vec<Verdict>>> {
        Box::pin(self.check_holders(holders))
    }
}

fn verdict(found: &Found, shown: &Credential, now: Timestamp) -> Verdict {
    if !found.has_user {
        return Verdict::Ended(Ended::UserDeleted);
    }
    if found.credential.is_none() {
        return Verdict::Ended(match shown {
            Credential::Session(_) => Ended::SignedOut,
            Credential::Key(_) | Credential::WorkspaceKey(_) => Ended::KeyRevoked,
        });
    }
    let until = found.expires_at.unwrap_or(Timestamp::from_millis(i64::MAX));
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
    use crate::model::ids::{KeyId, SessionId};

    /// Takes one thing away.
    type Take = fn(&mut Found);

    #[test]
    fn the_first_thing_missing_is_the_reason() {
        let now = Timestamp::from_millis(1_000);
        let until = Timestamp::from_millis(1_001);
        let mut found = Found {
            n: 0,
            has_user: true,
            credential: Some("c".to_owned()),
            expires_at: Some(until),
            has_workspace: true,
            has_grant: true,
        };
        let shown = Credential::Session(SessionId::from("s"));
        assert_eq!(verdict(&found, &shown, now), Verdict::Allowed { until });
        let cases: [(Take, Ended); 5] = [
            (|found| found.has_grant = false, Ended::AccessRemoved),
            (|found| found.has_workspace = false, Ended::WorkspaceDeleted),
            (
                |found| found.expires_at = Some(Timestamp::from_millis(1_000)),
                Ended::Expired,
            ),
            (|found| found.credential = None, Ended::SignedOut),
            (|found| found.has_user = false, Ended::UserDeleted),
        ];
        for (take, reason) in cases {
            take(&mut found);
            assert_eq!(verdict(&found, &shown, now), Verdict::Ended(reason));
        }
    }
    #[test]
    fn a_key_without_an_end_lasts_until_it_is_revoked() {
        let now = Timestamp::from_millis(1_000);
        let shown = Credential::Key(KeyId::from("k"));
        let mut found = Found {
            n: 0,
            has_user: true,
            credential: Some("c".to_owned()),
            expires_at: None,
            has_workspace: true,
            has_grant: true,
        };
        assert!(matches!(
            verdict(&found, &shown, now),
            Verdict::Allowed { .. }
        ));
        found.credential = None;
        let gone = Verdict::Ended(Ended::KeyRevoked);
        assert_eq!(verdict(&found, &shown, now), gone);
    }
}
