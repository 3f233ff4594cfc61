import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { freePort } from '../../test/fixtures/free-port.ts';
import { withPorts } from './ports.ts';

const HOST = '127.0.0.1';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** Listens on a port and returns the bound one. */
async function listen(port: number): Promise<number> {
  const server = createServer();
  servers.push(server);
  server.listen(port, HOST);
  await once(server, 'listening');
  const address: AddressInfo | string | null = server.address();
  if (address === null || typeof address === 'string') throw new Error('no TCP address');
  return address.port;
}

test('uses free ports, and 0 for ports in use', async () => {
  const wanted = [await freePort(), await listen(0)];
  expect(await withPorts(wanted, HOST, async (ports) => ports)).toEqual([wanted[0], 0]);
});

test('retries with 0 if a port is taken in the meantime', async () => {
  const wanted = await freePort();
  const tried: (number | undefined)[] = [];
  const bound = await withPorts([wanted], HOST, async ([port = 0]) => {
    tried.push(port);
    if (port !== 0) await listen(port);
    return listen(port);
  });
  expect(tried).toEqual([wanted, 0]);
  expect(bound).not.toBe(wanted);
});

test('does not retry after other errors', async () => {
  let starts = 0;
  const start = async () => {
    starts++;
    throw new Error('no such file');
  };
  await expect(withPorts([await freePort()], HOST, start)).rejects.toThrow('no such file');
  expect(starts).toBe(1);
});
