//! The sample MCP server: any version over Streamable HTTP, on this machine only. Its tools go
//! through the same few changes again and again, and whoever is connected is told.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, SubscriptionFilter,
    Tool,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use url::Url;

/// Between two changes.
const PERIOD: Duration = Duration::from_secs(3);
/// How long telling one client may take.
const TELLING: Duration = Duration::from_secs(1);
/// What the tools go through.
const STEPS: usize = 4;

/// Listens, and serves once it is asked to.
#[derive(Debug)]
pub struct SampleServer {
    listener: TcpListener,
    url: Url,
}

impl SampleServer {
    /// Takes a free port.
    pub async fn bind() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/mcp", listener.local_addr()?).parse()?;
        Ok(Self { listener, url })
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Serves, and changes its tools, until `stop`.
    pub async fn serve(self, stop: CancellationToken) -> Result<()> {
        let (changer, steps) = watch::channel(0);
        let workshop = Workshop {
            steps,
            peers: Arc::default(),
        };
        let config = StreamableHttpServerConfig::default()
            .with_cancellation_token(stop.clone())
            .enforce_origin_validation();
        let sessions = Arc::new(LocalSessionManager::default());
        let each = workshop.clone();
        let service = StreamableHttpService::new(move || Ok(each.clone()), sessions, config);
        let router = Router::new().route_service("/mcp", service);
        let serving = axum::serve(self.listener, router);
        tokio::select! {
            served = serving => served?,
            () = workshop.change(&changer) => {}
            () = stop.cancelled() => {}
        }
        Ok(())
    }
}

/// What one client talks to.
#[derive(Debug, Clone)]
struct Workshop {
    steps: watch::Receiver<usize>,
    /// Clients in sessions; those on 2026-07-28 listen for themselves.
    peers: Arc<Mutex<Vec<Peer<RoleServer>>>>,
}

impl Workshop {
    async fn change(&self, changer: &watch::Sender<usize>) {
        let mut every = tokio::time::interval(PERIOD);
        every.tick().await;
        loop {
            every.tick().await;
            changer.send_modify(|step| *step = (*step + 1) % STEPS);
            let peers: Vec<_> = {
                let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
                peers.retain(|peer| !peer.is_transport_closed());
                peers.clone()
            };
            for peer in peers {
                // One that does not read is asked again with the next change.
                let _ = tokio::time::timeout(TELLING, peer.notify_tool_list_changed()).await;
            }
        }
    }
}

impl ServerHandler for Workshop {
    fn get_info(&self) -> ServerConfig {
        let tools = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed();
        let info = Implementation::new("toolcast-demo", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(tools.build()).with_server_info(info)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        peers.push(context.peer);
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools(*self.steps.borrow())))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let there = tools(*self.steps.borrow());
        let name = request.name;
        if !there.iter().any(|tool| tool.name == name) {
            let text = format!("Unknown tool: {name}");
            return Err(ErrorData::invalid_params(text, None));
        }
        let given = Value::Object(request.arguments.unwrap_or_default());
        let text = format!("{name} was called with {given}");
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        // As it was when the request came: a change since then is told at once.
        let mut steps = self.steps.clone();
        loop {
            tokio::select! {
                changed = steps.changed() => if changed.is_err() {
                    return Ok(());
                },
                () = context.cancelled() => return Ok(()),
            }
            let told = context.sink().notify_tool_list_changed();
            if !matches!(tokio::time::timeout(TELLING, told).await, Ok(Ok(()))) {
                return Ok(());
            }
        }
    }
}

/// One comes, one changes so that calls of before fail, one goes, and all is as it was.
fn tools(step: usize) -> Vec<Tool> {
    let tool = |name: &'static str, description: &'static str, required: &[&str]| {
        let properties: serde_json::Map<String, Value> = required
            .iter()
            .map(|field| ((*field).to_owned(), json!({"type": "string"})))
            .collect();
        let mut schema = serde_json::Map::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), Value::Object(properties));
        schema.insert("required".to_owned(), json!(required));
        Tool::new(name, description, schema)
    };
    let saw = if step >= 2 {
        tool("saw", "Cuts wood, to a length", &["wood", "length"])
    } else {
        tool("saw", "Cuts wood", &["wood"])
    };
    let mut tools = vec![saw];
    if step != 3 {
        tools.push(tool("drill", "Makes a hole", &["where"]));
    }
    if step >= 1 {
        tools.push(tool("plane", "Makes wood flat", &["wood"]));
    }
    tools
}
