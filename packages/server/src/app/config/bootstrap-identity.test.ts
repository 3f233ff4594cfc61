import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { localhostCertificate } from '../../http/client/certificate.fixture.ts';
import { ConfigError } from '../../http/settings.ts';
import { oneListener } from '../pipeline.fixture.ts';
import { loadConfig } from './config.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-config-identity-'));
});
afterEach(() => rm(folder, { recursive: true }));

/** The configuration with this `service.yaml`. */
async function configOf(yaml: string, env: NodeJS.ProcessEnv = {}, argv: readonly string[] = []) {
  await writeFile(join(folder, 'service.yaml'), yaml);
  const invocation = await loadConfig(argv, { HOME: folder, ...env }, folder);
  if (invocation.kind !== 'run') throw new Error('does not run');
  return invocation.config;
}

/** The error of the start, without the folder. */
async function errorOf(...args: Parameters<typeof configOf>): Promise<string> {
  const error = await configOf(...args).then(String, (reason: unknown) => reason);
  if (!(error instanceof ConfigError)) throw new Error(`no ConfigError but ${String(error)}`);
  return error.message.replaceAll(`${folder}/`, '');
}

const HASH = 'ab'.repeat(32);
const PROXY = 'identity: { proxy: { trusted: [10.0.0.0/8], user: x-user } }';
const KEYS = `identity: { keys: [{ name: nightly, sha256: [${HASH}] }] }`;
const TOKENS = 'identity: { tokens: [{ name: corp, issuer: "https://id.example.com" }] }';
const [x, y] = ['xc1', 'ybH'].map((start) => start.padEnd(43, 'A'));
const KEYS_FILE = JSON.stringify({ keys: [{ kty: 'EC', crv: 'P-256', x, y }] });
const PUBLIC_URL = { SERVICE_PUBLIC_URL: 'https://agents.example.com' };

