import type { DiagnosticCheck, Replica } from '@sluice/contract';
import type { StoredBlocks } from '../access/stored-blocks.ts';
import type { EgressProxies } from '../http/client/egress-proxies.ts';
import type { Peers } from '../http/peers.ts';
import type { PublicUrl } from '../http/public-url.ts';
import type { ListenerIdentity } from '../identity/identity.ts';
import type { May } from '../identity/roles.ts';
import type { ServiceKey } from '../identity/service-keys.ts';
import type { InteractionStore } from '../inference/interaction-store.ts';
import type { InferenceSettings } from '../inference/settings.ts';
import type { ClientProfiles } from '../mcp/client-profile.ts';
import type { AuthIssuer } from '../mcp/oauth-metadata.ts';
import type { OpenStreams } from '../mcp/open-streams.ts';
import type { SessionStore } from '../mcp/sessions/session-store.ts';
import type { NamespaceBindings } from '../policy/bindings.ts';
import type { DryRuns } from '../policy/dry-run.ts';
import type { Evaluators } from '../policy/evaluators.ts';
import type { LlmConnection } from '../policy/llm/client.ts';
import type { Registry } from '../registry/registry.ts';
import type { Logger, TargetLogger } from '../telemetry/log.ts';
import type { MetricSource } from '../telemetry/metrics/metric-source.ts';
import type { ServiceMetrics } from '../telemetry/metrics/service-metrics.ts';
import type { StateEvents } from '../telemetry/state-events.ts';
import type { TimeSeries } from '../telemetry/time-series.ts';
import type { ToolCallEvents } from '../telemetry/tool-calls/events.ts';
import type { ForwardHistory } from '../upstreams/forward-history.ts';
import type { ForwardValidator } from '../upstreams/forward-validator.ts';
import type { Forwards } from '../upstreams/forwards.ts';
import type { ServiceHealthMonitor } from '../upstreams/grpc/health.ts';
import type { Provision } from '../upstreams/grpc/provisioning.ts';
import type { ForwardKinds } from '../upstreams/kinds.ts';
import type { Task } from '../upstreams/mcp/tasks/task.ts';
import type { Tasks } from '../upstreams/mcp/tasks/tasks.ts';
import type { IdentityRevisions } from './identity/identity-revisions.ts';
import type { Plugins } from './plugins.ts';
import type { ConsoleSignIn } from './sign-in/sign-in.ts';

/** The part of the configuration of the service that this API uses. */
export interface ManagementConfig {
  /** Folder of the web console; undefined in the headless distribution. */
  readonly uiPath?: string | undefined;
  /** Where clients reach the MCP listeners. */
  readonly publicUrl?: PublicUrl | undefined;
  /** Where browsers reach this listener. */
  readonly consoleUrl?: PublicUrl | undefined;
  /** Accepted `Host` values. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** SERVICE_CORS_ORIGIN: `*` or one origin. */
  readonly corsOrigin?: string | undefined;
  readonly auth?: AuthIssuer | undefined;
  readonly classicUrl?: string | undefined;
  /** The kinds of forwards. */
  readonly kinds: ForwardKinds;
  /** Proxies of the environment. */
  readonly proxies: EgressProxies;
  /** Where the registry is stored; a database has no folder. */
  readonly persist: { readonly backend: string; readonly path?: string };
  readonly bootstrap: { readonly llmConnections: readonly LlmConnection[] };
}

/** The parts of the service that the routes of the management API use. */
export interface ManagementContext {
  readonly config: ManagementConfig;
  readonly log: TargetLogger;
  /** Decides who makes a request. */
  readonly identity: Pick<ListenerIdentity, 'authenticate'>;
  /** Decides about rights, read for each request; by default everybody has all of them. */
  readonly may?: May | undefined;
  readonly registry: Registry;
  readonly forwards: Forwards;
  readonly forwardHistory: Pick<ForwardHistory, 'of'>;
  readonly forwardValidator: ForwardValidator;
  readonly serviceHealth: Pick<ServiceHealthMonitor, 'get'>;
  readonly provisionTool: Provision;
  readonly evaluators: Evaluators;
  readonly identityRevisions: IdentityRevisions;
  /** Keys of service accounts, see `Identity.keys`. */
  readonly serviceKeys: () => readonly ServiceKey[];
  readonly dryRuns: Pick<DryRuns, 'run'>;
  readonly bindings: Pick<NamespaceBindings, 'delete' | 'list' | 'set'>;
  readonly metrics: Pick<ServiceMetrics, 'snapshot'>;
  /** All metrics, for Prometheus. */
  readonly metricSource: MetricSource;
  readonly toolCalls: Pick<ToolCallEvents, 'recent' | 'ring'>;
  readonly stateEvents: StateEvents;
  readonly logger: Pick<Logger, 'recent'>;
  readonly tasks: Pick<Tasks, 'all' | 'get'>;
  /** Cancels a task; rejects with `UpstreamError` or `StoreError`. */
  readonly cancelTask: (task: Task) => Promise<void>;
  /** Plugins of the web console. */
  readonly plugins: Plugins;
  /** Sign-in of people to the console. */
  readonly signIn: ConsoleSignIn;
  readonly timeSeries: Pick<TimeSeries, 'read'>;
  readonly sessionStore: Pick<SessionStore, 'sessions' | 'records'>;
  readonly interactions: Pick<InteractionStore, 'list' | 'clear'>;
  readonly inference: InferenceSettings;
  readonly profiles: ClientProfiles;
  readonly openStreams: Pick<OpenStreams, 'add'>;
  /** Bound addresses of all listeners by name. */
  readonly addresses: () => Readonly<Record<string, string>>;
  /** Checks whether the service would start again with its configuration files. */
  readonly checkFiles: () => Promise<readonly DiagnosticCheck[]>;
  /** Principals and forwards that are blocked. */
  readonly storedBlocks: StoredBlocks;
  /** Whether the service is ready: loaded, listening and not shutting down. */
  readonly ready: () => boolean;
  /** The replicas that share the database; none without one. */
  readonly replicas: () => Promise<readonly Replica[]>;
  /** The other replicas, which have tool-call events and interactions of their own; undefined for a single one. */
  readonly peers?: Pick<Peers, 'query' | 'stream'> | undefined;
  /** False while the database that replicas share cannot be reached. */
  readonly hasDatabase: () => boolean;
}
