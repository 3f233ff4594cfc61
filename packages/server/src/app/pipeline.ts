import { INVALID_REQUEST } from '@sluice/protocol/mcp/constants';
import type { MessageLimits } from '@sluice/protocol/mcp/message';
import { servedOf } from '../exchange/correlation.ts';
import type { AdmittedRequests } from '../http/admitted-requests.ts';
import type { BodyBudget } from '../http/body-budget.ts';
import { compile, conditional, type NamedFilter } from '../http/chain.ts';
import { cors, corsHeaders } from '../http/filters/cors.ts';
import { headers, pathRewrite, staticResponse } from '../http/filters/rewrite.ts';
import { loadBalancer, router } from '../http/filters/route.ts';
import type { ListenerConnections } from '../http/listener-connections.ts';
import { httpProblem } from '../http/outcome.ts';
import { namespaceSegment, type PublicUrl, pathOf, withoutPrefix } from '../http/public-url.ts';
import type { HostOriginGuard } from '../http/request-validation.ts';
import { CHALLENGE, type ErrorResponse } from '../http/server/connection.ts';
import type { HttpServer } from '../http/server/http1-server.ts';
import { createHttpServer, type ServeRequest } from '../http/server.ts';
import type { Blocks } from '../identity/blocks.ts';
import type { Identity } from '../identity/identity.ts';
import { createInferenceRestriction, type InferenceAllow } from '../inference/allow.ts';
import { serviceIntercept } from '../inference/recorder.ts';
import { managementMcpNamespace } from '../management/server.ts';
import type { DiscoveryWaits } from '../mcp/discovery-waits.ts';
import { type FindMissing, McpExchange, type McpFilter, type McpOutcome } from '../mcp/exchange.ts';
import { EXPOSED_CHALLENGE, requestHandler, type ServingOptions } from '../mcp/listener.ts';
import { mcp, namespaceAt, namespaceCheck, serviceNamespace } from '../mcp/methods/parse.ts';
import { type AuthIssuer, isOAuthPath, serviceWellKnown } from '../mcp/oauth-metadata.ts';
import type { OpenResponses } from '../mcp/open-responses.ts';
import { ProtectedResource } from '../mcp/protected-resource.ts';
import { countedMethod, type MethodParts, serviceMethods } from '../mcp/service-methods.ts';
import type { EventStore } from '../mcp/sessions/event-store.ts';
import type { EvaluatorEngine } from '../policy/engine.ts';
import type { Registry } from '../registry/registry.ts';
import type { Logger } from '../telemetry/log.ts';
import type { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import { RequestTelemetry, type RequestTelemetryParts } from '../telemetry/request-telemetry.ts';
import { isNeverCopied } from '../upstreams/mcp/relay/forwarded-headers.ts';
import {
  type LoadedFilter,
  type LoadedListener,
  type LoadedSettings,
  MCP_LISTENER,
} from './config/pipeline/pipeline.ts';

/** Dependencies of the filters. */
export type ChainParts = Parameters<typeof serviceNamespace>[0] &
  MethodParts &
  Parameters<typeof serviceWellKnown>[0] &
  Parameters<typeof serviceIntercept>[0] &
  Parameters<typeof loadBalancer>[0] & {
    readonly engine: EvaluatorEngine;
    readonly messageLimits: MessageLimits;
    readonly discoveryWaits: DiscoveryWaits;
    /** Counts the outcomes of each filter. */
    readonly metrics: ServiceMetrics;
    /** Makes a filter forward requests to the replica that owns their stream, call or task; undefined for the only process. */
    readonly routeToOwner?: (filter: McpFilter) => McpFilter;
  };

/** A filter of a chain, and how it finds out that something is missing. */
interface MadeFilter extends Pick<NamedFilter<McpExchange, McpOutcome>, 'filter' | 'partOf'> {
  readonly findMissing?: FindMissing;
}

/** Makes the chain of a listener: its filters in the order of the file, counted. */
export function makeChain(filters: readonly LoadedFilter[], parts: ChainParts): McpFilter {
  let lookups: readonly FindMissing[] = [];
  const findMissing: FindMissing = (exchange) =>
    lookups
      .values()
      .map((find) => find(exchange))
      .find(Boolean);
  const made = filters.map(({ settings }) => ({ settings, ...makeFilter(settings, parts, findMissing) }));
  lookups = lookupsAfterEvaluators(made);
  const named = made.map(({ settings, filter, partOf }) => {
    const checked = conditional(parts.discoveryWaits.retryMisses(filter), settings.conditions);
    return { name: settings.filter, filter: checked, partOf };
  });
  return compile(named, parts.metrics);
}

/** Filters that can respond to requests of any method. */
const ANY_METHOD: ReadonlySet<string> = new Set(['static_response', 'router', 'load_balancer', 'service_intercept']);

/**
 * The lookups of the filters that follow the evaluators and get every request: those of other filters would say nothing about
 * the response.
 */
function lookupsAfterEvaluators(
  filters: readonly (MadeFilter & { readonly settings: LoadedSettings })[],
): readonly FindMissing[] {
  const following = filters.slice(filters.findIndex(({ settings }) => settings.filter === 'service_evaluator') + 1);
  const end = following.findIndex(({ settings }) => ANY_METHOD.has(settings.filter));
  return following
    .slice(0, end === -1 ? undefined : end)
    .filter(({ settings: { conditions = [] } }) => conditions.length === 0)
    .flatMap(({ findMissing = [] }) => findMissing);
}

function makeFilter(settings: LoadedSettings, parts: ChainParts, findMissing: FindMissing): MadeFilter {
  const passes = parts.auth && isOAuthPath;
  switch (settings.filter) {
    case 'cors':
      return { filter: cors(settings) };
    case 'mcp':
      return { filter: mcp(settings, parts.messageLimits, passes) };
    case 'service_namespace': {
      const filter = serviceNamespace(parts, passes);
      return { filter: parts.routeToOwner?.(filter) ?? filter };
    }
    case 'service_well_known':
      return { filter: serviceWellKnown(parts) };
    case 'service_evaluator':
      return { filter: (exchange) => parts.engine.evaluate(exchange, findMissing) };
    case 'service_methods':
      return { ...serviceMethods(settings.mcp_methods, parts), partOf: countedMethod };
    case 'service_intercept':
      return { filter: serviceIntercept(parts) };
    case 'static_response':
      return { filter: staticResponse(settings) };
    case 'router':
      return { filter: router(settings) };
    case 'load_balancer':
      return { filter: loadBalancer(parts) };
    case 'headers':
      return { filter: headers(settings) };
    case 'path_rewrite':
      return { filter: pathRewrite(settings) };
  }
}

/** Dependencies of listeners. */
export interface PipelineListenerOptions {
  readonly chain: McpFilter;
  readonly guard: HostOriginGuard;
  readonly identity: Identity;
  readonly blocks?: Pick<Blocks, 'isBlocked'> | undefined;
  readonly admitted?: AdmittedRequests | undefined;
  /** The identity provider, whose endpoints are open. */
  readonly auth: AuthIssuer | undefined;
  readonly events: EventStore;
  readonly openResponses: OpenResponses;
  readonly logger: Logger;
  readonly requests: RequestTelemetryParts;
  readonly registry: Registry;
  /** Memory for the request bodies of all listeners. */
  readonly bodies: BodyBudget;
  /** Connections of all listeners. */
  readonly connections?: ListenerConnections | undefined;
  /** Requests that the listener passes on; undefined: all. */
  readonly allow: InferenceAllow;
  /** Where clients reach the listeners that serve MCP. */
  readonly publicUrl: PublicUrl | undefined;
}

/** Timeout for a request body that is buffered whole; proxied bodies have none. */
export const READ_TIMEOUT_MS = 300_000;

/** The server of one of the pipeline's listeners. The caller listens and closes. */
export function pipelineListener(listener: LoadedListener, options: PipelineListenerOptions): HttpServer {
  const { name, keyPair, readTimeoutMs, maxConnections } = listener;
  const { guard, requests, allow, connections, publicUrl, auth, blocks, admitted } = options;
  const servesMcp = hasMcp(listener);
  const identity = options.identity.forListener(servesMcp ? 'mcp' : 'inference', (target) =>
    namespaceSegment(pathOf(target, publicUrl)),
  );
  const protectedResource = servesMcp && publicUrl ? new ProtectedResource(options.identity, publicUrl) : undefined;
  const answersPreflights = listener.filters.some(({ settings }) => isUnconditional(settings, 'cors'));
  /** Where clients learn how to authenticate. What is passed on to other servers is not open. */
  const isOpen = (method: string, path: string) =>
    servesMcp &&
    ((auth !== undefined && isOAuthPath(path)) ||
      (method === 'OPTIONS' && answersPreflights) ||
      protectedResource?.serves(method, path) === true);
  const target = servesMcp ? 'service::mcp::access' : 'service::inference::access';
  const telemetry = new RequestTelemetry(name, target, requests);
  const serving = { ...servingOptions(listener, { ...options, telemetry }), protectedResource };
  return createHttpServer(
    {
      tls: keyPair,
      readTimeoutMs: readTimeoutMs ?? (servesMcp ? READ_TIMEOUT_MS : 0),
      maxConnections,
      connections,
      guard,
      ...(allow && { restrict: createInferenceRestriction(allow) }),
      passesOn: !servesMcp,
      errorResponse: malformedResponse(serving, guard),
      authenticate: identity.authenticate,
      identity,
      blocks,
      admitted,
      requires: ({ method, target }) => {
        const { requirement } = identity;
        return requirement && isOpen(method, pathOf(target, publicUrl)) ? 'open' : requirement;
      },
      telemetry,
      createExchange: (head, request, response) => new McpExchange(head, request, response),
    },
    requestHandler(serving),
  );
}

/** Responds to what is not a request in the form of the listener, with its CORS headers for an origin that is accepted. */
function malformedResponse(
  { mcp, corsHeaders, protectedResource }: ServingOptions,
  guard: HostOriginGuard,
): ErrorResponse {
  return (message, { status, origin, target = '' }) => {
    const isForeign = guard(undefined, { origin })?.isForeignOrigin ?? false;
    const cors = (!isForeign && corsHeaders?.(origin)) || [];
    const error = { code: INVALID_REQUEST, message };
    const { body = '' } = mcp
      ? { body: JSON.stringify({ jsonrpc: '2.0', id: null, error }) }
      : httpProblem(status, message);
    const rejection = { status, reason: message, headers: CHALLENGE };
    const { headers = [] } = (status === 401 && protectedResource?.challenge(rejection, target)) || {};
    const exposed = cors.length > 0 && headers.length > 0 ? EXPOSED_CHALLENGE : [];
    return { headers: ['Content-Type', 'application/json', ...headers, ...cors, ...exposed], body };
  };
}

/** A listener of the pipeline with its chain. */
export interface ListenerChain {
  readonly listener: LoadedListener;
  readonly chain: McpFilter;
}

/**
 * The handler of the MCP endpoints on the management listener: requests run through the chain of the
 * listener `mcp`, else of the first one that serves MCP, at the path `/{namespace}/mcp` and with the headers of the protocol
 * only. Undefined if no listener serves MCP.
 */
export function managementMcpHandler(
  chains: readonly ListenerChain[],
  options: Omit<ServingParts, 'chain'>,
  consoleUrl: PublicUrl | undefined,
): ServeRequest<McpExchange> | undefined {
  const serving = chains.filter(({ listener }) => hasMcp(listener));
  const used = serving.find(({ listener }) => listener.name === MCP_LISTENER) ?? serving[0];
  if (!used) return undefined;
  const { listener, chain } = used;
  return requestHandler({ ...servingOptions(listener, { ...options, chain }), view: managementView(consoleUrl) });
}

function hasMcp({ filters }: Pick<LoadedListener, 'filters'>): boolean {
  return filters.some(({ settings }) => settings.filter === 'mcp');
}

/** Shows the chain a request to the management listener. */
function managementView(consoleUrl: PublicUrl | undefined): (exchange: McpExchange) => void {
  return (exchange) => {
    const path = consoleUrl ? withoutPrefix(exchange.path, consoleUrl) : exchange.path;
    exchange.path = `/${managementMcpNamespace(path)}/mcp`;
    exchange.query = '';
    // Exactly the headers that no setting can copy upstream.
    exchange.headers = Object.fromEntries(Object.entries(exchange.headers).filter(([name]) => isNeverCopied(name)));
  };
}

/** What the serving of requests needs of a listener. */
export interface ServingParts
  extends Omit<PipelineListenerOptions, 'allow' | 'guard' | 'requests' | 'connections' | 'admitted' | 'auth'> {
  readonly telemetry: RequestTelemetry;
}

/** How the requests of a listener are served. */
export function servingOptions(
  { filters }: LoadedListener,
  { chain, events, openResponses, logger, registry, bodies, publicUrl, telemetry, blocks, identity }: ServingParts,
): ServingOptions {
  // The filter that gets the request is known only after the body has been read.
  const readers = filters.map(({ settings }) => settings).filter((settings) => settings.filter === 'mcp');
  const bodyLimits = readers.map(({ max_body_bytes }) => max_body_bytes);
  const checksNamespaces = filters.some(({ settings }) => isUnconditional(settings, 'service_namespace'));
  const corsSettings = filters.map(({ settings }) => settings).find((settings) => isUnconditional(settings, 'cors'));
  const rewritesPaths = filters.some(({ settings }) => settings.filter === 'path_rewrite');
  const mcp =
    readers.length === 0
      ? undefined
      : {
          events,
          openResponses,
          maxRequestBytes: Math.max(...bodyLimits),
          bodies,
          namespaceAt: (path: string) => namespaceAt(registry, path),
          readsBody: checksNamespaces && !rewritesPaths ? namespaceCheck(registry) : () => true,
          recheck: () => registry.recheck(),
        };
  return {
    chain,
    telemetry,
    blocks,
    accepts: ({ authenticated, correlation, namespace }) =>
      identity.reassess(authenticated, servedOf(correlation), namespace?.name) !== undefined,
    mcp,
    log: logger.target(mcp ? 'service::mcp' : 'service::inference'),
    corsHeaders: corsSettings?.filter === 'cors' ? corsHeaders(corsSettings) : undefined,
    // Without the prefix of the public URL.
    ...(mcp &&
      publicUrl &&
      publicUrl.prefix !== '' && {
        view: (exchange) => {
          exchange.path = withoutPrefix(exchange.path, publicUrl);
        },
      }),
  };
}

function isUnconditional({ filter, conditions }: LoadedSettings, name: LoadedSettings['filter']): boolean {
  return filter === name && (conditions === undefined || conditions.length === 0);
}
