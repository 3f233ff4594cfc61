import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { createNameChecker, type NameChecker } from './operations/named.ts';
import { productPorts } from './operations/product-names.ts';

// Names in the files for operators, against the settings, the command line and the metrics of the product.

const ROOT = join(import.meta.dirname, '..');
const PAGES = ['docs/operations.md', 'docs/deployment.md'];
const LOGIN = 'deploy/login/';

const deployed = (await readdir(join(ROOT, 'deploy'), { recursive: true, withFileTypes: true }))
  .filter((entry) => entry.isFile() && entry.name !== 'secrets.env')
  .map((entry) => join(entry.parentPath, entry.name).slice(ROOT.length + 1));
const texts = new Map(
  await Promise.all(
    [...deployed, ...PAGES].map(async (path) => [path, await readFile(join(ROOT, path), 'utf8')] as const),
  ),
);

/** Files that define variables which a file uses: those beside it, and the login, with which proxies are tested. */
function siblingsOf(path: string): string {
  const [, folder] = /^(deploy\/[^/]+\/)/.exec(path) ?? [];
  const isSibling = (name: string) =>
    name !== path && (name.startsWith(LOGIN) || (folder !== undefined && name.startsWith(folder)));
  return [...texts].flatMap(([name, text]) => (isSibling(name) ? [text] : [])).join('\n');
}

const longPort = z.object({ target: z.number(), host_ip: z.string().default('') });
const composeSchema = z.object({
  services: z.record(z.string(), z.looseObject({ ports: z.array(z.union([z.string(), longPort])).default([]) })),
});

/** The published ports of a Compose file, by those of the containers. */
function publishedPorts(text: string) {
  const { services } = composeSchema.parse(parse(text, { merge: true }));
  return Object.values(services).flatMap(({ ports }) =>
    ports.map((port) => {
      if (typeof port !== 'string') return { host: port.host_ip, port: port.target };
      const parts = port.split(':');
      return { host: parts.slice(0, -2).join(':'), port: Number(parts.at(-1)) };
    }),
  );
}

const { service: SERVICE } = await productPorts();

let checker: NameChecker;
beforeAll(async () => {
  checker = await createNameChecker();
});

describe('the variables, flags, ports and metrics', () => {
  it.each([...texts.keys()])('in %s exist', (path) => {
    // The settings of the proxies are compared with the proxies themselves, by test/login.slow.test.ts.
    const siblings = path.startsWith(LOGIN) ? `${texts.get(path)}\n${siblingsOf(path)}` : siblingsOf(path);
    expect(checker.unknown(path, texts.get(path) ?? '', siblings)).toEqual([]);
  });
});

describe('the ports of the service are published to this machine only', () => {
  it.each([...texts.keys()].filter((path) => /\/compose[^/]*\.ya?ml$/.test(path)))('by %s', (path) => {
    const text = texts.get(path) ?? '';
    expect(publishedPorts(text).filter(({ host }) => host !== '127.0.0.1')).toEqual([]);
    // Published ports bypass the login: a file that has one publishes the proxies instead.
    if (text.includes('oauth2-proxy')) expect(publishedPorts(text).filter(({ port }) => SERVICE.has(port))).toEqual([]);
  });

  it('which the test finds', () => {
    const text = 'services: { a: { ports: ["8080:8080", "127.0.0.1:8081:8081", { target: 8083, published: 1 }] } }';
    expect(publishedPorts(text)).toEqual([
      { host: '', port: 8080 },
      { host: '127.0.0.1', port: 8081 },
      { host: '', port: 8083 },
    ]);
  });
});

describe('an invented name is found:', () => {
  it.each([
    ['variable', 'x.env', 'SERVICE_MCP_ADDRESS=0.0.0.0:8081', 'SERVICE_MCP_ADDRESS'],
    ['variable of the command line', 'x.sh', 'export SLUICE_URL=http://sluice:8080', 'SLUICE_URL'],
    [
      'variable in a substitution',
      'x.yaml',
      'environment: { SERVICE_MAX_BODY: "$' + '{SIZE:-1}" }',
      'SERVICE_MAX_BODY',
    ],
    ['variable of the telemetry', 'x.yaml', '- name: OTEL_EXPORTER_OTLP_URL', 'OTEL_EXPORTER_OTLP_URL'],
    ['variable of a proxy', 'x.env', 'OAUTH2_PROXY_ALLOWED_ROLE=admin', 'OAUTH2_PROXY_ALLOWED_ROLE'],
    ['flag of a unit', 'x.service', 'ExecStart=/usr/bin/sluice serve --config /etc/x', '--config'],
    ['flag of an image', 'Dockerfile', 'CMD ["sluice", "serve", "--verbos", "8080"]', '--verbos'],
    ['flag of arguments', 'x.yaml', 'args: ["serve", "--no-console"]', '--no-console'],
    ['flag of another command', 'x.md', '    sluice backup x.tar.gz --mcp-url http://localhost:8081', '--mcp-url'],
    ['flag after a line break', 'x.sh', 'sluice doctor \\\n  --json', '--json'],
    ['port', 'x.yaml', 'containerPort: 8082', '8082'],
    ['port of an upstream', 'x.conf', 'server sluice:4180;', '4180'],
    ['published port', 'x.yaml', 'ports: ["127.0.0.1:8084:8080"]', '8084'],
    ['metric', 'x.yml', 'expr: sluice_forward_up == 0', 'sluice_forward_up'],
    ['label', 'x.json', '"legendFormat": "{{sluice_forward_name}}"', 'sluice_forward_name'],
    ['metric of the page', 'x.md', 'Watch `sluice.log.lost`.', 'sluice.log.lost'],
    [
      'metric of a unit',
      'x.yml',
      'rate(http_server_request_duration_milliseconds_count[5m])',
      'http_server_request_duration_milliseconds_count',
    ],
  ])('%s', (_kind, path, text, name) => {
    expect(checker.unknown(path, text).map((line) => line.replace(/^\d+: /, ''))).toEqual([name]);
  });

  it('names that exist are not', () => {
    const text = [
      'SERVICE_MCP_LISTEN=0.0.0.0:8081',
      'SERVICE_SECRET_CRM=x',
      'sluice serve --local --service-config x.yaml',
      'sluice --host http://localhost:8080 doctor --output json && curl --fail http://localhost:8080/healthz',
      'server sluice:8081;',
      'histogram_quantile(0.95, sum by (le, sluice_listener) (rate(http_server_request_duration_seconds_bucket[5m])))',
    ];
    expect(checker.unknown(join(dirname(PAGES[0] ?? ''), 'x.sh'), text.join('\n'))).toEqual([]);
  });
});
