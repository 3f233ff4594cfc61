import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Server, ServerCredentials, type ServerWritableStream, status } from '@grpc/grpc-js';
import type { CodeExecutionReply } from '../bridge/generated/codeexecution/CodeExecutionReply.ts';
import type { CodeExecutionRequest__Output } from '../bridge/generated/codeexecution/CodeExecutionRequest.ts';
import type { CodeExecutorHandlers } from '../bridge/generated/codeexecution/CodeExecutor.ts';
import { loadProtocols } from '../bridge/protocols.ts';
import { Arrivals } from './arrivals.ts';

type Stream = ServerWritableStream<CodeExecutionRequest__Output, CodeExecutionReply>;

/** One execution that has reached a {@link CodeService}; the test reports on it. */
export class ReportedExecution {
  readonly request: CodeExecutionRequest__Output;
  readonly requestId: string;
  /** Resolves when whoever asked no longer wants it. */
  readonly cancelled: Promise<void>;
  readonly #stream: Stream;

  constructor(stream: Stream) {
    this.#stream = stream;
    this.request = stream.request;
    this.requestId = String(stream.metadata.get('x-service-request-id')[0]);
    this.cancelled = new Promise((resolve) => stream.once('cancelled', () => resolve()));
    stream.on('error', () => undefined);
  }

  /** Sends one reply. False when it is not taken any faster. */
  reply(reply: CodeExecutionReply): boolean {
    return this.#stream.write(reply);
  }

  /** Resolves when what was sent has gone out. */
  async drained(): Promise<void> {
    await once(this.#stream, 'drain');
  }

  end(): void {
    this.#stream.end();
  }

  /** Ends the stream with a status that is no success. */
  fail(code: status, details: string): void {
    this.#stream.emit('error', { code, details });
  }
}

/** A code-execution engine, on a real gRPC server. */
export interface CodeService {
  readonly port: number;
  /** The next execution that is asked for. */
  next(): Promise<ReportedExecution>;
  /** Resolves when it has refused one. */
  readonly refused: Promise<void>;
  /** All so far. */
  readonly executions: readonly ReportedExecution[];
  /** Cuts its connections, without a word, and takes no more. */
  die(): void;
  /** Ends it at once. */
  close(): void;
}

/** Starts one; `refusals` is how many executions it refuses as UNAVAILABLE before it takes one. */
export async function startCodeService(refusals = 0): Promise<CodeService> {
  const executions = new Arrivals<ReportedExecution>();
  const refused = Promise.withResolvers<void>();
  let left = refusals;
  const handlers: CodeExecutorHandlers = {
    ExecuteCode(stream: Stream) {
      if (left-- > 0) {
        stream.emit('error', { code: status.UNAVAILABLE, details: 'warming up' });
        refused.resolve();
      } else executions.add(new ReportedExecution(stream));
    },
  };
  const server = new Server();
  server.addService(loadProtocols().codeExecutor, handlers);
  const bound = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, at) =>
      error ? reject(error) : resolve(at),
    ),
  );
  // The library has no way to break a connection: what goes through here can be broken.
  const sockets = new Set<Socket>();
  const door = createServer((near) => {
    const far = connect(bound, '127.0.0.1');
    near.pipe(far).pipe(near);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.once('close', () => {
        sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
  });
  await once(door.listen(0, '127.0.0.1'), 'listening');
  const die = (): void => {
    door.close();
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: portOf(door.address()),
    next: () => executions.next(),
    refused: refused.promise,
    executions: executions.all,
    die,
    close: () => {
      die();
      server.forceShutdown();
    },
  };
}

function portOf(address: AddressInfo | string | null): number {
  if (typeof address !== 'object' || address === null) throw new Error('not listening on a port');
  return address.port;
}
