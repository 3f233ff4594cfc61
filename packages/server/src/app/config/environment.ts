import { join } from 'node:path';
import { LOG_LEVELS } from '@sluice/contract';
import { MESSAGE_LIMITS } from '@sluice/protocol/mcp/message';
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
  variable,
} from '../../http/settings.ts';
import { inferenceAllow } from '../../inference/allow.ts';
import type { AuthIssuer } from '../../mcp/oauth-metadata.ts';
import { MAX_ENDED_SESSIONS } from '../../mcp/sessions/ended-sessions.ts';
import { MAX_RESUMABLE_BYTES } from '../../mcp/sessions/event-store.ts';
import { SUBSCRIPTION_LIMITS } from '../../mcp/sessions/subscription-quota.ts';
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
const items = integer(1, 10_000_000);
const MIB = 1024 * 1024;
const memory = integer(MIB, Number.MAX_SAFE_INTEGER);
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

/** Variables that do not depend on others. */
const SETTINGS = {
  /** Listeners that would bind all interfaces bind 127.0.0.1. */
  local: variable('SERVICE_LOCAL', isOn('0')),
  mgmtListen: variable('SERVICE_MGMT_LISTEN', listenAddress.default({ host: '0.0.0.0', port: 8080 })),
  /** Replaces the address of the pipeline listener `mcp`. */
  mcpListen: variable('SERVICE_MCP_LISTEN', listenAddress.optional()),
  /** Replaces the address of the pipeline listener `inference`. */
  inferenceListen: variable('SERVICE_INFERENCE_LISTEN', listenAddress.optional()),
  /** Number of processes to run on the same ports. */
  processes: variable('SERVICE_PROCESSES', integer(1, 256).default(1)),
  /** Number of this process, from 1; undefined unless it is one of several. */
  processNumber: variable('SERVICE_PROCESS', integer(1, 256).optional()),
  /** Listener for requests that other replicas hand off. */
  peerListen: variable('SERVICE_PEER_LISTEN', listenAddress.optional()),
  /** Where other replicas reach it; by default the address on which it listens. */
  peerAdvertise: variable('SERVICE_PEER_ADVERTISE', listenAddress.optional()),
  /** Time for which MCP is served without the database that replicas share. */
  maxStalenessMs: variable(
    'SERVICE_REPLICA_MAX_STALENESS',
    integer(0, MAX_TIMER_SECONDS).default(Number.POSITIVE_INFINITY).transform(toMilliseconds),
  ),
  /** Base address of the legacy backend, without trailing slash. */
  classicUrl: variable('SERVICE_CLASSIC_URL', baseUrl.optional()),
  /** Folder of the web console, or `none` for the headless distribution. */
  uiPath: variable('SERVICE_UI_PATH', path.optional()),
  /** Replaces the upstream of the pipeline cluster `inference`. */
  inferenceUpstream: variable('SERVICE_INFERENCE_UPSTREAM', httpUpstream.optional()),
  /** Requests that the embedded inference listener passes on; undefined: all. */
  inferenceAllow: variable('SERVICE_INFERENCE_ALLOW', inferenceAllow.optional()),
  /** Maximum number of recorded completions; 0 records nothing. */
  interactionCapacity: variable('SERVICE_INTERACTION_CAPACITY', count.default(1000)),
  /** `*`, or one origin as a browser sends it. */
  corsOrigin: variable('SERVICE_CORS_ORIGIN', corsOrigin.optional()),
  /** Interval between checks of healthy forwards and services; 0 disables them. */
  healthCheckIntervalMs: variable(
    'SERVICE_FORWARD_HEALTHCHECK_INTERVAL',
    integer(0, MAX_TIMER_SECONDS).default(30).transform(toMilliseconds),
  ),
  upstreamIdleTimeoutMs: variable('SERVICE_UPSTREAM_IDLE_TIMEOUT_MS', milliseconds.default(300_000)),
  upstreamMaxTimeoutMs: variable('SERVICE_UPSTREAM_MAX_TIMEOUT_MS', milliseconds.default(3_600_000)),
  maxLogBytes: variable('SERVICE_MAX_LOG_BYTES', integer(MIB, 1024 * MIB).default(MAX_LOG_BYTES)),
  /** Memory for the request bodies of all listeners. */
  maxBodiesBytes: variable('SERVICE_MAX_BODIES_BYTES', memory.default(MAX_BODIES_BYTES)),
  maxResumableBytes: variable('SERVICE_MAX_RESUMABLE_BYTES', memory.default(MAX_RESUMABLE_BYTES)),
  /** Time for which requests wait for the first discovery of a forward. */
  discoveryWaitMs: variable('SERVICE_DISCOVERY_WAIT_MS', integer(0, 60_000).default(DISCOVERY_WAIT_MS)),
  maxEndedSessions: variable('SERVICE_MAX_ENDED_SESSIONS', items.default(MAX_ENDED_SESSIONS)),
  /** Whether tasks are polled on behalf of clients that do not support them. */
  tasksForPlainClients: variable('SERVICE_TASKS_FOR_PLAIN_CLIENTS', isOn('1')),
  /** Time after which calls of tools with the label `service.task=auto` become tasks. */
  taskAutoAfterMs: variable('SERVICE_TASK_AUTO_AFTER_MS', milliseconds.default(AUTO_AFTER_MS)),
  maxTaskResultBytes: variable('SERVICE_MAX_TASK_RESULT_BYTES', memory.default(MAX_TASK_RESULT_BYTES)),
  /** Limits of calls that wait for input of their clients. */
  suspendedCallsLimit: variable('SERVICE_SUSPENDED_CALLS_LIMIT', count.default(1000)),
  suspendedCallTimeoutMs: variable('SERVICE_SUSPENDED_CALL_TIMEOUT_MS', milliseconds.default(300_000)),
  /** 32 bytes. */
  sessionKey: variable('SERVICE_SESSION_KEY', key.optional()),
  /** Accepted Host values in lower case; a value without a port matches any port. */
  allowedHosts: variable('SERVICE_ALLOWED_HOSTS', hostList.optional()),
  /** Where clients reach the MCP listeners, and browsers the management listener. */
  publicUrl: variable('SERVICE_PUBLIC_URL', publicUrl.optional()),
  consoleUrl: variable('SERVICE_CONSOLE_URL', publicUrl.optional()),
  actionsPath: variable('SERVICE_ACTIONS_PATH', path.optional()),
  secretsPath: variable('SERVICE_SECRETS_PATH', path.optional()),
  secretOrigins: variable('SERVICE_SECRET_ORIGINS', secretOrigins.default(new Map())),
  /** Evaluators that cannot be loaded are rejected instead of skipped. */
  evaluatorsStrict: variable('SERVICE_EVALUATORS_STRICT', isOn('0')),
  /** Undefined: text on a terminal, otherwise JSON. */
  logFormat: variable('SERVICE_LOG_FORMAT', oneOf('text', 'json').optional()),
};

