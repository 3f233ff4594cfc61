/** The paths by which clients find their identity provider (decisions 5.1); they are no MCP endpoints. */
const FIXED: ReadonlySet<string> = new Set([
  '/.well-known/openid-configuration',
  '/.well-known/oauth-authorization-server',
  '/authorize',
  '/token',
  '/register',
]);
const RESOURCE = /^\/\.well-known\/oauth-protected-resource\/([^/]+)\/mcp$/;

/** True for a path that `service_well_known` answers. */
export function isOAuthPath(path: string): boolean {
  return FIXED.has(path) || RESOURCE.test(path);
}

/** The namespace whose protected-resource document is asked for, as the path spells it; undefined for other paths. */
export function protectedResource(path: string): string | undefined {
  return RESOURCE.exec(path)?.[1];
}
