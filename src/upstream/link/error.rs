//! What can go wrong between us and a server, in words that are safe to show: never a header, an
//! argument, or a URL with its query.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;

use rmcp::ServiceError;
use rmcp::model::ErrorData;
use rmcp::service::ClientInitializeError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use crate::net;

/// Characters of a text that a server sent.
const MAX_TEXT: usize = 300;
/// The code of answers that we make up for rmcp, so that a request ends when its answer cannot
/// come: from the range that the protocol leaves to implementations.
pub(super) const MADE_UP: i32 = -32_019;

/// Why something with a server failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkError {
    /// The sort of failure, which decides what to do next.
    pub kind: Kind,
    /// One short sentence.
    pub message: Cow<'static, str>,
}

/// The sorts of failure.
#[derive(Clone, PartialEq, Eq)]
pub enum Kind {
    /// 401 or 403: someone has to sign in, or to edit the headers.
    Auth {
        /// The status.
        status: u16,
        /// `WWW-Authenticate`, as sent.
        challenge: Option<String>,
    },
    /// The server no longer knows the session, and a new one did not help.
    SessionLost,
    /// No answer in time.
    Timeout,
    /// No connection, or it broke.
    Unreachable,
    /// The certificate or the handshake is wrong.
    Tls,
    /// Our own guard does not allow the address.
    Refused,
    /// It does not speak MCP, or speaks it wrongly.
    Protocol,
    /// More than we take.
    TooLarge,
    /// An HTTP status that is no answer.
    Http {
        /// The status.
        status: u16,
    },
    /// The server answered with a JSON-RPC error; the message is the server's.
    Rpc {
        /// The error's code.
        code: i32,
    },
}

/// Without the challenge: rmcp logs errors in this form, and a server may quote there what it was
/// sent.
impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auth { status, .. } => write!(f, "Auth({status})"),
            Self::SessionLost => f.write_str("SessionLost"),
            Self::Timeout => f.write_str("Timeout"),
            Self::Unreachable => f.write_str("Unreachable"),
            Self::Tls => f.write_str("Tls"),
            Self::Refused => f.write_str("Refused"),
            Self::Protocol => f.write_str("Protocol"),
            Self::TooLarge => f.write_str("TooLarge"),
            Self::Http { status } => write!(f, "Http({status})"),
            Self::Rpc { code } => write!(f, "Rpc({code})"),
        }
    }
}

impl LinkError {
    pub(super) fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    pub(super) fn protocol(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::Protocol, message)
    }

    pub(super) fn too_large(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::TooLarge, message)
    }

    pub(super) fn timeout(what: &str) -> Self {
        Self::new(Kind::Timeout, format!("The server did not {what} in time"))
    }

    pub(super) fn session_lost() -> Self {
        Self::new(Kind::SessionLost, "The server ended the session")
    }

    pub(super) fn status(status: u16) -> Self {
        Self::new(
            Kind::Http { status },
            format!("The server answered with HTTP status {status}"),
        )
    }

    pub(super) fn auth(status: u16, challenge: Option<String>) -> Self {
        Self::new(
            Kind::Auth { status, challenge },
            format!("The server wants other credentials (HTTP status {status})"),
        )
    }

    pub(super) fn rpc(code: i32, message: &str) -> Self {
        Self::new(Kind::Rpc { code }, shortened(message))
    }

    pub(super) fn refused(refusal: &crate::model::Refusal) -> Self {
        Self::new(Kind::Refused, refusal.text.clone())
    }

    /// For programs: what `error_code` of a row holds.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self.kind {
            Kind::Auth { .. } => "auth_required",
            Kind::SessionLost => "session_lost",
            Kind::Timeout => "timeout",
            Kind::Unreachable => "unreachable",
            Kind::Tls => "tls",
            Kind::Refused => "blocked",
            Kind::Protocol => "protocol",
            Kind::TooLarge => "too_large",
            Kind::Http { .. } => "http_status",
            Kind::Rpc { .. } => "rpc_error",
        }
    }

    /// Why sending, or reading an answer, failed.
    pub(super) fn of_http(error: &reqwest::Error) -> Self {
        if let Some(refusal) = net::refusal(error) {
            return Self::refused(refusal);
        }
        if causes(error).any(is_tls) {
            return Self::new(
                Kind::Tls,
                "The server's certificate or TLS cannot be accepted",
            );
        }
        if error.is_timeout() {
            return Self::timeout("accept the connection");
        }
        if error.is_connect() {
            return Self::new(
                Kind::Unreachable,
                "The server does not accept the connection",
            );
        }
        Self::new(Kind::Unreachable, "The connection to the server broke")
    }
}