/** Parses the environment. Relative paths stay relative. Throws `ConfigError` for the first invalid variable. */
export function parseEnvironment(env: NodeJS.ProcessEnv) {
  const settings = parseVariables(env, SETTINGS);
  const { SERVICE_FORWARD_HEADERS: headers, RUST_LOG: log } = parseVariables(env, {
    SERVICE_FORWARD_HEADERS: forwardHeaders.default({ names: [], warnings: [] }),
    RUST_LOG: logDirectives.default({ filter: DEFAULT_LOG_FILTER, warnings: [] }),
  });
  const { local, mgmtListen, processNumber, consoleUrl } = settings;
  const [, own] = OWN_PATH.exec(consoleUrl?.prefix ?? '') ?? [];
  if (own !== undefined) {
    throw new ConfigError(
      `SERVICE_CONSOLE_URL: its path begins with ${own}, which is a path of the service itself; the console is at /admin/ below this URL`,
    );
  }
  return {
    ...settings,
    mgmtListen: bindAddress(mgmtListen, local),
    persist: parsePersistence(env, settings),
    sharesPorts: processNumber !== undefined,
    peerListen: peerListen(settings),
    auth: parseIssuer(env),
    /** Lower case, without headers that are never forwarded. */
    forwardHeaders: headers.names,
    messageLimits: parseVariables(env, {
      depth: variable('SERVICE_MAX_JSON_DEPTH', integer(8, 2_000).default(MESSAGE_LIMITS.depth)),
      members: variable('SERVICE_MAX_JSON_MEMBERS', integer(16, 1_000_000).default(MESSAGE_LIMITS.members)),
      capabilitiesBytes: variable(
        'SERVICE_MAX_CAPABILITIES_BYTES',
        integer(64, 4 * MIB).default(MESSAGE_LIMITS.capabilitiesBytes),
      ),
    }),
    subscriptionLimits: parseVariables(env, {
      count: variable('SERVICE_MAX_SUBSCRIPTIONS', count.default(SUBSCRIPTION_LIMITS.count)),
      bytes: variable(
        'SERVICE_MAX_SUBSCRIPTION_BYTES',
        integer(1024, Number.MAX_SAFE_INTEGER).default(SUBSCRIPTION_LIMITS.bytes),
      ),
    }),
    taskLimits: parseVariables(env, {
      total: variable('SERVICE_MAX_TASKS', items.default(TASK_LIMITS.total)),
      perUser: variable('SERVICE_MAX_TASKS_PER_USER', items.default(TASK_LIMITS.perUser)),
    }),
    /** Limits of what an upstream lists. */
    catalogLimits: parseVariables(env, {
      entries: variable('SERVICE_MAX_CATALOG_ENTRIES', items.default(CATALOG_LIMITS.entries)),
      bytes: variable('SERVICE_MAX_CATALOG_BYTES', integer(1024, 1024 * MIB).default(CATALOG_LIMITS.bytes)),
    }),
    clientDiscoveryLimits: parseVariables(env, {
      concurrent: variable('SERVICE_CLIENT_DISCOVERIES', integer(1, 1_000).default(CLIENT_DISCOVERY_LIMITS.concurrent)),
      perMinute: variable(
        'SERVICE_CLIENT_DISCOVERIES_PER_MINUTE',
        integer(1, 10_000).default(CLIENT_DISCOVERY_LIMITS.perMinute),
      ),
    }),
    /** Overrides the settings of the bootstrap file. */
    bridgeGrpc: parseVariables(env, {
      timeoutMs: variable('SERVICE_BRIDGE_GRPC_TIMEOUT_MS', integer(...BRIDGE_GRPC_LIMITS.timeoutMs).optional()),
      maxRetries: variable('SERVICE_BRIDGE_GRPC_MAX_RETRIES', integer(...BRIDGE_GRPC_LIMITS.maxRetries).optional()),
      retryDelayMs: variable(
        'SERVICE_BRIDGE_GRPC_RETRY_DELAY_MS',
        integer(...BRIDGE_GRPC_LIMITS.retryDelayMs).optional(),
      ),
    }),
    logFilter: log.filter,
    /** One line each with the name of the variable. */
    warnings: [
      ...headers.warnings.map((warning) => `SERVICE_FORWARD_HEADERS: ${warning}`),
      ...log.warnings.map((warning) => `RUST_LOG: ${warning}`),
    ],
  };
}

