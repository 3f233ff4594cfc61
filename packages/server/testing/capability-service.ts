import {
  type handleUnaryCall,
  type Metadata,
  Server,
  ServerCredentials,
  type ServerOptions,
  status,
} from '@grpc/grpc-js';
import { loadProtocols, type Protocols } from '../src/upstreams/grpc/channel.ts';

/** A capability service of a test's own, on the loopback interface. */
export interface CapabilityService {
  readonly port: number;
  /** `host:port`. */
  readonly address: string;
  /** Is gone at once, with the connections to it. */
  close(): void;
  /** Takes no further calls, and says so on its connections; resolves when those under way are finished. */
  finish(): Promise<void>;
}

/**
 * Starts a service that has what `add` adds to it, on a port that the system chooses unless one is given. What of a
 * protocol has no handler is UNIMPLEMENTED. Who starts it also closes it.
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
export class Refusal extends Error {
  readonly code: status;

  constructor(code: status, details = '') {
    super(details);
    this.code = code;
  }
}

/** A handler that answers with what the function returns, or fails with the {@link Refusal} that it throws. */
export function answering<Request, Reply>(
  answer: (request: Request, metadata: Metadata) => Reply | Promise<Reply>,
): handleUnaryCall<Request, Reply> {
  return async ({ request, metadata }, callback) => {
    try {
      callback(null, await answer(request, metadata));
    } catch (error) {
      const code = error instanceof Refusal ? error.code : status.UNKNOWN;
      callback({ code, details: error instanceof Error ? error.message : String(error) });
    }
  };
}
