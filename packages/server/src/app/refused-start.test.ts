import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ENVIRONMENT } from '../../../../test/fixtures/environment.ts';
import { ConfigError } from '../http/address.ts';
import { loadConfig } from './config/config.ts';
import { oneListener } from './pipeline.fixture.ts';

const MAIN = join(import.meta.dirname, '..', 'main.ts');

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-refused-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const MCP = '- filter: mcp';
const CORS = "- { filter: cors, allow_origins: ['https://a.example'], allow_credentials: true }";
const ROUTER = '- { filter: router, routes: [{ path_prefix: /, cluster: k }] }';
const BALANCER = "- { filter: load_balancer, clusters: [{ name: k, endpoints: ['h:1'] }] }";
const TLS = ', tls: { certificates: [{ cert_path: no.pem, key_path: no.key }] }';

type Mistake = [string, string | undefined, string, Record<string, string>?];

/** What keeps the service from starting: a file or none at all, the place in it and the words, and the environment. */
const MISTAKES: Mistake[] = [
  ['a file that is not there', undefined, ': no such file'],
  ['what is no YAML', 'listeners: [', ':1:13: '],
  ['an unknown key', `${oneListener(MCP)}listener: []\n`, ':7:1: the top level has the unknown key "listener"'],
  ['an unknown filter', oneListener('- filter: corse'), ':6:9: filter_chains[0].filters[0].filter is not the name'],
  [
    'an unknown setting',
    oneListener('- { filter: mcp, max: 1 }'),
    ':6:24: filter_chains[0].filters[0] has the unknown',
  ],
  ['a setting that is missing', oneListener('- filter: cors'), ':6:9: filter_chains[0].filters[0].allow_origins is'],
  [
    'a value of the wrong type',
    oneListener(MCP, ", max_connections: '5'"),
    ':2:68: listeners[0].max_connections is not',
  ],
  ['a chain that is not there', oneListener(MCP).replace('[c]', '[d]'), ':2:64: there is no chain "d"; chains: "c"'],
  ['a cluster that is not there', oneListener(`${ROUTER}\n- filter: load_balancer`), ':6:54: there is no cluster "k"'],
  [
    'a name that is there twice',
    oneListener(MCP).replace(' }]', " }, { name: l, address: 'h:1', filter_chains: [c] }]"),
    ':2:70: a listener of the name "l"',
  ],
  [
    'credentials for any origin',
    oneListener(CORS.replace('https://a.example', '*')),
    ':6:47: filter_chains[0].filters[0].allow_credentials',
  ],
  [
    'no mcp before a service filter',
    oneListener('- filter: service_relay'),
    ':6:9: filter service_relay needs the filter mcp',
  ],
  [
    'filters that are never reached',
    oneListener(`- { filter: static_response, status: 204 }\n${MCP}`),
    ':7:9: filter mcp and all behind it',
  ],
  ['load_balancer without router', oneListener(BALANCER), ':6:9: filter load_balancer needs the filter router'],
  [
    'path_rewrite that says two things',
    oneListener('- { filter: path_rewrite, add_prefix: /a, strip_prefix: /b }'),
    ':6:9: filter_chains[0].filters[0] needs exactly one',
  ],
  ['no certificate', oneListener(MCP, TLS), ':2:92: "'],
  [
    'an address that another listener has',
    `listeners: [{ name: a, address: 'h:1', filter_chains: [c] }, { name: b, address: 'h:1', filter_chains: [c] }]\nfilter_chains: [{ name: c, filters: [{ filter: mcp }] }]`,
    ':1:73: listener "b" has the address',
  ],
  [
    'a certificate left out of tls',
    oneListener(MCP, ', tls: { certificates: [] }'),
    ':2:75: listeners[0].tls.certificates needs exactly one',
  ],
  ['another protocol', oneListener(MCP, ', protocol: tcp'), ':2:68: listeners[0].protocol is not http'],
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
    'SERVICE_CORS_ORIGIN beside credentials',
    oneListener(CORS),
    'SERVICE_CORS_ORIGIN: "*" cannot stand beside allow_credentials',
    { SERVICE_CORS_ORIGIN: '*' },
  ],
];

describe('the service does not start', () => {
  it.each<Mistake>(MISTAKES)('with %s', async (_what, text, words, env = {}) => {
    const file = join(folder, 'p.yaml');
    if (text !== undefined) await writeFile(file, text);
    const refusal: unknown = await loadConfig(['--pipeline-config', file], env, folder).catch(
      (error: unknown) => error,
    );
    if (!(refusal instanceof ConfigError)) throw new Error('it starts');
    expect(refusal.message).toContain(words.startsWith(':') ? `--pipeline-config ${file}${words}` : words);
    expect(refusal.message).not.toMatch(/[\r\n]/);
  });

  it.each<Mistake>(MISTAKES.filter(([what]) => /what is no|never reached|no certificate|SERVICE_MCP/.test(what)))(
    'as a process with %s: exit code 1, and one line',
    async (_what, text = '', words, env = {}) => {
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
      expect(err).toContain(words);
    },
  );

  it('is no matter of what is accepted and has no effect: that is a warning', async () => {
    const file = join(folder, 'p.yaml');
    await writeFile(file, `${oneListener(CORS)}admin: { address: x }\nruntime: [1]\n`);
    const invocation = await loadConfig(['--pipeline-config', file], {}, folder);
    expect(invocation.kind === 'run' && invocation.config.warnings).toEqual([
      `--pipeline-config ${file}:7:1: admin has no effect`,
      `--pipeline-config ${file}:8:1: runtime has no effect`,
      expect.stringContaining(
        `--pipeline-config ${file}:6:9: cors allows https://a.example, which the listener refuses`,
      ),
    ]);
  });
});
