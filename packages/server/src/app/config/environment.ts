import { join } from 'node:path';
import { LOG_LEVELS } from '@sluice/contract';
import { MESSAGE_LIMITS, type MessageLimits } from '@sluice/protocol/mcp/message';
import { z } from 'zod';
import {
  baseUrl,
  bindAddress,
  corsOrigin,
  formatAddress,
  hostList,
  httpUpstream,
  type ListenAddress,
  listenAddress,
} from '../../http/address.ts';
import { MAX_BODIES_BYTES } from '../../http/body-budget.ts';
import { publicUrl } from '../../http/public-url.ts';
import { secretOrigins } from '../../http/secrets/secrets.ts';
import {
  ConfigError,
  InvalidSettingError,
  integer,
  key,
  MAX_TIMER_MS,
  oneOf,
  parseVariables,
  quote,
  textSchema,
} from '../../http/settings.ts';
import { inferenceAllow } from '../../inference/allow.ts';
import type { AuthIssuer } from '../../mcp/oauth-metadata.ts';
import { MAX_ENDED_SESSIONS } from '../../mcp/sessions/ended-sessions.ts';
import { MAX_RESUMABLE_BYTES } from '../../mcp/sessions/event-store.ts';
import { SUBSCRIPTION_LIMITS } from '../../mcp/sessions/subscription-shares.ts';
import type { DatabaseSettings } from '../../registry/store/postgres/database.ts';
import { LOG_TARGETS, type LogFilter, type LogTarget, type LogThreshold } from '../../telemetry/log.ts';
import { MAX_LOG_BYTES } from '../../telemetry/log-sink.ts';
import { CLIENT_DISCOVERY_LIMITS } from '../../upstreams/client-discoveries.ts';
import { DISCOVERY_WAIT_MS } from '../../upstreams/first-discoveries.ts';
import type { CallSettings } from '../../upstreams/grpc/grpc-client.ts';
import { CATALOG_LIMITS } from '../../upstreams/mcp/catalog/catalog-size.ts';
import { forwardHeaders } from '../../upstreams/mcp/relay/forwarded-headers.ts';
import { AUTO_AFTER_MS, MAX_TASK_RESULT_BYTES } from '../../upstreams/mcp/tasks/promoted-call.ts';
import { TASK_LIMITS } from '../../upstreams/mcp/tasks/tasks.ts';

/** Storage of the registry. With `recover`, corrupt files are renamed and ignored. */
export type Persistence =
  | { readonly backend: 'file'; readonly path: string; readonly recover: boolean }
  | { readonly backend: 'postgres'; readonly database: DatabaseSettings }
  | { readonly backend: 'none' };

/** Parsed environment variables. Undefined: unset and without a default. */
export type Environment = Readonly<ReturnType<typeof parseEnvironment>>;

