import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from '../packages/cli/src/run.ts';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { capabilityScripts } from '../packages/server/testing/capability-scripts.ts';
import { recordsIn } from '../packages/server/testing/records.ts';
import { startTestService, type TestService } from '../packages/server/testing/service.ts';
import { TOOL } from './fixtures/command-line.ts';
import { legacyClient, post } from './fixtures/raw-client.ts';
import { toolList, toolText } from './fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from './fixtures/raw-upstream.ts';

const SECRET = 'correct-horse-battery-staple';
const FILES = ['registry.json', 'records.snapshot'];

let folder: string;
let upstream: RawUpstream;
let service: TestService;

const dataFolder = (): string => join(folder, 'data');

function start(data: string): Promise<TestService> {
  return startTestService({
    SERVICE_PERSIST_BACKEND: 'file',
    SERVICE_PERSIST_PATH: data,
    SERVICE_SECRET_CRM: SECRET,
  });
}

async function sluice(...argv: string[]): Promise<{ code: number; out: string; err: string }> {
  const terminal = scriptedTerminal({ cwd: folder });
  const code = await run(['--host', service.management, '--no-auth', ...argv], terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

/** The bytes of a backup that the API gives, decompressed. */
async function downloaded(): Promise<Buffer> {
  const response = await fetch(`${service.management}/api/v1/backup`);
  expect(response.headers.get('content-type')).toBe('application/gzip');
  expect(response.headers.get('content-disposition')).toMatch(
    /^attachment; filename="sluice-backup-\d{8}T\d{6}Z\.tar\.gz"$/,
  );
  return gunzipSync(await response.arrayBuffer());
}

/** The files of a tar archive, by the positions that its format defines. */
function members(tar: Buffer): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (let at = 0; tar[at] !== 0; ) {
    const name = tar.toString('latin1', at, tar.indexOf(0, at));
    const size = Number.parseInt(tar.toString('latin1', at + 124, at + 135), 8);
    found.set(name, tar.toString('utf8', at + 512, at + 512 + size));
    at += 512 + Math.ceil(size / 512) * 512;
  }
  return found;
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-backup-'));
  upstream = await startRawUpstream({
    scripts: { ...capabilityScripts('{"tools":{},"logging":{}}'), 'tools/list': toolList(toolText('greet')) },
  });
  service = await start(dataFolder());
  const headers = { authorization: `Bearer \${env:SERVICE_SECRET_CRM}` };
  await service.register('forwards', { name: 'crm', address: upstream.url, headers });
  await service.register('tools', { ...TOOL, name: 'wetter-日本', 'x-note': true });
  await service.register('namespaces', { name: 'team', labels: { a: 'b' } });
  expect((await service.manage('PUT', '/evaluators', { evaluators: [] })).status).toBe(200);
  expect((await service.manage('PUT', '/blocks/ann', { reason: 'r' })).status).toBe(200);
  // A session that has ended, and one with a log level.
  const ended = await legacyClient(service.url(), '{}');
  const changed = await legacyClient(service.url(), '{}');
  expect((await fetch(service.url(), { method: 'DELETE', headers: ended.headers })).ok).toBe(true);
  await changed.call('logging/setLevel', '{"level":"error"}');
});
afterAll(async () => {
  await service.stop();
  await upstream.close();
  await rm(folder, { recursive: true });
});

it('survives clients that disconnect before their backup has been made', async () => {
  const { hostname, port } = new URL(service.management);
  const unhandled: unknown[] = [];
  const onUnhandled = (error: unknown) => void unhandled.push(error);
  process.on('unhandledRejection', onUnhandled);
  for (let client = 0; client < 10; client++) {
    const socket = connect(Number(port), hostname);
    socket.write('GET /api/v1/backup HTTP/1.1\r\nHost: localhost\r\n\r\n', () => socket.resetAndDestroy());
    await once(socket, 'close');
  }
  expect(members(await downloaded()).size).toBe(FILES.length + 1);
  process.off('unhandledRejection', onUnhandled);
  expect(unhandled).toEqual([]);
});

