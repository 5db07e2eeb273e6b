-- The first schema. Columns are added later, never renamed or dropped in one step.
-- JSON is kept as text: key order is part of what clients see, and `jsonb` would lose it.

CREATE TABLE meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

CREATE TABLE user_account (
    id                TEXT PRIMARY KEY,
    email             TEXT NOT NULL UNIQUE,
    name              TEXT NOT NULL,
    password_hash     TEXT,
    is_instance_admin BOOLEAN NOT NULL,
    created_at        TIMESTAMPTZ NOT NULL,
    updated_at        TIMESTAMPTZ NOT NULL
);

CREATE TABLE session (
    id         TEXT PRIMARY KEY,
    token_hash BYTEA NOT NULL UNIQUE,
    user_id    TEXT NOT NULL REFERENCES user_account (id) ON DELETE CASCADE,
    created_at TIMESTAMPTZ NOT NULL,
    touched_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX session_holder ON session (user_id);
CREATE INDEX session_expiry ON session (expires_at);

CREATE TABLE sign_in_link (
    token_hash BYTEA PRIMARY KEY,
    user_id    TEXT NOT NULL REFERENCES user_account (id) ON DELETE CASCADE,
    created_at TIMESTAMPTZ NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX sign_in_link_user ON sign_in_link (user_id);

-- Tries to sign in that count against an address or a client.
CREATE TABLE sign_in_failure (
    id      TEXT PRIMARY KEY,
    subject TEXT NOT NULL,
    at      TIMESTAMPTZ NOT NULL
);
CREATE INDEX sign_in_failure_subject ON sign_in_failure (subject, at);
CREATE INDEX sign_in_failure_at ON sign_in_failure (at);

CREATE TABLE workspace (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    created_by TEXT REFERENCES user_account (id) ON DELETE SET NULL,
    revision   BIGINT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL,
    updated_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX workspace_created_by ON workspace (created_by);

CREATE TABLE membership (
    workspace_id TEXT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    user_id      TEXT NOT NULL REFERENCES user_account (id) ON DELETE CASCADE,
    permission   TEXT NOT NULL,
    created_at   TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (workspace_id, user_id)
);
CREATE INDEX membership_user ON membership (user_id);

-- `draft_*` is what one edits, `deployed_*` the copy that schemas and calls read.
CREATE TABLE workflow (
    id                   TEXT PRIMARY KEY,
    workspace_id         TEXT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    created_by           TEXT REFERENCES user_account (id) ON DELETE SET NULL,
    name                 TEXT NOT NULL,
    description          TEXT,
    draft_input          TEXT NOT NULL,
    draft_url            TEXT,
    draft_header_names   TEXT NOT NULL,
    draft_headers        BYTEA,
    draft_timeout_ms     BIGINT NOT NULL,
    is_deployed          BOOLEAN NOT NULL,
    deployed_at          TIMESTAMPTZ,
    deployed_input       TEXT,
    deployed_has_start   BOOLEAN NOT NULL,
    deployed_url         TEXT,
    deployed_headers     BYTEA,
    deployed_timeout_ms  BIGINT,
    created_at           TIMESTAMPTZ NOT NULL,
    updated_at           TIMESTAMPTZ NOT NULL
);
CREATE INDEX workflow_workspace ON workflow (workspace_id, id);
CREATE INDEX workflow_created_by ON workflow (created_by);

CREATE TABLE workflow_server (
    id           TEXT PRIMARY KEY,
    workspace_id TEXT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    created_by   TEXT REFERENCES user_account (id) ON DELETE SET NULL,
    name         TEXT NOT NULL,
    description  TEXT,
    is_public    BOOLEAN NOT NULL,
    created_at   TIMESTAMPTZ NOT NULL,
    updated_at   TIMESTAMPTZ NOT NULL
);
CREATE INDEX workflow_server_workspace ON workflow_server (workspace_id, id);
CREATE INDEX workflow_server_created_by ON workflow_server (created_by);

CREATE TABLE workflow_server_tool (
    id                              TEXT PRIMARY KEY,
    server_id                       TEXT NOT NULL REFERENCES workflow_server (id) ON DELETE CASCADE,
    workflow_id                     TEXT NOT NULL REFERENCES workflow (id) ON DELETE CASCADE,
    tool_name                       TEXT NOT NULL,
    tool_description                TEXT,
    parameter_schema                TEXT NOT NULL,
    parameter_description_overrides TEXT NOT NULL,
    created_at                      TIMESTAMPTZ NOT NULL,
    updated_at                      TIMESTAMPTZ NOT NULL,
    UNIQUE (server_id, workflow_id),
    UNIQUE (server_id, tool_name)
);
CREATE INDEX workflow_server_tool_workflow ON workflow_server_tool (workflow_id);

-- The feed. `definitions` is dropped before the row is; names stay.
CREATE TABLE tool_change (
    workspace_id      TEXT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    revision          BIGINT NOT NULL,
    stamp             TEXT NOT NULL,
    source            TEXT NOT NULL,
    server_id         TEXT NOT NULL,
    server_name       TEXT NOT NULL,
    added             TEXT NOT NULL,
    removed           TEXT NOT NULL,
    changed           TEXT NOT NULL,
    definitions       TEXT,
    definitions_bytes BIGINT NOT NULL,
    at                TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (workspace_id, revision)
);
CREATE INDEX tool_change_server ON tool_change (workspace_id, server_id, revision);
CREATE INDEX tool_change_at ON tool_change (at);

-- Rights that were taken away. The counter is locked last in its transaction, so numbers come
-- out in commit order and without holes.
CREATE TABLE revocation_counter (
    id  INTEGER PRIMARY KEY,
    seq BIGINT NOT NULL
);
INSERT INTO revocation_counter (id, seq) VALUES (1, 0);

CREATE TABLE revocation (
    seq     BIGINT PRIMARY KEY,
    subject TEXT NOT NULL,
    reason  TEXT NOT NULL,
    at      TIMESTAMPTZ NOT NULL
);
