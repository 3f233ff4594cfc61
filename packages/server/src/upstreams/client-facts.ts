import type { IncomingHttpHeaders } from 'node:http';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { acceptsEventStream, acceptsJson } from '@sluice/protocol/mcp/accept';
import { type Era, HEADER_NAME, HEADER_PARAM_PREFIX } from '@sluice/protocol/mcp/constants';
import type { Correlation } from '../exchange/correlation.ts';
import type { RequestHead } from '../exchange/exchange.ts';
import type { ExchangeFacts } from '../exchange/facts.ts';
import type { Authenticated } from '../identity/authenticator.ts';
import { ANONYMOUS, type Principal } from '../identity/principal.ts';
import type { DownstreamSession } from './downstream.ts';

/** What a call knows of its client: computed once. A call may outlive its request, and retains nothing else of it. */
export interface ClientFacts {
  /** JSON text of the request id, as sent by the client. */
  readonly idText: string;
  readonly namespace: string | undefined;
  readonly principal: Principal;
  /** Undefined for requests of our own. */
  readonly authenticated: Authenticated | undefined;
  readonly era: Era;
  /** Session of a legacy client. */
  readonly session: DownstreamSession | undefined;
  readonly capabilities: JsonObject;
  /** Media types of responses; `sse`: event streams. */
  readonly accepts: { readonly json: boolean; readonly sse: boolean };
  /**
   * Headers that accompany the request upstream: the hop count, and those of the client that the operator forwards. Names and
   * values, alternating. Undefined in a forwarding loop.
   */
  readonly copiedHeaders: readonly string[] | undefined;
  /** `Mcp-Name` and `Mcp-Param-*`, as sent by the client; those of a call of the console are set here. */
  readonly mcpHeaders: IncomingHttpHeaders;
  readonly correlation: Correlation;
  readonly address: string | undefined;
  /** How the request was handled; undefined if the call belongs to no request of the client. */
  readonly facts: ExchangeFacts | undefined;
}

/** A request that may be executed upstream. */
export interface ClientRequest
  extends Pick<ClientFacts, 'idText' | 'principal' | 'authenticated' | 'era' | 'session' | 'capabilities'> {
  readonly namespace: { readonly name: string } | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly correlation: Correlation;
  readonly head: Pick<RequestHead, 'address'>;
  readonly facts: ExchangeFacts;
  /** Set once it is known what is executed. */
  client: ClientFacts | undefined;
}

/** Returns the facts of the client of a request. */
export function clientFacts(request: ClientRequest, copiedHeaders: readonly string[] | undefined): ClientFacts {
  const { idText, namespace, principal, authenticated, era, session, capabilities, headers, correlation, head, facts } =
    request;
  return {
    idText,
    namespace: namespace?.name,
    principal,
    authenticated,
    era,
    session,
    capabilities,
    accepts: acceptedTypes(headers.accept),
    copiedHeaders,
    mcpHeaders: correlation.via === undefined ? mcpHeaders(headers) : NONE,
    correlation,
    address: head.address,
    facts,
  };
}

const NONE: IncomingHttpHeaders = {};

function mcpHeaders(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  let found: IncomingHttpHeaders | undefined;
  for (const name of Object.keys(headers)) {
    if (name !== HEADER_NAME && !name.startsWith(HEADER_PARAM_PREFIX)) continue;
    found ??= {};
    found[name] = headers[name];
  }
  return found ?? NONE;
}

/** Of nearly all clients. */
const BOTH_TYPES = { json: true, sse: true };

/** Returns the media types that a header `Accept` allows. */
export function acceptedTypes(accept: string | undefined): ClientFacts['accepts'] {
  const json = acceptsJson(accept);
  const sse = acceptsEventStream(accept);
  return json && sse ? BOTH_TYPES : { json, sse };
}

/** The client of requests of our own. */
export const NO_CLIENT: ClientFacts = {
  idText: '0',
  namespace: undefined,
  principal: ANONYMOUS,
  authenticated: undefined,
  // The end of a connection does not end the request.
  era: 'legacy',
  session: undefined,
  capabilities: {},
  accepts: { json: true, sse: false },
  copiedHeaders: [],
  mcpHeaders: NONE,
  correlation: { conversationId: undefined, requestId: undefined },
  address: undefined,
  facts: undefined,
};
