import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { startTestService } from '../../packages/server/testing/service.ts';
import { clientScenarios } from './client-scenarios.ts';
import { discovered } from './discovered.ts';

/** The environment variable that tells a client process where the scenarios are played. */
export const STAGE_PORT = 'CONFORMANCE_STAGE_PORT';

/** A scenario that hangs is ended. */
const DEADLINE_MS = 90_000;

/** What a client process asks for. */
export interface StageRequest {
  /** The scenario's name. */
  readonly name: string;
  /** The protocol version that the referee speaks. */
  readonly version: string;
  /** What the referee hands to the client, as JSON. */
  readonly given: string;
  /** Where the referee serves. */
  readonly address: string;
}

/** Plays scenarios for the processes that referees start. */
export interface Stages {
  readonly port: number;
  readonly close: () => Promise<void>;
}

/**
 * Referees start a process for each scenario, all at once. The official client and the gateway run here instead, a new
 * gateway for each scenario, one scenario after the other: some of them measure time. Answers a connection with what went
 * wrong, or nothing.
 */
export async function startStages(): Promise<Stages> {
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
        socket.end(await play(JSON.parse(request)).catch(String));
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

/** What went wrong; empty when nothing did. */
async function play({ name, version, given, address }: StageRequest): Promise<string> {
  const scenario = clientScenarios.get(name);
  if (scenario === undefined) return `there is nothing here that drives a client for the scenario "${name}"`;
  const service = await startTestService();
  const late = AbortSignal.timeout(DEADLINE_MS);
  try {
    await service.register('forwards', { name: 'referee', address });
    await discovered(async () => (await service.manage('GET', '/forwards')).data);
    const inTime = new Promise<never>((_resolve, reject) => {
      late.onabort = () => reject(new Error(`not done after ${DEADLINE_MS} ms`));
    });
    const era = version === '2026-07-28' ? 'modern' : 'legacy';
    await Promise.race([scenario({ url: service.url(), era, given: JSON.parse(given) }), inTime]);
    return '';
  } catch (error) {
    return [error instanceof Error ? error.message : String(error), ...service.log.slice(-10)].join('\n');
  } finally {
    late.onabort = null;
    await service.stop(0);
  }
}
