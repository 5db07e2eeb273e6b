-- MCP servers elsewhere. One row holds what its owner guards: every write of an owner first makes
-- an UPDATE of this row match its owner, fence and config_version.

CREATE TABLE external_server (
    id               TEXT PRIMARY KEY,
    workspace_id     TEXT NOT NULL REFERENCES workspace (id) ON DELETE CASCADE,
    created_by       TEXT REFERENCES user_account (id) ON DELETE SET NULL,
    -- What people set.
    name             TEXT NOT NULL,
    description      TEXT,
    url              TEXT NOT NULL,
    transport        TEXT NOT NULL,
    protocol_version TEXT,
    auth_type        TEXT NOT NULL,
    header_names     TEXT NOT NULL,
    headers          BLOB,
    timeout_ms       BIGINT NOT NULL,
    retries          BIGINT NOT NULL,
    enabled          BOOLEAN NOT NULL,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    -- Goes up with everything that a session depends on, so that no attempt outlives an edit.
    config_version   BIGINT NOT NULL,
    -- What people want of it: 'connected' or 'paused'; the number goes up with every command.
    wanted           TEXT NOT NULL,
    command          BIGINT NOT NULL,
    -- Who watches it. Fence goes up with every owner.
    owner            TEXT,
    fence            BIGINT NOT NULL,
    lease_expires_at INTEGER,
    -- Where its session stands, by the owner with `state_fence`, as its `state_n`-th.
    state            TEXT NOT NULL,
    previous_state   TEXT NOT NULL,
    state_fence      BIGINT NOT NULL,
    state_n          BIGINT NOT NULL,
    state_at         INTEGER NOT NULL,
    push             TEXT,
    -- What was found out about it, remembered so that it is not asked again: era, version.
    generation       TEXT,
    negotiated       TEXT,
    last_error       TEXT,
    -- The last command that was carried out, and how it went.
    command_done     BIGINT NOT NULL,
    outcome          TEXT,
    attempts         BIGINT NOT NULL,
    error_code       TEXT,
    duration_ms      BIGINT NOT NULL,
    -- Its list: the tools themselves are in `external_server_tools`, written with this row.
    digest           BLOB,
    tool_count       BIGINT NOT NULL,
    stale            BOOLEAN NOT NULL,
    listed_at        INTEGER,
    connected_at     INTEGER,
    -- Times in a row that it could not be listed.
    failures         BIGINT NOT NULL
);
CREATE INDEX external_server_workspace ON external_server (workspace_id, id);
CREATE INDEX external_server_created_by ON external_server (created_by);
CREATE INDEX external_server_owner ON external_server (owner);
CREATE INDEX external_server_lease ON external_server (lease_expires_at);

-- Apart from the row above, which is written every few seconds.
CREATE TABLE external_server_tools (
    server_id TEXT PRIMARY KEY REFERENCES external_server (id) ON DELETE CASCADE,
    tools     TEXT NOT NULL
);