function isOn(fallback: '0' | '1') {
  return oneOf('0', '1')
    .default(fallback)
    .transform((text) => text === '1');
}

function toMilliseconds(seconds: number): number {
  return seconds * 1000;
}

function parseIssuer(env: NodeJS.ProcessEnv): AuthIssuer | undefined {
  const { issuer, upstreamIssuer, registration } = parseVariables(env, {
    issuer: variable('SERVICE_AUTH_ISSUER', baseUrl.optional()),
    upstreamIssuer: variable('SERVICE_AUTH_UPSTREAM_ISSUER', baseUrl.optional()),
    registration: variable('SERVICE_AUTH_REGISTRATION', oneOf('redirect', 'forward').default('redirect')),
  });
  if (issuer === undefined) {
    if (upstreamIssuer === undefined) return undefined;
    throw new ConfigError('SERVICE_AUTH_UPSTREAM_ISSUER: requires SERVICE_AUTH_ISSUER; set both or neither');
  }
  const forwardsRegistration = registration === 'forward';
  return { issuer, upstreamIssuer: upstreamIssuer ?? issuer, ...(forwardsRegistration && { forwardsRegistration }) };
}

/** Variables of the database that replicas share (docs/replicas.md). */
const DATABASE = {
  url: variable('SERVICE_POSTGRES_URL', postgresUrl.optional()),
  listenUrl: variable('SERVICE_POSTGRES_LISTEN_URL', postgresUrl.optional()),
  passwordFile: variable('SERVICE_POSTGRES_PASSWORD_FILE', path.optional()),
};

