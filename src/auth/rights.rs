//! Who may follow what: the check that admits a stream is the one that keeps it open.

use futures_util::future::BoxFuture;

use super::Auth;
use crate::feed::{Rights, Verdict};
use crate::model::ids::UserId;
use crate::model::{Credential, Ended, Holder, Timestamp};
use crate::store::rights::{Asked, Found, look};
use crate::store::{Error, Handle, Result};

impl Auth {
    /// One verdict for each holder, in order, from one query on this connection.
    pub async fn check_holders(
        &self,
        mut connection: Handle,
        holders: &[Holder],
    ) -> Result<Vec<Verdict>> {
        let asked: Vec<Asked<'_>> = (0..)
            .zip(holders)
            .map(|(n, holder)| {
                // No session, no key and no user has the empty id.
                let (session, key) = match &holder.credential {
                    Credential::Session(session) => (session.as_str(), ""),
                    Credential::Key(key) | Credential::WorkspaceKey(key) => ("", key.as_str()),
                    Credential::Public => ("", ""),
                };
                let workspace = holder.workspace.as_str();
                let served = holder.served.as_deref();
                Asked {
                    n,
                    session,
                    key,
                    user: holder.user.as_ref().map_or("", UserId::as_str),
                    server: served.map(|served| served.server.as_str()),
                    mcp_session: served
                        .and_then(|served| served.session.as_ref())
                        .map(|session| session.id.as_str()),
                    // No workspace has the empty id; PostgreSQL refuses some texts that are none.
                    workspace: if super::is_id(workspace) {
                        workspace
                    } else {
                        ""
                    },
                }
            })
            .collect();
        let found = look(&mut connection, &asked).await?;
        if found.len() != holders.len() {
            return Err(Error::Corrupt("not one answer for each holder".to_owned()));
        }
        let now = self.shared.clock.now();
        let both = holders.iter().zip(&found);
        Ok(both
            .map(|(holder, found)| verdict(holder, found, now))
            .collect())
    }
}

impl Rights for Auth {
    fn check<'a>(
        &'a self,
        connection: Handle,
        holders: &'a [Holder],
    ) -> BoxFuture<'a, Result<Vec<Verdict>>> {
        Box::pin(self.check_holders(connection, holders))
    }
}

fn verdict(holder: &Holder, found: &Found, now: Timestamp) -> Verdict {
    let let_in = match &holder.credential {
        Credential::Session(_) => by_name(found, Ended::SignedOut, now),
        Credential::Key(_) | Credential::WorkspaceKey(_) => by_name(found, Ended::KeyRevoked, now),
        Credential::Public => by_nothing(found),
    };
    match let_in {
        Ok(until) => served(holder, found, until, now),
        Err(reason) => Err(reason),
    }
    .map_or_else(Verdict::Ended, |until| Verdict::Allowed { until })
}

/// Until when someone with a name may, as far as the workspace is concerned; `gone` is why their
/// credential is not there.
fn by_name(found: &Found, gone: Ended, now: Timestamp) -> Result<Timestamp, Ended> {
    if !found.has_user {
        return Err(Ended::UserDeleted);
    }
    if found.credential.is_none() {
        return Err(gone);
    }
    let until = found.expires_at.unwrap_or(Timestamp::NEVER);
    if until <= now {
        return Err(Ended::Expired);
    }
    if !found.has_workspace {
        return Err(Ended::WorkspaceDeleted);
    }
    if !found.has_grant {
        return Err(Ended::AccessRemoved);
    }
    Ok(until)
}

/// Until when whoever showed nothing may: as long as the server is public.
fn by_nothing(found: &Found) -> Result<Timestamp, Ended> {
    match found.is_public {
        _ if !found.has_workspace => Err(Ended::WorkspaceDeleted),
        None => Err(Ended::ServerDeleted),
        Some(false) => Err(Ended::ServerPrivate),
        Some(true) => Ok(Timestamp::NEVER),
    }
}

