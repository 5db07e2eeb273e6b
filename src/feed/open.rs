//! Opening a stream: register, check rights, count, judge the id, answer. Whatever fails takes
//! the registration back.

use std::collections::VecDeque;
use std::sync::Arc;

use super::caps::Over;
use super::follow::{self, Beginning, Follower, Voice};
use super::hub::Registration;
use super::rights::Verdict;
use super::stream::Stream;
use super::{Feed, frame, page, resume};
use crate::failpoint;
use crate::metrics::{Sent, TurnedAway};
use crate::model::{Ended, EventId, Holder};
use crate::store::{Error, Result};

/// What became of a request for a stream.
#[derive(Debug)]
pub enum Opened {
    /// It is open.
    Stream(Stream),
    /// The right is not there.
    Refused(Ended),
    /// The user has as many streams on this workspace as they may.
    TooManyOfUser,
    /// The workspace has as many streams as it may.
    TooManyOfWorkspace,
    /// The public workflow server has as many streams of strangers as it may.
    TooManyOfServer,
    /// The process has as many streams as it may.
    Full,
}

/// Where an MCP client's stream goes on.
#[derive(Debug, Clone, Copy)]
pub enum Since<'a> {
    /// From now on.
    Now,
    /// Where a `Last-Event-ID`, unjudged, says it stopped.
    Remembered(&'a str),
    /// Where its session began.
    At(&'a EventId),
}

impl Feed {
    /// Opens a stream for `holder`, from where `remembered` (a `Last-Event-ID`, unjudged) says it
    /// stopped, or from now on.
    pub async fn open(&self, holder: Holder, remembered: Option<&str>) -> Result<Opened> {
        let shared = &self.shared;
        let workspace = holder.workspace.clone();
        let registration = match self.admit(holder).await? {
            Ok(registration) => registration,
            Err(turned_away) => return Ok(turned_away),
        };
        let (opening, page) = match remembered {
            Some(remembered) => (
                frame::opening(None),
                resume::first_page(shared, &workspace, remembered).await?,
            ),
            None => match page::head(shared, &workspace).await? {
                Some(at) => {
                    let page = page::Page {
                        frames: VecDeque::new(),
                        at,
                    };
                    (frame::opening(Some(&page.at)), Some(page))
                }
                None => (frame::opening(None), None),
            },
        };
        let Some(page) = page else {
            return Ok(Opened::Refused(Ended::WorkspaceDeleted));
        };
        failpoint::pass("feed.between_read_and_join", workspace.as_str()).await;
        let mut outbox = page.frames;
        outbox.push_front(opening);
        shared.wheel.add(&registration.line);
        Ok(Opened::Stream(Stream::open(
            Arc::clone(shared),
            registration,
            outbox,
            page.at,
        )))
    }

    /// Opens an MCP client's stream of one workflow server, which `voice` speaks on. It tells at
    /// once, and once, when that server's tools may have changed since `from`.
    pub async fn follow(
        &self,
        holder: Holder,
        from: Since<'_>,
        voice: Box<dyn Voice>,
    ) -> Result<Opened> {
        let shared = &self.shared;
        let workspace = holder.workspace.clone();
        let Some(server) = holder.served.as_ref().map(|served| served.server.clone()) else {
            return Err(Error::Corrupt("an MCP stream follows a server".to_owned()));
        };
        let registration = match self.admit(holder).await? {
            Ok(registration) => registration,
            Err(turned_away) => return Ok(turned_away),
        };
        let remembered = match from {
            Since::Now => None,
            Since::Remembered(text) => EventId::parse(text),
            Since::At(id) => Some(id.clone()),
        };
        let is_unknown = remembered.is_none() && !matches!(from, Since::Now);
        let beginning = follow::begin(shared, &workspace, &server, remembered.as_ref()).await?;
        let Some(Beginning { at, missed }) = beginning else {
            return Ok(Opened::Refused(Ended::WorkspaceDeleted));
        };
        failpoint::pass("feed.between_read_and_join", workspace.as_str()).await;
        let mut outbox = VecDeque::with_capacity(2);
        if missed || is_unknown {
            // A break in between repeats the notification and never skips it.
            outbox.push_back(voice.opening(remembered.as_ref()));
            let told = voice.changed(&at);
            let count = usize::from(told.is_some());
            shared.options.metrics.sent(Sent::Notification, count);
            outbox.extend(told);
        } else {
            outbox.push_back(voice.opening(Some(&at)));
        }
        shared.mcp_wheel.add(&registration.line);
        let follower = Follower::new(Arc::clone(shared), registration, voice, outbox, at);
        Ok(Opened::Stream(Stream::follow(follower)))
    }

    /// Registers a stream, checks its rights and counts it.
    async fn admit(&self, holder: Holder) -> Result<Result<Registration, Opened>> {
        let shared = &self.shared;
        let workspace = holder.workspace.clone();
        let mut registration = shared.hub.register(holder);
        failpoint::pass("feed.between_registration_and_rights", workspace.as_str()).await;

        let metrics = &shared.options.metrics;
        let refused = |reason| {
            metrics.refused(TurnedAway::NoAccess);
            Ok(Err(Opened::Refused(reason)))
        };
        match shared.access.admit(&registration.line.holder).await? {
            Some(Verdict::Allowed { until }) => registration.line.allow_until(until),
            Some(Verdict::Ended(reason)) => return refused(reason),
            None => return refused(Ended::AccessRemoved),
        }
        let Err(over) = registration.count(&shared.options.caps) else {
            return Ok(Ok(registration));
        };
        let (why, turned_away) = match over {
            Over::User => (TurnedAway::User, Opened::TooManyOfUser),
            Over::Workspace => (TurnedAway::Workspace, Opened::TooManyOfWorkspace),
            Over::PublicServer => (TurnedAway::Server, Opened::TooManyOfServer),
            Over::Process => (TurnedAway::Process, Opened::Full),
        };
        metrics.refused(why);
        Ok(Err(turned_away))
    }
}
