import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestService } from '../../testing/service.ts';
import { ConfigError } from '../http/settings.ts';
import { bindingError, explainTakenPort, portOwner } from './taken-port.ts';

const HOST = '127.0.0.1';
/** A process that listens on a port. */
const OTHER = `require('net').createServer().listen(0, '${HOST}', function () { console.log(this.address().port) })`;

let taken: Server;
let port: number;
beforeAll(async () => {
  taken = createServer().listen(0, HOST);
  await once(taken, 'listening');
  const address = taken.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  port = address.port;
});
afterAll(() => taken.close());

describe.runIf(existsSync('/proc/net/tcp'))('the process that has a port', () => {
  it('is named with its id', async () => {
    const child = spawn(process.execPath, ['-e', OTHER], { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
      const [line] = await once(createInterface(child.stdout), 'line');
      expect(await portOwner(Number(line))).toMatch(new RegExp(`^process ${child.pid} \\(\\S.*\\)$`));
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('is unknown for a port that is free', async () => {
    const server = createServer().listen(0, HOST);
    await once(server, 'listening');
    const address = server.address();
    await new Promise((resolve) => server.close(resolve));
    expect(typeof address === 'object' && address && (await portOwner(address.port))).toBeUndefined();
  });
});

describe('the explanation of a port that is in use', () => {
  const owner = existsSync('/proc/net/tcp') ? `process ${process.pid} \\([^)]+\\)` : 'another program';

  it('names three free ports where --port moves the listeners', async () => {
    const text = await explainTakenPort({ host: HOST, port }, { host: HOST, port });
    const [, first, second, third, flag] =
      new RegExp(
        `^the port is in use by ${owner} \\(EADDRINUSE\\); (\\d+), (\\d+) and (\\d+) are free: start with --port (\\d+)$`,
      ).exec(text) ?? [];
    const ports = [first, second, third].map(Number);
    expect(ports).toEqual([Number(flag), Number(flag) + 1, Number(flag) + 3]);
    expect(ports).not.toContain(port);
  });

  it('names the next free one elsewhere', async () => {
    const text = await explainTakenPort({ host: HOST, port });
    const [, free] =
      new RegExp(`^the port is in use by ${owner} \\(EADDRINUSE\\); the next free one is (\\d+)$`).exec(text) ?? [];
    expect(Number(free)).toBeGreaterThan(port);
  });

  it('is that of a service that does not start', async () => {
    expect(await bindingError({ host: HOST, port })).toBe('EADDRINUSE');
    const starting = startTestService({ SERVICE_MGMT_LISTEN: `${HOST}:${port}` });
    await expect(starting).rejects.toThrow(ConfigError);
    await expect(starting).rejects.toThrow(
      new RegExp(
        `^SERVICE_MGMT_LISTEN: cannot listen on ${HOST}:${port}: the port is in use by ${owner} .* --port \\d+$`,
      ),
    );
  });
});

it('a second service with the registry folder names the URL of the first', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-already-'));
  const env = { SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: folder };
  try {
    const service = await startTestService(env);
    await expect(startTestService(env)).rejects.toThrow(
      `Sluice already runs at ${service.management} (process ${process.pid}) with the registry folder ${folder}: `,
    );
    await service.stop(0);
    expect(existsSync(join(folder, 'registry.address'))).toBe(false);
    await (await startTestService(env)).stop(0);
  } finally {
    await rm(folder, { recursive: true });
  }
});
