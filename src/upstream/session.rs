//! What an actor needs of a conversation with a server. The real one is [`Link`]; the actor's own
//! tests script theirs, so that hours pass in no time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use serde_json::{Map, Value};

use super::discreet::{Discreet, Secrets};
use super::link::{Dial, Dialer, Generation, Link, LinkError, LinkEvent, ListedTool};
use crate::model::{Push, Tool};

/// A conversation that was agreed on.
pub trait Session: Send + Sync {
    /// The generation it speaks.
    fn generation(&self) -> Generation;
    /// The version that was agreed on.
    fn version(&self) -> String;
    /// Opens the push channel; returns when it is open or known not to be had.
    fn open_push(&mut self) -> BoxFuture<'_, Push>;
    /// All of the tools.
    fn list(&self) -> BoxFuture<'_, Result<Vec<Tool>, LinkError>>;
    /// Calls a tool; what comes is the result as the server said it.
    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Map<String, Value>,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Value, LinkError>>;
    /// Whether the other side still knows us.
    fn check(&self) -> BoxFuture<'_, Result<(), LinkError>>;
    /// What happens next; dropping the wait loses nothing.
    fn next_event(&mut self) -> BoxFuture<'_, LinkEvent>;
    /// Ends it, best effort.
    fn close(self: Box<Self>) -> BoxFuture<'static, ()>;
}

/// Begins conversations.
pub trait Connects: Send + Sync + fmt::Debug {
    /// Agrees on a conversation, within the deadline of `dial`.
    fn connect(&self, dial: Dial) -> BoxFuture<'static, Result<Box<dyn Session>, LinkError>>;
}

impl Session for Link {
    fn generation(&self) -> Generation {
        Self::generation(self)
    }

    fn version(&self) -> String {
        Self::version(self).to_owned()
    }

    fn open_push(&mut self) -> BoxFuture<'_, Push> {
        Box::pin(Self::open_push(self))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Tool>, LinkError>> {
        Box::pin(async {
            let listed = self.list_tools().await?;
            Ok(listed.into_iter().map(tool).collect())
        })
    }

    fn call<'a>(
        &'a self,
        tool: &'a str,
        arguments: Map<String, Value>,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Value, LinkError>> {
        Box::pin(self.call_tool(tool, arguments, limit))
    }

    fn check(&self) -> BoxFuture<'_, Result<(), LinkError>> {
        Box::pin(Self::check(self))
    }

    fn next_event(&mut self) -> BoxFuture<'_, LinkEvent> {
        Box::pin(Self::next_event(self))
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(Self::close(*self))
    }
}

fn tool(listed: ListedTool) -> Tool {
    Tool {
        name: listed.name,
        description: listed.description,
        input_schema: listed.input_schema,
        rest: listed.rest,
    }
}

impl Connects for Arc<dyn Dialer> {
    fn connect(&self, dial: Dial) -> BoxFuture<'static, Result<Box<dyn Session>, LinkError>> {
        let mut dial = dial;
        let secrets = Secrets::of(&mut dial);
        let dialing = self.dial(dial);
        Box::pin(async move {
            match dialing.await {
                Ok(link) => Ok(Box::new(Discreet {
                    session: Box::new(link),
                    secrets,
                }) as Box<dyn Session>),
                Err(error) => Err(secrets.hide(error)),
            }
        })
    }
}
