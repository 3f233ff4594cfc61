import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { run } from '../run.ts';
import { scriptedTerminal } from '../testing/scripted-terminal.ts';

const FILE = `listeners:
  - {name: agents, address: "127.0.0.1:1", filter_chains: [main]}
filter_chains:
  - name: main
    filters:
      - {filter: mcp}
      - {filter: service_methods}
`;
const EMBEDDED = new URL('../../../server/src/app/config/pipeline/default.yaml', import.meta.url);

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-pipeline-'));
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

const sluice = (...argv: string[]) => sluiceWith({}, ...argv);

async function sluiceWith(env: Readonly<Record<string, string>>, ...argv: string[]) {
  const terminal = scriptedTerminal({ env, cwd: folder });
  const code = await run(['pipeline', ...argv], terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

describe('sluice pipeline check', () => {
  const check = async (text: string, ...more: string[]) => {
    await writeFile(join(folder, 'p.yaml'), text);
    return sluice('check', 'p.yaml', ...more);
  };

  it('reports success in one line', async () => {
    expect(await check(FILE)).toEqual({ code: 0, out: 'ok: p.yaml (listener agents)\n', err: '' });
    const two = FILE.replace(
      'filter_chains:\n',
      '  - {name: b, address: "h:0", filter_chains: [main]}\nfilter_chains:\n',
    );
    expect(await check(two)).toEqual({ code: 0, out: 'ok: p.yaml (listeners agents, b)\n', err: '' });
  });

  it('lists all errors, each with its position', async () => {
    const text = FILE.replace('mcp', 'mpc').replace('[main]', '[main, gone]').replace('"127.0.0.1:1"', '1');
    const { code, out, err } = await check(text);
    expect({ code, err }).toEqual({ code: 1, err: '' });
    expect(out.split('\n')).toEqual([
      'p.yaml:2:20: listeners[0].address must be a string; quote it',
      'p.yaml:2:54: unknown chain "gone"; known chains: "main"',
      expect.stringMatching(
        /^p\.yaml:6:10: filter_chains\[0\]\.filters\[0\]\.filter must be a known filter; known filters: /,
      ),
      'p.yaml:7:9: filter service_methods requires an mcp filter without conditions before it',
      '',
    ]);
  });

  it('reports the same as JSON', async () => {
    const { code, out } = await check(`${FILE}runtime: 1\nx: 1`, '--output', 'json');
    expect(code).toBe(1);
    expect(JSON.parse(out)).toEqual({
      ok: false,
      problems: [{ file: 'p.yaml', line: 9, column: 1, message: expect.stringContaining('x is not a known field') }],
      warnings: [],
    });
    expect(JSON.parse((await check(`${FILE}runtime: 1`, '--output', 'json')).out)).toEqual({
      ok: true,
      problems: [],
      warnings: ['p.yaml:8:1: runtime has no effect'],
    });
  });

  it('warns on standard error about settings without effect', async () => {
    expect(await check(`${FILE}admin: {}`)).toEqual({
      code: 0,
      out: 'ok: p.yaml (listener agents)\n',
      err: 'warning: p.yaml:8:1: admin has no effect\n',
    });
  });

  it('checks the certificates too', async () => {
    const tls = 'tls: {certificates: [{cert_path: c.pem, key_path: k.pem}]}';
    expect(await check(FILE.replace('[main]}', `[main], ${tls}}`))).toEqual({
      code: 1,
      out:
        `p.yaml:2:89: "${folder}/c.pem" does not exist; expected a PEM certificate\n` +
        `p.yaml:2:107: "${folder}/k.pem" does not exist; expected a PEM private key\n`,
      err: '',
    });
  });

  it('reports an unreadable file', async () => {
    expect(await sluice('check', 'gone.yaml')).toEqual({
      code: 1,
      out: '',
      err: 'sluice: gone.yaml: no such file; check the path\n',
    });
    expect(await sluice('check', '.')).toMatchObject({
      code: 1,
      err: expect.stringContaining('sluice: . is a folder'),
    });
  });

  it('treats the contents of a file as data', async () => {
    const { out } = await check(FILE.replace('[main]', '["\\e[31mred"]'));
    expect(out).not.toContain('\u001b');
    expect(out).toContain('unknown chain');
  });
});

describe('sluice pipeline show', () => {
  it('prints the embedded pipeline with its comments', async () => {
    expect(await sluice('show')).toEqual({ code: 0, out: await readFile(EMBEDDED, 'utf8'), err: '' });
  });

  it('prints the effective values from the environment, and settings that a file cannot contain', async () => {
    const { code, out, err } = await sluiceWith(
      {
        SERVICE_MCP_LISTEN: '[::1]:9',
        SERVICE_CORS_ORIGIN: 'https://a.example',
        SERVICE_INFERENCE_UPSTREAM: 'https://api.example.com/v1',
      },
      'show',
    );
    expect({ code, err }).toEqual({
      code: 0,
      err: 'warning: SERVICE_INFERENCE_UPSTREAM adds the path prefix /v1, which a pipeline file cannot express\n',
    });
    expect(parse(out)).toMatchObject({
      listeners: [{ name: 'mcp', address: '[::1]:9' }, { name: 'inference' }],
      filter_chains: [
        { filters: expect.arrayContaining([expect.objectContaining({ allow_origins: ['https://a.example'] })]) },
        {},
      ],
      clusters: [{ name: 'inference', endpoints: [{ address: 'api.example.com:443', weight: 1 }], tls: {} }],
    });
  });

  it('prints nothing else from the environment', async () => {
    const secret = 'ab'.repeat(32);
    const { code, out, err } = await sluiceWith({ SERVICE_SESSION_KEY: secret, SERVICE_MCP_LISTEN: '[::1]:9' }, 'show');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out).not.toContain(secret);
    const wrong = await sluiceWith({ SERVICE_SESSION_KEY: 'no key at all' }, 'show');
    expect(wrong).toMatchObject({ code: 1, out: '', err: expect.stringContaining('SERVICE_SESSION_KEY') });
    expect(wrong.err).not.toContain('no key at all');
  });

  it('prints a file with its defaults, as a valid file', async () => {
    await writeFile(join(folder, 'p.yaml'), FILE);
    const shown = await sluice('show', 'p.yaml');
    expect(shown).toMatchObject({ code: 0, err: '' });
    expect(shown.out).toContain('      - filter: mcp\n        on_invalid: continue\n');
    await writeFile(join(folder, 'again.yaml'), shown.out);
    expect(await sluice('show', 'again.yaml')).toEqual(shown);
    expect(JSON.parse((await sluice('show', 'p.yaml', '--output', 'json')).out)).toEqual(parse(shown.out));
  });

  it('reports errors that prevent startup', async () => {
    await writeFile(join(folder, 'p.yaml'), FILE.replace('[main]', '[gone]'));
    expect(await sluice('show', 'p.yaml')).toEqual({
      code: 1,
      out: '',
      err: 'sluice: p.yaml:2:60: unknown chain "gone"; known chains: "main"\n',
    });
    expect(await sluiceWith({ SERVICE_MCP_LISTEN: 'localhost' }, 'show')).toMatchObject({
      code: 1,
      err: expect.stringContaining('SERVICE_MCP_LISTEN: "localhost" has no port'),
    });
  });
});
