//! External MCP servers: registered, edited, deleted, listed (contract 5.2).
//!
//! Their tools come and go with what `upstream` finds. Here they only go: with their server, or
//! when nobody is to watch it any more; and that is told like every other change.

mod client;
mod id;
mod settings;
mod shown;
mod try_out;

use url::Url;

pub(super) use self::client::GivenClient;
use self::settings::Checked;
use super::headers::{self, Headers};
use super::{Catalog, Error, Result, Seen, text};
use crate::feed::Write;
use crate::model::ids::{ServerId, UserId, WorkspaceId};
use crate::model::{AuthType, Refusal, Source, Tool, ToolDiff};
use crate::store::external_servers::{self, ExternalServer, NewServer, Settings, tools};
use crate::store::{Conn, JsonText, oauth};
use crate::upstream;

pub use self::settings::{ExternalServerEdit, NewExternalServer};
pub use self::shown::{ConnectionStatus, Refreshed, ShownServer};
pub use self::try_out::{TriedOut, TryOut};

/// External servers a workspace may have.
const SERVERS: usize = 500;

/// What registering a server came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registered {
    /// It is new.
    Made(ServerId),
    /// It was there, and is now as it was asked for.
    Updated(ServerId),
}

/// What registering a server would come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planned {
    /// A new one.
    Make,
    /// One that is there would be as it is asked for.
    Update,
}

/// How the id of a new server is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Naming {
    /// As clients compute it, where that is free.
    Known,
    /// Like no other.
    Fresh,
}

impl Catalog {
    /// A workspace's external servers, oldest first.
    pub async fn external_servers(
        &self,
        workspace: &WorkspaceId,
    ) -> Result<Seen<Vec<ExternalServer>>> {
        let at = self.head(workspace).await?;
        let rows = external_servers::list(&mut self.db().read().await?, workspace).await?;
        Ok(Seen { at, rows })
    }

    /// One external server and its tools, as they were last listed.
    pub async fn external_server(
        &self,
        workspace: &WorkspaceId,
        id: &ServerId,
    ) -> Result<Seen<(ExternalServer, Vec<Tool>)>> {
        let at = self.head(workspace).await?;
        let mut conn = self.db().read().await?;
        let server = find(&mut conn, workspace, id).await?;
        let tools = tools::of(&mut conn, id).await?;
        let rows = (server, tools);
        Ok(Seen { at, rows })
    }

    /// Registers a server. One with the same URL and name is rewritten instead.
    pub async fn register_server(
        &self,
        workspace: &WorkspaceId,
        by: Option<&UserId>,
        new: NewExternalServer,
    ) -> Result<Registered> {
        let checked = new.check()?;
        self.guard_address(&checked.url).await?;
        let registering = self.register(workspace, by, &checked, Naming::Known).await;
        match registering {
            // Another workspace took the id in between.
            Err(Error::Duplicate) => self.register(workspace, by, &checked, Naming::Fresh).await,
            other => other,
        }
    }

    /// What registering a server would come to, refused where that would be.
    pub async fn plan_server(
        &self,
        workspace: &WorkspaceId,
        new: &NewExternalServer,
    ) -> Result<Planned> {
        let checked = new.clone().check()?;
        self.guard_address(&checked.url).await?;
        let rows = external_servers::list(&mut self.db().read().await?, workspace).await?;
        if rows.iter().any(|row| is_same(row, &checked)) {
            return Ok(Planned::Update);
        }
        room_for_one_more(rows.len())?;
        Ok(Planned::Make)
    }

    async fn register(
        &self,
        workspace: &WorkspaceId,
        by: Option<&UserId>,
        checked: &Checked,
        naming: Naming,
    ) -> Result<Registered> {
        let mut write = self.begin(workspace).await?;
        let rows = external_servers::list(&mut write, workspace).await?;
        if let Some(there) = rows.iter().find(|row| is_same(row, checked)) {
            let id = there.id.clone();
            let there = lock(&mut write, workspace, &id).await?;
            let mut checked = checked.clone();
            // Asked for again as before, it is still one to sign in to: that was found out.
            let learned = there.settings.auth_type == AuthType::Oauth;
            if learned && checked.auth_type == AuthType::None {
                checked.auth_type = AuthType::Oauth;
            }
            self.set(write, there, checked).await?;
            return Ok(Registered::Updated(id));
        }
        room_for_one_more(rows.len())?;
        let id = match naming {
            Naming::Known => {
                let known = id::deterministic(workspace, &checked.url);
                let taken = external_servers::by_id(&mut write, &known).await?.is_some();
                if taken { id::fresh(self.now()) } else { known }
            }
            Naming::Fresh => id::fresh(self.now()),
        };
        let settings = self.sealed(&id, checked.clone());
        let new = NewServer {
            id: &id,
            workspace,
            created_by: by,
            settings: &settings,
            at: self.now(),
        };
        external_servers::insert(&mut write, &new).await?;
        write.tell_state(workspace, &id);
        write.commit().await?;
        self.upstream().nudge(&id);
        Ok(Registered::Made(id))
    }

    /// Edits a server. What its session depends on begins another one.
    pub async fn edit_external_server(
        &self,
        workspace: &WorkspaceId,
        id: &ServerId,
        edit: ExternalServerEdit,
    ) -> Result<ExternalServer> {
        if let Some(url) = edit.url()? {
            // Unknown servers first: a name is looked up for nobody.
            find(&mut self.db().read().await?, workspace, id).await?;
            self.guard_address(&url).await?;
        }
        let mut write = self.begin(workspace).await?;
        let row = lock(&mut write, workspace, id).await?;
        let checked = edit.apply(self.opened(&row))?;
        self.set(write, row, checked).await
    }