describe('a backup', () => {
  it('contains neither the session key nor secrets', async () => {
    const tar = await downloaded();
    expect([...members(tar).keys()]).toEqual(['manifest.json', ...FILES]);
    const key = (await readFile(join(dataFolder(), 'session.key'), 'utf8')).trim();
    const bytes = Buffer.from(key, 'hex');
    for (const hidden of [
      SECRET,
      key,
      bytes.toString('latin1'),
      bytes.toString('base64'),
      bytes.toString('base64url'),
    ]) {
      expect(tar.includes(Buffer.from(hidden, 'latin1'))).toBe(false);
    }
    expect(tar.includes(`\${env:SERVICE_SECRET_CRM}`)).toBe(true);
  });

  it('is of one moment, whatever is written meanwhile', async () => {
    const WRITERS = 8;
    const WRITES = 30;
    const acknowledged = new Array<number>(WRITERS).fill(0);
    const sent = new Array<number>(WRITERS).fill(0);
    // Each writer registers tools in order; the first one stores a revision after each.
    const write = async (writer: number): Promise<void> => {
      for (let n = 1; n <= WRITES; n++) {
        sent[writer] = n;
        await service.register('tools', { ...TOOL, name: `w${writer}-${n}`, uri: `http://127.0.0.1:9/${writer}/${n}` });
        acknowledged[writer] = n;
        if (writer === 0) expect((await service.manage('PUT', '/evaluators', { evaluators: [] })).status).toBe(200);
      }
    };
    const writing = Promise.all(acknowledged.map((_none, writer) => write(writer)));
    let isWriting = true;
    writing.finally(() => {
      isWriting = false;
    });
    let taken = 0;
    do {
      const before = [...acknowledged];
      const found = members(await downloaded());
      const after = [...sent];
      const { tools } = JSON.parse(found.get('registry.json') ?? '');
      const names = new Set<string>(tools.map(({ name }: { name: string }) => name));
      const records = recordsIn(found.get('records.snapshot') ?? '');
      const { next_id } = JSON.parse(records.find(([, id]) => id === 'state')?.[2] ?? '');
      for (let writer = 0; writer < WRITERS; writer++) {
        let last = 0;
        while (names.has(`w${writer}-${last + 1}`)) last++;
        // Nothing after a gap, all that was acknowledged before, nothing that was sent later.
        expect([...names].filter((name) => name.startsWith(`w${writer}-`))).toHaveLength(last);
        expect(last).toBeGreaterThanOrEqual(before[writer] ?? 0);
        expect(last).toBeLessThanOrEqual(after[writer] ?? 0);
        // Two revisions existed before, of which the first one stored is revision 1.
        if (writer === 0) expect([last, last - 1]).toContain(next_id - 2);
      }
      taken++;
    } while (isWriting);
    await writing;
    expect(taken).toBeGreaterThan(1);
  });

  it('gives the same registry byte for byte when it is restored', async () => {
    const { code, out, err } = await sluice('backup', 'sluice.tar.gz');
    expect({ code, out, err }).toEqual({ code: 0, out: `backed up ${FILES.join(', ')} to sluice.tar.gz\n`, err: '' });
    expect((await stat(join(folder, 'sluice.tar.gz'))).mode & 0o777).toBe(0o600);
    const restored = await sluice('restore', 'sluice.tar.gz', '--data-folder', 'restored');
    expect(restored).toMatchObject({
      code: 0,
      err: expect.stringMatching(
        /^warning: blocked as of .*Z: ann; later blocks, and the ends of these, are undone\n$/,
      ),
    });
    expect(restored.out).toMatch(/^restored registry\.json, records\.snapshot of .* to /);
    const copy = join(folder, 'restored');
    expect((await readdir(copy)).sort()).toEqual(FILES.toSorted());
    await service.stop();
    const contents = (data: string) => Promise.all(FILES.map((name) => readFile(join(data, name), 'utf8')));
    const [registry, records = ''] = await contents(dataFolder());
    const copied = await contents(copy);
    expect(copied[0]).toBe(registry);
    const stored = recordsIn(records);
    expect(recordsIn(copied[1] ?? '').sort()).toEqual(stored.toSorted());
    const sessions = stored.filter(([section]) => section === 'sessions');
    expect(sessions.map(([, , content]) => JSON.parse(content).kind).sort()).toEqual(['changed', 'ended']);
    service = await start(copy);
    expect(await service.manage('GET', '/forwards/crm')).toMatchObject({ status: 200, data: { name: 'crm' } });
    expect(await service.manage('GET', '/blocks')).toMatchObject({ data: [{ id: 'ann', reason: 'r' }] });
    await service.stop();
    expect(await readFile(join(copy, 'registry.json'), 'utf8')).toBe(registry);
    service = await start(dataFolder());
  });

  it('has the session key only with the data folder, so that sessions continue', async () => {
    const client = await legacyClient(service.url(), '{}');
    const backup = await sluice('backup', 'key.tar.gz', '--data-folder', dataFolder());
    expect(backup.err).toBe('warning: key.tar.gz contains the session key: keep it confidential\n');
    expect((await stat(join(folder, 'key.tar.gz'))).mode & 0o777).toBe(0o600);
    expect((await sluice('restore', 'key.tar.gz', '--data-folder', 'with-key')).code).toBe(0);
    expect((await stat(join(folder, 'with-key/session.key'))).mode & 0o777).toBe(0o600);
    const other = await start(join(folder, 'with-key'));
    const response = await post(other.url(), '{"jsonrpc":"2.0","id":1,"method":"tools/list"}', client.headers);
    await other.stop();
    expect(response.status).toBe(200);
    expect(await sluice('backup', 'none.tar.gz', '--data-folder', folder)).toMatchObject({
      code: 1,
      err: `sluice: ${folder}/session.key does not exist: expected the data folder of the service\n`,
    });
  });

  it('replaces a file only with --force, and removes its partial file after a failure', async () => {
    const before = await readdir(folder);
    expect(await sluice('backup', 'key.tar.gz')).toMatchObject({
      code: 1,
      err: 'sluice: key.tar.gz exists: use --force to replace it\n',
    });
    expect(await sluice('backup', 'key.tar.gz', '--force')).toMatchObject({ code: 0 });
    expect((await sluice('backup', 'none/x.tar.gz')).err).toBe('sluice: none/x.tar.gz: no such file\n');
    await writeFile(join(folder, 'damaged.tar.gz'), (await readFile(join(folder, 'key.tar.gz'))).subarray(0, -9));
    expect((await sluice('restore', 'damaged.tar.gz', '--data-folder', 'damaged')).err).toMatch(
      /^sluice: damaged\.tar\.gz is damaged or incomplete: /,
    );
    expect((await sluice('restore', 'key.tar.gz', '--data-folder', 'restored')).err).toMatch(
      /restored contains \S+: a backup is restored into an empty folder/,
    );
    expect((await sluice('restore', 'missing.tar.gz', '--data-folder', 'x')).err).toBe(
      'sluice: missing.tar.gz: no such file\n',
    );
    expect((await readdir(folder)).sort()).toEqual([...before, 'damaged.tar.gz'].sort());
  });

  it('is verified after the download', async () => {
    const whole = await (await fetch(`${service.management}/api/v1/backup`)).arrayBuffer();
    const server = createServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/gzip' }).end(Buffer.from(whole).subarray(0, -20));
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    const address = server.address();
    const port = typeof address === 'object' && address ? address.port : 0;
    const terminal = scriptedTerminal({ cwd: folder });
    const code = await run(['--host', `http://127.0.0.1:${port}`, '--no-auth', 'backup', 'cut.tar.gz'], terminal);
    server.close();
    expect([code, terminal.err()]).toEqual([
      1,
      expect.stringMatching(/^sluice: cut\.tar\.gz is damaged or incomplete: /),
    ]);
    expect(await readdir(folder)).not.toContain('cut.tar.gz');
  });
});
