import type { LongStreams } from '../answer/long-streams.ts';
import type { Bridge } from '../bridge/bridge.ts';
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
import type { ServiceMetrics } from '../telemetry/metrics.ts';
import type { ToolCallSink } from '../telemetry/tool-calls/tool-call-events.ts';
import { type Chain, compile, type NamedFilter } from './chain.ts';
import { cors } from './filters/cors.ts';
import { mcp } from './filters/mcp.ts';
import { serviceCompletion } from './filters/service-completion.ts';
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

/** What the filters work with. */
export interface ChainParts {
  readonly bridge: Bridge;
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
  /** SERVICE_CORS_ORIGIN: stands in for the first allowed origin. */
  readonly corsOrigin: string | undefined;
}

/** Chain `mcp_router` of the embedded default (decisions 1.4), counted. The order is the way a request goes. */
export function defaultChain(parts: ChainParts): Chain {
  const { registry, relay, sessions } = parts;
  const filters: readonly NamedFilter[] = [
    // First, so that every answer carries its headers, also one that says what is wrong.
    {
      name: 'cors',
      filter: cors({
        allow_origins: [parts.corsOrigin ?? '*'],
        allow_methods: ['GET', 'POST', 'DELETE', 'OPTIONS'],
        allow_headers: [
          'Content-Type',
          'Accept',
          'Authorization',
          'Mcp-Session-Id',
          'Mcp-Protocol-Version',
          'Mcp-Method',
          'Mcp-Name',
          'Last-Event-ID',
          'X-Request-Id',
          'X-Conversation-Id',
          'Mcp-Param-*',
        ],
        expose_headers: ['Mcp-Session-Id'],
        allow_credentials: false,
        max_age: 86_400,
        disallowed_origin_mode: 'omit',
        allow_null_origin: false,
      }),
    },
    // Before the path is judged, so that a refusal can name the request's id.
    { name: 'mcp', filter: mcp({ on_invalid: 'continue' }) },
    { name: 'service_namespace', filter: serviceNamespace(registry, sessions) },
    // Makes the client known to all that follow.
    { name: 'service_mcp_init', filter: serviceMcpInit(parts) },
    { name: 'service_tool_list', filter: serviceToolList(parts) },
    { name: 'service_tool_call', filter: serviceToolCall(parts) },
    { name: 'service_resource_list', filter: serviceResourceList(parts) },
    { name: 'service_resource_read', filter: serviceResourceRead(relay, parts.bridge) },
    { name: 'service_subscribe', filter: serviceSubscribe(parts) },
    { name: 'service_prompt_list', filter: servicePromptList(parts) },
    { name: 'service_prompt_get', filter: servicePromptGet(relay) },
    { name: 'service_completion', filter: serviceCompletion(parts) },
    // Last: it has what nobody else answers.
    { name: 'service_relay', filter: serviceRelay(parts) },
  ];
  return compile(filters, parts.metrics);
}
