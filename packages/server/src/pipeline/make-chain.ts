import type { LongStreams } from '../answer/long-streams.ts';
import type { Bridge } from '../bridge/bridge.ts';
import type { LoadedFilter, LoadedSettings } from '../config/pipeline/pipeline.ts';
import type { EvaluatorEngine } from '../evaluators/engine.ts';
import type { CallUnderWay } from '../forwards/call-under-way.ts';
import type { CallsUnderWay } from '../forwards/calls-under-way.ts';
import type { Forwards } from '../forwards/forwards.ts';
import type { CallRelay } from '../forwards/relay.ts';
import type { SessionLinks } from '../forwards/session-links.ts';
import type { SessionWatches } from '../forwards/session-watches.ts';
import type { ClientProfiles } from '../mcp/client-profile.ts';
import type { DeclaredParams } from '../mcp/declared-params.ts';
import type { Implementation } from '../mcp/identity.ts';
import type { Notices } from '../notices/notices.ts';
import type { Registry } from '../registry/registry.ts';
import type { EventStore } from '../sessions/event-store.ts';
import type { LiveSessions } from '../sessions/live-sessions.ts';
import type { ClientSessions } from '../sessions/sessions.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import type { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import type { ToolCallSink } from '../telemetry/tool-calls/tool-call-events.ts';
import { type Chain, compile, type Filter } from './chain.ts';
import { conditional } from './conditions.ts';
import { cors } from './filters/cors.ts';
import { headers } from './filters/headers.ts';
import { type LoadBalancerParts, loadBalancer } from './filters/load-balancer.ts';
import { mcp } from './filters/mcp.ts';
import { pathRewrite } from './filters/path-rewrite.ts';
import { router } from './filters/router.ts';
import { serviceCompletion } from './filters/service-completion.ts';
import { serviceEvaluator } from './filters/service-evaluator.ts';
import { type InterceptParts, serviceIntercept } from './filters/service-intercept.ts';
import { serviceMcpInit } from './filters/service-mcp-init.ts';
import { serviceNamespace } from './filters/service-namespace.ts';
import { servicePromptGet } from './filters/service-prompt-get.ts';
import { servicePromptList } from './filters/service-prompt-list.ts';
import { serviceRelay } from './filters/service-relay.ts';
import { serviceResourceList } from './filters/service-resource-list.ts';
import { serviceResourceRead } from './filters/service-resource-read.ts';
import { serviceSubscribe } from './filters/service-subscribe.ts';
import { serviceToolCall } from './filters/service-tool-call.ts';
import { serviceToolList } from './filters/service-tool-list.ts';
import { serviceWellKnown, type WellKnownParts } from './filters/service-well-known.ts';
import { staticResponse } from './filters/static-response.ts';
import { isOAuthPath } from './oauth-paths.ts';

/** What the filters work with. */
export interface ChainParts extends LoadBalancerParts, InterceptParts, WellKnownParts {
  readonly bridge: Bridge;
  readonly engine: EvaluatorEngine;
  readonly toolCalls: ToolCallSink;
  readonly calls: CallsUnderWay<CallUnderWay>;
  readonly events: EventStore;
  readonly lives: LiveSessions;
  readonly longStreams: LongStreams;
  readonly notices: Notices;
  readonly sessionLinks: SessionLinks;
  readonly sessionWatches: SessionWatches;
  readonly registry: Registry;
  readonly forwards: Forwards;
  readonly relay: CallRelay;
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
