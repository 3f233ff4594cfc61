import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import type { TestContext } from 'vitest';

/** What an exporter has sent. */
export interface Received {
  readonly path: string;
  /** Lower case names. */
  readonly headers: Readonly<Record<string, unknown>>;
  /** Decompressed. */
  readonly body: Buffer;
}

/** Where metrics can be sent to. */
export interface OtlpReceiver {
  /** `http://host:port`. */
  readonly url: string;
  readonly received: readonly Received[];
  /** The status of what is answered from now on (200). */
  status: number;
}

const METHOD = '/opentelemetry.proto.collector.metrics.v1.MetricsService/Export';

/** Receives OTLP over HTTP until the test is over. */
export async function httpReceiver({ onTestFinished }: Pick<TestContext, 'onTestFinished'>): Promise<OtlpReceiver> {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const { url: path = '', headers } = request;
    const bytes = await buffer(request);
    received.push({ path, headers, body: headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes });
    response.writeHead(receiver.status, { 'content-type': String(headers['content-type']) }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const address = server.address();
  const receiver = { url: `http://127.0.0.1:${portOf(address)}`, received, status: 200 };
  return receiver;
}

/** Receives OTLP over gRPC until the test is over. */
export async function grpcReceiver({ onTestFinished }: Pick<TestContext, 'onTestFinished'>): Promise<OtlpReceiver> {
  const received: Received[] = [];
  const server = new Server();
  const asItIs = (bytes: Buffer): Buffer => bytes;
  server.addService(
    {
      Export: {
        path: METHOD,
        requestStream: false,
        responseStream: false,
        requestSerialize: asItIs,
        requestDeserialize: asItIs,
        responseSerialize: asItIs,
        responseDeserialize: asItIs,
      },
    },
    {
      Export: (
        call: { readonly request: Buffer; readonly metadata: { getMap(): Record<string, unknown> } },
        done: (error: null, answer: Buffer) => void,
      ) => {
        received.push({ path: METHOD, headers: call.metadata.getMap(), body: call.request });
        done(null, Buffer.alloc(0));
      },
    },
  );
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
  onTestFinished(() => server.forceShutdown());
  return { url: `http://127.0.0.1:${port}`, received, status: 200 };
}

function portOf(address: string | AddressInfo | null): number {
  if (typeof address !== 'object' || address === null) throw new Error('it does not listen on a port');
  return address.port;
}
