-- External servers that want OAuth: who signs in, and what was granted.

-- A client that was registered with the authorization server by hand; the secret is sealed.
ALTER TABLE external_server ADD COLUMN oauth_client_id TEXT;
ALTER TABLE external_server ADD COLUMN oauth_client_secret BLOB;

-- One row for a server, from the first time that someone has to sign in. Apart from the server's
-- own row, which its owner writes every few seconds.
CREATE TABLE external_server_oauth (
    server_id     TEXT PRIMARY KEY REFERENCES external_server (id) ON DELETE CASCADE,
    -- What the server last wanted (WWW-Authenticate); none once someone signed in.
    challenge     TEXT,
    -- A sign-in under way: who began it and when, the SHA-256 of its state, and, sealed, what its
    -- end needs (the verifier among it).
    flow_user     TEXT REFERENCES user_account (id) ON DELETE SET NULL,
    flow_begun_at INTEGER,
    flow_state    BLOB UNIQUE,
    flow          BLOB,
    -- The authorization server that the client registered by hand belongs to, once it was used.
    client_issuer TEXT,
    -- Tokens, sealed, with the client and the authorization server they belong to. The number goes
    -- up with whatever takes their place, and with their end.
    tokens        BLOB,
    generation    BIGINT NOT NULL,
    -- The authorization server takes these back: they are not tried again.
    rejected      BOOLEAN NOT NULL,
    -- By the database's clock; none where the authorization server does not say.
    expires_at    INTEGER,
    renew_at      INTEGER,
    -- The replica that asks for new ones, for as long as this lease lives.
    refresher     TEXT,
    refresh_until INTEGER
);
CREATE INDEX external_server_oauth_flow_user ON external_server_oauth (flow_user);
