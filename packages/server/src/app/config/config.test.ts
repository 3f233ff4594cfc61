import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import manifest from '../../../package.json' with { type: 'json' };
import { ConfigError } from '../../http/settings.ts';
import { type Config, loadConfig } from './config.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-config-'));
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

async function configOf(argv: string[], env: NodeJS.ProcessEnv = {}): Promise<Config> {
  const invocation = await loadConfig(argv, env, folder);
  if (invocation.kind !== 'run') throw new Error(`printed ${invocation.text}`);
  return invocation.config;
}

/** Configuration with a bootstrap file of this content. */
async function bootstrapOf(yaml: string | Buffer): Promise<Config> {
  await writeFile(join(folder, 'b.yaml'), yaml);
  return configOf(['--service-config', 'b.yaml']);
}

async function errorOf(loading: Promise<unknown>): Promise<string> {
  const error = await loading.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof ConfigError)) throw new Error(`no ConfigError but ${String(error)}`);
  return error.message;
}

const FILE_GRPC = 'bridge: {grpc: {timeout-ms: 1, max-retries: 2, retry-delay-ms: 3}}';
const ENV_GRPC = { SERVICE_BRIDGE_GRPC_TIMEOUT_MS: '10', SERVICE_BRIDGE_GRPC_MAX_RETRIES: '0' };
const CRM = { name: 'crm', address: 'http://127.0.0.1:9/mcp', namespace: 'default', labels: {} };

describe('loadConfig', () => {
  it('uses the defaults without any configuration', async () => {
    const config = await configOf([]);
    expect(config).toMatchObject({
      mgmtListen: { host: '0.0.0.0', port: 8080 },
      persist: { backend: 'file', path: join(folder, '.service/server'), recover: false },
      pluginsPath: undefined,
      pipelinePath: undefined,
      bootstrap: {
        path: undefined,
        folder,
        forwards: [],
        namespaces: [],
        llmConnections: [],
        evaluators: undefined,
        invalidEvaluators: [],
      },
      warnings: [],
    });
    expect(Object.isFrozen(config)).toBe(true);
  });

  it('resolves relative paths against the working directory', async () => {
    await mkdir(join(folder, 'actions'));
    const config = await configOf(['serve', '--plugins-path', 'plugins'], {
      SERVICE_PERSIST_PATH: 'data',
      SERVICE_UI_PATH: 'ui',
      SERVICE_ACTIONS_PATH: 'actions',
      SERVICE_SECRETS_PATH: 'actions',
    });
    expect(config.persist).toEqual({ backend: 'file', path: join(folder, 'data'), recover: false });
    expect(config.uiPath).toBe(join(folder, 'ui'));
    expect(config.actionsPath).toBe(join(folder, 'actions'));
    expect(config.secrets.folder).toBe(join(folder, 'actions'));
    expect(config.pluginsPath).toBe(join(folder, 'plugins'));
  });

  it('has no console with SERVICE_UI_PATH=none and with --headless', async () => {
    const uiPaths = [
      await configOf([], { SERVICE_UI_PATH: 'none' }),
      await configOf(['--headless'], {}),
      await configOf(['--headless'], { SERVICE_UI_PATH: 'ui' }),
    ].map(({ uiPath }) => uiPath);
    expect(uiPaths).toEqual([undefined, undefined, undefined]);
    expect((await configOf([], {})).uiPath).toMatch(/^(?:\/opt\/service\/admin|.+\/packages\/admin\/dist)$/);
  });

  it('prints help and version even if the environment is invalid', async () => {
    const broken = { SERVICE_MGMT_LISTEN: 'nonsense' };
    expect(await loadConfig(['--version'], broken, folder)).toEqual({ kind: 'print', text: `${manifest.version}\n` });
    expect(await loadConfig(['-h'], broken, folder)).toMatchObject({
      kind: 'print',
      text: expect.stringContaining('--service-config'),
    });
  });

  it.each(['SERVICE_ACTIONS_PATH', 'SERVICE_SECRETS_PATH'])(
    'rejects a folder of %s that does not exist or is a file',
    async (variable) => {
      await writeFile(join(folder, 'file'), '');
      const rejected = async (path: string) => errorOf(configOf([], { [variable]: path }));
      expect(await rejected('gone')).toBe(
        `${variable}: ${JSON.stringify(join(folder, 'gone'))} does not exist; expected an existing folder`,
      );
      expect(await rejected('file')).toBe(
        `${variable}: ${JSON.stringify(join(folder, 'file'))} is not a folder; expected an existing folder`,
      );
    },
  );

  it('returns the warnings of environment and file', async () => {
    await writeFile(join(folder, 'service.yaml'), 'forwards: [{name: crm}]');
    const { warnings } = await configOf([], { SERVICE_FORWARD_HEADERS: 'host' });
    expect(warnings).toEqual([
      expect.stringContaining('SERVICE_FORWARD_HEADERS'),
      `${join(folder, 'service.yaml')}:1:12: forwards[0] is skipped: address is missing`,
    ]);
  });
});

