import { fileURLToPath } from 'node:url';
import {
  logVerbosity,
  Server,
  ServerCredentials,
  setLogVerbosity,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

/** Folder of the `.proto` files. Copy them along with this folder. */
const PROTO_FOLDER = fileURLToPath(new URL('../../packages/server/proto', import.meta.url));
const FILES = ['tool.proto', 'provision.proto', 'codeexecution.proto', 'health.proto'];

/** Time for in-flight calls on shutdown, in milliseconds. */
const SHUTDOWN_TIMEOUT_MS = 3_000;

/** Listening server. */
export interface RunningServer {
  /** Bound port. */
  readonly port: number;
  /** Stops accepting calls and waits for in-flight calls; cancels them after 3 s. */
  stop(): Promise<void>;
}

/** The server cannot listen on the address. */
export class ListenError extends Error {}

/**
 * Starts a server for services by their full names: `{ 'tool.ToolInvoker': { InvokeTool } }`. Rejects with
 * {@link ListenError} if the address is in use or invalid.
 */
export async function startServer(
  listen: string,
  protocols: Readonly<Record<string, UntypedServiceImplementation>>,
): Promise<RunningServer> {
  // Keeps field names, 64-bit integers as numbers, enums as names.
  const options = { includeDirs: [PROTO_FOLDER], keepCase: true, longs: Number, enums: String, defaults: true };
  const definitions = loadSync(FILES, options);
  const server = new Server();
  for (const [name, methods] of Object.entries(protocols)) {
    const definition = definitions[name];
    if (!definition || 'format' in definition) throw new Error(`no .proto file has a service ${name}`);
    server.addService(definition, methods);
  }
  // The library would also log bind errors.
  setLogVerbosity(logVerbosity.NONE);
  const port = await new Promise<number>((resolve, reject) => {
    // Sluice connects without TLS: run both in a private network.
    server.bindAsync(listen, ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(toListenError(listen, error)) : resolve(bound),
    );
  });
  setLogVerbosity(logVerbosity.ERROR);
  return {
    port,
    stop: () =>
      new Promise((resolve) => {
        const timer = setTimeout(() => server.forceShutdown(), SHUTDOWN_TIMEOUT_MS);
        server.tryShutdown(() => {
          clearTimeout(timer);
          resolve();
        });
      }),
  };
}

/** Extracts the reason from the library's error. */
function toListenError(listen: string, error: Error): ListenError {
  const reason = /listen (E[A-Z]+)/.exec(error.message)?.[1] ?? error.message;
  const what = reason === 'EADDRINUSE' ? 'address already in use (EADDRINUSE)' : reason;
  return new ListenError(`cannot listen on ${listen}: ${what}; set SAMPLE_LISTEN to another host:port`);
}