describe('identity', () => {
  it('is undefined without the key, and nothing else changes', async () => {
    const { bootstrap, warnings } = await configOf('namespaces: [finance]', {
      SERVICE_FORWARD_HEADERS: 'authorization,x-forwarded-user',
    });
    expect([bootstrap.identity, warnings]).toEqual([undefined, []]);
  });

  it('is part of the configuration, with defaults', async () => {
    const { bootstrap, warnings } = await configOf(`
identity:
  anonymous: deny
  proxy: { trusted: [127.0.0.1/32, "fd00::/8"], groups: X-Forwarded-Groups }
  keys:
    - { name: nightly-report, sha256: [${HASH}], groups: [reporting], for: [finance], expires: 2027-06-30 }
  roles: { admin: [proxy/platform], viewer: ["*"] }
`);
    expect(warnings).toEqual([]);
    expect(bootstrap.identity).toEqual({
      anonymous: 'deny',
      inference: false,
      proxy: {
        bare: false,
        trusted: ['127.0.0.1/32', 'fd00::/8'],
        user: 'x-forwarded-user',
        groups: 'x-forwarded-groups',
        service_accounts: [],
        ignore_authorization: false,
      },
      tokens: [],
      keys: [
        {
          name: 'nightly-report',
          sha256: [HASH],
          groups: ['reporting'],
          for: ['finance'],
          management: false,
          expires: '2027-06-30',
        },
      ],
      roles: { admin: ['proxy/platform'], viewer: ['*'] },
    });
  });

  const known = (...names: string[]) => `is not a known field; known fields: ${names.join(', ')}`;
  it.each<[string, string, string]>([
    ['an empty key', 'identity:', '1:1: identity must be an object'],
    ['a list', 'identity: []', '1:1: identity must be an object'],
    [
      'an unknown member',
      'identity: { anonymus: deny }',
      `1:13: identity.anonymus ${known('anonymous', 'inference', 'proxy', 'tokens', 'keys', 'roles')}`,
    ],
    ['an unknown value', 'identity: { anonymous: no }', '1:13: identity.anonymous must be one of allow, deny'],
    ['a proxy without peers', 'identity: { proxy: {} }', '1:13: identity.proxy.trusted is required'],
    [
      'no peers',
      'identity: { proxy: { trusted: [] } }',
      '1:22: identity.proxy.trusted must have at least one address range',
    ],
    [
      'an address',
      'identity: { proxy: { trusted: [10.0.0.1] } }',
      '1:32: identity.proxy.trusted[0] must be an address range, such as 10.0.0.0/8',
    ],
    [
      'a name with _',
      'identity: { proxy: { trusted: [10.0.0.0/8], user: x_user } }',
      '1:45: identity.proxy.user must be the name of a header, with "-" instead of "_"',
    ],
    [
      'a key in place of its hash',
      'identity: { keys: [{ name: a, sha256: [slk_S3CRET] }] }',
      '1:40: identity.keys[0].sha256[0] must be the SHA-256 of a key: 64 hexadecimal digits in lower case',
    ],
    [
      'no hash',
      'identity: { keys: [{ name: a, sha256: [] }] }',
      '1:31: identity.keys[0].sha256 must have one hash, or two while the key is exchanged',
    ],
    [
      'a name of a key',
      KEYS.replace('nightly', 'a/b'),
      '1:22: identity.keys[0].name must be 1 to 64 lowercase letters, digits, ".", "_" or "-"',
    ],
    [
      'one namespace in place of a list',
      KEYS.replace('name:', 'for: a, name:'),
      '1:22: identity.keys[0].for must be a list of namespaces, or ["*"]',
    ],
    [
      'all namespaces, and one',
      KEYS.replace('name:', 'for: ["*", a], name:'),
      '1:28: identity.keys[0].for[0] must consist of lowercase letters, digits and hyphens only',
    ],
    [
      'no namespaces',
      KEYS.replace('name:', 'for: [], name:'),
      '1:22: identity.keys[0].for must be a list of namespaces, or ["*"]',
    ],
    [
      'a date',
      KEYS.replace('name:', 'expires: 30.6.2027, name:'),
      '1:22: identity.keys[0].expires must be a date, such as 2027-06-30',
    ],
    [
      'an unknown role',
      'identity: { roles: { root: [a] } }',
      `1:22: identity.roles.root ${known('admin', 'operator', 'auditor', 'viewer')}`,
    ],
    [
      'a problem between members',
      'identity:\n  proxy: { trusted: [10.0.0.0/8], user: cookie }',
      '2:35: identity.proxy.user must not be cookie, which has another meaning; name a header that only the proxy sets',
    ],
  ])('ends the start with %s', async (_what, yaml, message) => {
    expect(await errorOf(yaml)).toBe(`service.yaml:${message}`);
  });

  it('names all problems at once, in the order of the file, without values', async () => {
    const message = await errorOf('identity:\n  keys: [{ name: A, sha256: [slk_S3CRET] }]\n  anonymous: S3CRET\n');
    expect(message.split('; ').map((text) => text.replace(/^(\S+: \S+).*/, '$1'))).toEqual([
      'service.yaml:2:12: identity.keys[0].name',
      'service.yaml:2:30: identity.keys[0].sha256[0]',
      'service.yaml:3:3: identity.anonymous',
    ]);
    expect(message).not.toContain('S3CRET');
  });
});

