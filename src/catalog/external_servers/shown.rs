//! External servers as they are shown (contract 5.2): header values to nobody, whole URLs to those
//! who may change them.

use serde::Serialize;

use crate::model::ids::{ServerId, UserId, WorkspaceId};
use crate::model::{AuthType, ConnectionState, Permission, Push, Timestamp, Transport, shown_url};
use crate::store::external_servers::ExternalServer;

/// Failures in a row from which a server counts as broken (contract 7.2).
const BROKEN: i64 = 3;

/// An external server, as one who may see it sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownServer {
    id: ServerId,
    workspace_id: WorkspaceId,
    created_by: Option<UserId>,
    name: String,
    description: Option<String>,
    transport: Transport,
    url: String,
    protocol_version: Option<String>,
    auth_type: AuthType,
    #[serde(flatten)]
    oauth: ShownOAuth,
    has_headers: bool,
    header_names: Vec<String>,
    timeout: i64,
    retries: i64,
    enabled: bool,
    connection_status: ConnectionStatus,
    state: ConnectionState,
    push: Option<Push>,
    negotiated_version: Option<String>,
    last_connected: Option<Timestamp>,
    last_error: Option<String>,
    status_config: StatusConfig,
    tool_count: i64,
    stale: bool,
    last_tools_refresh: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// How a server does, in the contract's three words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionStatus {
    /// There is a session, and what is known of it is true.
    Connected,
    /// There is none, or none yet.
    Disconnected,
    /// It failed again and again.
    Error,
}

/// How people sign in to it, and whether someone has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownOAuth {
    oauth_client_id: Option<String>,
    has_oauth_client_secret: bool,
    signed_in: bool,
}

/// What the contract's clients look up a server's health in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusConfig {
    consecutive_failures: i64,
    last_successful_discovery: Option<Timestamp>,
}

impl ConnectionStatus {
    pub(super) fn of(server: &ExternalServer) -> Self {
        use ConnectionState::{Connected, Discovering, Ready};
        let standing = matches!(server.shown_state(), Ready | Discovering | Connected);
        if standing && !server.listing.stale && server.standing.failures == 0 {
            Self::Connected
        } else if server.standing.failures >= BROKEN {
            Self::Error
        } else {
            Self::Disconnected
        }
    }
}

/// What listing a server anew came to (contract 5.4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refreshed {
    status: ConnectionStatus,
    tool_count: i64,
    last_connected: Option<Timestamp>,
    error: Option<String>,
    /// Nothing here keeps copies of tools in workflows.
    workflows_updated: usize,
    updated_workflow_ids: [String; 0],
}

impl From<ExternalServer> for Refreshed {
    fn from(server: ExternalServer) -> Self {
        Self {
            status: ConnectionStatus::of(&server),
            tool_count: server.listing.tool_count,
            last_connected: last_connected(&server),
            error: server.standing.last_error,
            workflows_updated: 0,
            updated_workflow_ids: [],
        }
    }
}

/// When it was last seen to be well.
fn last_connected(server: &ExternalServer) -> Option<Timestamp> {
    server.standing.connected_at.max(server.listing.listed_at)
}

impl ShownServer {
    /// For someone with this grant.
    #[must_use]
    pub fn to(permission: Permission, server: ExternalServer) -> Self {
        let connection_status = ConnectionStatus::of(&server);
        let state = server.shown_state();
        let last_connected = last_connected(&server);
        let (set, standing, listing) = (server.settings, server.standing, server.listing);
        let url = if permission >= Permission::Write {
            set.url
        } else {
            shown_url(&set.url)
        };
        Self {
            id: server.id,
            workspace_id: server.workspace_id,
            created_by: server.created_by,
            name: set.name,
            description: set.description,
            transport: set.transport,
            url,
            protocol_version: set.protocol_version,
            auth_type: set.auth_type,
            oauth: ShownOAuth {
                oauth_client_id: set.oauth_client_id,
                has_oauth_client_secret: set.oauth_client_secret.is_some(),
                signed_in: server.signed_in,
            },
            has_headers: set.headers.is_some(),
            header_names: set.header_names.0,
            timeout: set.timeout_ms,
            retries: set.retries,
            enabled: set.enabled,
            connection_status,
            state,
            push: standing.push,
            negotiated_version: standing.negotiated,
            last_connected,
            last_error: standing.last_error,
            status_config: StatusConfig {
                consecutive_failures: standing.failures,
                last_successful_discovery: listing.listed_at,
            },
            tool_count: listing.tool_count,
            stale: listing.stale,
            last_tools_refresh: listing.listed_at,
            created_at: server.created_at,
            updated_at: server.updated_at,
        }
    }
}
