import type { Filter } from '../../http/chain.ts';
import type { Registry } from '../../registry/registry.ts';
import type { CallRouter } from '../../upstreams/mcp/relay/relay.ts';
import type { ClientProfiles } from '../client-profile.ts';
import { declarationsTo, forwardForMethod } from '../server-info.ts';

/** What filters work with that ask a forward for what it declares. */
export interface RelayParts {
  readonly registry: Registry;
  readonly profiles: ClientProfiles;
  readonly relay: CallRouter;
}

/**
 * Methods of the protocol's core, in lower case, in any era and direction. Other filters answer them where they are to be answered;
 * one that arrives here is not of the client's era, or not a client's to send, and an upstream is not asked either.
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
 * Passes requests that nobody here answers, tasks and vendors' methods, on as they are, when exactly one forward of the
 * namespace can be meant (mcp 6). Last of its chain: what it leaves is answered that the method is unknown.
 */
export function serviceRelay({ registry, profiles, relay }: RelayParts): Filter {
  return (context) => {
    const { message, namespace, session, era, capabilities } = context;
    if (message?.kind !== 'request' || !namespace) return undefined;
    const { method } = message;
    if (RESERVED.has(method.trim().toLowerCase()) || method.startsWith('notifications/')) return undefined;
    const profile = session?.profile ?? profiles.of(era, capabilities);
    // A method of one era is none of the other, whatever it is called.
    const declarations = declarationsTo(profile, registry.current, namespace).filter((one) => one.era === era);
    const forward = forwardForMethod(method, declarations);
    return forward === undefined ? undefined : relay.call(context, message, { kind: 'method', forward });
  };
}
