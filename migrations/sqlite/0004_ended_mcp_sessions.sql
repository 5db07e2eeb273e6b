-- Sessions of MCP clients that were ended before their token ran out. Sessions themselves are kept
-- nowhere: the token is all there is of one.

CREATE TABLE ended_mcp_session (
    token_hash TEXT PRIMARY KEY,
    expires_at INTEGER NOT NULL
);
CREATE INDEX ended_mcp_session_expiry ON ended_mcp_session (expires_at);
