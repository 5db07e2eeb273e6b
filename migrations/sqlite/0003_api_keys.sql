-- Keys for scripts and MCP clients. Without a workspace a key is its user's own and may at most
-- what they may; with one it is the workspace's, and the user is who answers for it.

CREATE TABLE api_key (
    id           TEXT PRIMARY KEY,
    token_hash   BLOB NOT NULL UNIQUE,
    user_id      TEXT NOT NULL REFERENCES user_account (id) ON DELETE CASCADE,
    workspace_id TEXT REFERENCES workspace (id) ON DELETE CASCADE,
    name         TEXT NOT NULL,
    permission   TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER
);
CREATE INDEX api_key_user ON api_key (user_id);
CREATE INDEX api_key_workspace ON api_key (workspace_id);
CREATE INDEX api_key_expiry ON api_key (expires_at);