/** The database of `sluice migrate`: that of replicas with this environment. Throws `ConfigError`. */
export function parseDatabase(env: NodeJS.ProcessEnv): DatabaseSettings {
  const { listenUrl: _, ...database } = DATABASE;
  const { url, passwordFile } = parseVariables(env, database);
  if (url === undefined) throw new ConfigError('SERVICE_POSTGRES_URL: required, or --database');
  return { url, passwordFile };
}

/** Settings of a process that may be one of several. */
interface ReplicaSettings {
  readonly processes: number;
  readonly peerListen?: ListenAddress | undefined;
  readonly peerAdvertise?: ListenAddress | undefined;
  readonly sessionKey?: Buffer | undefined;
}

/** Processes on one machine reach each other on loopback, each on a port of its own. */
function peerListen({ processes, peerListen: address }: ReplicaSettings): ListenAddress | undefined {
  if (processes === 1) return address;
  if (address && address.port !== 0) {
    throw new ConfigError(
      `SERVICE_PEER_LISTEN: with SERVICE_PROCESSES=${processes} the port must be 0: each process needs one of its own`,
    );
  }
  return address ?? { host: '127.0.0.1', port: 0 };
}

function parsePersistence(env: NodeJS.ProcessEnv, settings: ReplicaSettings): Persistence {
  const { processes, peerListen, peerAdvertise, sessionKey } = settings;
  const { backend, folder, recover, url, ...database } = parseVariables(env, {
    backend: variable('SERVICE_PERSIST_BACKEND', oneOf('file', 'none', 'postgres').default('file')),
    folder: variable('SERVICE_PERSIST_PATH', path.default(defaultDataFolder(env.HOME))),
    recover: variable('SERVICE_PERSIST_RECOVER', oneOf('rename').optional()),
    ...DATABASE,
  });
  if (processes > 1 && backend !== 'postgres') {
    throw new ConfigError(
      'SERVICE_PROCESSES: requires SERVICE_PERSIST_BACKEND=postgres; one process only can use a registry of its own',
    );
  }
  if (backend === 'none') return { backend };
  if (backend === 'file') return { backend, path: folder, recover: recover === 'rename' };
  if (peerListen && !peerAdvertise && /^(?:0\.0\.0\.0|::)$/.test(peerListen.host)) {
    throw new ConfigError(
      `SERVICE_PEER_ADVERTISE: required by SERVICE_PEER_LISTEN=${formatAddress(peerListen)}, the host:port at which other replicas reach this one`,
    );
  }
  if (url === undefined) throw new ConfigError('SERVICE_POSTGRES_URL: required by SERVICE_PERSIST_BACKEND=postgres');
  // Replicas open each other's session ids.
  if (sessionKey === undefined) {
    throw new ConfigError(
      'SERVICE_SESSION_KEY: required by SERVICE_PERSIST_BACKEND=postgres, the same for all replicas; create one with `openssl rand -hex 32`',
    );
  }
  return { backend, database: { url, ...database } };
}

/**
 * Settings of calls to capability services (`service.bridge.grpc.*`) from one source; undefined settings come from the next
 * source.
 */
export type BridgeGrpcSettings = { readonly [Key in keyof CallSettings]?: CallSettings[Key] | undefined };

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
 * level; without one they are off if there are directives, as in tracing, else `info`. Warns of directives without effect.
 */
export const logDirectives = textSchema(
  'a comma-separated list of level, target=level or target, with levels off, error, warn, info, debug, trace',
  (text) => {
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
