//! The session of a conversation, as far as this end knows: whether it ever worked decides whether a
//! refusal means that it is lost.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reqwest::Response;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ClientRequest};

use super::LinkEvent;
use super::error::LinkError;
use super::inbox::Inbox;

pub(super) const SESSION: &str = "mcp-session-id";
/// Characters of a session id.
const MAX_SESSION_ID: usize = 1024;

pub(super) struct Session {
    known: Mutex<Known>,
    inbox: Arc<Inbox>,
}

#[derive(Default)]
struct Known {
    id: Option<String>,
    /// Whether a request was answered in it: only what worked can be lost.
    worked: bool,
    /// How many beginnings there were.
    begun: usize,
}

impl Session {
    pub(super) fn new(inbox: &Arc<Inbox>) -> Self {
        Self {
            known: Mutex::default(),
            inbox: Arc::clone(inbox),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_id(&self) -> bool {
        self.known().id.is_some()
    }

    /// A request was answered in it.
    pub(super) fn works(&self) {
        self.known().worked = true;
    }

    /// Whether this session was a good one, so that it can only be lost. One that has a successor
    /// was; the successor first has to show that it works.
    pub(super) fn worked(&self, attached: Option<&str>) -> bool {
        let known = self.known();
        attached.is_some_and(|id| known.worked || known.id.as_deref() != Some(id))
    }

    /// Notes what a good answer says of the session; the id it gives, if it is one.
    pub(super) fn answered(
        &self,
        response: &Response,
        message: &ClientJsonRpcMessage,
    ) -> Result<Option<String>, LinkError> {
        match message {
            ClientJsonRpcMessage::Request(request)
                if matches!(request.request, ClientRequest::InitializeRequest(_)) =>
            {
                let id = session_id(response)?;
                let mut known = self.known();
                known.id.clone_from(&id);
                known.worked = false;
                known.begun += 1;
                Ok(id)
            }
            ClientJsonRpcMessage::Notification(note)
                if matches!(
                    note.notification,
                    ClientNotification::InitializedNotification(_)
                ) =>
            {
                if self.known().begun > 1 {
                    self.inbox.put(LinkEvent::Reinitialised);
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }
}

fn session_id(response: &Response) -> Result<Option<String>, LinkError> {
    let Some(value) = response.headers().get(SESSION) else {
        return Ok(None);
    };
    let text = value.to_str().unwrap_or_default();
    let fits = (1..=MAX_SESSION_ID).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !fits {
        return Err(LinkError::protocol("The server's session id is no id"));
    }
    Ok(Some(text.to_owned()))
}
