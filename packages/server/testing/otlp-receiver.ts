import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { Server, ServerCredentials, status, type UntypedServiceImplementation } from '@grpc/grpc-js';
import { loadSync, type PackageDefinition } from '@grpc/proto-loader';
import { type ExportedPoint, type ExportedSpan, pointsOf, spansOf } from './otlp/read.ts';

/** Protocol of exporters (OTEL_EXPORTER_OTLP_PROTOCOL). */
export type OtlpProtocol = 'grpc' | 'http/protobuf' | 'http/json';

/** Response to exports; rejected exports are not stored. */
export type OtlpBehavior =
  | { readonly kind: 'accepts' }
  /** An HTTP response; UNAVAILABLE in gRPC. */
  | { readonly kind: 'responds'; readonly status: number; readonly body: string }
  | { readonly kind: 'silent' };

/** One export as received. */
export interface OtlpRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** Decompressed; empty for gRPC, which has messages and no bodies. */
  readonly body: Buffer;
}

/** Receives the exports of OpenTelemetry on the loopback interface. */
export interface OtlpReceiver {
  /** `http://host:port`. */
  readonly url: string;
  /** The environment of a process that exports its traces here shortly after they have ended. */
  readonly env: Readonly<Record<string, string>>;
  /** May be changed at any time. */
  behavior: OtlpBehavior;
  /** All spans so far. */
  readonly spans: readonly ExportedSpan[];
  /** Points of all metrics so far; repeated exports are repeated here. */
  readonly points: readonly ExportedPoint[];
  /** The received exports, including rejected ones. */
  readonly requests: readonly OtlpRequest[];
  /** The first matching span, past or future; on timeout rejects with the names of all spans. */
  readonly span: (fits: (span: ExportedSpan) => boolean) => Promise<ExportedSpan>;
  /** Resolves when this many exports have arrived. */
  readonly requested: (count: number) => Promise<void>;
  /** Stops listening and closes its connections. */
  readonly close: () => Promise<void>;
}

const TRACES = { path: '/v1/traces', service: 'opentelemetry.proto.collector.trace.v1.TraceService' } as const;
const METRICS = { path: '/v1/metrics', service: 'opentelemetry.proto.collector.metrics.v1.MetricsService' } as const;
const EMPTY = Buffer.alloc(0);
/** Timeout for expected exports. */
const TIMEOUT_MS = 15_000;

/** Starts one on a free port unless one is given. The caller closes it. */
export async function startOtlpReceiver(protocol: OtlpProtocol = 'http/protobuf', port = 0): Promise<OtlpReceiver> {
  const protocols = loadSync(['trace.proto', 'metrics.proto'], {
    includeDirs: [`${import.meta.dirname}/otlp`],
    longs: String,
  });
  const spans: ExportedSpan[] = [];
  const points: ExportedPoint[] = [];
  const requests: OtlpRequest[] = [];
  const waiting = new Set<() => void>();
  const notifyWaiting = (): void => {
    for (const check of [...waiting]) check();
  };
  const onMessage = (path: string, message: unknown): void => {
    if (path === TRACES.path) spans.push(...spansOf(message));
    else points.push(...pointsOf(message));
    notifyWaiting();
  };
  const onRequest = (path: string, headers: IncomingHttpHeaders, body: Buffer): OtlpBehavior => {
    requests.push({ path, headers, body });
    notifyWaiting();
    return receiver.behavior;
  };
  const waitFor = <T>(look: () => T | undefined, what: () => string): Promise<T> =>
    new Promise((resolve, reject) => {
      const done = (): void => {
        clearTimeout(timeout);
        waiting.delete(check);
      };
      const check = (): void => {
        const found = look();
        if (found === undefined) return;
        done();
        resolve(found);
      };
      const timeout = setTimeout(() => {
        done();
        reject(new Error(what()));
      }, TIMEOUT_MS);
      waiting.add(check);
      check();
    });

  const start = protocol === 'grpc' ? startGrpc : startHttp;
  const server = await start(port, { protocols, onRequest, onMessage });
  const url = `http://127.0.0.1:${server.port}`;
  const receiver: OtlpReceiver = {
    url,
    env: {
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
      OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
      OTEL_BSP_SCHEDULE_DELAY: '20',
      OTEL_METRICS_EXPORTER: 'none',
    },
    behavior: { kind: 'accepts' },
    spans,
    points,
    requests,
    span: (matches) =>
      waitFor(
        () => spans.find(matches),
        () => `no matching span: ${spans.map(({ kind, name }) => `${kind} ${name}`).join('; ')}`,
      ),
    requested: async (count) =>
      void (await waitFor(
        () => (requests.length >= count ? requests : undefined),
        () => `${requests.length} exports received, expected ${count}`,
      )),
    close: server.close,
  };
  return receiver;
}

