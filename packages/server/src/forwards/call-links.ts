import type { JsonObject } from '@sluice/protocol/json/parse';
import { capabilityKey, isAskable, lowerLevel } from '@sluice/protocol/mcp/capabilities';
import { LATEST_LEGACY } from '@sluice/protocol/mcp/constants';
import type { Implementation } from '../mcp/identity.ts';
import type { ClientSession } from '../sessions/sessions.ts';
import type { CallSessions } from './call-sessions.ts';
import type { UpstreamLink } from './links.ts';
import type { SessionLinks } from './session-links.ts';
import type { Upstream } from './upstream.ts';
import { within } from './within.ts';

export interface CallLinksOptions {
  readonly sessionLinks: SessionLinks;
  readonly callSessions: CallSessions;
  /** Who we are, told to upstreams by clients that open no session. */
  readonly serverInfo: Implementation;
}

/** Whose call it is, as far as the upstream's session is concerned. */
export interface LinkCaller {
  readonly namespace: { readonly name: string } | undefined;
  readonly session: ClientSession | undefined;
  readonly user: string | undefined;
  /** What the upstream is told that the client can do. */
  readonly capabilities: JsonObject;
  /** Headers besides the protocol's own that go upstream. */
  readonly headers: readonly string[];
  /** The level of log messages that this request asks for; undefined where that is not said with requests. */
  readonly logLevel: string | undefined;
}

/** An upstream that does not take a log level in this time, in milliseconds, is asked without. */
const LEVEL_MS = 5_000;

/** Finds the session that a call to a legacy upstream goes out in. */
export class CallLinks {
  readonly #options: CallLinksOptions;

  constructor(options: CallLinksOptions) {
    this.#options = options;
  }

  /**
   * Whose session a call to a legacy upstream goes out in, asked for when it is sent: a legacy client's own, one per upstream; for a modern
   * client that can be asked something one that it has for itself; for others one that is shared by those who look the
   * same to the upstream (mcp 4). Rejects with `UpstreamError`.
   */
  of(upstream: Upstream, caller: LinkCaller): () => UpstreamLink | Promise<UpstreamLink> {
    const { links } = upstream;
    const { sessionLinks, callSessions, serverInfo } = this.#options;
    const { session, user, namespace, capabilities, headers, logLevel } = caller;
    if (session) return () => sessionLinks.link(upstream, session, headers);
    const key = JSON.stringify([namespace?.name, capabilityKey(capabilities), user, headers]);
    const owner = { key, protocolVersion: LATEST_LEGACY, capabilities, clientInfo: { ...serverInfo }, headers };
    const link = isAskable(capabilities)
      ? () => callSessions.take(upstream, owner)
      : () => links.get(key) ?? links.open(owner);
    return logLevel === undefined ? link : async () => levelled(await link(), logLevel);
  }
}

/** Has the upstream send what this level lets through, if it sends less: what other calls do not want, they leave out. */
async function levelled(link: UpstreamLink, level: string): Promise<UpstreamLink> {
  const { client, logLevel } = link;
  if (client?.serverCapabilities.logging === undefined || !lowerLevel(level, logLevel)) return link;
  link.logLevel = level;
  await within(
    LEVEL_MS,
    client.request('logging/setLevel', { level }).catch(() => undefined),
  );
  return link;
}
