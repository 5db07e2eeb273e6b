//! Plain types and pure rules: no I/O, no async, nothing of the other rooms.

mod change;
mod clock;
mod holder;
pub mod ids;
mod permission;
mod refusal;
mod sealed;
mod tool;

pub use change::{Change, ChangedTool, Definition, EventId, Revision, Source, Stamp};
pub use clock::{Clock, SystemClock, Timestamp};
pub use holder::{Credential, Ended, Holder, Revocation, Subject};
pub use permission::Permission;
pub use refusal::{Refusal, RefusalKind};
pub use sealed::Sealed;
pub use tool::{Tool, ToolDiff};