interface Receiving {
  readonly protocols: PackageDefinition;
  readonly onRequest: (path: string, headers: IncomingHttpHeaders, body: Buffer) => OtlpBehavior;
  readonly onMessage: (path: string, message: unknown) => void;
}

interface Started {
  readonly port: number;
  readonly close: () => Promise<void>;
}

/** Both forms of OTLP over HTTP, distinguished by their content type. */
async function startHttp(port: number, { protocols, onRequest, onMessage }: Receiving): Promise<Started> {
  const receive = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { url: path = '', headers } = request;
    const signal = [TRACES, METRICS].find((each) => each.path === path);
    const sent = await buffer(request);
    const body = headers['content-encoding'] === 'gzip' ? gunzipSync(sent) : sent;
    const behavior = onRequest(path, headers, body);
    if (behavior.kind === 'silent') return;
    if (behavior.kind === 'responds') {
      response.writeHead(behavior.status).end(behavior.body);
      return;
    }
    if (!signal) {
      response.writeHead(404).end();
      return;
    }
    const type = headers['content-type'] ?? '';
    onMessage(
      path,
      type === 'application/json' ? JSON.parse(body.toString()) : decoder(protocols, signal.service)(body),
    );
    // An empty message in either form.
    response.writeHead(200, { 'content-type': type }).end(type === 'application/json' ? '{}' : '');
  };
  const server = createServer((request, response) => {
    receive(request, response).catch((error: unknown) => response.writeHead(400).end(String(error)));
  });
  const listening = Promise.withResolvers<void>();
  server.once('error', listening.reject).listen(port, '127.0.0.1', listening.resolve);
  await listening.promise;
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the receiver has no TCP address');
  return {
    port: address.port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function startGrpc(port: number, { protocols, onRequest, onMessage }: Receiving): Promise<Started> {
  const server = new Server();
  for (const { path, service } of [TRACES, METRICS]) {
    const definition = protocols[service];
    if (!definition || !isService(definition)) throw new Error(`no service ${service}`);
    const handlers: UntypedServiceImplementation = {
      Export: (
        call: { readonly request: unknown; readonly metadata: { getMap(): Record<string, unknown> } },
        done: (error: { code: status; details: string } | null, response?: object) => void,
      ) => {
        const behavior = onRequest(path, Object.fromEntries(Object.entries(call.metadata.getMap()).map(text)), EMPTY);
        if (behavior.kind === 'silent') return;
        if (behavior.kind === 'responds') return done({ code: status.UNAVAILABLE, details: behavior.body });
        onMessage(path, call.request);
        done(null, {});
      },
    };
    server.addService(definition, handlers);
  }
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), (error, taken) =>
      error ? reject(error) : resolve(taken),
    );
  });
  return { port: bound, close: async () => server.forceShutdown() };
}

function text([name, value]: [string, unknown]): [string, string] {
  return [name, String(value)];
}

type Definition = PackageDefinition[string];
type Service = Parameters<Server['addService']>[0] & Definition;

function isService(definition: Definition): definition is Service {
  return 'Export' in definition;
}

function decoder(protocols: PackageDefinition, service: string): (bytes: Buffer) => unknown {
  const definition = protocols[service];
  const method = definition && isService(definition) ? definition.Export : undefined;
  if (!method) throw new Error(`no service ${service}`);
  return method.requestDeserialize;
}
