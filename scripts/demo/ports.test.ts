import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { freePort } from '../../test/fixtures/free-port.ts';
import { onPorts } from './ports.ts';

const HOST = '127.0.0.1';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

/** Listens on a port; the one that it got. */
async function listen(port: number): Promise<number> {
  const server = createServer();
  servers.push(server);
  server.listen(port, HOST);
  await once(server, 'listening');
  const address: AddressInfo | string | null = server.address();
  if (address === null || typeof address === 'string') throw new Error('no TCP address');
  return address.port;
}

test('what is free is given, what is taken is left to the system', async () => {
  const wanted = [await freePort(), await listen(0)];
  expect(await onPorts(wanted, HOST, async (ports) => ports)).toEqual([wanted[0], 0]);
});

test('a port that another takes in between is left to the system, too', async () => {
  const wanted = await freePort();
  const tried: (number | undefined)[] = [];
  const bound = await onPorts([wanted], HOST, async ([port = 0]) => {
    tried.push(port);
    if (port !== 0) await listen(port);
    return listen(port);
  });
  expect(tried).toEqual([wanted, 0]);
  expect(bound).not.toBe(wanted);
});

test('what fails for another reason is not started again', async () => {
  let starts = 0;
  const start = async () => {
    starts++;
    throw new Error('no such file');
  };
  await expect(onPorts([await freePort()], HOST, start)).rejects.toThrow('no such file');
  expect(starts).toBe(1);
});