    /// Stores what is set now, and tells what that takes away.
    async fn set(
        &self,
        mut write: Write,
        row: ExternalServer,
        checked: Checked,
    ) -> Result<ExternalServer> {
        let was = self.opened(&row);
        if was == checked {
            return Ok(row);
        }
        let id = row.id;
        let mut taken_back = None;
        if was.same_session(&checked) {
            let (name, description) = (&checked.name, checked.description.as_deref());
            external_servers::describe(&mut write, &id, name, description, self.now()).await?;
        } else {
            let (disabled, name) = (!checked.enabled, checked.name.clone());
            if checked.ends_sign_in(&was) {
                taken_back = oauth::forget(&mut write, &id).await?;
            }
            let settings = self.sealed(&id, checked);
            external_servers::update(&mut write, &id, &settings, self.now()).await?;
            if disabled {
                tell_gone(&mut write, &id, &name).await?;
                tools::forget(&mut write, &id).await?;
            }
        }
        let row = lock(&mut write, &row.workspace_id, &id).await?;
        write.tell_state(&row.workspace_id, &id);
        write.commit().await?;
        self.upstream().nudge(&id);
        self.upstream().take_back(&id, taken_back);
        Ok(row)
    }

    /// Deletes a server and its tools.
    pub async fn delete_external_server(
        &self,
        workspace: &WorkspaceId,
        id: &ServerId,
    ) -> Result<()> {
        let mut write = self.begin(workspace).await?;
        let row = lock(&mut write, workspace, id).await?;
        tell_gone(&mut write, id, &row.settings.name).await?;
        let taken_back = oauth::forget(&mut write, id).await?;
        external_servers::delete(&mut write, id).await?;
        write.tell_state(workspace, id);
        write.commit().await?;
        self.upstream().nudge(id);
        self.upstream().take_back(id, taken_back);
        Ok(())
    }

    /// Refuses an address that must not be spoken to.
    pub(super) async fn guard_address(&self, url: &str) -> Result<()> {
        let url =
            Url::parse(url).map_err(|_| Refusal::forbidden("MCP server URL is not a valid URL"))?;
        self.net().check_server(&url)?;
        self.net().resolve_check(&url).await?;
        Ok(())
    }

    /// What is set of a server, with its headers in the open.
    fn opened(&self, row: &ExternalServer) -> Checked {
        let set = row.settings.clone();
        Checked {
            client: GivenClient::opened(&self.shared.sealer, &row.id, &set),
            headers: self.opened_headers(row),
            name: set.name,
            description: set.description,
            url: set.url,
            transport: set.transport,
            protocol_version: set.protocol_version,
            timeout_ms: set.timeout_ms,
            retries: set.retries,
            enabled: set.enabled,
            auth_type: set.auth_type,
        }
    }

    /// A server's headers; none when they cannot be opened any more.
    fn opened_headers(&self, row: &ExternalServer) -> Headers {
        let sealed = row.settings.headers.as_ref();
        upstream::read_headers(&self.shared.sealer, &row.id, sealed).unwrap_or_default()
    }

    fn sealed(&self, id: &ServerId, checked: Checked) -> Settings {
        let client = checked.client.as_ref();
        Settings {
            oauth_client_id: client.map(|client| client.id.clone()),
            oauth_client_secret: client
                .and_then(|client| client.sealed_secret(&self.shared.sealer, id)),
            name: checked.name,
            description: checked.description,
            url: checked.url,
            transport: checked.transport,
            protocol_version: checked.protocol_version,
            auth_type: checked.auth_type,
            header_names: JsonText(headers::names(&checked.headers)),
            headers: upstream::seal_headers(&self.shared.sealer, id, &checked.headers),
            timeout_ms: checked.timeout_ms,
            retries: checked.retries,
            enabled: checked.enabled,
        }
    }
}

fn room_for_one_more(servers: usize) -> std::result::Result<(), Refusal> {
    if servers < SERVERS {
        return Ok(());
    }
    let text = format!("Workspace can include at most {SERVERS} external MCP servers");
    Err(Refusal::invalid(text))
}

/// Whether a server that is there is the one that is asked for.
fn is_same(row: &ExternalServer, checked: &Checked) -> bool {
    row.settings.name == checked.name && id::same_place(&row.settings.url, &checked.url)
}

/// Tells that all of a server's tools are gone; silent when there are none.
async fn tell_gone(write: &mut Write, id: &ServerId, name: &str) -> Result<()> {
    let tools = tools::of(&mut *write, id).await?;
    if let Some(diff) = ToolDiff::between(&tools, &[]) {
        write.record(Source::External, id, name, &diff).await?;
    }
    Ok(())
}

/// A server of the workspace.
pub(super) async fn find(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    id: &ServerId,
) -> Result<ExternalServer> {
    let found = if text::is_id(id.as_str()) {
        external_servers::find(conn, workspace, id).await?
    } else {
        None
    };
    Ok(found.ok_or_else(unknown)?)
}

/// The same; `None` when there is no such.
pub(super) async fn known(
    catalog: &Catalog,
    workspace: &WorkspaceId,
    id: &ServerId,
) -> Result<Option<ExternalServer>> {
    if !text::is_id(id.as_str()) {
        return Ok(None);
    }
    external_servers::find(&mut catalog.db().read().await?, workspace, id).await
}

async fn lock(
    conn: impl Into<Conn<'_>>,
    workspace: &WorkspaceId,
    id: &ServerId,
) -> Result<ExternalServer> {
    let found = if text::is_id(id.as_str()) {
        external_servers::lock(conn, workspace, id).await?
    } else {
        None
    };
    Ok(found.ok_or_else(unknown)?)
}

pub(super) fn unknown() -> Refusal {
    Refusal::not_found("Server not found or access denied")
}