const MAX_TIMER_SECONDS = Math.floor(MAX_TIMER_MS / 1000);
const milliseconds = integer(1, MAX_TIMER_MS);
const count = integer(0, 1_000_000);
/** A path; its reader checks whether it exists. */
const path = z.string();
/** Not quoted in errors: it may contain a password. */
const postgresUrl = textSchema(
  'a URL like postgres://user@host:5432/database',
  (text) => {
    if (/^postgres(?:ql)?:\/\//.test(text) && URL.canParse(text)) return text;
    throw new InvalidSettingError('is not a postgres:// URL');
  },
  true,
);

/** Paths of the management listener, which could not be told from a prefix. */
const OWN_PATH = /^(\/(?:admin|api|plugins|health|healthz|readyz|metrics|openapi\.json))(?:\/|$)/;

/** Default of SERVICE_PERSIST_PATH. */
export function defaultDataFolder(home: string | undefined): string {
  return join(home || '.', '.service', 'server');
}

/** Parses the environment. Relative paths stay relative. Throws `ConfigError` for the first invalid variable. */
export function parseEnvironment(env: NodeJS.ProcessEnv) {
  const variables = parseVariables(env, {
    SERVICE_PERSIST_BACKEND: oneOf('file', 'none', 'postgres').default('file'),
    SERVICE_POSTGRES_URL: postgresUrl.optional(),
    SERVICE_POSTGRES_LISTEN_URL: postgresUrl.optional(),
    SERVICE_POSTGRES_PASSWORD_FILE: path.optional(),
    SERVICE_REPLICA_MAX_STALENESS: integer(0, MAX_TIMER_SECONDS).optional(),
    SERVICE_PROCESSES: integer(1, 256).default(1),
    SERVICE_PROCESS: integer(1, 256).optional(),
    SERVICE_PEER_LISTEN: listenAddress.optional(),
    SERVICE_PEER_ADVERTISE: listenAddress.optional(),
    SERVICE_PERSIST_PATH: path.default(defaultDataFolder(env.HOME)),
    SERVICE_PERSIST_RECOVER: oneOf('rename').optional(),
    SERVICE_AUTH_ISSUER: baseUrl.optional(),
    SERVICE_AUTH_UPSTREAM_ISSUER: baseUrl.optional(),
    SERVICE_AUTH_REGISTRATION: oneOf('redirect', 'forward').default('redirect'),
    SERVICE_FORWARD_HEADERS: forwardHeaders.default({ names: [], warnings: [] }),
    RUST_LOG: logDirectives.default({ filter: DEFAULT_LOG_FILTER, warnings: [] }),
    SERVICE_LOG_FORMAT: oneOf('text', 'json').optional(),
    SERVICE_LOCAL: oneOf('0', '1').default('0'),
    SERVICE_MGMT_LISTEN: listenAddress.default({ host: '0.0.0.0', port: 8080 }),
    SERVICE_MCP_LISTEN: listenAddress.optional(),
    SERVICE_INFERENCE_LISTEN: listenAddress.optional(),
    SERVICE_CLASSIC_URL: baseUrl.optional(),
    SERVICE_UI_PATH: path.optional(),
    SERVICE_INFERENCE_UPSTREAM: httpUpstream.optional(),
    SERVICE_INFERENCE_ALLOW: inferenceAllow.optional(),
    SERVICE_INTERACTION_CAPACITY: count.default(1000),
    SERVICE_CORS_ORIGIN: corsOrigin.optional(),
    SERVICE_FORWARD_HEALTHCHECK_INTERVAL: integer(0, MAX_TIMER_SECONDS).default(30),
    SERVICE_UPSTREAM_IDLE_TIMEOUT_MS: milliseconds.default(300_000),
    SERVICE_UPSTREAM_MAX_TIMEOUT_MS: milliseconds.default(3_600_000),
    SERVICE_MAX_JSON_DEPTH: integer(8, 2_000).default(MESSAGE_LIMITS.depth),
    SERVICE_MAX_JSON_MEMBERS: integer(16, 1_000_000).default(MESSAGE_LIMITS.members),
    SERVICE_MAX_CAPABILITIES_BYTES: integer(64, 4 * 1024 * 1024).default(MESSAGE_LIMITS.capabilitiesBytes),
    SERVICE_MAX_LOG_BYTES: integer(1024 * 1024, 1024 * 1024 * 1024).default(MAX_LOG_BYTES),
    SERVICE_MAX_BODIES_BYTES: integer(1024 * 1024, Number.MAX_SAFE_INTEGER).default(MAX_BODIES_BYTES),
    SERVICE_MAX_RESUMABLE_BYTES: integer(1024 * 1024, Number.MAX_SAFE_INTEGER).default(MAX_RESUMABLE_BYTES),
    SERVICE_MAX_CATALOG_ENTRIES: integer(1, 10_000_000).default(CATALOG_LIMITS.entries),
    SERVICE_MAX_CATALOG_BYTES: integer(1024, 1024 ** 3).default(CATALOG_LIMITS.bytes),
    SERVICE_CLIENT_DISCOVERIES: integer(1, 1_000).default(CLIENT_DISCOVERY_LIMITS.concurrent),
    SERVICE_CLIENT_DISCOVERIES_PER_MINUTE: integer(1, 10_000).default(CLIENT_DISCOVERY_LIMITS.perMinute),
    SERVICE_DISCOVERY_WAIT_MS: integer(0, 60_000).default(DISCOVERY_WAIT_MS),
    SERVICE_MAX_SUBSCRIPTIONS: count.default(SUBSCRIPTION_LIMITS.count),
    SERVICE_MAX_SUBSCRIPTION_BYTES: integer(1024, Number.MAX_SAFE_INTEGER).default(SUBSCRIPTION_LIMITS.bytes),
    SERVICE_MAX_ENDED_SESSIONS: integer(1, 10_000_000).default(MAX_ENDED_SESSIONS),
    SERVICE_MAX_TASKS: integer(1, 10_000_000).default(TASK_LIMITS.total),
    SERVICE_MAX_TASKS_PER_USER: integer(1, 10_000_000).default(TASK_LIMITS.perUser),
    SERVICE_TASKS_FOR_PLAIN_CLIENTS: oneOf('0', '1').default('1'),
    SERVICE_TASK_AUTO_AFTER_MS: milliseconds.default(AUTO_AFTER_MS),
    SERVICE_MAX_TASK_RESULT_BYTES: integer(1024 * 1024, Number.MAX_SAFE_INTEGER).default(MAX_TASK_RESULT_BYTES),
    SERVICE_PARKED_CALLS_LIMIT: count.default(1000),
    SERVICE_PARKED_CALL_TIMEOUT_MS: milliseconds.default(300_000),
    SERVICE_SESSION_KEY: key.optional(),
    SERVICE_ALLOWED_HOSTS: hostList.optional(),
    SERVICE_PUBLIC_URL: publicUrl.optional(),
    SERVICE_CONSOLE_URL: publicUrl.optional(),
    SERVICE_ACTIONS_PATH: path.optional(),
    SERVICE_SECRETS_PATH: path.optional(),
    SERVICE_SECRET_ORIGINS: secretOrigins.default(new Map()),
    SERVICE_EVALUATORS_STRICT: oneOf('0', '1').default('0'),
    SERVICE_BRIDGE_GRPC_TIMEOUT_MS: integer(...BRIDGE_GRPC_LIMITS.timeoutMs).optional(),
    SERVICE_BRIDGE_GRPC_MAX_RETRIES: integer(...BRIDGE_GRPC_LIMITS.maxRetries).optional(),
    SERVICE_BRIDGE_GRPC_RETRY_DELAY_MS: integer(...BRIDGE_GRPC_LIMITS.retryDelayMs).optional(),
  });
  const { SERVICE_AUTH_ISSUER: issuer, SERVICE_AUTH_UPSTREAM_ISSUER: upstreamIssuer } = variables;
  if (issuer === undefined && upstreamIssuer !== undefined) {
    throw new ConfigError('SERVICE_AUTH_UPSTREAM_ISSUER: requires SERVICE_AUTH_ISSUER; set both or neither');
  }
  const [, own] = OWN_PATH.exec(variables.SERVICE_CONSOLE_URL?.prefix ?? '') ?? [];
  if (own !== undefined) {
    throw new ConfigError(
      `SERVICE_CONSOLE_URL: its path begins with ${own}, which is a path of the service itself; the console is at /admin/ below this URL`,
    );
  }
  const {
    SERVICE_PERSIST_BACKEND: backend,
    SERVICE_PERSIST_PATH: folder,
    SERVICE_PERSIST_RECOVER: recover,
  } = variables;
  if (variables.SERVICE_PROCESSES > 1 && backend !== 'postgres') {
    throw new ConfigError(
      'SERVICE_PROCESSES: requires SERVICE_PERSIST_BACKEND=postgres; one process only can use a registry of its own',
    );
  }
  const persist = backend === 'postgres' ? sharedPersistence(variables) : localPersistence(backend, folder, recover);
  const auth: AuthIssuer | undefined =
    issuer === undefined
      ? issuer
      : {
          issuer,
          upstreamIssuer: upstreamIssuer ?? issuer,
          ...(variables.SERVICE_AUTH_REGISTRATION === 'forward' && { forwardsRegistration: true }),
        };
  const messageLimits: MessageLimits = {
    depth: variables.SERVICE_MAX_JSON_DEPTH,
    members: variables.SERVICE_MAX_JSON_MEMBERS,
    capabilitiesBytes: variables.SERVICE_MAX_CAPABILITIES_BYTES,
  };
  const bridgeGrpc: BridgeGrpcSettings = {
    timeoutMs: variables.SERVICE_BRIDGE_GRPC_TIMEOUT_MS,
    maxRetries: variables.SERVICE_BRIDGE_GRPC_MAX_RETRIES,
    retryDelayMs: variables.SERVICE_BRIDGE_GRPC_RETRY_DELAY_MS,
  };
  const { SERVICE_FORWARD_HEADERS: headers, RUST_LOG: log } = variables;
  const warnings: readonly string[] = [
    ...headers.warnings.map((warning) => `SERVICE_FORWARD_HEADERS: ${warning}`),
    ...log.warnings.map((warning) => `RUST_LOG: ${warning}`),
  ];
  const local = variables.SERVICE_LOCAL === '1';
  return {
    /** Listeners that would bind all interfaces bind 127.0.0.1. */
    local,
    mgmtListen: bindAddress(variables.SERVICE_MGMT_LISTEN, local),
    /** Replaces the address of the pipeline listener `mcp`. */
    mcpListen: variables.SERVICE_MCP_LISTEN,
    /** Replaces the address of the pipeline listener `inference`. */
    inferenceListen: variables.SERVICE_INFERENCE_LISTEN,
    persist,
    /** Number of processes to run on the same ports. */
    processes: variables.SERVICE_PROCESSES,
    /** Whether this is one of them. */
    sharesPorts: variables.SERVICE_PROCESS !== undefined,
    /** Its number, from 1. */
    processNumber: variables.SERVICE_PROCESS,
    /** Listener for requests that other replicas pass on. */
    peerListen: peerListen(variables),
    /** Where other replicas reach it; by default the address on which it listens. */
    peerAdvertise: variables.SERVICE_PEER_ADVERTISE,
    /** Time for which MCP is served without the database that replicas share. */
    maxStalenessMs: (variables.SERVICE_REPLICA_MAX_STALENESS ?? Number.POSITIVE_INFINITY) * 1000,
    /** Base address of the legacy backend, without trailing slash. */
    classicUrl: variables.SERVICE_CLASSIC_URL,
    /** Folder of the web console, or `none` for the headless distribution. */
    uiPath: variables.SERVICE_UI_PATH,
    /** Replaces the upstream of the pipeline cluster `inference`. */
    inferenceUpstream: variables.SERVICE_INFERENCE_UPSTREAM,
    /** Requests that the embedded inference listener passes on; undefined: all. */
    inferenceAllow: variables.SERVICE_INFERENCE_ALLOW,
    /** Maximum number of recorded completions; 0 records nothing. */
    interactionCapacity: variables.SERVICE_INTERACTION_CAPACITY,
    auth,
    /** `*`, or one origin as a browser sends it. */
    corsOrigin: variables.SERVICE_CORS_ORIGIN,
    /** Lower case, without headers that are never forwarded. */
    forwardHeaders: headers.names,
    /** Interval in milliseconds between checks of healthy forwards and services; 0 disables them. */
    healthCheckIntervalMs: variables.SERVICE_FORWARD_HEALTHCHECK_INTERVAL * 1000,
    upstreamIdleTimeoutMs: variables.SERVICE_UPSTREAM_IDLE_TIMEOUT_MS,
    upstreamMaxTimeoutMs: variables.SERVICE_UPSTREAM_MAX_TIMEOUT_MS,
    messageLimits,
    /** Memory for the request bodies of all listeners. */
    maxBodiesBytes: variables.SERVICE_MAX_BODIES_BYTES,
    subscriptionLimits: {
      count: variables.SERVICE_MAX_SUBSCRIPTIONS,
      bytes: variables.SERVICE_MAX_SUBSCRIPTION_BYTES,
    },
    maxEndedSessions: variables.SERVICE_MAX_ENDED_SESSIONS,
    taskLimits: { total: variables.SERVICE_MAX_TASKS, perUser: variables.SERVICE_MAX_TASKS_PER_USER },
    /** Whether tasks are polled on behalf of clients that do not support them. */
    tasksForPlainClients: variables.SERVICE_TASKS_FOR_PLAIN_CLIENTS === '1',
    /** Time after which calls of tools with the label `service.task=auto` become tasks. */
    taskAutoAfterMs: variables.SERVICE_TASK_AUTO_AFTER_MS,
    maxTaskResultBytes: variables.SERVICE_MAX_TASK_RESULT_BYTES,
    maxResumableBytes: variables.SERVICE_MAX_RESUMABLE_BYTES,
    /** Limits of what an upstream lists. */
    catalogLimits: {
      entries: variables.SERVICE_MAX_CATALOG_ENTRIES,
      bytes: variables.SERVICE_MAX_CATALOG_BYTES,
    },
    clientDiscoveryLimits: {
      concurrent: variables.SERVICE_CLIENT_DISCOVERIES,
      perMinute: variables.SERVICE_CLIENT_DISCOVERIES_PER_MINUTE,
    },
    /** Time for which requests wait for the first discovery of a forward. */
    discoveryWaitMs: variables.SERVICE_DISCOVERY_WAIT_MS,
    maxLogBytes: variables.SERVICE_MAX_LOG_BYTES,
    /** Limits of calls that wait for input of their clients. */
    parkedCallsLimit: variables.SERVICE_PARKED_CALLS_LIMIT,
    parkedCallTimeoutMs: variables.SERVICE_PARKED_CALL_TIMEOUT_MS,
    /** 32 bytes. */
    sessionKey: variables.SERVICE_SESSION_KEY,
    /** Accepted Host values in lower case; a value without a port matches any port. */
    allowedHosts: variables.SERVICE_ALLOWED_HOSTS,
    /** Where clients reach the MCP listeners, and browsers the management listener. */
    publicUrl: variables.SERVICE_PUBLIC_URL,
    consoleUrl: variables.SERVICE_CONSOLE_URL,
    actionsPath: variables.SERVICE_ACTIONS_PATH,
    secretsPath: variables.SERVICE_SECRETS_PATH,
    secretOrigins: variables.SERVICE_SECRET_ORIGINS,
    /** Evaluators that cannot be loaded are rejected instead of skipped. */
    evaluatorsStrict: variables.SERVICE_EVALUATORS_STRICT === '1',
    /** Overrides the settings of the bootstrap file. */
    bridgeGrpc,
    logFilter: log.filter,
    /** Undefined: text on a terminal, otherwise JSON. */
    logFormat: variables.SERVICE_LOG_FORMAT,
    /** One line each with the name of the variable. */
    warnings,
  };
}

function localPersistence(backend: 'file' | 'none', path: string, recover: 'rename' | undefined): Persistence {
  return backend === 'none' ? { backend } : { backend, path, recover: recover === 'rename' };
}

/** The database of `sluice migrate`: that of replicas with this environment. Throws `ConfigError`. */
export function parseDatabase(env: NodeJS.ProcessEnv): DatabaseSettings {
  const { SERVICE_POSTGRES_URL: url, SERVICE_POSTGRES_PASSWORD_FILE: passwordFile } = parseVariables(env, {
    SERVICE_POSTGRES_URL: postgresUrl.optional(),
    SERVICE_POSTGRES_PASSWORD_FILE: path.optional(),
  });
  if (url === undefined) throw new ConfigError('SERVICE_POSTGRES_URL: required, or --database');
  return { url, passwordFile };
}

/** Settings of the database that replicas share (docs/replicas.md). */
interface SharedSettings {
  readonly SERVICE_POSTGRES_URL?: string | undefined;
  readonly SERVICE_POSTGRES_LISTEN_URL?: string | undefined;
  readonly SERVICE_POSTGRES_PASSWORD_FILE?: string | undefined;
  readonly SERVICE_SESSION_KEY?: Buffer | undefined;
  readonly SERVICE_PEER_LISTEN?: ListenAddress | undefined;
  readonly SERVICE_PEER_ADVERTISE?: ListenAddress | undefined;
}

/** Processes on one machine reach each other on loopback, each on a port of its own. */
function peerListen(variables: SharedSettings & { readonly SERVICE_PROCESSES: number }): ListenAddress | undefined {
  const { SERVICE_PEER_LISTEN: address, SERVICE_PROCESSES: processes } = variables;
  if (processes === 1) return address;
  if (address && address.port !== 0) {
    throw new ConfigError(
      `SERVICE_PEER_LISTEN: with SERVICE_PROCESSES=${processes} the port must be 0: each process needs one of its own`,
    );
  }
  return address ?? { host: '127.0.0.1', port: 0 };
}

function sharedPersistence(variables: SharedSettings): Persistence {
  const { SERVICE_PEER_LISTEN: listen, SERVICE_PEER_ADVERTISE: advertised } = variables;
  if (listen && !advertised && /^(?:0\.0\.0\.0|::)$/.test(listen.host)) {
    throw new ConfigError(
      `SERVICE_PEER_ADVERTISE: required by SERVICE_PEER_LISTEN=${formatAddress(listen)}, the host:port at which other replicas reach this one`,
    );
  }
  const { SERVICE_POSTGRES_URL: url, SERVICE_SESSION_KEY: sessionKey } = variables;
  if (url === undefined) throw new ConfigError('SERVICE_POSTGRES_URL: required by SERVICE_PERSIST_BACKEND=postgres');
  // Replicas open each other's session ids.
  if (sessionKey === undefined) {
    throw new ConfigError(
      'SERVICE_SESSION_KEY: required by SERVICE_PERSIST_BACKEND=postgres, the same for all replicas; create one with `openssl rand -hex 32`',
    );
  }
  return {
    backend: 'postgres',
    database: {
      url,
      listenUrl: variables.SERVICE_POSTGRES_LISTEN_URL,
      passwordFile: variables.SERVICE_POSTGRES_PASSWORD_FILE,
    },
  };
}

/**
 * Settings of calls to capability services (`service.bridge.grpc.*`) from one source; undefined settings come from the next
 * source.
 */
export type BridgeGrpcSettings = { readonly [Key in keyof CallSettings]: CallSettings[Key] | undefined };

/** Minimum and maximum of each setting. */
const BRIDGE_GRPC_LIMITS = {
  timeoutMs: [1, MAX_TIMER_MS],
  maxRetries: [0, 100],
  retryDelayMs: [0, MAX_TIMER_MS],
} as const;

const BRIDGE_GRPC_DEFAULTS: CallSettings = { timeoutMs: 5_000, maxRetries: 3, retryDelayMs: 100 };

/** Schema of `bridge: grpc:` in the bootstrap file; a key without a value is unset. */
export const bridgeGrpcEntry = z.looseObject(
  {
    'timeout-ms': wholeNumber(BRIDGE_GRPC_LIMITS.timeoutMs),
    'max-retries': wholeNumber(BRIDGE_GRPC_LIMITS.maxRetries),
    'retry-delay-ms': wholeNumber(BRIDGE_GRPC_LIMITS.retryDelayMs),
  },
  { error: 'must be a map with timeout-ms, max-retries and retry-delay-ms' },
);

/** Schema of `bridge` in the bootstrap file. */
export const bridgeEntry = z.object({ grpc: bridgeGrpcEntry.nullish() }, { error: 'must be a map with grpc' });

/** Converts the settings of the bootstrap file. */
export function toBridgeGrpcSettings(entry: z.output<typeof bridgeGrpcEntry>): BridgeGrpcSettings {
  return {
    timeoutMs: entry['timeout-ms'] ?? undefined,
    maxRetries: entry['max-retries'] ?? undefined,
    retryDelayMs: entry['retry-delay-ms'] ?? undefined,
  };
}

/** Merges the settings: the environment overrides the file, which overrides the defaults. */
export function resolveBridgeGrpc(environment: BridgeGrpcSettings, file: BridgeGrpcSettings): CallSettings {
  return {
    timeoutMs: environment.timeoutMs ?? file.timeoutMs ?? BRIDGE_GRPC_DEFAULTS.timeoutMs,
    maxRetries: environment.maxRetries ?? file.maxRetries ?? BRIDGE_GRPC_DEFAULTS.maxRetries,
    retryDelayMs: environment.retryDelayMs ?? file.retryDelayMs ?? BRIDGE_GRPC_DEFAULTS.retryDelayMs,
  };
}

function wholeNumber([min, max]: readonly [number, number]) {
  const error = `must be a whole number from ${min} to ${max}`;
  return z.int({ error }).min(min, { error }).max(max, { error }).nullish();
}

/** Log filter of RUST_LOG, and warnings for directives without effect. */
interface LogDirectives {
  readonly filter: LogFilter;
  readonly warnings: readonly string[];
}

const DEFAULT_LEVEL: LogThreshold = 'info';

/** Filter without RUST_LOG: `info` for every target. */
export const DEFAULT_LOG_FILTER: LogFilter = resolveFilter([], DEFAULT_LEVEL);

interface Directive {
  readonly target: string;
  readonly level: LogThreshold;
}

/**
 * Directives of RUST_LOG: a comma-separated list of `level`, `target=level` and `target` (all levels). The target of a directive
 * is a prefix; the longest matching prefix wins, and the last one of equal prefixes. Targets without a directive have the bare
 * level; without one they are off if there are directives, as in tracing, else `info`.
 */
export const logDirectives = textSchema(
  'a comma-separated list of level, target=level or target, with levels off, error, warn, info, debug, trace',
  (text): LogDirectives => {
    const directives: Directive[] = [];
    const warnings: string[] = [];
    let bareLevel: LogThreshold | undefined;
    for (const item of splitDirectives(text)) {
      if (item.includes('[')) {
        warnings.push(`span filter ${quote(item)} is ignored: spans are not supported`);
        continue;
      }
      const level = parseLevel(item);
      if (level !== undefined) {
        bareLevel = level;
        continue;
      }
      const directive = parseDirective(item);
      if (!item.includes('=') && !LOG_TARGETS.some((target) => target.startsWith(directive.target))) {
        warnings.push(`${quote(item)} is neither a level nor a target prefix and has no effect`);
        continue;
      }
      directives.push(directive);
    }
    const others = bareLevel ?? (directives.length > 0 ? 'off' : DEFAULT_LEVEL);
    return { filter: resolveFilter(directives, others), warnings };
  },
);

function parseDirective(item: string): Directive {
  const [target = '', levelText, ...rest] = item.split('=').map((part) => part.trim());
  if (!/^[A-Za-z_][\w:.-]*$/.test(target)) throw new InvalidSettingError(`has an invalid target in ${quote(item)}`);
  const level = levelText === undefined ? 'trace' : parseLevel(levelText);
  if (level === undefined || rest.length > 0) throw new InvalidSettingError(`has an invalid level in ${quote(item)}`);
  return { target, level };
}

function parseLevel(text: string): LogThreshold | undefined {
  const name = text.toLowerCase();
  return name === 'off' ? name : LOG_LEVELS.find((level) => level === name);
}

/** Splits at commas outside of brackets: a span filter may contain commas. */
function splitDirectives(text: string): string[] {
  const items: string[] = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at <= text.length; at++) {
    const char = text[at];
    if (char === '[' || char === '{') depth++;
    else if (char === ']' || char === '}') depth--;
    if (depth < 0) throw new InvalidSettingError('has an unmatched closing bracket');
    if (char === undefined || (char === ',' && depth === 0)) {
      items.push(text.slice(start, at).trim());
      start = at + 1;
    }
  }
  if (depth > 0) throw new InvalidSettingError('has an unclosed bracket');
  return items.filter((item) => item !== '');
}

function resolveFilter(directives: readonly Directive[], bareLevel: LogThreshold): LogFilter {
  const levelOf = (target: LogTarget): LogThreshold => {
    let best: Directive | undefined;
    for (const directive of directives) {
      if (!target.startsWith(directive.target)) continue;
      if (best === undefined || directive.target.length >= best.target.length) best = directive;
    }
    return best?.level ?? bareLevel;
  };
  return {
    service: levelOf('service'),
    'service::mcp': levelOf('service::mcp'),
    'service::mcp::access': levelOf('service::mcp::access'),
    'service::mgmt': levelOf('service::mgmt'),
    'service::mgmt::access': levelOf('service::mgmt::access'),
    'service::inference': levelOf('service::inference'),
    'service::inference::access': levelOf('service::inference::access'),
    'service::evaluator': levelOf('service::evaluator'),
    'service::bridge': levelOf('service::bridge'),
    'service::registry': levelOf('service::registry'),
    'service::forward': levelOf('service::forward'),
  };
}
