//! A client that someone registered with an authorization server by hand (contract 5.2): its id,
//! and the secret that goes in and never comes out again.

use std::fmt;

use crate::catalog::Patch;
use crate::catalog::text::trim;
use crate::model::ids::ServerId;
use crate::model::{Refusal, Sealed};
use crate::seal::Sealer;
use crate::store::external_servers::Settings;

/// Bytes of an id.
const ID_BYTES: usize = 2_048;
/// Bytes of a secret.
const SECRET_BYTES: usize = 4_096;

/// A client, with its secret in the open.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::catalog) struct GivenClient {
    pub(in crate::catalog) id: String,
    pub(in crate::catalog) secret: Option<String>,
}

impl fmt::Debug for GivenClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivenClient")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Binds a sealed secret to its row.
fn context(server: &ServerId) -> String {
    format!("external_server/{server}/oauth_client_secret")
}

impl GivenClient {
    /// What was given; blank is nothing.
    pub(super) fn checked(
        id: Option<String>,
        secret: Option<String>,
    ) -> Result<Option<Self>, Refusal> {
        let id = visible("oauthClientId", id, ID_BYTES)?;
        let secret = visible("oauthClientSecret", secret, SECRET_BYTES)?;
        match id {
            Some(id) => Ok(Some(Self { id, secret })),
            None if secret.is_some() => {
                Err(Refusal::invalid("oauthClientSecret needs an oauthClientId"))
            }
            None => Ok(None),
        }
    }

    /// What an edit makes of the client that there `was`. A secret belongs to its id.
    pub(super) fn edited(
        was: Option<Self>,
        id: Patch<String>,
        secret: Patch<String>,
    ) -> Result<Option<Self>, Refusal> {
        let (old_id, old_secret) = was.map_or((None, None), |was| (Some(was.id), was.secret));
        let id = id.change().unwrap_or_else(|| old_id.clone());
        let same = id.as_deref().map(trim) == old_id.as_deref();
        let secret = match secret.change() {
            Some(secret) => secret,
            None => old_secret.filter(|_| same),
        };
        Self::checked(id, secret)
    }

    /// What is stored of a server's.
    pub(in crate::catalog) fn opened(
        sealer: &Sealer,
        server: &ServerId,
        set: &Settings,
    ) -> Option<Self> {
        let id = set.oauth_client_id.clone()?;
        let stored = set.oauth_client_secret.as_ref();
        let plain = stored.and_then(|stored| sealer.open(stored, &context(server)).ok());
        let secret = plain.and_then(|plain| String::from_utf8(plain).ok());
        Some(Self { id, secret })
    }

    /// Its secret as it is stored.
    pub(super) fn sealed_secret(&self, sealer: &Sealer, server: &ServerId) -> Option<Sealed> {
        let secret = self.secret.as_ref()?;
        Some(sealer.seal(secret.as_bytes(), &context(server)))
    }
}

fn visible(field: &str, text: Option<String>, most: usize) -> Result<Option<String>, Refusal> {
    let text = text.map(|text| trim(&text).to_owned());
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    if text.len() > most {
        return Err(Refusal::invalid(format!(
            "{field} exceeds maximum size of {most} bytes"
        )));
    }
    if text.chars().any(char::is_control) {
        return Err(Refusal::invalid(format!(
            "{field} must not contain control characters"
        )));
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(id: &str, secret: Option<&str>) -> GivenClient {
        GivenClient {
            id: id.to_owned(),
            secret: secret.map(str::to_owned),
        }
    }

    #[test]
    fn a_secret_belongs_to_its_id_and_is_not_shown() {
        let was = || Some(client("a", Some("s3cret")));
        let value = |text: &str| Patch::Value(text.to_owned());
        for (id, secret, becomes) in [
            (Patch::Absent, Patch::Absent, was()),
            (value(" a "), Patch::Absent, was()),
            (value("b"), Patch::Absent, Some(client("b", None))),
            (value("b"), value("x"), Some(client("b", Some("x")))),
            (Patch::Absent, Patch::Null, Some(client("a", None))),
            (Patch::Absent, value("x"), Some(client("a", Some("x")))),
            (Patch::Null, Patch::Absent, None),
        ] {
            assert_eq!(GivenClient::edited(was(), id, secret), Ok(becomes));
        }
        let refused = GivenClient::edited(None, Patch::Absent, value("x"));
        assert!(refused.unwrap_err().text.contains("needs"));
        let long = GivenClient::checked(Some("x".repeat(3_000)), None);
        assert!(long.unwrap_err().text.contains("2048"));
        let odd = GivenClient::checked(Some("a\nb".to_owned()), None);
        assert!(odd.unwrap_err().text.contains("control"));
        assert!(!format!("{:?}", was()).contains("s3cret"));
    }
}
