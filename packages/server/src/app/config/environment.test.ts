import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../http/address.ts';
import { type Environment, parseEnvironment } from './environment.ts';

/** One variable: texts that are accepted with what they make of the environment, and texts refused with the complaint. */
interface Row {
  readonly variable: string;
  /** Variables that this one needs beside it. */
  readonly beside?: Readonly<Record<string, string>>;
  readonly read: (environment: Environment) => unknown;
  readonly unset: unknown;
  readonly accepted: readonly (readonly [text: string, value: unknown])[];
  readonly refused: readonly (readonly [text: string, problem: string])[];
}

const LISTEN_ACCEPTED = [
  ['127.0.0.1:9000', { host: '127.0.0.1', port: 9000 }],
  ['[::]:8080', { host: '::', port: 8080 }],
  ['[::1]:0', { host: '::1', port: 0 }],
  ['localhost:65535', { host: 'localhost', port: 65535 }],
  ['my_host-1.example:80', { host: 'my_host-1.example', port: 80 }],
] as const;
const LISTEN_REFUSED = [
  ['8080', 'is not valid'],
  ['localhost', 'has no port'],
  [':8080', 'has no host'],
  ['[]:8080', 'has no host'],
  ['::1:8080', 'has an IPv6 host without brackets'],
  ['::', 'has an IPv6 host without brackets'],
  ['[1.2.3.4]:8080', 'has a host that is not valid'],
  ['[::1', 'is not host:port'],
  ['1.2.3:8080', 'has a host that is not valid'],
  ['256.0.0.1:8080', 'has a host that is not valid'],
  ['-x:8080', 'has a host that is not valid'],
  ['a b:8080', 'has a host that is not valid'],
  ['localhost:', 'has a port that is not 0 to 65535'],
  ['localhost:65536', 'has a port that is not 0 to 65535'],
  ['localhost:-1', 'has a port that is not 0 to 65535'],
  ['localhost:http', 'has a port that is not 0 to 65535'],
  ['localhost:8080\r', 'has a port that is not 0 to 65535'],
  ['http://localhost:8080', 'has a port that is not 0 to 65535'],
] as const;
const URL_ACCEPTED = [
  ['http://backend:7000', 'http://backend:7000'],
  ['https://backend/base/', 'https://backend/base'],
  ['HTTPS://Backend/a//', 'HTTPS://Backend/a'],
  ['http://[::1]:7000', 'http://[::1]:7000'],
] as const;
const URL_REFUSED = [
  ['backend:7000', 'is not an http or https URL'],
  ['ftp://backend', 'is not an http or https URL'],
  ['http:/backend', 'is not an http or https URL'],
  ['http:///backend', 'is not an http or https URL'],
  ['http://back end', 'is not an http or https URL'],
  ['http://backend\\x', 'is not an http or https URL'],
  ['http://backend:99999', 'is not a valid URL'],
  ['http://backend?x=1', 'has a query or fragment'],
  ['http://backend/#', 'has a query or fragment'],
  ['http://user:hunter2@backend', 'carries credentials'],
] as const;
const integerRefused = (below: readonly [string, string][], above: [string, string]) =>
  [
    ['-1', 'is not a whole number'],
    ['1.5', 'is not a whole number'],
    ['1e3', 'is not a whole number'],
    ['0x10', 'is not a whole number'],
    [' 5', 'is not a whole number'],
    ['many', 'is not a whole number'],
    ...below,
    above,
  ] as const;
const TIMER_OVERRUN: [string, string] = ['2147483648', 'is above 2147483647'];

const HEX_KEY = '00112233445566778899aabbccddeeff'.repeat(2);
const KEY_BYTES = Buffer.from(HEX_KEY, 'hex');

