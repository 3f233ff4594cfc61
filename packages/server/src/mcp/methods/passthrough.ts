import type { Registry } from '../../registry/registry.ts';
import type { CallRouter } from '../../upstreams/mcp/relay/router.ts';
import type { ClientProfiles } from '../client-profile.ts';
import type { McpFilter } from '../request.ts';
import { declarationsTo, forwardForMethod } from '../server-info.ts';

/** Dependencies of filters that relay by declared capability. */
export interface RelayParts {
  readonly registry: Registry;
  readonly profiles: ClientProfiles;
  readonly relay: CallRouter;
}

/**
 * Methods of the protocol's core, in lower case, of any era and direction. Other filters handle the supported ones; one
 * that arrives here belongs to the other era or to servers, and is not forwarded.
 */
const RESERVED: ReadonlySet<string> = new Set([
  'initialize',
  'ping',
  'server/discover',
  'logging/setlevel',
  'tools/list',
  'tools/call',
  'resources/list',
  'resources/templates/list',
  'resources/read',
  'resources/subscribe',
  'resources/unsubscribe',
  'prompts/list',
  'prompts/get',
  'completion/complete',
  'subscriptions/listen',
  'sampling/createmessage',
  'elicitation/create',
  'roots/list',
]);

/**
 * Forwards unknown requests, such as tasks and vendor methods, unchanged when exactly one forward of the namespace can
 * be the target (mcp 6). Last of its chain: all others end as an unknown method.
 */
export function serviceRelay({ registry, profiles, relay }: RelayParts): McpFilter {
  return (context) => {
    const { message, namespace, session, era, capabilities } = context;
    if (message?.kind !== 'request' || !namespace) return undefined;
    const { method } = message;
    if (RESERVED.has(method.trim().toLowerCase()) || method.startsWith('notifications/')) return undefined;
    const profile = session?.profile ?? profiles.of(era, capabilities);
    // A method of one era does not exist in the other, even under the same name.
    const declarations = declarationsTo(profile, registry.current, namespace).filter((one) => one.era === era);
    const forward = forwardForMethod(method, declarations);
    return forward === undefined ? undefined : relay.call(context, message, { forward });
  };
}
