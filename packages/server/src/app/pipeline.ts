import type { Server } from 'node:http';
import { type Chain, compile, conditional, type Filter } from '../http/chain.ts';
import { cors } from '../http/filters/cors.ts';
import { headers, pathRewrite, staticResponse } from '../http/filters/rewrite.ts';
import { type LoadBalancerParts, loadBalancer, router } from '../http/filters/route.ts';
import type { Guard } from '../http/host-origin-guard.ts';
import { createHttpServer } from '../http/server.ts';
import { type InterceptParts, serviceIntercept } from '../inference/recorder.ts';
import type { ClientProfiles, DeclaredParams } from '../mcp/client-profile.ts';
import type { ListChangeNotifier } from '../mcp/list-changes.ts';
import { serveRequest } from '../mcp/listener.ts';
import type { OpenStreams } from '../mcp/long-streams.ts';
import { serviceCompletion } from '../mcp/methods/completion.ts';
import { serviceEvaluator } from '../mcp/methods/evaluate.ts';
import { serviceMcpInit } from '../mcp/methods/initialize.ts';
import { servicePromptList, serviceResourceList, serviceToolList } from '../mcp/methods/lists.ts';
import { mcp, serviceNamespace } from '../mcp/methods/parse.ts';
import { serviceRelay } from '../mcp/methods/passthrough.ts';
import { servicePromptGet } from '../mcp/methods/prompts-get.ts';
import { serviceResourceRead } from '../mcp/methods/resources-read.ts';
import { serviceSubscribe } from '../mcp/methods/subscriptions.ts';
import { serviceToolCall } from '../mcp/methods/tools-call.ts';
import { isOAuthPath, serviceWellKnown, type WellKnownParts } from '../mcp/oauth-metadata.ts';
import type { Implementation } from '../mcp/server-info.ts';
import type { ActiveSessions } from '../mcp/sessions/live-sessions.ts';
import type { EventStore } from '../mcp/sessions/resumable-streams.ts';
import type { ClientSessions } from '../mcp/sessions/sessions.ts';
import type { EvaluatorEngine } from '../policy/engine.ts';
import type { Registry } from '../registry/registry.ts';
import type { Logger, TargetLogger } from '../telemetry/log.ts';
import type { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import { observing, type RequestTelemetryParts } from '../telemetry/request-telemetry.ts';
import type { ToolCallSink } from '../telemetry/tool-calls/events.ts';
import type { Bridge } from '../upstreams/grpc/bridge.ts';
import type { Forwards } from '../upstreams/mcp/forwards.ts';
import type { InFlightCall, InFlightCalls } from '../upstreams/mcp/relay/in-flight.ts';
import type { CallRouter } from '../upstreams/mcp/relay/relay.ts';
import type { SessionBindings } from '../upstreams/mcp/sessions/session-bindings.ts';
import type { SessionSubscriptions } from '../upstreams/mcp/streams/session-subscriptions.ts';
import type { LoadedFilter, LoadedListener, LoadedSettings } from './config/pipeline/pipeline.ts';

/** What the filters work with. */
export interface ChainParts extends LoadBalancerParts, InterceptParts, WellKnownParts {
  readonly bridge: Bridge;
  readonly engine: EvaluatorEngine;
  readonly toolCalls: ToolCallSink;
  readonly calls: InFlightCalls<InFlightCall>;
  readonly events: EventStore;
  readonly lives: ActiveSessions;
  readonly longStreams: OpenStreams;
  readonly notices: ListChangeNotifier;
  readonly sessionLinks: SessionBindings;
  readonly sessionWatches: SessionSubscriptions;
  readonly registry: Registry;
  readonly forwards: Forwards;
  readonly relay: CallRouter;
  readonly sessions: ClientSessions;
  readonly profiles: ClientProfiles;
  readonly declaredParams: DeclaredParams;
  readonly serverInfo: Implementation;
  readonly log: TargetLogger;
  /** Counts what each filter does. */
  readonly metrics: ServiceMetrics;
}

/** Makes the chain of a listener (decisions 1.4): its filters in the order of the file, counted. */
export function makeChain(filters: readonly LoadedFilter[], parts: ChainParts): Chain {
  const named = filters.map(({ settings }) => ({
    name: settings.filter,
    filter: conditional(makeFilter(settings, parts), settings.conditions),
  }));
  return compile(named, parts.metrics);
}

function makeFilter(settings: LoadedSettings, parts: ChainParts): Filter {
  const { registry, sessions, relay, auth } = parts;
  const passes = auth ? isOAuthPath : () => false;
  switch (settings.filter) {
    case 'cors':
      return cors(settings);
    case 'mcp':
      return mcp(settings, passes);
    case 'service_namespace':
      return serviceNamespace(registry, sessions, passes);
    case 'service_well_known':
      return serviceWellKnown(parts);
    case 'service_evaluator':
      return serviceEvaluator(parts.engine);
    case 'service_mcp_init':
      return serviceMcpInit(parts);
    case 'service_tool_list':
      return serviceToolList(parts);
    case 'service_tool_call':
      return serviceToolCall(parts);
    case 'service_resource_list':
      return serviceResourceList(parts);
    case 'service_resource_read':
      return serviceResourceRead(relay, parts.bridge);
    case 'service_subscribe':
      return serviceSubscribe(parts);
    case 'service_prompt_list':
      return servicePromptList(parts);
    case 'service_prompt_get':
      return servicePromptGet(relay);
    case 'service_completion':
      return serviceCompletion(parts);
    case 'service_relay':
      return serviceRelay(parts);
    case 'service_intercept':
      return serviceIntercept(parts);
    case 'static_response':
      return staticResponse(settings);
    case 'router':
      return router(settings);
    case 'load_balancer':
      return loadBalancer(parts);
    case 'headers':
      return headers(settings);
    case 'path_rewrite':
      return pathRewrite(settings);
  }
}

/** What listeners are made with. */
export interface PipelineListenerOptions {
  readonly chain: Chain;
  readonly guard: Guard;
  readonly events: EventStore;
  readonly logger: Logger;
  readonly requests: RequestTelemetryParts;
}

/** What a client gets to send a request that is held whole; bodies that are passed on may take as long as they come. */
const READ_TIMEOUT_MS = 300_000;

/** The server of one of the pipeline's listeners. The caller listens and closes. */
export function pipelineListener(listener: LoadedListener, options: PipelineListenerOptions): Server {
  const { name, keyPair, readTimeoutMs, maxConnections, filters } = listener;
  const { chain, guard, events, logger, requests } = options;
  // Which of several filters a request meets is known when its body is there.
  const readers = filters.map(({ settings }) => settings).filter((settings) => settings.filter === 'mcp');
  const bodyLimits = readers.map(({ max_body_bytes }) => max_body_bytes);
  const mcp = readers.length > 0 ? { events, maxRequestBytes: Math.max(...bodyLimits) } : undefined;
  const serving = {
    chain,
    guard,
    secure: keyPair !== undefined,
    mcp,
    observe: observing(name, mcp ? 'service::mcp::access' : 'service::inference::access', requests),
    log: logger.target(mcp ? 'service::mcp' : 'service::inference'),
  };
  return createHttpServer(
    { tls: keyPair, readTimeoutMs: readTimeoutMs ?? (mcp ? READ_TIMEOUT_MS : 0), maxConnections },
    (request, response, refusal) => serveRequest(serving, request, response, refusal),
  );
}
