//! A workspace's page, and the forms on it.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use serde::Deserialize;
use serde_json::Map;
use url::Url;

use super::assets;
use super::form::{Form, shown_again};
use super::page::{Refused, render};
use super::problem::{PageResult, Visitor};
use crate::api::{ApiError, Query};
use crate::auth::{Auth, Caller, User, Workspace};
use crate::catalog::{self, Catalog, NewExternalServer};
use crate::model::Permission;
use crate::model::ids::WorkspaceId;

/// A name's only rule, for people.
const BAD_NAME: &str = "A workspace's name has 1 to 200 characters.";

/// What the bar at the top shows.
struct Bar<'a> {
    user: &'a User,
    workspaces: &'a [Workspace],
    /// The one on the page; `None` where there is none yet.
    shown: Option<&'a WorkspaceId>,
}

impl Bar<'_> {
    fn user_label(&self) -> &str {
        if self.user.name.is_empty() {
            &self.user.email
        } else {
            &self.user.name
        }
    }

    fn shows(&self, workspace: &Workspace) -> bool {
        self.shown == Some(&workspace.id)
    }
}

#[derive(Template)]
#[template(path = "home.html")]
struct HomePage<'a> {
    assets: &'a str,
    bar: Bar<'a>,
    workspace: &'a Workspace,
    error: Option<&'a str>,
}

impl HomePage<'_> {
    fn may_write(&self) -> bool {
        self.workspace.permission >= Permission::Write
    }
}

#[derive(Template)]
#[template(path = "new_workspace.html")]
struct NewWorkspacePage<'a> {
    assets: &'a str,
    bar: Bar<'a>,
    name: &'a str,
    error: Option<&'a str>,
}

/// Which workspace to show; the first one when it is not named.
#[derive(Debug, Deserialize)]
pub(super) struct Which {
    workspace: Option<WorkspaceId>,
}

/// The workspace's page; for someone without a workspace, the form that makes one.
pub(super) async fn show(
    State(auth): State<Auth>,
    Visitor(caller): Visitor,
    Query(which): Query<Which>,
) -> PageResult {
    let workspaces = auth.workspaces(&caller).await?;
    let named = which.workspace.filter(|id| !id.as_str().is_empty());
    let shown = workspaces
        .iter()
        .find(|workspace| named.as_ref().is_none_or(|id| *id == workspace.id));
    match shown {
        Some(workspace) => Ok(render(
            StatusCode::OK,
            &home(&caller, &workspaces, workspace, None),
        )),
        None if workspaces.is_empty() => Ok(render(
            StatusCode::OK,
            &new_workspace(&caller, &workspaces, "", None),
        )),
        None => Err(no_access().into()),
    }
}

/// Makes a workspace and leads to it. A refusal is told in the form.
pub(super) async fn make_workspace(
    State(auth): State<Auth>,
    Visitor(caller): Visitor,
    form: Form,
) -> PageResult {
    let name = form.text("name");
    match auth.create_workspace(&caller, name).await {
        Ok(workspace) => Ok(lead_to(&workspace.id)),
        Err(error) => {
            let refused = Refused::from(error).reading("Invalid request format", BAD_NAME);
            let workspaces = auth.workspaces(&caller).await?;
            let error = Some(refused.text.as_str());
            let page = new_workspace(&caller, &workspaces, shown_again(name), error).render();
            Ok(refused.on(page))
        }
    }
}

/// Makes the sample and leads back to its workspace. A refusal is told on the page.
pub(super) async fn make_sample(
    State(auth): State<Auth>,
    State(catalog): State<Catalog>,
    Visitor(caller): Visitor,
    form: Form,
) -> PageResult {
    let workspaces = auth.workspaces(&caller).await?;
    let workspace = writable(&workspaces, &form)?;
    let made = catalog.make_sample(&caller, &workspace.id).await;
    Ok(done_or_told(made, &caller, &workspaces, workspace))
}

/// Registers an external server and leads back to its workspace. A refusal is told on the page.
pub(super) async fn add_server(
    State(auth): State<Auth>,
    State(catalog): State<Catalog>,
    Visitor(caller): Visitor,
    form: Form,
) -> PageResult {
    let workspaces = auth.workspaces(&caller).await?;
    let workspace = writable(&workspaces, &form)?;
    let new = asked_for(&form);
    let (id, by) = (&workspace.id, &caller.user.id);
    let made = catalog.register_server(id, Some(by), new).await;
    Ok(done_or_told(made, &caller, &workspaces, workspace))
}

/// What the form says of a server; it is called by its host when it has no name.
fn asked_for(form: &Form) -> NewExternalServer {
    let filled = |field: &str| Some(form.text(field).trim()).filter(|text| !text.is_empty());
    let url = filled("url");
    let host = url.and_then(|url| Url::parse(url).ok());
    let host = host.and_then(|url| url.host_str().map(str::to_owned));
    let headers = filled("headerValue").map(|value| {
        let name = filled("headerName").unwrap_or("Authorization");
        Map::from_iter([(name.to_owned(), value.into())])
    });
    NewExternalServer {
        // A URL that is none is what the refusal should be about.
        name: filled("name")
            .map(str::to_owned)
            .or(host)
            .or(url.map(str::to_owned)),
        transport: Some("auto".to_owned()),
        url: url.map(str::to_owned),
        headers,
        ..NewExternalServer::default()
    }
}

/// The workspace that a form names, if its sender may write there.
fn writable<'w>(workspaces: &'w [Workspace], form: &Form) -> Result<&'w Workspace, ApiError> {
    let named = form.text("workspaceId");
    if named.is_empty() {
        let text = "The form does not say in which workspace.";
        return Err(ApiError::invalid(text));
    }
    let workspace = workspaces
        .iter()
        .find(|workspace| workspace.id.as_str() == named)
        .ok_or_else(no_access)?;
    if workspace.permission < Permission::Write {
        let text = "Write or admin permission required for MCP server management";
        return Err(ApiError::forbidden(text));
    }
    Ok(workspace)
}

fn done_or_told<T>(
    done: catalog::Result<T>,
    caller: &Caller,
    workspaces: &[Workspace],
    workspace: &Workspace,
) -> Response {
    match done {
        Ok(_) => lead_to(&workspace.id),
        Err(error) => {
            let refused = Refused::from(error);
            let page = home(caller, workspaces, workspace, Some(&refused.text)).render();
            refused.on(page)
        }
    }
}

fn home<'a>(
    caller: &'a Caller,
    workspaces: &'a [Workspace],
    workspace: &'a Workspace,
    error: Option<&'a str>,
) -> HomePage<'a> {
    HomePage {
        assets: &assets::BASE,
        bar: Bar {
            user: &caller.user,
            workspaces,
            shown: Some(&workspace.id),
        },
        workspace,
        error,
    }
}

fn new_workspace<'a>(
    caller: &'a Caller,
    workspaces: &'a [Workspace],
    name: &'a str,
    error: Option<&'a str>,
) -> NewWorkspacePage<'a> {
    NewWorkspacePage {
        assets: &assets::BASE,
        bar: Bar {
            user: &caller.user,
            workspaces,
            shown: None,
        },
        name,
        error,
    }
}

fn no_access() -> ApiError {
    ApiError::forbidden("Access denied to workspace")
}

fn lead_to(workspace: &WorkspaceId) -> Response {
    // An id is letters, digits and dashes: nothing to escape.
    Redirect::to(&format!("/?workspace={workspace}")).into_response()
}
