//! Plain types and pure rules: no I/O, no async, nothing of the other rooms.

mod breaking;
mod change;
mod clock;
mod connection;
mod external_server;
mod holder;
pub mod ids;
pub mod name;
mod permission;
mod refusal;
mod sealed;
mod secret;
mod tool;
mod workflow;

pub use change::{Change, ChangedTool, Definition, EventId, Revision, Source, Stamp};
pub use clock::{Clock, SystemClock, Timestamp};
pub use connection::{
    ConnectionEvent, ConnectionState, ErrorType, EventNumber, Level, Push, Standing, Told, Wanted,
    shown_url,
};
pub use external_server::{AuthType, Command, Ending, Outcome, Transport};
pub use holder::{
    Credential, Ended, Holder, McpRequest, McpSession, McpSessionHash, Revocation, Served, Subject,
};
pub use permission::Permission;
pub use refusal::{Refusal, RefusalKind};
pub use sealed::Sealed;
pub use secret::Secret;
pub use tool::{Tool, ToolDiff};
pub use workflow::{Endpoint, Input, ServerTool, Workflow, WorkflowServer};
