import { join } from 'node:path';
import { LONGEST_TIMER_MS } from '../longest-timer.ts';
import {
  baseUrl,
  corsOrigin,
  type HttpUpstream,
  hostList,
  httpUpstream,
  type ListenAddress,
  listenAddress,
} from './addresses.ts';
import { BRIDGE_GRPC_LIMITS, type BridgeGrpcSettings } from './bridge-grpc.ts';
import { ConfigError } from './config-error.ts';
import { forwardHeaders } from './forward-headers.ts';
import { DEFAULT_LOG_FILTER, logDirectives } from './log-directives.ts';
import type { LogFilter } from './log-targets.ts';
import { integer, key, oneOf, path, readSetting, type Setting } from './setting.ts';

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
