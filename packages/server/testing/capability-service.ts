import {
  type handleUnaryCall,
  type Metadata,
  Server,
  ServerCredentials,
  type ServerOptions,
  status,
} from '@grpc/grpc-js';
import { loadProtocols, type Protocols } from '../src/upstreams/grpc/channels.ts';

/** A test's capability service on the loopback interface. */
export interface CapabilityService {
  readonly port: number;
  /** `host:port`. */
  readonly address: string;
  /** Stops immediately and closes its connections. */
  close(): void;
  /** Rejects new calls and announces that on its connections (GOAWAY); resolves when in-flight calls have finished. */
  finish(): Promise<void>;
}

/**
 * Starts a service with the handlers that `add` adds, on a free port unless one is given. Methods without a handler are
 * UNIMPLEMENTED. The caller closes it.
 */
export async function startCapabilityService(
  add: (server: Server, protocols: Protocols) => void,
  port = 0,
  options?: ServerOptions,
): Promise<CapabilityService> {
  const server = new Server(options);
  add(server, loadProtocols());
  const bound = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`127.0.0.1:${port}`, ServerCredentials.createInsecure(), (error, taken) =>
      error ? reject(error) : resolve(taken),
    );
  });
  return {
    port: bound,
    address: `127.0.0.1:${bound}`,
    close: () => server.forceShutdown(),
    finish: () => new Promise((resolve, reject) => server.tryShutdown((error) => (error ? reject(error) : resolve()))),
  };
}

/** A call that a service fails. */
export class StatusError extends Error {
  readonly code: status;

  constructor(code: status, details = '') {
    super(details);
    this.code = code;
  }
}

/** A handler that returns the function's result, or fails with the {@link StatusError} that it throws. */
export function unaryHandler<Request, Reply>(
  response: (request: Request, metadata: Metadata) => Reply | Promise<Reply>,
): handleUnaryCall<Request, Reply> {
  return async ({ request, metadata }, callback) => {
    try {
      callback(null, await response(request, metadata));
    } catch (error) {
      const code = error instanceof StatusError ? error.code : status.UNKNOWN;
      callback({ code, details: error instanceof Error ? error.message : String(error) });
    }
  };
}