/// Errors of TLS arrive wrapped in I/O errors, one in another, which hide them from `source`.
fn is_tls(cause: &(dyn StdError + 'static)) -> bool {
    let inner = cause.downcast_ref::<std::io::Error>();
    match inner.and_then(std::io::Error::get_ref) {
        Some(inner) => is_tls(inner),
        None => cause.is::<rustls::Error>(),
    }
}

fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| <dyn StdError>::source(*error))
}

/// At most 300 characters of a text, none of them a control character.
pub(super) fn shortened(text: &str) -> String {
    let visible = text.chars().filter(|c| !c.is_control());
    visible.take(MAX_TEXT).collect()
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for LinkError {}

impl From<ErrorData> for LinkError {
    fn from(error: ErrorData) -> Self {
        if error.code.0 == MADE_UP {
            let kind = match error.data.as_ref().and_then(serde_json::Value::as_str) {
                Some("timeout") => Kind::Timeout,
                Some("unreachable") => Kind::Unreachable,
                Some("too_large") => Kind::TooLarge,
                _ => Kind::Protocol,
            };
            return Self::new(kind, error.message);
        }
        Self::rpc(error.code.0, &error.message)
    }
}

impl From<&DynamicTransportError> for LinkError {
    fn from(error: &DynamicTransportError) -> Self {
        for cause in causes(error.error.as_ref()) {
            if let Some(error) = cause.downcast_ref::<Self>() {
                return error.clone();
            }
            if let Some(error) = cause.downcast_ref::<StreamableHttpError<Self>>() {
                return of_streamable(error);
            }
        }
        Self::new(Kind::Unreachable, "The connection to the server broke")
    }
}

fn of_streamable(error: &StreamableHttpError<LinkError>) -> LinkError {
    match error {
        StreamableHttpError::Client(error) => error.clone(),
        StreamableHttpError::SessionExpired => LinkError::session_lost(),
        StreamableHttpError::ReinitializationFailed(error) => {
            LinkError::new(Kind::SessionLost, shortened(&error.message))
        }
        StreamableHttpError::SessionRecoveryTimeout
        | StreamableHttpError::ControlRequestTimeout => LinkError::timeout("renew the session"),
        StreamableHttpError::TransportChannelClosed
        | StreamableHttpError::UnexpectedEndOfStream => {
            LinkError::new(Kind::Unreachable, "The connection to the server broke")
        }
        _ => LinkError::protocol("The server does not answer as MCP demands"),
    }
}

impl From<ServiceError> for LinkError {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::McpError(error) => error.into(),
            ServiceError::TransportSend(error) => (&error).into(),
            ServiceError::Timeout { .. } => Self::timeout("answer"),
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => {
                Self::new(Kind::Unreachable, "The connection to the server broke")
            }
            _ => Self::protocol("The server's answer is not what was asked for"),
        }
    }
}

impl From<ClientInitializeError> for LinkError {
    fn from(error: ClientInitializeError) -> Self {
        match error {
            ClientInitializeError::TransportError { error, .. } => (&error).into(),
            ClientInitializeError::JsonRpcError(error) => error.into(),
            ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
                Self::protocol("The server speaks no version of MCP that we speak")
            }
            ClientInitializeError::ConnectionClosed(_) => {
                Self::protocol("The server ended the conversation before it began")
            }
            _ => Self::protocol("The server does not begin a conversation as MCP demands"),
        }
    }
}
