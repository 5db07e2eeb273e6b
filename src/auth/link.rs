//! One-time links with which someone sets their e-mail and password and signs in.

use std::time::Duration;

use super::sign_in::SignedIn;
use super::{Auth, Error, Result, input};
use crate::feed::Write;
use crate::model::Refusal;
use crate::model::ids::UserId;
use crate::seal;
use crate::store::{sign_in, users};

/// How long a link is valid.
const LIFETIME: Duration = Duration::from_hours(12);
/// Longest token worth looking up.
const MAX_TOKEN_LEN: usize = 64;

/// Whom a link is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Their e-mail as it is now; `None` for the first admin, who has yet to say it.
    pub email: Option<String>,
    /// Their name.
    pub name: String,
}

impl Auth {
    /// Whom a link is for, without using it up; `None` when it is not, or no longer, valid.
    pub async fn peek_link(&self, token: &str) -> Result<Option<Link>> {
        let Some(user) = self.valid_link(token).await? else {
            return Ok(None);
        };
        let mut conn = self.shared.db.read().await?;
        let found = users::by_id(&mut conn, &user).await?;
        Ok(found.map(|found| Link {
            email: Some(found.user.email).filter(|email| email != super::FIRST_ADMIN_EMAIL),
            name: found.user.name,
        }))
    }

    async fn valid_link(&self, token: &str) -> Result<Option<UserId>> {
        if token.len() > MAX_TOKEN_LEN {
            return Ok(None);
        }
        let now = self.shared.clock.now();
        let mut conn = self.shared.db.read().await?;
        sign_in::link_user(&mut conn, &seal::hash_token(token), now).await
    }

    /// Uses a link up: sets the password and, where given, e-mail and name, and signs in. The
    /// user's other sessions and links end. 401 when the link is not valid, 400 for what cannot be
    /// an e-mail, name or password, 409 when the e-mail is taken; only success uses the link up.
    pub async fn redeem_link(
        &self,
        token: &str,
        email: Option<&str>,
        password: &str,
        name: Option<&str>,
    ) -> Result<SignedIn> {
        let invalid = || Error::from(Refusal::unauthenticated("This sign-in link is not valid"));
        let email = email.map(input::email).transpose()?;
        let name = name.map(input::name).transpose()?;
        input::new_password(password)?;
        // Only a valid link is worth a hash.
        let Some(user) = self.valid_link(token).await? else {
            return Err(invalid());
        };
        let hash = self.shared.hasher.hash(password).await?;
        let now = self.shared.clock.now();
        let mut write = self.shared.feed.begin_without_workspace().await?;
        // The user first, as everywhere: two links of one user are used one after the other.
        users::lock(&mut write, &user).await?;
        let Some(user) = sign_in::take_link(&mut write, &seal::hash_token(token), now).await?
        else {
            return Err(invalid());
        };
        if let Some(email) = &email {
            match users::set_email(&mut write, &user, email, now).await {
                Err(Error::Duplicate) => return Err(super::email_taken()),
                done => done?,
            }
        }
        if let Some(name) = name {
            users::set_name(&mut write, &user, name, now).await?;
        }
        self.put_password(&mut write, &user, Some(&hash), None)
            .await?;
        let cookie = self.begin_session(&mut write, &user).await?;
        let found = users::by_id(&mut write, &user).await?.ok_or_else(invalid)?;
        write.commit().await?;
        Ok(SignedIn {
            user: found.user,
            cookie,
        })
    }

    /// Makes a link for a user and gives its token.
    pub(super) async fn new_link(&self, write: &mut Write, user: &UserId) -> Result<String> {
        let now = self.shared.clock.now();
        let token = seal::token();
        let hash = seal::hash_token(&token);
        sign_in::insert_link(&mut *write, &hash, user, now, now.plus(LIFETIME)).await?;
        Ok(token)
    }

    /// Where a link with this token leads.
    #[must_use]
    pub fn sign_in_url(&self, token: &str) -> String {
        let mut url = self.shared.options.public_url.clone();
        url.set_path("/sign-in");
        url.set_query(Some(&format!("token={token}")));
        url.into()
    }
}
