import { generateKeyPairSync } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { localhostCertificate } from '../../../http/client/certificate.fixture.ts';
import { formatProblem } from '../yaml-document.ts';
import { loadPipeline, type PipelineEnvironment, readKeyPair } from './pipeline.ts';

const NOW = new Date('2030-01-01');
const { cert, key } = localhostCertificate;
const stranger = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;
const NOTHING: PipelineEnvironment = {
  mcpListen: undefined,
  inferenceListen: undefined,
  inferenceUpstream: undefined,
  corsOrigin: undefined,
};

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-tls-'));
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

/** What comes of these files; undefined for one that is not there. */
async function read(certText: string | undefined, keyText: string | undefined, now = NOW) {
  const files = { certPath: join(folder, 'c.pem'), keyPath: join(folder, 'k.pem') };
  if (certText !== undefined) await writeFile(files.certPath, certText);
  if (keyText !== undefined) await writeFile(files.keyPath, keyText);
  const at = { file: 'p', line: 3 };
  return await readKeyPair({ ...files, certAt: { ...at, column: 1 }, keyAt: { ...at, column: 9 } }, now);
}

async function complaints(...files: Parameters<typeof read>): Promise<string[]> {
  const result = await read(...files);
  if ('keyPair' in result) throw new Error('it is taken');
  return result.problems.map((problem) => formatProblem(problem).replaceAll(`${folder}/`, ''));
}

describe('certificate and key of a listener', () => {
  it('are taken as they are', async () => {
    expect(await read(cert, key)).toEqual({ keyPair: { cert, key }, warnings: [] });
  });

  it.each<[string, Parameters<typeof read>, string[]]>([
    [
      'files that are not there',
      [undefined, undefined],
      [
        'p:3:1: "c.pem" does not exist; a PEM certificate is needed',
        'p:3:9: "k.pem" does not exist; a PEM private key is needed',
      ],
    ],
    [
      'a certificate that is none',
      ['hello', key],
      ['p:3:1: "c.pem" is not a PEM certificate; a PEM certificate is needed'],
    ],
    [
      'files the wrong way round',
      [key, cert],
      [
        'p:3:1: "c.pem" is not a PEM certificate; a PEM certificate is needed',
        'p:3:9: "k.pem" is not a PEM private key; a PEM private key is needed',
      ],
    ],
    [
      'a certificate that is cut',
      [cert.slice(0, 200), key],
      ['p:3:1: "c.pem" is not a PEM certificate; a PEM certificate is needed'],
    ],
    ['a key that is none', [cert, ''], ['p:3:9: "k.pem" is not a PEM private key; a PEM private key is needed']],
    [
      'the key of another',
      [cert, stranger.export({ type: 'pkcs8', format: 'pem' }).toString()],
      ['p:3:9: "k.pem" is not the key of "c.pem", in which the certificate of the key stands first'],
    ],
    [
      'a key with a passphrase',
      [cert, stranger.export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'x' }).toString()],
      ['p:3:9: "k.pem" is locked by a passphrase; a PEM private key is needed'],
    ],
  ])('are refused: %s', async (_what, files, lines) => {
    expect(await complaints(...files)).toEqual(lines);
  });

  it('are refused: a chain with something broken in it', async () => {
    const [line] = await complaints(`${cert}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n`, key);
    expect(line).toMatch(/^p:3:1: "c\.pem" cannot be used: .+/);
  });

  it('are refused: a folder', async () => {
    await mkdir(join(folder, 'c.pem'));
    expect(await complaints(undefined, key)).toEqual(['p:3:1: "c.pem" is a folder; a PEM certificate is needed']);
  });

  it.each([
    ['has expired on 2126-10-27T12:37:05.000Z', new Date('2130-01-01')],
    ['is not valid before 2026-11-20T12:37:05.000Z', new Date('2020-01-01')],
  ])('are used with a warning when the certificate %s', async (text, now) => {
    const result = await read(cert, key, now);
    if ('problems' in result) throw new Error('refused');
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

  it('reads the certificates of the listeners that have one, from where the file is', async () => {
    const path = join(folder, 'p.yaml');
    await mkdir(join(folder, 'keys'));
    await writeFile(path, FILE);
    await writeFile(join(folder, 'c.pem'), cert);
    await expect(loadPipeline(path, NOTHING)).rejects.toThrow(
      `--pipeline-config ${path}:2:99: "${join(folder, 'keys/k.pem')}" does not exist; a PEM private key is needed`,
    );
    await writeFile(join(folder, 'keys/k.pem'), key);
    const { listeners } = await loadPipeline(path, NOTHING);
    expect(listeners.map(({ keyPair }) => keyPair)).toEqual([{ cert, key }, undefined]);
  });

  it('takes the embedded one when no file is named, and what the environment says', async () => {
    const address = { host: '127.0.0.1', port: 7 };
    const { listeners } = await loadPipeline(undefined, { ...NOTHING, mcpListen: address });
    expect(listeners).toMatchObject([{ name: 'mcp', address }, { name: 'inference' }]);
  });

  it('says where completions are asked for, in the embedded one’s words where the file has no cluster for them', async () => {
    const upstreamOf = async (file: string, environment = NOTHING) => {
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
    expect(await upstreamOf(own, { ...NOTHING, inferenceUpstream })).toEqual(inferenceUpstream);
  });

  it('fills in what a filter mcp leaves to the file’s limits', async () => {
    const path = join(folder, 'p.yaml');
    await writeFile(
      path,
      `listeners: [{name: one, address: "h:1", filter_chains: [a]}]
filter_chains: [{name: a, filters: [{filter: mcp}, {filter: mcp, max_body_bytes: 7}]}]
body_limits: {max_request_bytes: 5}`,
    );
    const { listeners } = await loadPipeline(path, NOTHING);
    expect(listeners[0]?.filters.map(({ settings }) => settings)).toMatchObject([
      { filter: 'mcp', max_body_bytes: 5 },
      { filter: 'mcp', max_body_bytes: 7 },
    ]);
  });

  it('does not start with a file that is not there, or a folder', async () => {
    await expect(loadPipeline(join(folder, 'p.yaml'), NOTHING)).rejects.toThrow(
      `--pipeline-config ${folder}/p.yaml: no such file; name one that exists`,
    );
    await expect(loadPipeline(folder, NOTHING)).rejects.toThrow(
      `--pipeline-config ${folder} is a folder; a readable YAML file is needed`,
    );
  });
});