/// What is asked besides of a client of one workflow server: that it is there, and that the
/// client's session goes on.
fn served(
    holder: &Holder,
    found: &Found,
    until: Timestamp,
    now: Timestamp,
) -> Result<Timestamp, Ended> {
    let Some(served) = &holder.served else {
        return Ok(until);
    };
    if found.is_public.is_none() {
        return Err(Ended::ServerDeleted);
    }
    match &served.session {
        None => Ok(until),
        Some(_) if found.ended_mcp_session.is_some() => Err(Ended::SessionEnded),
        Some(session) if session.expires_at <= now => Err(Ended::Expired),
        Some(session) => Ok(until.min(session.expires_at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{McpSession, Served};

    const NOW: Timestamp = Timestamp::from_millis(1_000);
    const LATER: Timestamp = Timestamp::from_millis(1_001);

    /// Takes one thing away.
    type Take = fn(&mut Found);

    fn end_mcp_session(found: &mut Found) {
        found.ended_mcp_session = Some("m".to_owned());
    }

    fn everything() -> Found {
        Found {
            n: 0,
            has_user: true,
            credential: Some("c".to_owned()),
            expires_at: Some(LATER),
            has_workspace: true,
            has_grant: true,
            is_public: Some(true),
            ended_mcp_session: None,
        }
    }

    fn holder(credential: Credential, served: Option<Served>) -> Holder {
        Holder {
            credential,
            user: Some("u".into()),
            workspace: "w".into(),
            served: served.map(Box::new),
        }
    }

    fn in_session(expires_at: Timestamp) -> Served {
        Served {
            server: "s".into(),
            session: Some(McpSession {
                id: "m".to_owned().into(),
                expires_at,
            }),
        }
    }

    /// Takes away more and more, and looks at the reason each time.
    fn check(holder: &Holder, until: Timestamp, cases: &[(Take, Ended)]) {
        let mut found = everything();
        assert_eq!(
            verdict(holder, &found, NOW),
            Verdict::Allowed { until },
            "{holder:?}"
        );
        for (take, reason) in cases {
            take(&mut found);
            assert_eq!(verdict(holder, &found, NOW), Verdict::Ended(*reason));
        }
    }

    #[test]
    fn the_first_thing_missing_is_the_reason() {
        let signed_in = Credential::Session("x".into());
        let follows_all = holder(signed_in.clone(), None);
        let of_all: [(Take, Ended); 5] = [
            (|found| found.has_grant = false, Ended::AccessRemoved),
            (|found| found.has_workspace = false, Ended::WorkspaceDeleted),
            (|found| found.expires_at = Some(NOW), Ended::Expired),
            (|found| found.credential = None, Ended::SignedOut),
            (|found| found.has_user = false, Ended::UserDeleted),
        ];
        check(&follows_all, LATER, &of_all);
        let of_one: [(Take, Ended); 3] = [
            (end_mcp_session, Ended::SessionEnded),
            (|found| found.is_public = None, Ended::ServerDeleted),
            (|found| found.has_grant = false, Ended::AccessRemoved),
        ];
        let mut served = holder(signed_in, Some(in_session(Timestamp::NEVER)));
        check(&served, LATER, &of_one);
        served.served = Some(Box::new(in_session(NOW)));
        assert_eq!(
            verdict(&served, &everything(), NOW),
            Verdict::Ended(Ended::Expired)
        );
    }

    #[test]
    fn a_stranger_stays_as_long_as_the_server_is_public() {
        let stranger = holder(Credential::Public, Some(in_session(LATER)));
        let cases: [(Take, Ended); 4] = [
            (end_mcp_session, Ended::SessionEnded),
            (|found| found.is_public = Some(false), Ended::ServerPrivate),
            (|found| found.is_public = None, Ended::ServerDeleted),
            (|found| found.has_workspace = false, Ended::WorkspaceDeleted),
        ];
        check(&stranger, LATER, &cases);
    }

    #[test]
    fn a_key_without_an_end_lasts_until_it_is_revoked() {
        let shown = holder(Credential::Key("k".into()), None);
        let mut found = everything();
        found.expires_at = None;
        let until = Timestamp::NEVER;
        assert_eq!(verdict(&shown, &found, NOW), Verdict::Allowed { until });
        found.credential = None;
        let gone = Verdict::Ended(Ended::KeyRevoked);
        assert_eq!(verdict(&shown, &found, NOW), gone);
    }
}
