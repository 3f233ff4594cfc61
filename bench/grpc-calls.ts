import type { Caller } from './caller.ts';
import { type Child, startChild } from './child.ts';
import { printedPort } from './fixture.ts';
import { at, parseJson } from './json.ts';
import type { Era } from './messages.ts';

/** What the bare client is told to do. */
export interface StretchOfCalls {
  /** Of the clients whose calls it makes. */
  readonly era: Era;
  readonly calls: number;
  readonly atOnce: number;
}

/** A capability service in a process of its own. */
export interface GrpcService extends AsyncDisposable {
  readonly port: number;
  /** Throws when it has refused a call. */
  check(): void;
}

/** A bare gRPC client in a process of its own. */
export interface BareClient extends AsyncDisposable {
  readonly child: Child;
  /** Has it make calls; the milliseconds that they took. Rejects when one was not answered as it should be. */
  run(caller: Caller, stretch: StretchOfCalls): Promise<number>;
}

/** Starts the capability service. */
export async function startGrpcService(folder: string): Promise<GrpcService> {
  const file = `${import.meta.dirname}/grpc-service.ts`;
  const child = startChild('capability service', `${folder}/grpc-service.log`, process.execPath, [file]);
  return {
    port: await printedPort(child),
    check() {
      const refused = /^.*"refused".*$/m.exec(child.output())?.[0];
      if (refused !== undefined) throw new Error(`capability service: ${refused}`);
    },
    [Symbol.asyncDispose]: () => child.stop(2_000),
  };
}

/** Starts the bare client of a service; Node.js gets the same flags as for the gateway. */
export async function startBareClient(
  folder: string,
  service: GrpcService,
  nodeFlags: readonly string[],
): Promise<BareClient> {
  const file = `${import.meta.dirname}/grpc-caller.ts`;
  const args = [...nodeFlags, file, '--service', `127.0.0.1:${service.port}`];
  const child = startChild('grpc-js client', `${folder}/grpc-caller.log`, process.execPath, args);
  const url = new URL(`http://127.0.0.1:${await printedPort(child)}/`);
  return {
    child,
    async run(caller, stretch) {
      const headers = { 'Content-Type': 'application/json' };
      const { status, body } = await caller.post(url, { headers, body: JSON.stringify(stretch) });
      const ms = at(parseJson(body), 'ms');
      if (status !== 200 || typeof ms !== 'number') throw new Error(`grpc-js client: status ${status}: ${body}`);
      return ms;
    },
    [Symbol.asyncDispose]: () => child.stop(2_000),
  };
}
