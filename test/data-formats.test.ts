import { cp, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from '../packages/cli/src/run.ts';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { startTestService } from '../packages/server/testing/service.ts';

// The data of each release whose format differs from that of the release before: `registry` is the folder of a service that was
// killed, `backup.tar.gz` a backup of it without the last tool. A release that changes a format adds a folder here.
const SAMPLES = join(import.meta.dirname, 'fixtures/data-formats');
const RELEASES = await readdir(SAMPLES);

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-formats-'));
});
afterAll(() => rm(folder, { recursive: true }));

/** Starts this version on a folder and returns what the management API says about it. */
async function contentOf(data: string): Promise<Record<string, unknown>> {
  const service = await startTestService({ SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: data });
  try {
    const get = async (path: string): Promise<unknown> => (await service.manage('GET', path)).data;
    return {
      namespaces: await get('/namespaces'),
      forward: await get('/forwards/crm'),
      greet: await get('/tools/greet?namespace=team'),
      hidden: await get('/tools/hidden?namespace=team'),
      notes: await get('/resources/notes?namespace=team'),
      forecast: await get('/tools/forecast'),
      journaled: (await service.manage('GET', '/tools/journaled')).status,
      handbook: await get('/resources/handbook'),
      prompt: await get('/prompts/greet'),
      service: await get('/services/weather'),
      revisions: await get('/evaluators/revisions'),
    };
  } finally {
    await service.stop();
  }
}

const EXPECTED = {
  namespaces: [{ name: 'default' }, { name: 'team', labels: { owner: 'ops' } }],
  forward: {
    name: 'crm',
    address: 'http://127.0.0.1:9/mcp',
    namespace: 'team',
    labels: { tier: 'gold' },
    headers: { authorization: `Bearer \${env:SERVICE_SECRET_CRM}` },
  },
  greet: { description: 'Greets a customer', forward: 'crm', enabled: true },
  hidden: { forward: 'crm', enabled: false },
  notes: { location: 'file:///notes.txt', forward: 'crm' },
  forecast: {
    description: 'Forecast',
    input_schema: { type: 'object', properties: { days: { type: 'integer', maximum: 1 } } },
    'x-limit': 1,
  },
  handbook: { location: 'docs://handbook', type: 'documents' },
  prompt: { messages: [{ role: 'user', content: 'Hello {who}.' }], arguments: [{ name: 'who' }] },
  service: { address: '127.0.0.1:9', serviceType: 'tool-invoker' },
  revisions: [
    { id: 2, status: 'active' },
    { id: 1, status: 'superseded' },
  ],
};

describe.each(RELEASES)('data of release %s', (release) => {
  it('is read by this version, the journal included', async () => {
    const data = join(folder, `${release}-registry`);
    await cp(join(SAMPLES, release, 'registry'), data, { recursive: true });
    expect(await contentOf(data)).toMatchObject({ ...EXPECTED, journaled: 200 });
    const sessions = JSON.parse(await readFile(join(data, 'sessions.json'), 'utf8'));
    expect(Object.values(sessions.ended)).toHaveLength(1);
    expect(Object.values(sessions.changed)).toMatchObject([{ logLevel: 'error' }]);
    const key = 'session.key';
    expect(await readFile(join(data, key), 'utf8')).toBe(
      await readFile(join(SAMPLES, release, 'registry', key), 'utf8'),
    );
  });

  it('is restored from a backup of that release', async () => {
    const data = join(folder, `${release}-restored`);
    const terminal = scriptedTerminal({ cwd: SAMPLES });
    const code = await run(['restore', join(SAMPLES, release, 'backup.tar.gz'), '--data-folder', data], terminal);
    expect({ code, err: terminal.err() }).toEqual({ code: 0, err: '' });
    expect(await contentOf(data)).toMatchObject({ ...EXPECTED, journaled: 404 });
  });
});

it('there is data of the first release', () => {
  expect(RELEASES).toContain('0.1.0');
});
