import { generateKeyPairSync } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { localhostCertificate } from '../../../http/client/certificate.fixture.ts';
import { formatProblem } from '../yaml-document.ts';
import { readKeyPair } from './certificates.ts';
import { loadPipeline, type PipelineEnvironment } from './load.ts';

const NOW = new Date('2030-01-01');
const { cert, key } = localhostCertificate;
const otherKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
const NO_ENVIRONMENT: PipelineEnvironment = {
  mcpListen: undefined,
  inferenceListen: undefined,
  local: false,
  inferenceUpstream: undefined,
  inferenceAllow: undefined,
  corsOrigin: undefined,
};

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-tls-'));
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

/** Reads a certificate and key with these contents; undefined for a missing file. */
async function read(certText: string | undefined, keyText: string | undefined, now = NOW) {
  const files = { certPath: join(folder, 'c.pem'), keyPath: join(folder, 'k.pem') };
  if (certText !== undefined) await writeFile(files.certPath, certText);
  if (keyText !== undefined) await writeFile(files.keyPath, keyText);
  const at = { file: 'p', line: 3 };
  return await readKeyPair({ ...files, certAt: { ...at, column: 1 }, keyAt: { ...at, column: 9 } }, now);
}

async function problemsOf(...files: Parameters<typeof read>): Promise<string[]> {
  const result = await read(...files);
  if ('keyPair' in result) throw new Error('accepted');
  return result.problems.map((problem) => formatProblem(problem).replaceAll(`${folder}/`, ''));
}

describe('certificate and key of a listener', () => {
  it('are accepted', async () => {
    expect(await read(cert, key)).toEqual({ keyPair: { cert, key }, warnings: [] });
  });

  it.each<[string, Parameters<typeof read>, string[]]>([
    [
      'missing files',
      [undefined, undefined],
      [
        'p:3:1: "c.pem" does not exist; expected a PEM certificate',
        'p:3:9: "k.pem" does not exist; expected a PEM private key',
      ],
    ],
    ['a text that is not a certificate', ['hello', key], ['p:3:1: "c.pem" is not a PEM certificate']],
    [
      'swapped files',
      [key, cert],
      ['p:3:1: "c.pem" is not a PEM certificate', 'p:3:9: "k.pem" is not a PEM private key'],
    ],
    ['a truncated certificate', [cert.slice(0, 200), key], ['p:3:1: "c.pem" is not a PEM certificate']],
    ['an empty key', [cert, ''], ['p:3:9: "k.pem" is not a PEM private key']],
    [
      'the key of another certificate',
      [cert, otherKey.export({ type: 'pkcs8', format: 'pem' }).toString()],
      ['p:3:9: "k.pem" does not match the first certificate in "c.pem"; put the certificate of this key first'],
    ],
    [
      'a key with a passphrase',
      [cert, otherKey.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }).toString()],
      ['p:3:9: "k.pem" is encrypted; remove the passphrase'],
    ],
  ])('are rejected: %s', async (_what, files, lines) => {
    expect(await problemsOf(...files)).toEqual(lines);
  });

  it('are rejected: a broken intermediate certificate', async () => {
    const [line] = await problemsOf(`${cert}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n`, key);
    expect(line).toMatch(/^p:3:1: "c\.pem" cannot be used: .+/);
  });

  it('are rejected: a folder', async () => {
    await mkdir(join(folder, 'c.pem'));
    expect(await problemsOf(undefined, key)).toEqual(['p:3:1: "c.pem" is a folder; expected a PEM certificate']);
  });

  it.each([
    ['expired on 2126-10-27T12:37:05.000Z', new Date('2130-01-01')],
    ['is not valid before 2026-11-20T12:37:05.000Z', new Date('2020-01-01')],
  ])('are accepted with a warning if the certificate %s', async (text, now) => {
    const result = await read(cert, key, now);
    if ('problems' in result) throw new Error('rejected');
    expect(result.keyPair).toEqual({ cert, key });
    expect(result.warnings.map(formatProblem)).toEqual([`p:3:1: "${join(folder, 'c.pem')}" ${text}`]);
  });
});

