import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import {
  type ChannelCredentials,
  type ChannelOptions,
  Client,
  credentials,
  type GrpcObject,
  loadPackageDefinition,
  logVerbosity,
  setLogger,
  setLogVerbosity,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { serviceAddress } from '@sluice/contract';
import type { Registry } from '../../registry/registry.ts';
import type { Services } from '../../registry/snapshot.ts';
import type { ProtoGrpcType as CodeExecution } from './generated/codeexecution.ts';
import type { ProtoGrpcType as Health } from './generated/health.ts';
import type { ProtoGrpcType as Provision } from './generated/provision.ts';
import type { ProtoGrpcType as Resource } from './generated/resource.ts';
import type { ProtoGrpcType as Tool } from './generated/tool.ts';

/** Milliseconds for the first frame of a service on an accepted connection. */
const FIRST_FRAME_TIMEOUT_MS = 10_000;

/** Minimum size of an HTTP/2 frame. Anything else that is not a frame closes the connection by itself. */
const FRAME_BYTES = 9;

/**
 * Credentials for plaintext channels that close a connection without any HTTP/2 frame: of a load balancer without a
 * backend or a hanging process. The library, and with it every call of the
 * channel, would wait for such a connection as long as it is open, even if the service is available again.
 */
export function plaintextCredentials(firstFrameMs = FIRST_FRAME_TIMEOUT_MS): ChannelCredentials {
  const plain = credentials.createInsecure();
  // The only place where the library exposes a connection before HTTP/2.
  const connectorOf = plain._createSecureConnector.bind(plain);
  plain._createSecureConnector = (...args) => {
    const connector = connectorOf(...args);
    return {
      ...connector,
      connect(socket) {
        destroyIfIdle(socket, firstFrameMs);
        return connector.connect(socket);
      },
    };
  };
  return plain;
}

function destroyIfIdle(socket: Socket, withinMs: number): void {
  const timer = setTimeout(() => {
    if (socket.bytesRead < FRAME_BYTES) socket.destroy(new Error(`no HTTP/2 frame on an accepted connection`));
  }, withinMs).unref();
  socket.once('close', () => clearTimeout(timer));
}

/** Limit on a message in either direction. */
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;

/**
 * Milliseconds without a call after which a channel disconnects, at the next check of the library, which can be as much later: it
 * would try to reconnect to a stopped service all the time. The next call connects again immediately.
 */
const IDLE_TIMEOUT_MS = 5_000;

const CHANNEL_OPTIONS: ChannelOptions = {
  'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
  'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
  'grpc.enable_retries': 0,
  // Like upstreams, services are not reached through a proxy of the environment.
  'grpc.enable_http_proxy': 0,
  // Finds a restarted service, also at another address of its name, within the 700 ms of a call's retries (the library
  // adds 20 % jitter) instead of minutes.
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.min_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 400,
  'grpc.dns_min_time_between_resolutions_ms': 1_000,
  // Detects a peer that disappears during a call. No shorter interval: servers close connections with three pings in 5
  // minutes without data, and code may run that long without output.
  'grpc.keepalive_time_ms': 120_000,
  'grpc.keepalive_timeout_ms': 10_000,
};

/**
 * Plaintext channels to capability services, one per target, closed when no registered service has the address any more. A
 * channel connects when used, reconnects by itself, and disconnects when idle.
 */
export class GrpcChannels {
  readonly #clients = new Map<string, Client>();
  readonly #unsubscribe: () => void;
  readonly #credentials = plaintextCredentials();
  readonly #options: ChannelOptions;
  #services: Services;

  constructor(registry: Pick<Registry, 'current' | 'committed'>, idleTimeoutMs = IDLE_TIMEOUT_MS) {
    this.#options = { ...CHANNEL_OPTIONS, 'grpc.client_idle_timeout_ms': idleTimeoutMs };
    this.#services = registry.current.services;
    this.#unsubscribe = registry.committed.subscribe(() => this.#onRegistryChange(registry.current.services));
  }

  get targets(): readonly string[] {
    return [...this.#clients.keys()];
  }

  /** Returns the channel to `host:port`; IPv6 addresses are in brackets. */
  get(target: string): Client {
    let client = this.#clients.get(target);
    if (!client) {
      // Without the scheme, a host named unix or dns would be interpreted as one.
      client = new Client(`dns:${target}`, this.#credentials, this.#options);
      this.#clients.set(target, client);
    }
    return client;
  }

  /** Closes all channels for good; calls in progress finish. */
  close(): void {
    this.#unsubscribe();
    this.#closeAllExcept(new Set());
  }

  #onRegistryChange(services: Services): void {
    // Most changes do not concern services.
    if (services === this.#services) return;
    this.#services = services;
    if (this.#clients.size > 0) this.#closeAllExcept(new Set(services.all.map(serviceAddress)));
  }

  #closeAllExcept(targets: ReadonlySet<string>): void {
    for (const [target, client] of this.#clients) {
      if (targets.has(target)) continue;
      this.#clients.delete(target);
      client.close();
    }
  }
}

/** Folder of the five `.proto` files, also used by capability services. */
export const PROTO_FOLDER = fileURLToPath(new URL('../../../proto', import.meta.url));

/** Files in {@link PROTO_FOLDER}. */
export const PROTO_FILES: readonly string[] = [
  'tool.proto',
  'provision.proto',
  'resource.proto',
  'codeexecution.proto',
  'health.proto',
];

/** Protocols of capability services. */
export type Protocols = ReturnType<typeof loadProtocols>;

/** Reads the `.proto` files. Field names are unchanged; missing members have defaults. */
export function loadProtocols() {
  const definition = loadSync([...PROTO_FILES], {
    includeDirs: [PROTO_FOLDER],
    keepCase: true,
    longs: Number,
    enums: String,
    defaults: true,
  });
  // The types are generated from the same files (`npm run generate`).
  const loaded: GrpcObject = loadPackageDefinition(definition);
  const { tool, resource, codeexecution, health } = loaded as unknown as Tool &
    Provision &
    Resource &
    CodeExecution &
    Health;
  return {
    toolInvoker: tool.ToolInvoker.service,
    provisioner: tool.Provisioner.service,
    resourceAcquirer: resource.ResourceAcquirer.service,
    codeExecutor: codeexecution.CodeExecutor.service,
    healthProbe: health.HealthProbe.service,
  };
}

/**
 * Disables the log of the gRPC library for the whole process: it writes to standard error and includes values such as
 * headers sent by a service. Failed calls are in the log of Sluice.
 */
export function disableGrpcLogging(): void {
  const noop = (): void => {};
  setLogger({ error: noop, info: noop, debug: noop });
  setLogVerbosity(logVerbosity.NONE);
}
