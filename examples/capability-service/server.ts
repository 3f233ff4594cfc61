import { fileURLToPath } from 'node:url';
import { Server, ServerCredentials, type UntypedServiceImplementation } from '@grpc/grpc-js';
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

/** Serves protocols by their full names: `{ 'tool.ToolInvoker': { InvokeTool } }`. Rejects when the address is taken. */
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
  const port = await new Promise<number>((resolve, reject) => {
    // Plaintext is what Sluice speaks to capability services: keep both in one network that nobody else is in.
    server.bindAsync(listen, ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    );
  });
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