describe('loading a pipeline', () => {
  const FILE = `listeners:
  - {name: a, address: "127.0.0.1:0", filter_chains: [c], tls: {certificates: [{cert_path: c.pem, key_path: keys/k.pem}]}}
  - {name: b, address: "127.0.0.1:0", filter_chains: [c]}
filter_chains: [{name: c, filters: [{filter: mcp}]}]
`;

  it('reads certificates relative to the folder of the file', async () => {
    const path = join(folder, 'p.yaml');
    await mkdir(join(folder, 'keys'));
    await writeFile(path, FILE);
    await writeFile(join(folder, 'c.pem'), cert);
    await expect(loadPipeline(path, NO_ENVIRONMENT)).rejects.toThrow(
      `--pipeline-config ${path}:2:99: "${join(folder, 'keys/k.pem')}" does not exist; expected a PEM private key`,
    );
    await writeFile(join(folder, 'keys/k.pem'), key);
    const { listeners } = await loadPipeline(path, NO_ENVIRONMENT);
    expect(listeners.map(({ keyPair }) => keyPair)).toEqual([{ cert, key }, undefined]);
  });

  it('applies the environment to the embedded pipeline without a file', async () => {
    const address = { host: '127.0.0.1', port: 7 };
    const { listeners } = await loadPipeline(undefined, { ...NO_ENVIRONMENT, mcpListen: address });
    expect(listeners).toMatchObject([{ name: 'mcp', address }, { name: 'inference' }]);
  });

  it('returns the inference upstream, that of the embedded pipeline if the file has none', async () => {
    const upstreamOf = async (file: string, environment = NO_ENVIRONMENT) => {
      const path = join(folder, 'p.yaml');
      await writeFile(path, file);
      return (await loadPipeline(path, environment)).inferenceUpstream;
    };
    const none = `listeners: [{name: one, address: "h:1", filter_chains: [a]}]
filter_chains: [{name: a, filters: [{filter: headers}]}]
`;
    const own = `${none}clusters: [{name: inference, endpoints: ["m:2", "n:3"], tls: {}}]`;
    expect(await upstreamOf(none)).toEqual({ scheme: 'http', host: '127.0.0.1', port: 11434, path: '' });
    expect(await upstreamOf(own)).toEqual({ scheme: 'https', host: 'm', port: 2, path: '' });
    const inferenceUpstream = { scheme: 'http', host: 'e', port: 4, path: '/v' } as const;
    expect(await upstreamOf(own, { ...NO_ENVIRONMENT, inferenceUpstream })).toEqual(inferenceUpstream);
  });

  it('fills in the body limit of mcp filters', async () => {
    const path = join(folder, 'p.yaml');
    await writeFile(
      path,
      `listeners: [{name: one, address: "h:1", filter_chains: [a]}]
filter_chains: [{name: a, filters: [{filter: mcp}, {filter: mcp, max_body_bytes: 7}]}]
body_limits: {max_request_bytes: 5}`,
    );
    const { listeners } = await loadPipeline(path, NO_ENVIRONMENT);
    expect(listeners[0]?.filters.map(({ settings }) => settings)).toMatchObject([
      { filter: 'mcp', max_body_bytes: 5 },
      { filter: 'mcp', max_body_bytes: 7 },
    ]);
  });

  it('rejects a file that does not exist or is a folder', async () => {
    await expect(loadPipeline(join(folder, 'p.yaml'), NO_ENVIRONMENT)).rejects.toThrow(
      `--pipeline-config ${folder}/p.yaml: no such file; check the path`,
    );
    await expect(loadPipeline(folder, NO_ENVIRONMENT)).rejects.toThrow(
      `--pipeline-config ${folder} is a folder; expected a YAML file`,
    );
  });
});
