import { statSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import {
  baseUrl,
  ConfigError,
  commaList,
  corsOrigin,
  forwardHeaders,
  type HttpUpstream,
  hostList,
  httpUpstream,
  InvalidSettingError,
  integer,
  key,
  type ListenAddress,
  listenAddress,
  oneOf,
  path,
  quote,
  readSetting,
  type Setting,
} from '../../http/address.ts';
import { LONGEST_TIMER_MS } from '../../http/timers.ts';
import { LOG_LEVELS, LOG_TARGETS, type LogFilter, type LogTarget, type LogThreshold } from '../../telemetry/log.ts';
import type { CallSettings } from '../../upstreams/grpc/unary.ts';

/**
 * How capability services are called (specification, "Limits": `service.bridge.grpc.*`), as one place sets it; undefined
 * what it leaves to the next one.
 */
export type BridgeGrpcSettings = { readonly [Key in keyof CallSettings]: CallSettings[Key] | undefined };

/** What the values lie between, both included. */
export const BRIDGE_GRPC_LIMITS = {
  timeoutMs: [1, LONGEST_TIMER_MS],
  maxRetries: [0, 100],
  retryDelayMs: [0, LONGEST_TIMER_MS],
} as const;

const DEFAULTS: CallSettings = { timeoutMs: 5_000, maxRetries: 3, retryDelayMs: 100 };

/** The members of the service-config file's `bridge: grpc:` (decisions 1.3); a member without a value is not set. */
export const bridgeGrpcFile = z.looseObject(
  {
    'timeout-ms': wholeNumber(BRIDGE_GRPC_LIMITS.timeoutMs),
    'max-retries': wholeNumber(BRIDGE_GRPC_LIMITS.maxRetries),
    'retry-delay-ms': wholeNumber(BRIDGE_GRPC_LIMITS.retryDelayMs),
  },
  { error: 'is not a map with timeout-ms, max-retries and retry-delay-ms' },
);

/** What stands under the service-config file's key `bridge`. */
export const bridgeEntry = z.object({ grpc: bridgeGrpcFile.nullish() }, { error: 'is not a map with grpc' });

/** What the file's members are to the service. */
export function bridgeGrpcOf(members: z.output<typeof bridgeGrpcFile>): BridgeGrpcSettings {
  return {
    timeoutMs: members['timeout-ms'] ?? undefined,
    maxRetries: members['max-retries'] ?? undefined,
    retryDelayMs: members['retry-delay-ms'] ?? undefined,
  };
}

/** The settings that count: the environment wins over the file, which wins over the defaults (decisions 1.2). */
export function settledBridgeGrpc(environment: BridgeGrpcSettings, file: BridgeGrpcSettings): CallSettings {
  return {
    timeoutMs: environment.timeoutMs ?? file.timeoutMs ?? DEFAULTS.timeoutMs,
    maxRetries: environment.maxRetries ?? file.maxRetries ?? DEFAULTS.maxRetries,
    retryDelayMs: environment.retryDelayMs ?? file.retryDelayMs ?? DEFAULTS.retryDelayMs,
  };
}

function wholeNumber([min, max]: readonly [number, number]) {
  const error = `is not a whole number from ${min} to ${max}`;
  return z.int({ error }).min(min, { error }).max(max, { error }).nullish();
}

/** What RUST_LOG asks for, and warnings for directives that have no effect here. */
interface LogDirectives {
  readonly filter: LogFilter;
  readonly warnings: readonly string[];
}

const DEFAULT_LEVEL: LogThreshold = 'info';

/** The filter of an unset RUST_LOG: `info` for every target. */
export const DEFAULT_LOG_FILTER: LogFilter = resolve([], DEFAULT_LEVEL);

interface Directive {
  readonly target: string;
  readonly level: LogThreshold;
}

/**
 * Directives of RUST_LOG (decisions 1.2): `level`, `target=level`, `target` (= everything of it), separated by commas,
 * blanks around them allowed. A target speaks for every target that begins with it; the longest one wins, and of equal
 * ones the last. Targets that no directive speaks for follow the bare level, else `info`: naming one target does not
 * silence the errors of the others.
 */
export const logDirectives: Setting<LogDirectives> = {
  accepts: 'a comma list of level, target=level or target, with levels off, error, warn, info, debug, trace',
  parse: (text) => {
    const directives: Directive[] = [];
    const warnings: string[] = [];
    let fallback: LogThreshold = DEFAULT_LEVEL;
    for (const item of splitDirectives(text)) {
      if (item.includes('[')) {
        warnings.push(`span filter ${quote(item)} is ignored: this log has no spans`);
        continue;
      }
      const level = parseLevel(item);
      if (level !== undefined) {
        fallback = level;
        continue;
      }
      const directive = parseDirective(item);
      if (!item.includes('=') && !LOG_TARGETS.some((target) => target.startsWith(directive.target))) {
        warnings.push(`${quote(item)} is neither a level nor the beginning of a target and has no effect`);
      }
      directives.push(directive);
    }
    return { filter: resolve(directives, fallback), warnings };
  },
};

function parseDirective(item: string): Directive {
  const [target = '', levelText, ...rest] = item.split('=').map((part) => part.trim());
  if (!/^[A-Za-z_][\w:.-]*$/.test(target)) throw new InvalidSettingError(`has no valid target in ${quote(item)}`);
  const level = levelText === undefined ? 'trace' : parseLevel(levelText);
  if (level === undefined || rest.length > 0) throw new InvalidSettingError(`has no valid level in ${quote(item)}`);
  return { target, level };
}

function parseLevel(text: string): LogThreshold | undefined {
  const word = text.toLowerCase();
  return word === 'off' ? word : LOG_LEVELS.find((level) => level === word);
}

/** Splits at the commas outside brackets: a span filter lists its fields with commas of its own. */
function splitDirectives(text: string): string[] {
  const items: string[] = [];
  let depth = 0;
  let start = 0;
  for (let at = 0; at <= text.length; at++) {
    const char = text[at];
    if (char === '[' || char === '{') depth++;
    else if (char === ']' || char === '}') depth--;
    if (depth < 0) throw new InvalidSettingError('closes a bracket that is not open');
    if (char === undefined || (char === ',' && depth === 0)) {
      items.push(text.slice(start, at).trim());
      start = at + 1;
    }
  }
  if (depth > 0) throw new InvalidSettingError('has a bracket that is not closed');
  return items.filter((item) => item !== '');
}

function resolve(directives: readonly Directive[], fallback: LogThreshold): LogFilter {
  const levelOf = (target: LogTarget): LogThreshold => {
    let best: Directive | undefined;
    for (const directive of directives) {
      if (!target.startsWith(directive.target)) continue;
      if (best === undefined || directive.target.length >= best.target.length) best = directive;
    }
    return best?.level ?? fallback;
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

/** Where the registry is kept (decisions 1.5). With `recover`, damaged files are renamed and done without. */
export type Persistence =
  | { readonly backend: 'file'; readonly path: string; readonly recover: boolean }
  | { readonly backend: 'none' };

/** The identity provider (decisions 5.1). Both without trailing slash. */
export interface AuthIssuer {
  readonly issuer: string;
  /** For the service's own calls to it; equals `issuer` unless set. */
  readonly upstreamIssuer: string;
}

/** The environment variables of decisions 1.2, parsed. Undefined: unset, and no default of its own. */
export interface Environment {
  readonly mgmtListen: ListenAddress;
  /** Replaces the address of the pipeline listener `mcp`. */
  readonly mcpListen: ListenAddress | undefined;
  /** Replaces the address of the pipeline listener `inference`. */
  readonly inferenceListen: ListenAddress | undefined;
  readonly persist: Persistence;
  /** Base address of the legacy backend, without trailing slash. */
  readonly classicUrl: string | undefined;
  readonly uiPath: string;
  /** Wins over the pipeline file's cluster `inference`. */
  readonly inferenceUpstream: HttpUpstream | undefined;
  /** Records kept; 0 records nothing. */
  readonly interactionCapacity: number;
  readonly auth: AuthIssuer | undefined;
  /** `*` or one origin as a browser sends it. */
  readonly corsOrigin: string | undefined;
  /** Lower case, without those that are never copied (decisions 4.7). */
  readonly forwardHeaders: readonly string[];
  /** Milliseconds between checks of healthy forwards and services; 0 for no checks. */
  readonly healthCheckIntervalMs: number;
  readonly upstreamIdleTimeoutMs: number;
  readonly upstreamMaxTimeoutMs: number;
  /** How many calls may wait for their clients' input, and for how long. */
  readonly parkedCallsLimit: number;
  readonly parkedCallTimeoutMs: number;
  /** 32 bytes. */
  readonly sessionKey: Buffer | undefined;
  /** Accepted Host values, lower case; one without a port stands for any port. */
  readonly allowedHosts: readonly string[] | undefined;
  readonly actionsPath: string | undefined;
  /** Each wins over the service-config file's value, which wins over the default. */
  readonly bridgeGrpc: BridgeGrpcSettings;
  readonly logFilter: LogFilter;
  /** One line each, naming the variable; for the log once there is one. */
  readonly warnings: readonly string[];
}

const LONGEST_SECONDS = Math.floor(LONGEST_TIMER_MS / 1000);
const milliseconds = integer(1, LONGEST_TIMER_MS);

/**
 * Parses the environment (decisions 1.2). An empty value counts as unset, unknown variables are ignored, and the first
 * malformed one throws {@link ConfigError}. Touches no file: relative paths are kept as they are.
 */
export function parseEnvironment(env: NodeJS.ProcessEnv): Environment {
  const read = <T>(name: string, setting: Setting<T>): T | undefined => readSetting(env, name, setting);

  const persistBackend = read('SERVICE_PERSIST_BACKEND', oneOf('file', 'none')) ?? 'file';
  const persistPath = read('SERVICE_PERSIST_PATH', path) ?? join(env.HOME || '.', '.service', 'server');
  const persistRecover = read('SERVICE_PERSIST_RECOVER', oneOf('rename')) === 'rename';
  const issuer = read('SERVICE_AUTH_ISSUER', baseUrl);
  const upstreamIssuer = read('SERVICE_AUTH_UPSTREAM_ISSUER', baseUrl);
  if (issuer === undefined && upstreamIssuer !== undefined) {
    throw new ConfigError('SERVICE_AUTH_UPSTREAM_ISSUER: is set without SERVICE_AUTH_ISSUER; set both or neither');
  }
  const headers = read('SERVICE_FORWARD_HEADERS', forwardHeaders);
  const log = read('RUST_LOG', logDirectives);

  return {
    mgmtListen: read('SERVICE_MGMT_LISTEN', listenAddress) ?? { host: '0.0.0.0', port: 8080 },
    mcpListen: read('SERVICE_MCP_LISTEN', listenAddress),
    inferenceListen: read('SERVICE_INFERENCE_LISTEN', listenAddress),
    persist:
      persistBackend === 'none' ? { backend: 'none' } : { backend: 'file', path: persistPath, recover: persistRecover },
    classicUrl: read('SERVICE_CLASSIC_URL', baseUrl),
    uiPath: read('SERVICE_UI_PATH', path) ?? '/opt/service/admin',
    inferenceUpstream: read('SERVICE_INFERENCE_UPSTREAM', httpUpstream),
    interactionCapacity: read('SERVICE_INTERACTION_CAPACITY', integer(0, 1_000_000)) ?? 1000,
    auth: issuer === undefined ? undefined : { issuer, upstreamIssuer: upstreamIssuer ?? issuer },
    corsOrigin: read('SERVICE_CORS_ORIGIN', corsOrigin),
    forwardHeaders: headers?.names ?? [],
    healthCheckIntervalMs: (read('SERVICE_FORWARD_HEALTHCHECK_INTERVAL', integer(0, LONGEST_SECONDS)) ?? 30) * 1000,
    upstreamIdleTimeoutMs: read('SERVICE_UPSTREAM_IDLE_TIMEOUT_MS', milliseconds) ?? 300_000,
    upstreamMaxTimeoutMs: read('SERVICE_UPSTREAM_MAX_TIMEOUT_MS', milliseconds) ?? 3_600_000,
    parkedCallsLimit: read('SERVICE_PARKED_CALLS_LIMIT', integer(0, 1_000_000)) ?? 1000,
    parkedCallTimeoutMs: read('SERVICE_PARKED_CALL_TIMEOUT_MS', milliseconds) ?? 300_000,
    sessionKey: read('SERVICE_SESSION_KEY', key),
    allowedHosts: read('SERVICE_ALLOWED_HOSTS', hostList),
    actionsPath: read('SERVICE_ACTIONS_PATH', path),
    bridgeGrpc: {
      timeoutMs: read('SERVICE_BRIDGE_GRPC_TIMEOUT_MS', integer(...BRIDGE_GRPC_LIMITS.timeoutMs)),
      maxRetries: read('SERVICE_BRIDGE_GRPC_MAX_RETRIES', integer(...BRIDGE_GRPC_LIMITS.maxRetries)),
      retryDelayMs: read('SERVICE_BRIDGE_GRPC_RETRY_DELAY_MS', integer(...BRIDGE_GRPC_LIMITS.retryDelayMs)),
    },
    logFilter: log?.filter ?? DEFAULT_LOG_FILTER,
    warnings: [
      ...(headers?.warnings ?? []).map((warning) => `SERVICE_FORWARD_HEADERS: ${warning}`),
      ...(log?.warnings ?? []).map((warning) => `RUST_LOG: ${warning}`),
    ],
  };
}

/** How OpenTelemetry's data is sent. */
export type OtlpProtocol = 'grpc' | 'http/protobuf' | 'http/json';

/** Which traces are recorded where nobody before us has decided it; `parentBased`: who has, is followed. */
export interface SamplerSettings {
  readonly parentBased: boolean;
  /** Share of the traces, 0 to 1. */
  readonly ratio: number;
}

/** How traces are exported. */
export interface TraceSettings {
  readonly protocol: OtlpProtocol;
  readonly sampler: SamplerSettings;
  /** Milliseconds, and numbers of spans (`OTEL_BSP_*`); undefined: the library's defaults. */
  readonly batch: {
    readonly scheduledDelayMillis?: number;
    readonly exportTimeoutMillis?: number;
    readonly maxQueueSize?: number;
    readonly maxExportBatchSize?: number;
  };
}

/** How metrics are exported. */
export interface MetricSettings {
  readonly protocol: OtlpProtocol;
  /** Milliseconds between exports (default 60 s), and for one of them (default 30 s). */
  readonly intervalMs: number;
  readonly timeoutMs: number;
}

/** What is exported to an OpenTelemetry collector; undefined: nothing. */
export interface OpenTelemetrySettings {
  readonly traces: TraceSettings | undefined;
  readonly metrics: MetricSettings | undefined;
  readonly warnings: readonly string[];
}

const ENDPOINT: Setting<string> = {
  accepts: 'an http or https URL, as http://collector:4318',
  secret: true,
  parse: (text) => {
    const url = URL.canParse(text) ? new URL(text) : undefined;
    if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
      throw new InvalidSettingError('is not an http or https URL');
    return text;
  },
};
const DISABLED: Setting<boolean> = {
  accepts: '"true" or "false"',
  parse: (text) => {
    // OpenTelemetry has it in any case.
    const value = text.toLowerCase();
    if (value !== 'true' && value !== 'false') throw new InvalidSettingError('is neither true nor false');
    return value === 'true';
  },
};
const PROTOCOL = oneOf('grpc', 'http/protobuf', 'http/json');
const MILLISECONDS = integer(1, LONGEST_TIMER_MS);
const COUNT = integer(1, 1_000_000);
const HEADERS: Setting<void> = {
  accepts: 'a comma list of name=value, percent-encoded',
  secret: true,
  parse: (text) => {
    for (const item of commaList(text)) {
      if (!/^[\w!#$%&'*+.^`|~-]+\s*=/.test(item)) throw new InvalidSettingError('has a part that is no name=value');
      if (/%(?![\da-f]{2})/i.test(item))
        throw new InvalidSettingError('has a % that is not followed by two hex digits');
    }
  },
};
const FILE: Setting<void> = {
  accepts: 'a file in PEM',
  parse: (text) => {
    if (!statSync(text, { throwIfNoEntry: false })?.isFile()) throw new InvalidSettingError('is no file');
  },
};
/**
 * What the library reads by itself, by the end of its name. Of a value that cannot be it says nothing and goes on without:
 * no traces would come, or without the certificate.
 */
const READ_BY_LIBRARY: readonly (readonly [string, Setting<unknown>])[] = [
  ['TIMEOUT', MILLISECONDS],
  ['COMPRESSION', oneOf('gzip', 'none')],
  ['HEADERS', HEADERS],
  ['CERTIFICATE', FILE],
  ['CLIENT_CERTIFICATE', FILE],
  ['CLIENT_KEY', FILE],
];
const RATIO: Setting<number> = {
  accepts: 'a number from 0 to 1',
  parse: (text) => {
    const value = Number(text);
    if (text.trim() === '' || !(value >= 0 && value <= 1)) throw new InvalidSettingError('is not a number from 0 to 1');
    return value;
  },
};
const SAMPLER = oneOf(
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
  'always_on',
  'always_off',
  'traceidratio',
);

/**
 * What OpenTelemetry's standard variables ask for. Nothing is exported unless an endpoint or an exporter is named:
 * OTEL_EXPORTER_OTLP_ENDPOINT, the same for TRACES and METRICS, OTEL_TRACES_EXPORTER, OTEL_METRICS_EXPORTER. Endpoints,
 * headers, certificates, compression and time-outs of the exporters, and the attributes of the resource, are read by the
 * library itself; here it is seen to that they can be. Throws {@link ConfigError}.
 */
export function openTelemetrySettings(env: NodeJS.ProcessEnv): OpenTelemetrySettings {
  const read = <T>(name: string, setting: Setting<T>): T | undefined => readSetting(env, name, setting);
  if (read('OTEL_SDK_DISABLED', DISABLED)) {
    return { traces: undefined, metrics: undefined, warnings: [] };
  }
  const everything = read('OTEL_EXPORTER_OTLP_ENDPOINT', ENDPOINT) !== undefined;
  const protocol = read('OTEL_EXPORTER_OTLP_PROTOCOL', PROTOCOL) ?? 'http/protobuf';
  for (const signal of ['', 'TRACES_', 'METRICS_']) {
    for (const [name, setting] of READ_BY_LIBRARY) read(`OTEL_EXPORTER_OTLP_${signal}${name}`, setting);
  }
  const exports = (signal: 'TRACES' | 'METRICS', others: readonly string[]): boolean => {
    const named = read(`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`, ENDPOINT) !== undefined;
    return exporters(env, `OTEL_${signal}_EXPORTER`, others)?.has('otlp') ?? (everything || named);
  };
  const traces: TraceSettings = {
    protocol: read('OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', PROTOCOL) ?? protocol,
    sampler: sampler(read('OTEL_TRACES_SAMPLER', SAMPLER), read('OTEL_TRACES_SAMPLER_ARG', RATIO)),
    batch: defined({
      scheduledDelayMillis: read('OTEL_BSP_SCHEDULE_DELAY', MILLISECONDS),
      exportTimeoutMillis: read('OTEL_BSP_EXPORT_TIMEOUT', MILLISECONDS),
      maxQueueSize: read('OTEL_BSP_MAX_QUEUE_SIZE', COUNT),
      maxExportBatchSize: read('OTEL_BSP_MAX_EXPORT_BATCH_SIZE', COUNT),
    }),
  };
  const metrics: MetricSettings = {
    protocol: read('OTEL_EXPORTER_OTLP_METRICS_PROTOCOL', PROTOCOL) ?? protocol,
    intervalMs: read('OTEL_METRIC_EXPORT_INTERVAL', MILLISECONDS) ?? 60_000,
    timeoutMs: read('OTEL_METRIC_EXPORT_TIMEOUT', MILLISECONDS) ?? 30_000,
  };
  return {
    traces: exports('TRACES', []) ? traces : undefined,
    // They are at /metrics whatever is said here.
    metrics: exports('METRICS', ['prometheus'])
      ? { ...metrics, timeoutMs: Math.min(metrics.timeoutMs, metrics.intervalMs) }
      : undefined,
    warnings: propagatorWarnings(env.OTEL_PROPAGATORS ?? ''),
  };
}

/** The exporters that the variable names, undefined where it is unset. */
function exporters(env: NodeJS.ProcessEnv, name: string, others: readonly string[]): Set<string> | undefined {
  const text = env[name];
  if (text === undefined || text === '') return undefined;
  const known = ['otlp', 'none', ...others];
  const named = commaList(text);
  const unknown = named.find((each) => !known.includes(each));
  if (unknown !== undefined) {
    throw new ConfigError(`${name}: ${quote(unknown)} is not known; accepted: a comma list of ${known.join(', ')}`);
  }
  return new Set(named);
}

function sampler(name = 'parentbased_always_on', ratio = 1): SamplerSettings {
  const kind = name.replace('parentbased_', '');
  return {
    parentBased: kind !== name,
    ratio: kind === 'always_on' ? 1 : kind === 'always_off' ? 0 : ratio,
  };
}

/** Without the members that have no value. */
function defined<T extends object>(object: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const result: { [K in keyof T]?: Exclude<T[K], undefined> } = {};
  for (const key in object) {
    const value = object[key];
    if (value !== undefined) Object.assign(result, { [key]: value });
  }
  return result;
}

function propagatorWarnings(text: string): string[] {
  return commaList(text)
    .filter((name) => name !== 'tracecontext' && name !== 'baggage')
    .map((name) => `OTEL_PROPAGATORS: ${quote(name)} is ignored; trace context goes on as W3C tracecontext`);
}