describe('bootstrap file', () => {
  it('is service.yaml in the working directory unless the flag names another file', async () => {
    await writeFile(join(folder, 'service.yaml'), 'namespaces: [ours]');
    await writeFile(join(folder, 'other.yaml'), 'namespaces: [theirs]');
    const found = await configOf([]);
    expect(found.bootstrap).toMatchObject({ path: join(folder, 'service.yaml'), namespaces: [{ name: 'ours' }] });
    const named = await configOf(['--service-config', 'other.yaml']);
    expect(named.bootstrap).toMatchObject({ path: join(folder, 'other.yaml'), namespaces: [{ name: 'theirs' }] });
  });

  it('parses forwards with defaults and optional members', async () => {
    const { bootstrap, warnings } = await bootstrapOf(`
forwards:
  - {name: ' crm ', address: 'http://127.0.0.1:9/mcp'}
  - name: Büro
    address: HTTPS://office.example/mcp?x=1
    namespace: finance
    labels: {team: "7"}
    prefix: o_
`);
    expect(bootstrap.forwards).toEqual([
      CRM,
      {
        name: 'Büro',
        address: 'HTTPS://office.example/mcp?x=1',
        namespace: 'finance',
        labels: { team: '7' },
        prefix: 'o_',
      },
    ]);
    expect(warnings).toEqual([]);
  });

  it('accepts namespaces as names and as maps', async () => {
    const { bootstrap } = await bootstrapOf('namespaces: [a, {name: b}, {name: c-1, labels: {x: y}}]');
    expect(bootstrap.namespaces).toEqual([{ name: 'a' }, { name: 'b' }, { name: 'c-1', labels: { x: 'y' } }]);
  });

  it('accepts JSON, an empty file and empty keys', async () => {
    expect(
      (await bootstrapOf('{"forwards": [{"name": "crm", "address": "http://127.0.0.1:9/mcp"}]}')).bootstrap.forwards,
    ).toEqual([CRM]);
    for (const yaml of ['', '# empty\n', 'forwards:\nnamespaces:\n', '\ufeffforwards: []']) {
      expect((await bootstrapOf(yaml)).bootstrap).toMatchObject({ forwards: [], namespaces: [] });
    }
  });

  it('has the services of plugins, without invalid entries', async () => {
    const { warnings, bootstrap } = await bootstrapOf(
      'plugins:\n  - 1\n  - {id: a, services: {s: {target: http://h:1/b}}}\n  - {id: b, services: {s: {target: ftp://h}}}\n',
    );
    expect(bootstrap.plugins).toEqual(new Map([['a', new Map([['s', 'http://h:1/b']])]]));
    expect(warnings).toEqual([
      expect.stringMatching(/b\.yaml:2:5: plugins\[0\] is skipped: must be a map with id and services$/),
      expect.stringMatching(/b\.yaml:4:\d+: plugins\[2\] is skipped: services\.s\.target must be an http or https URL/),
    ]);
    expect((await bootstrapOf('plugins:')).warnings).toEqual([]);
  });

  it.each([
    ['{address: "http://a"}', '5', 'name is missing'],
    ['{name: 7, address: "http://a"}', '6', 'name must be a string; quote it'],
    ['{name: " ", address: "http://a"}', '6', 'name must not be empty'],
    [`{name: "${'x'.repeat(257)}", address: "http://a"}`, '6', 'name must have at most 256 characters'],
    ['{name: "a\\tb", address: "http://a"}', '6', 'name must not contain control characters'],
    ['{name: "\\ud800", address: "http://a"}', '6', 'name must be valid Unicode'],
    ['{name: a}', '5', 'address is missing'],
    ['{name: a, address: "ftp://a"}', '15', 'address must be an http or https URL'],
    ['{name: a, address: "http://"}', '15', 'address must be an http or https URL'],
    ['{name: a, address: "http://a b"}', '15', 'address must be an http or https URL'],
    ['{name: a, address: "http:///a"}', '15', 'address must be an http or https URL'],
    ['{name: a, address: "http://user:hunter2@a"}', '15', 'address must not carry a user name or password'],
    ['{name: a, address: "http://user@a"}', '15', 'address must not carry a user name or password'],
    ['{name: a, address: "http://a", namespace: Finance}', '36', 'namespace must consist of lowercase letters'],
    ['{name: a, address: "http://a", namespace: -a}', '36', 'namespace must start and end with a letter or digit'],
    ['{name: a, address: "http://a", labels: [x]}', '36', 'labels must be an object'],
    ['{name: a, address: "http://a", labels: {x: 1}}', '45', 'labels.x must be a string; quote it'],
    ['{name: a, address: "http://a", prefix: "a b"}', '36', 'prefix must have 1 to 32 characters from'],
    ['{name: a, address: "http://a", prefix: ""}', '36', 'prefix must have 1 to 32 characters from'],
    ['just-a-name', '5', 'must be a map with name and address'],
  ])('skips the invalid forward %s with a warning', async (entry, column, problem) => {
    const { bootstrap, warnings } = await bootstrapOf(
      `forwards:\n  - ${entry}\n  - {name: crm, address: "http://127.0.0.1:9/mcp"}\n`,
    );
    expect(bootstrap.forwards).toEqual([CRM]);
    expect(warnings).toEqual([expect.stringContaining(`b.yaml:2:${column}: forwards[0] is skipped: ${problem}`)]);
  });

  it('skips the second of two forwards or namespaces with the same name', async () => {
    const { bootstrap, warnings } = await bootstrapOf(
      'forwards:\n- {name: a, address: "http://1"}\n- {name: a, address: "http://2"}\nnamespaces: [x, {name: x, labels: {a: b}}]',
    );
    expect(bootstrap.forwards).toMatchObject([{ address: 'http://1' }]);
    expect(bootstrap.namespaces).toEqual([{ name: 'x' }]);
    expect(warnings).toEqual([
      expect.stringContaining('b.yaml:3:3: forwards[1] is skipped: duplicate name "a"'),
      expect.stringContaining('b.yaml:4:17: namespaces[1] is skipped: duplicate name "x"'),
    ]);
  });

  it('warns of an unknown key of a forward', async () => {
    const { bootstrap, warnings } = await bootstrapOf(
      'forwards:\n  - name: crm\n    address: http://127.0.0.1:9/mcp\n    perfix: x\n',
    );
    expect(bootstrap.forwards).toEqual([CRM]);
    expect(warnings).toEqual([
      expect.stringContaining('b.yaml:4:5: forwards[0].perfix is not a known field and is ignored'),
    ]);
  });

  it.each([
    ['defaults', '', {}, { timeoutMs: 5000, maxRetries: 3, retryDelayMs: 100 }],
    ['empty keys', 'bridge: {grpc: {timeout-ms: }}', {}, { timeoutMs: 5000, maxRetries: 3, retryDelayMs: 100 }],
    ['an empty bridge', 'bridge:\n  grpc:', {}, { timeoutMs: 5000, maxRetries: 3, retryDelayMs: 100 }],
    ['the file', FILE_GRPC, {}, { timeoutMs: 1, maxRetries: 2, retryDelayMs: 3 }],
    ['file and environment', FILE_GRPC, ENV_GRPC, { timeoutMs: 10, maxRetries: 0, retryDelayMs: 3 }],
    ['the environment', '', ENV_GRPC, { timeoutMs: 10, maxRetries: 0, retryDelayMs: 100 }],
  ])('merges the gRPC settings from %s', async (_what, yaml, env, expected) => {
    await writeFile(join(folder, 'service.yaml'), yaml);
    const { bridgeGrpc, warnings } = await configOf([], env);
    expect(bridgeGrpc).toEqual(expected);
    expect(warnings).toEqual([]);
  });

  it('warns of unknown keys of bridge', async () => {
    const { bridgeGrpc, warnings } = await bootstrapOf('bridge:\n  http: 1\n  grpc:\n    timeout_ms: 7\n');
    expect(bridgeGrpc.timeoutMs).toBe(5000);
    expect(warnings).toEqual([
      expect.stringContaining('b.yaml:2:3: bridge.http is not a known field and is ignored; known fields: grpc'),
      expect.stringContaining(
        'b.yaml:4:5: bridge.grpc.timeout_ms is not a known field and is ignored; known fields: timeout-ms, max-retries',
      ),
    ]);
  });

  it('never includes an address in a warning, because it may contain a secret', async () => {
    const { warnings } = await bootstrapOf(
      'forwards: [{name: a, address: "ftp://u:hunter2@h"}, {name: b, address: "http://u:hunter2@h", x: 1}]',
    );
    expect(warnings).toHaveLength(2);
    expect(warnings.join()).not.toContain('hunter2');
  });

  it.each<[string, string | Buffer, RegExp]>([
    [
      'an unknown key',
      'namespaces: []\nforward: []',
      /b\.yaml:2:1: forward is not a known field; known fields: forwards, /,
    ],
    ['broken YAML', 'forwards: [', /b\.yaml:1:\d+: /],
    ['a duplicate key', 'forwards: []\nforwards: []', /b\.yaml:2:1: duplicate key "forwards"/],
    ['several documents', 'forwards: []\n---\nforwards: []', /b\.yaml:2:1: /],
    ['an unresolved alias', 'forwards: *gone', /b\.yaml:1:11: unresolved alias/],
    ['an alias to itself', 'forwards: &a [*a]', /b\.yaml:1:15: circular alias/],
    ['a list as top level', '- a', /b\.yaml:1:1: the top level must be a map/],
    ['a string as top level', 'hello', /b\.yaml:1:1: the top level must be a map/],
    ['invalid UTF-8', Buffer.from([0x66, 0xff, 0xfe]), /b\.yaml is not valid UTF-8/],
    ['forwards that are not a list', 'forwards: {name: a}', /b\.yaml:1:1: forwards: must be a list/],
    ['namespaces that are not a list', 'namespaces: a', /b\.yaml:1:1: namespaces: must be a list/],
    [
      'an invalid namespace',
      'namespaces:\n  - a\n  - B',
      /b\.yaml:3:5: namespaces\[1\]: name must consist of lowercase letters/,
    ],
    ['a namespace without a name', 'namespaces: [{labels: {}}]', /b\.yaml:1:14: namespaces\[0\]: name is missing/],
    ['a number as a namespace', 'namespaces: [7]', /b\.yaml:1:14: namespaces\[0\]: must be a name or a map/],
    ['a bridge that is not a map', 'bridge: [1]', /b\.yaml:1:1: bridge: must be a map with grpc/],
    [
      'gRPC settings that are not a map',
      'bridge:\n  grpc: 5',
      /b\.yaml:2:3: bridge: grpc must be a map with timeout-ms, /,
    ],
    [
      'a timeout of 0',
      'bridge:\n  grpc:\n    timeout-ms: 0',
      /b\.yaml:3:5: bridge: grpc\.timeout-ms must be a whole number from 1 to 2147483647$/,
    ],
    [
      'a string instead of a number',
      'bridge: {grpc: {max-retries: "3"}}',
      /:1:17: bridge: grpc\.max-retries must be a whole .* 100$/,
    ],
    [
      'a fractional number of retries',
      'bridge: {grpc: {max-retries: 2.5}}',
      /bridge: grpc\.max-retries must be a whole number from 0 to 100$/,
    ],
    [
      'too many retries',
      'bridge: {grpc: {max-retries: 101}}',
      /grpc\.max-retries must be a whole number from 0 to 100$/,
    ],
    ['a negative delay', 'bridge: {grpc: {retry-delay-ms: -1}}', /grpc\.retry-delay-ms must be a whole number from 0 /],
    [
      'an invalid namespace label',
      'namespaces: [{name: a, labels: {x: 1}}]',
      /b\.yaml:1:33: namespaces\[0\]: labels\.x must be a string; quote it/,
    ],
  ])('rejects %s with a one-line error that names flag, file and position', async (_, yaml, message) => {
    const line = await errorOf(bootstrapOf(yaml));
    expect(line).toMatch(message);
    expect(line).toMatch(/^--service-config \//);
    expect(line).not.toContain('\n');
  });

  it('rejects a named file that does not exist or is a folder', async () => {
    expect(await errorOf(configOf(['--service-config', 'gone.yaml']))).toMatch(
      /^--service-config \/.*gone\.yaml: no such file; /,
    );
    await mkdir(join(folder, 'folder'));
    expect(await errorOf(configOf(['--service-config', 'folder']))).toMatch(
      /^--service-config \/.*folder is a folder; /,
    );
  });

  it('rejects an invalid default service.yaml without naming the flag', async () => {
    await writeFile(join(folder, 'service.yaml'), 'x: 1');
    expect(await errorOf(configOf([]))).toBe(
      `${join(folder, 'service.yaml')}:1:1: x is not a known field; known fields: forwards, namespaces, evaluators, llm_connections, plugins, bridge, identity`,
    );
  });

  it.each([
    [`$\{env:NONE}`, 'which is not set'],
    [`$\{env:LINES}`, 'which has several lines'],
    [`$\{file:key}`, 'but SERVICE_SECRETS_PATH is not set'],
    [`$\{env:BOUND}`, 'which SERVICE_SECRET_ORIGINS binds to https://a and not to http://h'],
  ])('rejects an LLM connection whose key is %s, %s', async (key, problem) => {
    await writeFile(
      join(folder, 's.yaml'),
      `llm_connections: [{name: x, model: m, url: "http://h", api_key: "${key}"}]`,
    );
    const env = { LINES: 'a\nS3CRET', BOUND: 'S3CRET', SERVICE_SECRET_ORIGINS: 'BOUND=https://a' };
    const message = await errorOf(configOf(['--service-config', 's.yaml'], env));
    expect(message).toBe(`${join(folder, 's.yaml')}: llm_connections: api_key of "x" refers to ${key}, ${problem}`);
  });

  it.each(['*S3CRET', '!S3CRET', '|S3CRET', '"S3CRET', '"\\qS3CRET"', '@S3CRET'])(
    'does not include an unquoted key %s of an unparsable file in the error',
    async (key) => {
      const yaml = `llm_connections:\n  - api_key: ${key}\n`;
      const messages = await bootstrapOf(yaml).then(({ warnings }) => warnings.join(), String);
      expect(messages).toMatch(/b\.yaml:[23]:/);
      expect(messages).not.toContain('S3CRET');
    },
  );

  it('returns warnings of the YAML parser', async () => {
    const { warnings } = await bootstrapOf('namespaces: !vendor []');
    expect(warnings).toEqual([expect.stringMatching(/b\.yaml:1:13: Unresolved tag/)]);
  });
});