const ROWS: readonly Row[] = [
  {
    variable: 'SERVICE_MGMT_LISTEN',
    read: (env) => env.mgmtListen,
    unset: { host: '0.0.0.0', port: 8080 },
    accepted: LISTEN_ACCEPTED,
    refused: LISTEN_REFUSED,
  },
  {
    variable: 'SERVICE_MCP_LISTEN',
    read: (env) => env.mcpListen,
    unset: undefined,
    accepted: LISTEN_ACCEPTED,
    refused: LISTEN_REFUSED,
  },
  {
    variable: 'SERVICE_INFERENCE_LISTEN',
    read: (env) => env.inferenceListen,
    unset: undefined,
    accepted: LISTEN_ACCEPTED,
    refused: LISTEN_REFUSED,
  },
  {
    variable: 'SERVICE_PERSIST_BACKEND',
    beside: { SERVICE_PERSIST_PATH: '/data' },
    read: (env) => env.persist,
    unset: { backend: 'file', path: '/data', recover: false },
    accepted: [
      ['file', { backend: 'file', path: '/data', recover: false }],
      ['none', { backend: 'none' }],
    ],
    refused: [
      ['postgres', 'is not known; accepted: "file" or "none"'],
      ['File', 'is not known'],
    ],
  },
  {
    variable: 'SERVICE_PERSIST_PATH',
    beside: { HOME: '/home/op' },
    read: (env) => env.persist,
    unset: { backend: 'file', path: '/home/op/.service/server', recover: false },
    accepted: [
      ['/data/registry', { backend: 'file', path: '/data/registry', recover: false }],
      ['data', { backend: 'file', path: 'data', recover: false }],
    ],
    refused: [],
  },
  {
    variable: 'SERVICE_PERSIST_RECOVER',
    beside: { SERVICE_PERSIST_PATH: '/data' },
    read: (env) => env.persist,
    unset: { backend: 'file', path: '/data', recover: false },
    accepted: [['rename', { backend: 'file', path: '/data', recover: true }]],
    refused: [['delete', 'is not known; accepted: "rename"']],
  },
  {
    variable: 'SERVICE_CLASSIC_URL',
    read: (env) => env.classicUrl,
    unset: undefined,
    accepted: URL_ACCEPTED,
    refused: URL_REFUSED,
  },
  {
    variable: 'SERVICE_UI_PATH',
    read: (env) => env.uiPath,
    unset: '/opt/service/admin',
    accepted: [['/srv/ui', '/srv/ui']],
    refused: [],
  },
  {
    variable: 'SERVICE_INFERENCE_UPSTREAM',
    read: (env) => env.inferenceUpstream,
    unset: undefined,
    accepted: [
      ['127.0.0.1:11434', { scheme: 'http', host: '127.0.0.1', port: 11434, path: '' }],
      ['[::1]:1', { scheme: 'http', host: '::1', port: 1, path: '' }],
      ['http://llm', { scheme: 'http', host: 'llm', port: 80, path: '' }],
      ['http://llm:1234/v1/', { scheme: 'http', host: 'llm', port: 1234, path: '/v1' }],
      ['https://LLM.example/a/b', { scheme: 'https', host: 'llm.example', port: 443, path: '/a/b' }],
      ['https://[::1]:8443/', { scheme: 'https', host: '::1', port: 8443, path: '' }],
    ],
    refused: [
      ['llm', 'has no port'],
      ['llm:11434/v1', 'has a port that is not 0 to 65535'],
      ['llm:0', 'has port 0'],
      ['http://llm:0', 'has port 0'],
      ['ftp://llm', 'is not an http or https URL'],
      ['http://llm?x', 'has a query or fragment'],
      ['http://key@llm', 'carries credentials'],
    ],
  },
  {
    variable: 'SERVICE_INTERACTION_CAPACITY',
    read: (env) => env.interactionCapacity,
    unset: 1000,
    accepted: [
      ['0', 0],
      ['1000000', 1_000_000],
    ],
    refused: integerRefused([], ['1000001', 'is above 1000000']),
  },
  {
    variable: 'SERVICE_AUTH_ISSUER',
    read: (env) => env.auth,
    unset: undefined,
    accepted: [
      [
        'https://id.example/realms/a/',
        { issuer: 'https://id.example/realms/a', upstreamIssuer: 'https://id.example/realms/a' },
      ],
    ],
    refused: URL_REFUSED,
  },
  {
    variable: 'SERVICE_AUTH_UPSTREAM_ISSUER',
    beside: { SERVICE_AUTH_ISSUER: 'https://id.example' },
    read: (env) => env.auth,
    unset: { issuer: 'https://id.example', upstreamIssuer: 'https://id.example' },
    accepted: [['http://id:8080/', { issuer: 'https://id.example', upstreamIssuer: 'http://id:8080' }]],
    refused: URL_REFUSED,
  },
  {
    variable: 'SERVICE_CORS_ORIGIN',
    read: (env) => env.corsOrigin,
    unset: undefined,
    accepted: [
      ['*', '*'],
      ['https://Console.example', 'https://console.example'],
      ['https://console.example:443', 'https://console.example'],
      ['http://localhost:3000', 'http://localhost:3000'],
      ['chrome-extension://abcdef', 'chrome-extension://abcdef'],
    ],
    refused: [
      ['https://a.example/', 'ends in a slash'],
      ['https://a.example/x', 'has a path'],
      ['https://a.example,https://b.example', 'names several origins'],
      ['a.example', 'is not an origin'],
      ['null', 'is not an origin'],
      ['**', 'is not an origin'],
      ['https://u:hunter2@a.example', 'carries credentials'],
    ],
  },
  {
    variable: 'SERVICE_FORWARD_HEADERS',
    read: (env) => env.forwardHeaders,
    unset: [],
    accepted: [
      ['Authorization', ['authorization']],
      [' X-Tenant , x-tenant,,X-Api-Key', ['x-tenant', 'x-api-key']],
      ['Host,X-A', ['x-a']],
    ],
    refused: [
      ['X-A:B', 'has "x-a:b", which is not a header name'],
      ['x a', 'has "x a", which is not a header name'],
      ['X-*', 'has "x-*", which is not a header name'],
    ],
  },
  {
    variable: 'SERVICE_FORWARD_HEALTHCHECK_INTERVAL',
    read: (env) => env.healthCheckIntervalMs,
    unset: 30_000,
    accepted: [
      ['0', 0],
      ['5', 5000],
    ],
    refused: integerRefused([], ['2147484', 'is above 2147483']),
  },
  {
    variable: 'SERVICE_UPSTREAM_IDLE_TIMEOUT_MS',
    read: (env) => env.upstreamIdleTimeoutMs,
    unset: 300_000,
    accepted: [['1', 1]],
    refused: integerRefused([['0', 'is below 1']], TIMER_OVERRUN),
  },
  {
    variable: 'SERVICE_UPSTREAM_MAX_TIMEOUT_MS',
    read: (env) => env.upstreamMaxTimeoutMs,
    unset: 3_600_000,
    accepted: [['2147483647', 2_147_483_647]],
    refused: integerRefused([['0', 'is below 1']], TIMER_OVERRUN),
  },
  {
    variable: 'SERVICE_PARKED_CALLS_LIMIT',
    read: (env) => env.parkedCallsLimit,
    unset: 1000,
    accepted: [
      ['0', 0],
      ['1000000', 1_000_000],
    ],
    refused: integerRefused([], ['1000001', 'is above 1000000']),
  },
  {
    variable: 'SERVICE_PARKED_CALL_TIMEOUT_MS',
    read: (env) => env.parkedCallTimeoutMs,
    unset: 300_000,
    accepted: [['1', 1]],
    refused: integerRefused([['0', 'is below 1']], TIMER_OVERRUN),
  },
  {
    variable: 'SERVICE_SESSION_KEY',
    read: (env) => env.sessionKey,
    unset: undefined,
    accepted: [
      [HEX_KEY, KEY_BYTES],
      [HEX_KEY.toUpperCase(), KEY_BYTES],
      [KEY_BYTES.toString('base64'), KEY_BYTES],
      [KEY_BYTES.toString('base64url'), KEY_BYTES],
    ],
    refused: [
      ['hunter2', 'the value is not a key of 32 bytes (it has 7 characters)'],
      [HEX_KEY.slice(2), 'is not a key of 32 bytes'],
      [`${HEX_KEY}00`, 'is not a key of 32 bytes'],
      [Buffer.alloc(31).toString('base64'), 'is not a key of 32 bytes'],
      [Buffer.alloc(33).toString('base64'), 'is not a key of 32 bytes'],
      [`${KEY_BYTES.toString('base64')}\n`, 'is not a key of 32 bytes'],
    ],
  },
  {
    variable: 'SERVICE_ALLOWED_HOSTS',
    read: (env) => env.allowedHosts,
    unset: undefined,
    accepted: [
      ['Gateway.example', ['gateway.example']],
      ['a.example:8443, [::1] ,[::1]:80,a.example:8443', ['a.example:8443', '[::1]', '[::1]:80']],
    ],
    refused: [
      [',', 'names no host'],
      ['http://a.example', 'has a port that is not 0 to 65535'],
      ['*.example', 'has a host that is not valid'],
      ['::1', 'has an IPv6 host without brackets'],
    ],
  },
  {
    variable: 'SERVICE_ACTIONS_PATH',
    read: (env) => env.actionsPath,
    unset: undefined,
    accepted: [['/srv/actions', '/srv/actions']],
    refused: [],
  },
  {
    variable: 'SERVICE_BRIDGE_GRPC_TIMEOUT_MS',
    read: (env) => env.bridgeGrpc.timeoutMs,
    unset: undefined,
    accepted: [['250', 250]],
    refused: integerRefused([['0', 'is below 1']], TIMER_OVERRUN),
  },
  {
    variable: 'SERVICE_BRIDGE_GRPC_MAX_RETRIES',
    read: (env) => env.bridgeGrpc.maxRetries,
    unset: undefined,
    accepted: [['0', 0]],
    refused: integerRefused([], ['101', 'is above 100']),
  },
  {
    variable: 'SERVICE_BRIDGE_GRPC_RETRY_DELAY_MS',
    read: (env) => env.bridgeGrpc.retryDelayMs,
    unset: undefined,
    accepted: [['0', 0]],
    refused: integerRefused([], TIMER_OVERRUN),
  },
  {
    variable: 'RUST_LOG',
    read: (env) => [env.logFilter['service::mcp'], env.logFilter['service::forward']],
    unset: ['info', 'info'],
    accepted: [
      ['debug', ['debug', 'debug']],
      ['warn,service::mcp=trace', ['trace', 'warn']],
    ],
    refused: [
      ['service::mcp=loud', 'has no valid level in "service::mcp=loud"'],
      ['=debug', 'has no valid target in "=debug"'],
    ],
  },
];