describe('tokens', () => {
  const withMember = (member: string) => TOKENS.replace('name:', `${member}, name:`);
  const issuerOf = async (yaml: string) => (await configOf(yaml, PUBLIC_URL)).bootstrap.identity?.tokens[0];
  const { cert } = localhostCertificate;

  it('need the URL of the service, which is their audience', async () => {
    expect(await errorOf(TOKENS)).toBe(
      'SERVICE_PUBLIC_URL: must be set with identity.tokens: tokens name the URL of an endpoint as their audience; set it to the URL at which clients reach the MCP listener, such as https://agents.example.com',
    );
    expect(await issuerOf(TOKENS)).toMatchObject({ name: 'corp', issuer: 'https://id.example.com' });
  });

  it('read files by their paths, which are relative to the folder of the file', async () => {
    await mkdir(join(folder, 'etc'));
    await writeFile(join(folder, 'etc/keys.json'), `\ufeff${KEYS_FILE}`);
    await writeFile(join(folder, 'ca.pem'), cert);
    // As Kubernetes mounts files.
    await symlink(join(folder, 'ca.pem'), join(folder, 'etc/ca.pem'));
    const yaml = withMember('jwks_url: etc/keys.json, ca_file: ./etc/ca.pem');
    const read = { jwks_url: { name: 'keys.json', text: KEYS_FILE }, ca_file: { name: 'ca.pem', text: cert } };
    expect(await issuerOf(yaml)).toMatchObject(read);
    await rm(join(folder, 'service.yaml'));
    await writeFile(join(folder, 'etc/other.yaml'), withMember(`jwks_url: keys.json, ca_file: ${folder}/ca.pem`));
    const argv = ['--service-config', 'etc/other.yaml'];
    const invocation = await loadConfig(argv, { HOME: folder, ...PUBLIC_URL }, folder);
    expect(invocation).toMatchObject({ config: { bootstrap: { identity: { tokens: [read] } } } });
  });

  it.each(['https://id.example.com/keys', 'HTTP://127.0.0.1:9/keys'])('read no file for the URL %s', async (url) => {
    expect(await issuerOf(withMember(`jwks_url: "${url}"`))).toMatchObject({ jwks_url: url });
  });

  it('accept the content in place of a path', async () => {
    const file = { name: 'a', text: KEYS_FILE };
    expect(await issuerOf(withMember(`jwks_url: ${JSON.stringify(file)}`))).toMatchObject({ jwks_url: file });
  });

  const KEY_SET = 'expected an http or https URL, or the path of a file with a JSON Web Key Set';
  const PEM = 'expected the path of a file with certificates (PEM)';
  it.each<[string, string, string]>([
    ['a missing file', 'jwks_url: no.json', `jwks_url: "no.json" does not exist; ${KEY_SET}`],
    ['another scheme', 'jwks_url: "ftp://h/k"', `jwks_url: "ftp:/h/k" does not exist; ${KEY_SET}`],
    ['a file as a folder', 'ca_file: service.yaml/a', `ca_file: "service.yaml/a" does not exist; ${PEM}`],
    ['a folder', 'ca_file: etc', `ca_file: "etc" is not a regular file; ${PEM}`],
    ['a device', 'ca_file: /dev/zero', `ca_file: "/dev/zero" is not a regular file; ${PEM}`],
    ['a large file', 'jwks_url: large', `jwks_url: "large" has more than 1048576 bytes; ${KEY_SET}`],
    ['binary content', 'ca_file: binary', `ca_file: "binary" is not valid UTF-8; ${PEM}`],
  ])('end the start with %s', async (_what, member, message) => {
    await mkdir(join(folder, 'etc'));
    await writeFile(join(folder, 'large'), 'x'.repeat(1_048_577));
    await writeFile(join(folder, 'binary'), new Uint8Array([0x30, 0x82]));
    expect(await errorOf(withMember(member), PUBLIC_URL)).toBe(
      `service.yaml:1:24: identity.tokens[0].${message}, relative to the folder of this file`,
    );
  });

  it('end the start with all problems at once', async () => {
    const message = await errorOf(withMember('jwks_url: a, ca_file: b, algorithms: [none]'), PUBLIC_URL);
    expect(message.split('; service.yaml').map((text) => /identity\.\S*/.exec(text)?.[0])).toEqual([
      'identity.tokens[0].jwks_url:',
      'identity.tokens[0].ca_file:',
      'identity.tokens[0].algorithms[0]',
    ]);
  });
});

it('no management audience is the URL of an endpoint', async () => {
  const yaml = TOKENS.replace('name:', 'management_audiences: ["https://agents.example.com/hr/mcp"], name:');
  expect(await errorOf(yaml, PUBLIC_URL)).toBe(
    'identity.tokens: the management audience "https://agents.example.com/hr/mcp" is the URL of an endpoint: whoever gets a token for it could administer; name another one',
  );
  expect((await configOf(yaml, { SERVICE_PUBLIC_URL: 'https://other.example.com' })).warnings).toEqual([]);
});

describe('a warning with its position', () => {
  it.each([
    ['identity: { proxy: { trusted: [10.0.0.0/8, 0.0.0.0/0] } }', '1:44: identity.proxy.trusted[1] is every address'],
    [
      TOKENS.replace('name:', 'audiences: [{ value: a, for: ["*"] }], name:'),
      '1:48: identity.tokens[0].audiences[0].for is every namespace',
    ],
  ])('%s', async (yaml, warning) => {
    const { warnings } = await configOf(yaml, PUBLIC_URL);
    expect(warnings.map((text) => text.replaceAll(`${folder}/`, '').split(':', 4).join(':'))).toEqual([
      `service.yaml:${warning}`,
    ]);
  });
});

