import type { IncomingHttpHeaders } from 'node:http';

/**
 * The user as the authenticating proxy passes it (mcp 3); undefined without such a proxy. Where both headers name one and
 * differ, the client may have sent the one that its proxy does not set: then it is neither of the two.
 */
export function userOf(headers: IncomingHttpHeaders): string | undefined {
  const { 'x-forwarded-user': forwarded, 'x-auth-request-user': requested } = headers;
  if (forwarded === undefined || requested === undefined || forwarded === requested) {
    return (forwarded ?? requested)?.toString();
  }
  return JSON.stringify([forwarded, requested]);
}
