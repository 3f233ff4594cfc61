import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { startTestService } from '../../packages/server/testing/service.ts';
import { clientScenarios } from './client-scenarios.ts';
import { discovered } from './discovered.ts';

/** Environment variable with the port of the scenario runner, for client processes. */
export const SCENARIO_RUNNER_PORT = 'CONFORMANCE_SCENARIO_RUNNER_PORT';

/** Timeout of a scenario. */
const TIMEOUT_MS = 90_000;

/** Request of a client process. */
export interface ScenarioRequest {
  /** The scenario's name. */
  readonly name: string;
  /** Protocol version of the suite. */
  readonly version: string;
  /** Context that the suite passes to the client, as JSON. */
  readonly context: string;
  /** URL of the suite's server. */
  readonly address: string;
}

/** Runs scenarios for the client processes that suites start. */
export interface ScenarioRunner {
  readonly port: number;
  readonly close: () => Promise<void>;
}

/**
 * Suites start a process for each scenario, all at once. The official client and the gateway run here instead, with a new
 * gateway for each scenario, one scenario after the other: some of them measure time. The response on a connection is an
 * error message, or empty.
 */
export async function startScenarioRunner(): Promise<ScenarioRunner> {
  let last: Promise<void> = Promise.resolve();
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).once('close', () => sockets.delete(socket));
    let request = '';
    socket.setEncoding('utf8').on('data', (chunk: string) => {
      request += chunk;
    });
    socket.once('end', () => {
      last = last.then(async () => {
        socket.end(await run(JSON.parse(request)).catch(String));
      });
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the server has no TCP address');
  return {
    port: address.port,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Runs a scenario; returns an error message, or an empty string. */
async function run({ name, version, context, address }: ScenarioRequest): Promise<string> {
  const scenario = clientScenarios.get(name);
  if (scenario === undefined) return `no client for scenario "${name}"`;
  const service = await startTestService();
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  try {
    await service.register('forwards', { name: 'suite', address });
    await discovered(async () => (await service.manage('GET', '/forwards')).data);
    const timedOut = new Promise<never>((_resolve, reject) => {
      timeout.onabort = () => reject(new Error(`timed out after ${TIMEOUT_MS} ms`));
    });
    const era = version === '2026-07-28' ? 'modern' : 'legacy';
    await Promise.race([scenario({ url: service.url(), era, context: JSON.parse(context) }), timedOut]);
    return '';
  } catch (error) {
    return [error instanceof Error ? error.message : String(error), ...service.log.slice(-10)].join('\n');
  } finally {
    timeout.onabort = null;
    await service.stop(0);
  }
}
