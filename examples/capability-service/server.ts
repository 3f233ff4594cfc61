import { fileURLToPath } from 'node:url';
import {
  logVerbosity,
  Server,
  ServerCredentials,
  setLogVerbosity,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

/** Where the `.proto` files are. With a copy of this folder elsewhere goes a copy of them. */
const PROTO_FOLDER = fileURLToPath(new URL('../../packages/server/proto', import.meta.url));
const FILES = ['tool.proto', 'provision.proto', 'codeexecution.proto', 'health.proto'];

/** How long calls under way may take once the service is asked to stop, in milliseconds. */
const STOP_MS = 3_000;

/** A server that listens. */
export interface Listening {
  /** The port, also where the system chose it. */
  readonly port: number;
  /** Takes no more calls, and resolves when those under way have ended; after 3 s they are broken off. */
  stop(): Promise<void>;
}

/** A place where nobody can listen, or not now. The message says what to do. */
export class NotListening extends Error {}

/**
 * Serves protocols by their full names: `{ 'tool.ToolInvoker': { InvokeTool } }`. Rejects with {@link NotListening} when
 * the address is taken or is none.
 */
export async function startServer(
  listen: string,
  protocols: Readonly<Record<string, UntypedServiceImplementation>>,
): Promise<Listening> {
  // Field names exactly as in the files, 64-bit numbers as numbers, enumerations by their names.
  const options = { includeDirs: [PROTO_FOLDER], keepCase: true, longs: Number, enums: String, defaults: true };
  const definitions = loadSync(FILES, options);
  const server = new Server();
  for (const [name, methods] of Object.entries(protocols)) {
    const definition = definitions[name];
    if (!definition || 'format' in definition) throw new Error(`no .proto file has a service ${name}`);
    server.addService(definition, methods);
  }
  // What the library would say of an address that is taken, it says in the error as well.
  setLogVerbosity(logVerbosity.NONE);
  const port = await new Promise<number>((resolve, reject) => {
    // Plaintext is what Sluice speaks to capability services: keep both in one network that nobody else is in.
    server.bindAsync(listen, ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(notListening(listen, error)) : resolve(bound),
    );
  });
  setLogVerbosity(logVerbosity.ERROR);
  return {
    port,
    stop: () =>
      new Promise((resolve) => {
        const late = setTimeout(() => server.forceShutdown(), STOP_MS);
        server.tryShutdown(() => {
          clearTimeout(late);
          resolve();
        });
      }),
  };
}

/** The library says how many addresses it has tried, and the reason in brackets behind that. */
function notListening(listen: string, error: Error): NotListening {
  const reason = /listen (E[A-Z]+)/.exec(error.message)?.[1] ?? error.message;
  const what = reason === 'EADDRINUSE' ? 'something listens there already (EADDRINUSE)' : reason;
  return new NotListening(`cannot listen at ${listen}: ${what}; choose another host:port by SAMPLE_LISTEN`);
}