describe('headers that say who calls', () => {
  it.each([
    [PROXY, 'X-User'],
    [PROXY, 'x-sluice-authorization'],
    [PROXY, 'x-auth-request-user'],
    [PROXY, 'x_forwarded_user'],
    [KEYS, 'authorization'],
    [TOKENS, 'authorization'],
  ])('cannot be forwarded: %s with %s', async (yaml, name) => {
    expect(await errorOf(yaml, { ...PUBLIC_URL, SERVICE_FORWARD_HEADERS: `x-tenant, ${name}` })).toBe(
      `SERVICE_FORWARD_HEADERS: ${name.toLowerCase()} must not be forwarded to upstreams: with identity, this service reads it as a credential; remove it from the list`,
    );
  });

  it('do not include Authorization without keys, which an upstream may need', async () => {
    const { forwardHeaders } = await configOf(PROXY, { SERVICE_FORWARD_HEADERS: 'authorization' });
    expect(forwardHeaders).toEqual(['authorization']);
  });

  const forward = (headers: string) => `forwards:\n  - { name: a, address: "http://h/mcp", headers: ${headers} }\n`;
  const SECRET = `"$\{env:SERVICE_SECRET_A}"`;

  it('cannot be headers of forwards of the file', async () => {
    expect(await errorOf(`${forward(`{ X-Tenant: ${SECRET}, X-USER: ${SECRET} }`)}${PROXY}`)).toMatch(
      /^service\.yaml:2:\d+: forwards\[0\]\.headers\.X-USER names who calls and is never sent; remove the header$/,
    );
  });

  it('can be removed from a forward, and Authorization is its own credential', async () => {
    const { bootstrap } = await configOf(`${forward(`{ X-User: null, Authorization: ${SECRET} }`)}${KEYS}`);
    expect(bootstrap.forwards).toHaveLength(1);
  });

  it('are never there for conditions and routes of the pipeline, which is a warning', async () => {
    const pipeline = join(folder, 'p.yaml');
    const filters = [
      '- { filter: mcp, conditions: [{ unless: { headers: { X-User: probe, X-A: b } } }] }',
      '- { filter: router, routes: [{ path_prefix: /, headers: { x-forwarded-user: a }, cluster: k }] }',
      "- { filter: load_balancer, clusters: [{ name: k, endpoints: ['h:1'] }] }",
    ];
    await writeFile(pipeline, oneListener(filters.join('\n')));
    const argv = ['--pipeline-config', pipeline];
    const { warnings } = await configOf(PROXY, {}, argv);
    expect(warnings.map((warning) => warning.replace(/^.*p\.yaml:\d+:\d+: /, ''))).toEqual(
      ['X-User', 'x-forwarded-user'].map(
        (name) => `a condition or route requires ${name} and is never met: identity removes the header from requests`,
      ),
    );
    expect((await configOf('{}', {}, argv)).warnings).toEqual([]);
  });
});

describe('a filter that rewrites paths', () => {
  const REWRITE = '- { filter: path_rewrite, strip_prefix: /api }';
  const MCP = '- { filter: mcp }';
  const NAMESPACE = '- { filter: service_namespace }';
  const argvOf = async (...filters: string[]) => {
    const pipeline = join(folder, 'p.yaml');
    await writeFile(pipeline, oneListener(filters.join('\n')));
    return ['--pipeline-config', pipeline];
  };

  it('does not precede the one that takes the namespace from the path', async () => {
    const argv = await argvOf(MCP, REWRITE, NAMESPACE);
    expect(await errorOf(PROXY, {}, argv)).toMatch(
      /^--pipeline-config p\.yaml:\d+:\d+: path_rewrite must not precede service_namespace: with identity, requests are authenticated/,
    );
    await expect(configOf('{}', {}, argv)).resolves.toBeDefined();
  });

  it('does not precede the last one either', async () => {
    const first = '- { filter: service_namespace, conditions: [{ when: { path_prefix: /default/ } }] }';
    expect(await errorOf(PROXY, {}, await argvOf(MCP, first, REWRITE, NAMESPACE))).toContain('path_rewrite must not');
  });

  it('may follow it', async () => {
    await expect(configOf(PROXY, {}, await argvOf(MCP, NAMESPACE, REWRITE))).resolves.toBeDefined();
  });
});

describe('an example of the documentation starts the service', () => {
  const examples = ['configuration', 'identity'].flatMap((page) => {
    const text = readFileSync(new URL(`../../../../../docs/${page}.md`, import.meta.url), 'utf8');
    return [...text.matchAll(/```yaml\n(identity:\n[\s\S]*?)```/g)].map(([, yaml = '']) => [page, yaml] as const);
  });

  it('there are some', () => expect(examples.length).toBeGreaterThan(10));

  it.each(examples)('%s: %s', async (_page, yaml) => {
    await writeFile(join(folder, 'keys.json'), KEYS_FILE);
    const { bootstrap, warnings } = await configOf(yaml, PUBLIC_URL);
    expect([typeof bootstrap.identity, warnings]).toEqual(['object', []]);
  });
});
