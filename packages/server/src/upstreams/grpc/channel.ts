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
import type { ServiceEntry } from '../../registry/entries.ts';
import type { Registry } from '../../registry/registry.ts';
import type { Services } from '../../registry/snapshot.ts';
import type { CodeExecutorDefinition } from './generated/codeexecution/CodeExecutor.ts';
import type { ProtoGrpcType as CodeExecution } from './generated/codeexecution.ts';
import type { HealthProbeDefinition } from './generated/health/HealthProbe.ts';
import type { ProtoGrpcType as Health } from './generated/health.ts';
import type { ProtoGrpcType as Provision } from './generated/provision.ts';
import type { ResourceAcquirerDefinition } from './generated/resource/ResourceAcquirer.ts';
import type { ProtoGrpcType as Resource } from './generated/resource.ts';
import type { ProvisionerDefinition } from './generated/tool/Provisioner.ts';
import type { ToolInvokerDefinition } from './generated/tool/ToolInvoker.ts';
import type { ProtoGrpcType as Tool } from './generated/tool.ts';

/** How long a service may take for its first frame once it has accepted a connection, in milliseconds. */
const FIRST_FRAME_MS = 10_000;

/** The least that a frame of HTTP/2 has. With less, the other side has said nothing; what is no frame ends a connection. */
const FRAME_BYTES = 9;

/**
 * For plaintext channels whose connections are cut when the other side accepts them and then says no word of HTTP/2: a balancer
 * without a service behind it, a process that hangs. The library would wait for such a connection for as long as it is
 * open, and every call of the channel with it, also when the service is long well again.
 */
export function plaintext(firstFrameMs = FIRST_FRAME_MS): ChannelCredentials {
  const plain = credentials.createInsecure();
  // The one place where the library shows a connection before it speaks HTTP/2.
  const connectorOf = plain._createSecureConnector.bind(plain);
  plain._createSecureConnector = (...given) => {
    const connector = connectorOf(...given);
    return {
      ...connector,
      connect(socket) {
        cutUnlessHeardOf(socket, firstFrameMs);
        return connector.connect(socket);
      },
    };
  };
  return plain;
}

function cutUnlessHeardOf(socket: Socket, withinMs: number): void {
  const timer = setTimeout(() => {
    if (socket.bytesRead < FRAME_BYTES) socket.destroy(new Error(`it accepted the connection and said nothing`));
  }, withinMs).unref();
  socket.once('close', () => clearTimeout(timer));
}

/** Most that a message may have in either direction (decisions 2.12, 8). */
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;

/**
 * How long a channel is kept up that no call uses, in milliseconds. One whose service is gone would go on dialling it for
 * as long; the next call connects again at once.
 */
const REST_AFTER_MS = 5_000;

const OPTIONS: ChannelOptions = {
  'grpc.max_send_message_length': MAX_MESSAGE_BYTES,
  'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
  // Retries are ours, by the rules of decisions 4.10.
  'grpc.enable_retries': 0,
  // Services are reached as upstreams are: whatever proxy the environment names is not told what they are told.
  'grpc.enable_http_proxy': 0,
  // A service that comes back is found within the 700 ms of a call's retries (the library varies these by a fifth), where
  // it would wait up to minutes; also one that comes back at another address of its name.
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.min_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 400,
  'grpc.dns_min_time_between_resolutions_ms': 1_000,
  // A peer that is gone without a word in a call is noticed. Not sooner: servers take three pings within 5 minutes of
  // silence for an attack and hang up, and code may run silently for as long.
  'grpc.keepalive_time_ms': 120_000,
  'grpc.keepalive_timeout_ms': 10_000,
};

/**
 * The plaintext channels to capability services, one per target (decisions 4.10), there for as long as a registered
 * service has that address. A channel connects when it is used, and again by itself when its connection breaks; what no
 * call uses rests.
 */
export class Channels {
  readonly #clients = new Map<string, Client>();
  readonly #unsubscribe: () => void;
  readonly #credentials: ChannelCredentials;
  readonly #options: ChannelOptions;
  #services: Services;

  constructor(
    registry: Pick<Registry, 'current' | 'onChange'>,
    channelCredentials = plaintext(),
    restAfterMs = REST_AFTER_MS,
  ) {
    this.#credentials = channelCredentials;
    this.#options = { ...OPTIONS, 'grpc.client_idle_timeout_ms': restAfterMs };
    this.#services = registry.current.services;
    this.#unsubscribe = registry.onChange(() => this.#keep(registry.current.services));
  }

