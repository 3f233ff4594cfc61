import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ENVIRONMENT } from '../../../../test/fixtures/environment.ts';
import { ConfigError } from '../http/settings.ts';
import { loadConfig } from './config/config.ts';
import { oneListener } from './pipeline.fixture.ts';

const MAIN = join(import.meta.dirname, '..', 'main.ts');

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-startup-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const MCP = '- filter: mcp';
const CORS = "- { filter: cors, allow_origins: ['https://a.example'], allow_credentials: true }";
const ROUTER = '- { filter: router, routes: [{ path_prefix: /, cluster: k }] }';
const BALANCER = "- { filter: load_balancer, clusters: [{ name: k, endpoints: ['h:1'] }] }";
const TLS = ', tls: { certificates: [{ cert_path: no.pem, key_path: no.key }] }';

type Mistake = [string, string | undefined, string, Record<string, string>?];

/** Name, pipeline file (undefined for a missing one), start of the error with its position, and environment. */
const MISTAKES: Mistake[] = [
  ['a missing file', undefined, ': no such file'],
  ['invalid YAML', 'listeners: [', ':1:13: '],
  ['an unknown key', `${oneListener(MCP)}listener: []\n`, ':7:1: listener is not a known field'],
  [
    'an unknown filter',
    oneListener('- filter: corse'),
    ':6:9: filter_chains[0].filters[0].filter must be a known filter',
  ],
  [
    'an unknown setting',
    oneListener('- { filter: mcp, max: 1 }'),
    ':6:24: filter_chains[0].filters[0].max is not a known field',
  ],
  ['a missing setting', oneListener('- filter: cors'), ':6:9: filter_chains[0].filters[0].allow_origins is'],
  [
    'a value of the wrong type',
    oneListener(MCP, ", max_connections: '5'"),
    ':2:68: listeners[0].max_connections must be',
  ],
  ['an unknown chain', oneListener(MCP).replace('[c]', '[d]'), ':2:64: unknown chain "d"; known chains: "c"'],
  ['an unknown cluster', oneListener(`${ROUTER}\n- filter: load_balancer`), ':6:54: unknown cluster "k"'],
  [
    'a duplicate name',
    oneListener(MCP).replace(' }]', " }, { name: l, address: 'h:1', filter_chains: [c] }]"),
    ':2:70: duplicate listener name "l"',
  ],
  [
    'credentials for any origin',
    oneListener(CORS.replace('https://a.example', '*')),
    ':6:47: filter_chains[0].filters[0].allow_credentials',
  ],
  [
    'a service filter without mcp',
    oneListener('- filter: service_methods'),
    ':6:9: filter service_methods requires an mcp filter',
  ],
  [
    'unreachable filters',
    oneListener(`- { filter: static_response, status: 204 }\n${MCP}`),
    ':7:9: filter mcp and all filters after it',
  ],
  ['load_balancer without router', oneListener(BALANCER), ':6:9: filter load_balancer requires a router filter'],
  [
    'path_rewrite with two settings',
    oneListener('- { filter: path_rewrite, add_prefix: /a, strip_prefix: /b }'),
    ':6:9: filter_chains[0].filters[0] must have exactly one',
  ],
  ['a missing certificate', oneListener(MCP, TLS), ':2:92: "'],
  [
    'an address of another listener',
    `listeners: [{ name: a, address: 'h:1', filter_chains: [c] }, { name: b, address: 'h:1', filter_chains: [c] }]\nfilter_chains: [{ name: c, filters: [{ filter: mcp }] }]`,
    ':1:73: listener "b" has the same address',
  ],
  [
    'tls without a certificate',
    oneListener(MCP, ', tls: { certificates: [] }'),
    ':2:75: listeners[0].tls.certificates must have exactly one',
  ],
  ['another protocol', oneListener(MCP, ', protocol: tcp'), ':2:68: listeners[0].protocol must be http'],
  [
    'SERVICE_MCP_LISTEN without its listener',
    oneListener(MCP),
    'SERVICE_MCP_LISTEN: the pipeline has no listener "mcp"',
    { SERVICE_MCP_LISTEN: '127.0.0.1:0' },
  ],
  [
    'SERVICE_INFERENCE_LISTEN without its listener',
    oneListener(MCP),
    'SERVICE_INFERENCE_LISTEN: the pipeline has no listener "inference"',
    { SERVICE_INFERENCE_LISTEN: '127.0.0.1:0' },
  ],
  [
    'SERVICE_CORS_ORIGIN with credentials',
    oneListener(CORS),
    'SERVICE_CORS_ORIGIN: "*" cannot be combined with allow_credentials',
    { SERVICE_CORS_ORIGIN: '*' },
  ],
];

describe('the service does not start', () => {
  it.each<Mistake>(MISTAKES)('with %s', async (_what, text, start, env = {}) => {
    const file = join(folder, 'p.yaml');
    if (text !== undefined) await writeFile(file, text);
    const error: unknown = await loadConfig(['--pipeline-config', file], env, folder).catch(
      (reason: unknown) => reason,
    );
    if (!(error instanceof ConfigError)) throw new Error('accepted');
    expect(error.message).toContain(start.startsWith(':') ? `--pipeline-config ${file}${start}` : start);
    expect(error.message).not.toMatch(/[\r\n]/);
  });

  it.each<Mistake>(MISTAKES.filter(([what]) => /invalid YAML|unreachable|missing certificate|SERVICE_MCP/.test(what)))(
    'as a process with %s: exit code 1, and one line',
    { tags: ['slow'] },
    async (_what, text = '', start, env = {}) => {
      const file = join(folder, 'p.yaml');
      await writeFile(file, text);
      const child = spawn(process.execPath, [MAIN, 'serve', '--pipeline-config', file], {
        cwd: folder,
        env: { ...ENVIRONMENT, HOME: folder, SERVICE_PERSIST_BACKEND: 'none', ...env },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      let [out, err] = ['', ''];
      child.stdout.on('data', (chunk) => {
        out += chunk;
      });
      child.stderr.on('data', (chunk) => {
        err += chunk;
      });
      const [code] = await once(child, 'close');
      expect([code, out]).toEqual([1, '']);
      expect(err).toMatch(/^sluice: [^\n]+\n$/);
      expect(err).toContain(start);
    },
  );

  it('only for errors; settings without effect are warnings', async () => {
    const file = join(folder, 'p.yaml');
    await writeFile(file, `${oneListener(CORS)}admin: { address: x }\nruntime: [1]\n`);
    const invocation = await loadConfig(['--pipeline-config', file], {}, folder);
    expect(invocation.kind === 'run' && invocation.config.warnings).toEqual([
      `--pipeline-config ${file}:7:1: admin has no effect`,
      `--pipeline-config ${file}:8:1: runtime has no effect`,
      expect.stringContaining(`--pipeline-config ${file}:6:9: cors allows https://a.example, but the listener rejects`),
    ]);
  });
});
