import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eras } from '../packages/server/testing/relay.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { ResponseReader } from '../packages/server/testing/session-client.ts';
import { callHeaders, callText, type Streamer, startStreamer } from '../packages/server/testing/streamer.ts';
import { freePort } from './fixtures/free-port.ts';
import { legacyClient, send } from './fixtures/raw-client.ts';
import { type Program, startProgram } from './login/program.ts';

// nginx as it is installed, buffering included, with a timeout of 3 s instead of 60 s; the times of the service are as much shorter.

const NGINX = '/usr/sbin/nginx';
const TIMES = { resumableMs: 300, headMs: 500, commentMs: 700, stepMs: 100 };

describe.runIf(existsSync(NGINX))('a call that is silent for longer than nginx waits', () => {
  let folder: string;
  let service: TestService;
  let upstream: Streamer;
  let program: Program;
  let url: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sluice-silence-'));
    upstream = await startStreamer();
    service = await startTestService({}, [], undefined, TIMES);
    await service.register('forwards', { name: 'up', address: upstream.url });
    const port = await freePort();
    const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
      (kind) => `${kind}_temp_path ${folder}/${kind};`,
    );
    const location = `location / { proxy_pass ${service.mcp}; proxy_http_version 1.1; proxy_read_timeout 3s; }`;
    await writeFile(
      join(folder, 'nginx.conf'),
      `daemon off; master_process off; pid ${folder}/nginx.pid; error_log stderr; events {}
      http { access_log off; ${temporary.join(' ')} server { listen 127.0.0.1:${port}; ${location} } }`,
    );
    program = await startProgram({
      command: NGINX,
      args: ['-p', folder, '-e', 'stderr', '-c', join(folder, 'nginx.conf')],
      env: { PATH: process.env.PATH ?? '' },
      cwd: folder,
      ready: async () => (await send(`http://127.0.0.1:${port}/`, 'GET').catch(() => undefined)) !== undefined,
      deadlineMs: 30_000,
    });
    url = `http://127.0.0.1:${port}/default/mcp`;
  });
  afterAll(async () => {
    await program?.stop();
    await service?.stop(0);
    await upstream?.close();
    await rm(folder, { recursive: true, force: true });
  });

  const call = (headers: Readonly<Record<string, string>>, era: (typeof eras)[number]) =>
    new ResponseReader(
      url,
      'POST',
      {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...callHeaders(era),
        ...headers,
      },
      callText(era),
    );

  it.each(eras)('of a %s client gets its result', async (era) => {
    const headers = era === 'legacy' ? (await legacyClient(url)).headers : {};
    const arriving = upstream.next();
    const reader = call(headers, era);
    const received = await arriving;
    const startedAt = performance.now();
    // 16 comments take 10 s.
    await reader.matching(/(:\n\n){16}/);
    expect(performance.now() - startedAt).toBeGreaterThan(9_000);
    expect(received.isDisconnected).toBe(false);
    received.begin();
    received.end('done');
    expect(await reader.ended).toBe(true);
    expect(JSON.parse(reader.messages.at(-1) ?? '')).toMatchObject({
      id: 'c',
      result: { content: [{ text: 'done' }] },
    });
  });

  it('of a client that accepts JSON alone ends, and that of a modern one is canceled upstream', async () => {
    const arriving = upstream.next();
    const reader = call({ accept: 'application/json' }, 'modern');
    const received = await arriving;
    expect((await reader.head).statusCode).toBe(504);
    await expect.poll(() => received.isDisconnected).toBe(true);
  });
});