function complaint(env: NodeJS.ProcessEnv): string {
  try {
    parseEnvironment(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return 'accepted';
}

describe.each(ROWS)('$variable', ({ variable, beside, read, unset, accepted, refused }) => {
  it('has its default when unset and when empty', () => {
    expect(read(parseEnvironment({ ...beside }))).toEqual(unset);
    expect(read(parseEnvironment({ ...beside, [variable]: '' }))).toEqual(unset);
  });

  it.each(accepted)('accepts %j', (text, value) => {
    expect(read(parseEnvironment({ ...beside, [variable]: text }))).toEqual(value);
  });

  it.each(refused)('refuses %j in one line that names the variable and what is accepted', (text, problem) => {
    const message = complaint({ ...beside, [variable]: text });
    expect(message).toContain(problem);
    expect(message).toMatch(new RegExp(`^${variable}: .+; accepted: .+$`));
    expect(message).not.toContain('\r');
    expect(message).not.toContain('hunter2');
  });
});

describe('parseEnvironment', () => {
  it('has a row above for every variable that it reads', () => {
    const asked = new Set<string>();
    const env = new Proxy<NodeJS.ProcessEnv>({}, { get: (_, name) => void asked.add(String(name)) });
    parseEnvironment(env);
    asked.delete('HOME');
    expect([...asked].sort()).toEqual(ROWS.map((row) => row.variable).sort());
  });

  it('keeps the registry under the working directory when there is no home', () => {
    const inWorkingDirectory = { backend: 'file', path: '.service/server', recover: false };
    expect(parseEnvironment({}).persist).toEqual(inWorkingDirectory);
    expect(parseEnvironment({ HOME: '' }).persist).toEqual(inWorkingDirectory);
  });

  it('refuses an upstream issuer without the issuer that it stands in for', () => {
    expect(complaint({ SERVICE_AUTH_UPSTREAM_ISSUER: 'http://id' })).toMatch(
      /^SERVICE_AUTH_UPSTREAM_ISSUER: .*SERVICE_AUTH_ISSUER/,
    );
  });

  it('refuses a malformed variable also where another one makes it idle', () => {
    expect(complaint({ SERVICE_PERSIST_BACKEND: 'none', SERVICE_PERSIST_RECOVER: 'x' })).toContain(
      'SERVICE_PERSIST_RECOVER',
    );
  });

  it('ignores variables that it does not know', () => {
    const environment = parseEnvironment({ SERVICE_MGMT_LISTENER: 'nonsense', PORT: 'x' });
    expect(environment).toEqual(parseEnvironment({}));
    expect(environment.warnings).toEqual([]);
  });

  it('drops each header that is never copied, with a warning naming variable and header', () => {
    const denied = [
      'Accept',
      'Mcp-Session-Id',
      'Mcp-Param-Region',
      'Last-Event-ID',
      'Host',
      'Content-Type',
      'Content-Length',
      'X-Service-Hops',
      'Connection',
      'Keep-Alive',
      'Proxy-Authenticate',
      'Proxy-Authorization',
      'Proxy-Connection',
      'TE',
      'Trailer',
      'Transfer-Encoding',
      'Upgrade',
    ];
    const environment = parseEnvironment({ SERVICE_FORWARD_HEADERS: ['X-Kept', ...denied].join(',') });
    expect(environment.forwardHeaders).toEqual(['x-kept']);
    expect(environment.warnings).toHaveLength(denied.length);
    denied.forEach((name, index) => {
      expect(environment.warnings[index]).toContain(`SERVICE_FORWARD_HEADERS: header "${name.toLowerCase()}"`);
    });
  });

  it('passes the warnings of RUST_LOG on under its name', () => {
    const { warnings } = parseEnvironment({ RUST_LOG: 'info,[request]=debug' });
    expect(warnings).toEqual([expect.stringMatching(/^RUST_LOG: span filter "\[request\]=debug" is ignored/)]);
  });

  it('cuts an endless value in its message', () => {
    expect(complaint({ SERVICE_CLASSIC_URL: 'x'.repeat(10_000) }).length).toBeLessThan(300);
  });
});
