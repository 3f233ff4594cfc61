import { once } from 'node:events';
import { type ServerOptions, type ServerWritableStream, status } from '@grpc/grpc-js';
import type { CodeExecutionReply } from '../src/upstreams/grpc/generated/codeexecution/CodeExecutionReply.ts';
import type { CodeExecutionRequest__Output } from '../src/upstreams/grpc/generated/codeexecution/CodeExecutionRequest.ts';
import type { CodeExecutorHandlers } from '../src/upstreams/grpc/generated/codeexecution/CodeExecutor.ts';
import { Arrivals } from './arrivals.ts';
import { startCapabilityService } from './capability-service.ts';
import { connectingTo, type FaultyProxy, openFaultyProxy } from './faulty-proxy.ts';

type Stream = ServerWritableStream<CodeExecutionRequest__Output, CodeExecutionReply>;

/** One execution that has reached a {@link CodeService}; the test reports on it. */
export class ReportedExecution {
  readonly request: CodeExecutionRequest__Output;
  readonly requestId: string;
  /** Milliseconds that it may take, as whoever asked said. */
  readonly timeLeft: number;
  /** Resolves when whoever asked no longer wants it. */
  readonly cancelled: Promise<void>;
  readonly #stream: Stream;

  constructor(stream: Stream) {
    this.#stream = stream;
    this.request = stream.request;
    this.requestId = String(stream.metadata.get('x-service-request-id')[0]);
    this.timeLeft = Number(stream.getDeadline()) - Date.now();
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
  /** What its connections come through: the library has no way to break them. */
  readonly door: FaultyProxy;
  /** Cuts its connections, without a word, and takes no more. */
  die(): void;
  /** Takes no further executions, and says so on its connections; resolves when those under way are finished. */
  finish(): Promise<void>;
  /** Ends it at once. */
  close(): void;
}

/** Starts one; `refusals` is how many executions it refuses as UNAVAILABLE before it takes one. */
export async function startCodeService(refusals = 0, options?: ServerOptions): Promise<CodeService> {
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
  const service = await startCapabilityService(
    (server, { codeExecutor }) => server.addService(codeExecutor, handlers),
    0,
    options,
  );
  const door = await openFaultyProxy(connectingTo(service.port));
  return {
    port: door.port,
    next: () => executions.next(),
    refused: refused.promise,
    executions: executions.all,
    door,
    die: () => door.close(),
    finish: service.finish,
    close: () => {
      door.close();
      service.close();
    },
  };
}