  /** The targets that there are channels to. */
  get targets(): readonly string[] {
    return [...this.#clients.keys()];
  }

  /** The channel to `host:port`; an IPv6 address stands in brackets. */
  to(target: string): Client {
    let client = this.#clients.get(target);
    if (!client) {
      // Hosts may be called unix or dns, which the library takes for schemes.
      client = new Client(`dns:${target}`, this.#credentials, this.#options);
      this.#clients.set(target, client);
    }
    return client;
  }

  /** Closes all for good; calls under way finish. */
  close(): void {
    this.#unsubscribe();
    this.#closeAllBut(new Set());
  }

  #keep(services: Services): void {
    // Most changes are to tools, and there may be many services.
    if (services === this.#services) return;
    this.#services = services;
    if (this.#clients.size > 0) this.#closeAllBut(new Set(services.all.map(serviceAddress)));
  }

  #closeAllBut(targets: ReadonlySet<string>): void {
    for (const [target, client] of this.#clients) {
      if (targets.has(target)) continue;
      this.#clients.delete(target);
      client.close();
    }
  }
}

/** The folder of the five `.proto` files (decisions 2.12). Capability services are made from the same ones. */
export const PROTO_FOLDER = fileURLToPath(new URL('../../../proto', import.meta.url));

/** The files in it. */
export const PROTO_FILES: readonly string[] = [
  'tool.proto',
  'provision.proto',
  'resource.proto',
  'codeexecution.proto',
  'health.proto',
];

/** The five protocols that capability services speak (specification, "Capability-service protocols"). */
export interface Protocols {
  readonly toolInvoker: ToolInvokerDefinition;
  readonly provisioner: ProvisionerDefinition;
  readonly resourceAcquirer: ResourceAcquirerDefinition;
  readonly codeExecutor: CodeExecutorDefinition;
  readonly healthProbe: HealthProbeDefinition;
}

/** Reads the `.proto` files. Field names stay as they are written there; members that were not sent have defaults. */
export function loadProtocols(): Protocols {
  const definition = loadSync([...PROTO_FILES], {
    includeDirs: [PROTO_FOLDER],
    keepCase: true,
    longs: Number,
    enums: String,
    defaults: true,
  });
  // What is generated of the same files says what is in them (`npm run generate`).
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
 * Has the gRPC library write nothing of its own, for the whole process: it writes past our log, to standard error, and
 * names what it cannot take with its value, as in headers that a service has sent. What becomes of a call is told by us.
 */
export function disableGrpcLogging(): void {
  const nothing = (): void => {};
  setLogger({ error: nothing, info: nothing, debug: nothing });
  setLogVerbosity(logVerbosity.NONE);
}

/**
 * Which capability service carries something out (specification, "Capability-service protocols"; decisions 4.10). The
 * first registered wins; how it was last found to be does not matter.
 */

/** The service of a tool of this type: a tool invoker of that name, else a code-execution engine of that name. */
export function serviceOfTool(services: Services, toolType: string): ServiceEntry | undefined {
  const named = services.named(toolType);
  return (
    named.find(({ serviceType }) => serviceType === 'tool-invoker' || serviceType === 'multi-capability') ??
    named.find(({ serviceType }) => serviceType === 'code-execution-engine')
  );
}

/** The service of a resource of this type. */
export function serviceOfResource(services: Services, type: string): ServiceEntry | undefined {
  return services
    .named(type)
    .find(({ serviceType }) => serviceType === 'resource-provider' || serviceType === 'multi-capability');
}

/** The service that executes code of this language with this engine; upper and lower case are alike. */
export function serviceOfCode(services: Services, engine: string, language: string): ServiceEntry | undefined {
  const wanted = [engine.toLowerCase(), language.toLowerCase()];
  return services.all.find(
    ({ serviceType, serviceSubType = '', languageName = '' }) =>
      serviceType === 'code-execution-engine' &&
      serviceSubType.toLowerCase() === wanted[0] &&
      languageName.toLowerCase() === wanted[1],
  );
}

/** What is said when nothing is registered for a type. */
export function serviceNotFoundMessage(type: string): string {
  return `There is no host registered for service ${type}`;
}
