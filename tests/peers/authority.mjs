// An authorization server on oidc-provider: authority.mjs PORT SECONDS
//
// Clients register themselves, PKCE is demanded, refresh tokens are used once. Access tokens live for SECONDS. Anyone signs in under any
// name. Whoever wants to know what a token is good for asks as the client `peer`.

import Provider from "oidc-provider";

const [port, seconds] = process.argv.slice(2).map(Number);
const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: [{ client_id: "peer", client_secret: "peer", grant_types: [], response_types: [], redirect_uris: [] }],
  cookies: { keys: ["for these tests alone"] },
  features: {
    introspection: { enabled: true, allowedPolicy: () => true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, resource) => ({ scope: "mcp", audience: resource, accessTokenTTL: seconds, accessTokenFormat: "opaque" }),
      useGrantedResource: () => true,
    },
    revocation: { enabled: true },
  },
  findAccount: (_, sub) => ({ accountId: sub, claims: async () => ({ sub }) }),
  issueRefreshToken: (_, client) => client.grantTypeAllowed("refresh_token"),
  pkce: { required: () => true },
  rotateRefreshToken: true,
  scopes: ["openid", "offline_access", "mcp"],
  ttl: { AccessToken: seconds },
});
provider.listen(port, "127.0.0.1");
