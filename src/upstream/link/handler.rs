//! What rmcp calls when the server says something that was not asked for.

use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::RoleClient;
use rmcp::model::{ClientCapabilities, ClientConfig, Implementation, ProtocolVersion};
use rmcp::service::NotificationContext;

use super::LinkEvent;
use super::inbox::Inbox;

/// Passes news on; requests of the server are answered as rmcp does for a client that can nothing.
#[derive(Debug)]
pub(super) struct Handler {
    inbox: Arc<Inbox>,
    config: ClientConfig,
}

impl Handler {
    pub(super) fn new(inbox: Arc<Inbox>, version: ProtocolVersion) -> Self {
        let ours = Implementation::new("toolcast", env!("CARGO_PKG_VERSION"));
        let mut config = ClientConfig::new(ClientCapabilities::default(), ours);
        config.protocol_version = version;
        Self { inbox, config }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.inbox.put(LinkEvent::ToolsChanged);
    }
}
