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
  /** Timeout in milliseconds, as requested. */
  readonly timeLeft: number;
  /** Resolves when the caller has canceled. */
  readonly canceled: Promise<void>;
  readonly #stream: Stream;

  constructor(stream: Stream) {
    this.#stream = stream;
    this.request = stream.request;
    this.requestId = String(stream.metadata.get('x-service-request-id')[0]);
    this.timeLeft = Number(stream.getDeadline()) - Date.now();
    this.canceled = new Promise((resolve) => stream.once('cancelled', () => resolve()));
    stream.on('error', () => undefined);
  }

  /** Sends one reply. False when the caller reads too slowly. */
  reply(reply: CodeExecutionReply): boolean {
    return this.#stream.write(reply);
  }

  /** Resolves when everything was sent. */
  async drained(): Promise<void> {
    await once(this.#stream, 'drain');
  }

  end(): void {
    this.#stream.end();
  }

  /** Ends the stream with an error status. */
  fail(code: status, details: string): void {
    this.#stream.emit('error', { code, details });
  }
}

/** A code-execution engine, on a real gRPC server. */
export interface CodeService {
  readonly port: number;
  /** The next requested execution. */
  next(): Promise<ReportedExecution>;
  /** Resolves when it has rejected an execution. */
  readonly rejected: Promise<void>;
  /** All so far. */
  readonly executions: readonly ReportedExecution[];
  /** Proxy of its connections: the library cannot break them. */
  readonly proxy: FaultyProxy;
  /** Resets its connections and accepts no more. */
  die(): void;
  /**
   * Rejects new executions and announces that on its connections (GOAWAY); resolves when those in progress have
   * finished.
   */
  finish(): Promise<void>;
  /** Stops it immediately. */
  close(): void;
}

/** Starts one; `rejections` is the number of executions that it rejects as UNAVAILABLE before it accepts one. */
export async function startCodeService(rejections = 0, options?: ServerOptions): Promise<CodeService> {
  const executions = new Arrivals<ReportedExecution>();
  const rejected = Promise.withResolvers<void>();
  let remaining = rejections;
  const handlers: CodeExecutorHandlers = {
    ExecuteCode(stream: Stream) {
      if (remaining-- > 0) {
        stream.emit('error', { code: status.UNAVAILABLE, details: 'warming up' });
        rejected.resolve();
      } else executions.add(new ReportedExecution(stream));
    },
  };
  const service = await startCapabilityService(
    (server, { codeExecutor }) => server.addService(codeExecutor, handlers),
    0,
    options,
  );
  const proxy = await openFaultyProxy(connectingTo(service.port));
  return {
    port: proxy.port,
    next: () => executions.next(),
    rejected: rejected.promise,
    executions: executions.all,
    proxy: proxy,
    die: () => proxy.close(),
    finish: service.finish,
    close: () => {
      proxy.close();
      service.close();
    },
  };
}
