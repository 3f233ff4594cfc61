import type { Server } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { addressText, type ListenAddress } from '../config/addresses.ts';
import { ConfigError } from '../config/config-error.ts';
import type { LoadedListener } from '../config/pipeline/pipeline.ts';
import { type Listener, listen } from '../listeners/lifecycle.ts';

/** A listener that takes requests, by its name. */
export interface BoundListener {
  readonly name: string;
  readonly listener: Listener;
}

/** Binds all listeners, the management API first, or none. */
export async function bind(
  mgmtListen: ListenAddress,
  management: FastifyInstance,
  servers: readonly { readonly listener: LoadedListener; readonly server: Server }[],
): Promise<BoundListener[]> {
  await management.ready();
  const bound: BoundListener[] = [];
  try {
    bound.push({
      name: 'management',
      listener: await bindAs('SERVICE_MGMT_LISTEN', management.server, mgmtListen),
    });
    for (const { listener, server } of servers) {
      const { name, address, addressAt } = listener;
      bound.push({ name, listener: await bindAs(addressAt, server, address) });
    }
    return bound;
  } catch (error) {
    await Promise.all(bound.map(({ listener }) => listener.drain(0)));
    await management.close();
    throw error;
  }
}

async function bindAs(at: string, server: Server, address: ListenAddress): Promise<Listener> {
  try {
    return await listen(server, address);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigError(`${at}: cannot listen on ${addressText(address)}: ${reason}`);
  }
}
