//! Opening a stream: register, check rights, count, judge the id, answer. Whatever fails takes
//! the registration back.

use std::collections::VecDeque;
use std::sync::Arc;

use super::caps::Over;
use super::rights::Verdict;
use super::stream::Stream;
use super::{Feed, frame, page, resume};
use crate::failpoint;
use crate::model::{Ended, Holder};
use crate::store::Result;

/// What became of a request for a stream.
#[derive(Debug)]
pub enum Opened {
    /// It is open; or it only says why there is none now (`closing`).
    Stream(Stream),
    /// The right is not there.
    Refused(Ended),
    /// The user has as many streams on this workspace as they may.
    TooManyOfUser,
    /// The workspace has as many streams as it may.
    TooManyOfWorkspace,
}

impl Feed {
    /// Opens a stream for `holder`, from where `remembered` (a `Last-Event-ID`, unjudged) says it
    /// stopped, or from now on.
    pub async fn open(&self, holder: Holder, remembered: Option<&str>) -> Result<Opened> {
        let shared = &self.shared;
        let workspace = holder.workspace.clone();
        let mut registration = shared.hub.register(holder);
        failpoint::pass("feed.between_registration_and_rights", workspace.as_str()).await;

        let holder = std::slice::from_ref(&registration.line.holder);
        match shared.access.check(holder).await?.first() {
            Some(Verdict::Allowed { until }) => registration.line.allow_until(*until),
            Some(Verdict::Ended(reason)) => return Ok(Opened::Refused(*reason)),
            None => return Ok(Opened::Refused(Ended::AccessRemoved)),
        }
        match registration.count(&shared.options.caps) {
            Ok(()) => {}
            Err(Over::User) => return Ok(Opened::TooManyOfUser),
            Err(Over::Workspace) => return Ok(Opened::TooManyOfWorkspace),
            Err(Over::Process) => return Ok(Opened::Stream(Stream::closing(Ended::Full))),
        }
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
}
