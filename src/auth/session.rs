//! Sessions: the cookie, who it belongs to, and how long it lives.

use std::time::Duration;

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

use super::key::{self, Offered};
use super::{Auth, Caller, Reach, Result};
use crate::model::{Credential, Timestamp};
use crate::seal;
use crate::store::sessions::{self, Session};

/// How long a session lives after its last use.
pub(super) const LIFETIME: Duration = Duration::from_hours(30 * 24);
/// A session is prolonged at most this often.
const TOUCH_EVERY: Duration = Duration::from_mins(1);
/// How long a request waits for its session to be prolonged; the next one tries again.
const TOUCH_WAIT: Duration = Duration::from_millis(500);
/// Length of a token; anything else is not looked up.
const TOKEN_LEN: usize = 43;

impl Auth {
    /// Whose request this is; `None` when it shows nothing that is valid now. A key that is shown
    /// counts, whatever cookie comes with it.
    pub async fn identify(&self, headers: &HeaderMap) -> Result<Option<Caller>> {
        match key::offered(headers) {
            Offered::Key(token) => self.identify_key(token).await,
            Offered::Junk => Ok(None),
            Offered::Nothing => self.identify_session(headers).await,
        }
    }

    /// By the session's cookie. Prolongs the session, at most once a minute.
    async fn identify_session(&self, headers: &HeaderMap) -> Result<Option<Caller>> {
        let Some(token) = self.token(headers) else {
            return Ok(None);
        };
        let now = self.shared.clock.now();
        let found = {
            let mut conn = self.shared.db.read().await?;
            sessions::find(&mut conn, &seal::hash_token(token), now).await?
        };
        let Some(mut session) = found else {
            return Ok(None);
        };
        let mut renewed_cookie = None;
        if session.touched_at <= now.minus(TOUCH_EVERY) && self.prolong(&session, now).await {
            session.expires_at = now.plus(LIFETIME);
            renewed_cookie = self.cookie(token);
        }
        Ok(Some(Caller {
            user: session.user,
            credential: Credential::Session(session.session_id),
            reach: Reach::Session,
            expires_at: session.expires_at,
            renewed_cookie,
        }))
    }

    /// Whether the session now lives on. A busy or lost database does not fail the request.
    async fn prolong(&self, session: &Session, now: Timestamp) -> bool {
        let work = async {
            let mut tx = self.shared.db.begin().await?;
            let stale = now.minus(TOUCH_EVERY);
            let until = now.plus(LIFETIME);
            sessions::touch(&mut tx, &session.session_id, stale, now, until).await?;
            tx.commit().await
        };
        match tokio::time::timeout(TOUCH_WAIT, work).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a session was not prolonged");
                false
            }
            Err(_) => false,
        }
    }

    /// The session's token among the cookies.
    fn token<'h>(&self, headers: &'h HeaderMap) -> Option<&'h str> {
        let name = self.cookie_name();
        headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .find(|(found, token)| *found == name && token.len() == TOKEN_LEN)
            .map(|(_, token)| token)
    }

    /// Browsers take a `__Host-` cookie only over https, for exactly this host and every path: no
    /// neighbour can set it.
    fn cookie_name(&self) -> &'static str {
        if self.is_https() {
            "__Host-toolcast_session"
        } else {
            "toolcast_session"
        }
    }

    fn is_https(&self) -> bool {
        self.shared.options.public_url.scheme() == "https"
    }

    /// The `Set-Cookie` that signs in.
    pub(super) fn cookie(&self, token: &str) -> Option<HeaderValue> {
        self.set_cookie(token, LIFETIME)
    }

    /// The `Set-Cookie` that makes a browser forget.
    #[must_use]
    pub fn forget_cookie(&self) -> Option<HeaderValue> {
        self.set_cookie("", Duration::ZERO)
    }

    fn set_cookie(&self, token: &str, max_age: Duration) -> Option<HeaderValue> {
        let name = self.cookie_name();
        let secure = if self.is_https() { "; Secure" } else { "" };
        let seconds = max_age.as_secs();
        let text =
            format!("{name}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
        let mut value = HeaderValue::try_from(text).ok()?;
        // Keeps it out of `Debug`.
        value.set_sensitive(true);
        Some(value)
    }
}
