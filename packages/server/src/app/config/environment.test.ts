import { describe, expect, it } from 'vitest';
import { ConfigError } from '../../http/settings.ts';
import { type Environment, parseEnvironment } from './environment.ts';

/** Cases of one variable: accepted texts with the parsed value, rejected texts with the error. */
interface Row {
  readonly variable: string;
  /** Other variables that this one requires. */
  readonly beside?: Readonly<Record<string, string>>;
  readonly read: (environment: Environment) => unknown;
  readonly unset: unknown;
  readonly accepted: readonly (readonly [text: string, value: unknown])[];
  readonly rejected: readonly (readonly [text: string, problem: string])[];
}

const SHARED = {
  SERVICE_PERSIST_BACKEND: 'postgres',
  SERVICE_POSTGRES_URL: 'postgres://app@db/sluice',
  SERVICE_SESSION_KEY: '5c'.repeat(32),
};
const LISTEN_ACCEPTED = [
  ['127.0.0.1:9000', { host: '127.0.0.1', port: 9000 }],
  ['[::]:8080', { host: '::', port: 8080 }],
  ['[::1]:0', { host: '::1', port: 0 }],
  ['localhost:65535', { host: 'localhost', port: 65535 }],
  ['my_host-1.example:80', { host: 'my_host-1.example', port: 80 }],
] as const;
const LISTEN_REJECTED = [
  ['8080', 'has an invalid host'],
  ['localhost', 'has no port'],
  [':8080', 'has no host'],
  ['[]:8080', 'has no host'],
  ['::1:8080', 'has an IPv6 host without brackets'],
  ['::', 'has an IPv6 host without brackets'],
  ['[1.2.3.4]:8080', 'has an invalid host'],
  ['[::1', 'is not host:port'],
  ['1.2.3:8080', 'has an invalid host'],
  ['256.0.0.1:8080', 'has an invalid host'],
  ['-x:8080', 'has an invalid host'],
  ['a b:8080', 'has an invalid host'],
  ['localhost:', 'has an invalid port: must be 0–65535'],
  ['localhost:65536', 'has an invalid port: must be 0–65535'],
  ['localhost:-1', 'has an invalid port: must be 0–65535'],
  ['localhost:http', 'has an invalid port: must be 0–65535'],
  ['localhost:8080\r', 'has an invalid port: must be 0–65535'],
  ['http://localhost:8080', 'has an invalid port: must be 0–65535'],
] as const;
const URL_ACCEPTED = [
  ['http://backend:7000', 'http://backend:7000'],
  ['https://backend/base/', 'https://backend/base'],
  ['HTTPS://Backend/a//', 'HTTPS://Backend/a'],
  ['http://[::1]:7000', 'http://[::1]:7000'],
] as const;
const URL_REJECTED = [
  ['backend:7000', 'is not an http or https URL'],
  ['ftp://backend', 'is not an http or https URL'],
  ['http:/backend', 'is not an http or https URL'],
  ['http:///backend', 'is not an http or https URL'],
  ['http://back end', 'is not an http or https URL'],
  ['http://backend\\x', 'is not an http or https URL'],
  ['http://backend:99999', 'is not a valid URL'],
  ['http://backend?x=1', 'contains a query or fragment'],
  ['http://backend/#', 'contains a query or fragment'],
  ['http://user:hunter2@backend', 'contains credentials'],
] as const;
const rejectedIntegers = (below: readonly [string, string][], above: [string, string]) =>
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
    rejected: LISTEN_REJECTED,
  },
  {
    variable: 'SERVICE_MCP_LISTEN',
    read: (env) => env.mcpListen,
    unset: undefined,
    accepted: LISTEN_ACCEPTED,
    rejected: LISTEN_REJECTED,
  },
  {
    variable: 'SERVICE_INFERENCE_LISTEN',
    read: (env) => env.inferenceListen,
    unset: undefined,
    accepted: LISTEN_ACCEPTED,
    rejected: LISTEN_REJECTED,
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
    rejected: [
      ['sqlite', 'is not supported; expected "file" or "none" or "postgres"'],
      ['File', 'is not supported'],
    ],
  },
  {
    variable: 'SERVICE_POSTGRES_URL',
    beside: { SERVICE_PERSIST_BACKEND: 'none' },
    read: (env) => env.persist,
    unset: { backend: 'none' },
    accepted: [['postgresql://app@db/x?sslmode=verify-full', { backend: 'none' }]],
    rejected: [
      ['hunter2', 'the value is not a postgres:// URL'],
      ['mysql://app:hunter2@db/x', 'the value is not a postgres:// URL'],
    ],
  },
  {
    variable: 'SERVICE_POSTGRES_LISTEN_URL',
    beside: SHARED,
    read: (env) => env.persist.backend === 'postgres' && env.persist.database.listenUrl,
    unset: undefined,
    accepted: [['postgres://app@direct/x', 'postgres://app@direct/x']],
    rejected: [['direct', 'the value is not a postgres:// URL']],
  },
  {
    variable: 'SERVICE_POSTGRES_PASSWORD_FILE',
    beside: SHARED,
    read: (env) => env.persist.backend === 'postgres' && env.persist.database.passwordFile,
    unset: undefined,
    accepted: [['/run/secrets/postgres', '/run/secrets/postgres']],
    rejected: [],
  },
  {
    variable: 'SERVICE_PROCESSES',
    beside: SHARED,
    read: (env) => env.processes,
    unset: 1,
    accepted: [['4', 4]],
    rejected: [['0', 'is below 1']],
  },
  {
    variable: 'SERVICE_PROCESS',
    read: (env) => env.sharesPorts,
    unset: false,
    accepted: [['2', true]],
    rejected: [['x', 'is not a whole number']],
  },
  {
    variable: 'SERVICE_PEER_LISTEN',
    read: (env) => env.peerListen,
    unset: undefined,
    accepted: LISTEN_ACCEPTED,
    rejected: LISTEN_REJECTED,
  },
  {
    variable: 'SERVICE_PEER_ADVERTISE',
    read: (env) => env.peerAdvertise,
    unset: undefined,
    accepted: LISTEN_ACCEPTED,
    rejected: LISTEN_REJECTED,
  },
  {
    variable: 'SERVICE_REPLICA_MAX_STALENESS',
    read: (env) => env.maxStalenessMs,
    unset: Number.POSITIVE_INFINITY,
    accepted: [
      ['0', 0],
      ['60', 60_000],
    ],
    rejected: [['-1', 'is not a whole number']],
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
    rejected: [],
  },
  {
    variable: 'SERVICE_PERSIST_RECOVER',
    beside: { SERVICE_PERSIST_PATH: '/data' },
    read: (env) => env.persist,
    unset: { backend: 'file', path: '/data', recover: false },
    accepted: [['rename', { backend: 'file', path: '/data', recover: true }]],
    rejected: [['delete', 'is not supported; expected "rename"']],
  },
  {
    variable: 'SERVICE_CLASSIC_URL',
    read: (env) => env.classicUrl,
    unset: undefined,
    accepted: URL_ACCEPTED,
    rejected: URL_REJECTED,
  },
  {
    variable: 'SERVICE_PUBLIC_URL',
    read: (env) => env.publicUrl,
    unset: undefined,
    accepted: [
      ['https://h', { href: 'https://h', origin: 'https://h', host: 'h', prefix: '' }],
      [
        'https://H.example/gw/',
        { href: 'https://h.example/gw', origin: 'https://h.example', host: 'h.example', prefix: '/gw' },
      ],
      [
        'http://[::1]:8081/a/b',
        { href: 'http://[::1]:8081/a/b', origin: 'http://[::1]:8081', host: '[::1]', prefix: '/a/b' },
      ],
    ],
    rejected: URL_REJECTED,
  },
  {
    variable: 'SERVICE_CONSOLE_URL',
    read: (env) => env.consoleUrl,
    unset: undefined,
    accepted: [
      ['https://h:8443/gw', { href: 'https://h:8443/gw', origin: 'https://h:8443', host: 'h', prefix: '/gw' }],
      ['https://h/gw/admin-x', { href: 'https://h/gw/admin-x', origin: 'https://h', host: 'h', prefix: '/gw/admin-x' }],
    ],
    rejected: URL_REJECTED,
  },
  {
    variable: 'SERVICE_UI_PATH',
    read: (env) => env.uiPath,
    unset: undefined,
    accepted: [
      ['/srv/ui', '/srv/ui'],
      ['none', 'none'],
    ],
    rejected: [],
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
    rejected: [
      ['llm', 'has no port'],
      ['llm:11434/v1', 'has an invalid port: must be 0–65535'],
      ['llm:0', 'has an invalid port: must be 1–65535'],
      ['http://llm:0', 'has an invalid port: must be 1–65535'],
      ['ftp://llm', 'is not an http or https URL'],
      ['http://llm?x', 'contains a query or fragment'],
      ['http://key@llm', 'contains credentials'],
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
    rejected: rejectedIntegers([], ['1000001', 'is above 1000000']),
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
    rejected: URL_REJECTED,
  },
  {
    variable: 'SERVICE_AUTH_UPSTREAM_ISSUER',
    beside: { SERVICE_AUTH_ISSUER: 'https://id.example' },
    read: (env) => env.auth,
    unset: { issuer: 'https://id.example', upstreamIssuer: 'https://id.example' },
    accepted: [['http://id:8080/', { issuer: 'https://id.example', upstreamIssuer: 'http://id:8080' }]],
    rejected: URL_REJECTED,
  },
  {
    variable: 'SERVICE_AUTH_REGISTRATION',
    beside: { SERVICE_AUTH_ISSUER: 'https://id.example' },
    read: (env) => env.auth?.forwardsRegistration ?? false,
    unset: false,
    accepted: [
      ['redirect', false],
      ['forward', true],
    ],
    rejected: [
      ['proxy', 'redirect'],
      ['FORWARD', 'redirect'],
    ],
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
    rejected: [
      ['https://a.example/', 'ends with a slash'],
      ['https://a.example/x', 'has a path'],
      ['https://a.example,https://b.example', 'contains several origins'],
      ['a.example', 'is not an origin'],
      ['null', 'is not an origin'],
      ['**', 'is not an origin'],
      ['https://u:hunter2@a.example', 'contains credentials'],
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
    rejected: [
      ['X-A:B', 'contains the invalid header name "x-a:b"'],
      ['x a', 'contains the invalid header name "x a"'],
      ['X-*', 'contains the invalid header name "x-*"'],
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
    rejected: rejectedIntegers([], ['2147484', 'is above 2147483']),
  },
  {
    variable: 'SERVICE_UPSTREAM_IDLE_TIMEOUT_MS',
    read: (env) => env.upstreamIdleTimeoutMs,
    unset: 300_000,
    accepted: [['1', 1]],
    rejected: rejectedIntegers([['0', 'is below 1']], TIMER_OVERRUN),
  },
  {
    variable: 'SERVICE_UPSTREAM_MAX_TIMEOUT_MS',
    read: (env) => env.upstreamMaxTimeoutMs,
    unset: 3_600_000,
    accepted: [['2147483647', 2_147_483_647]],
    rejected: rejectedIntegers([['0', 'is below 1']], TIMER_OVERRUN),
  },
  {
    variable: 'SERVICE_MAX_JSON_DEPTH',
    read: (env) => env.messageLimits.depth,
    unset: 128,
    accepted: [['2000', 2000]],
    rejected: rejectedIntegers([['7', 'is below 8']], ['2001', 'is above 2000']),
  },
  {
    variable: 'SERVICE_MAX_JSON_MEMBERS',
    read: (env) => env.messageLimits.members,
    unset: 10_000,
    accepted: [['16', 16]],
    rejected: rejectedIntegers([['15', 'is below 16']], ['1000001', 'is above 1000000']),
  },
  {
    variable: 'SERVICE_MAX_CAPABILITIES_BYTES',
    read: (env) => env.messageLimits.capabilitiesBytes,
    unset: 65_536,
    accepted: [['4194304', 4_194_304]],
    rejected: rejectedIntegers([['63', 'is below 64']], ['4194305', 'is above 4194304']),
  },
  {
    variable: 'SERVICE_SUSPENDED_CALLS_LIMIT',
    read: (env) => env.suspendedCallsLimit,
    unset: 1000,
    accepted: [
      ['0', 0],
      ['1000000', 1_000_000],
    ],
    rejected: rejectedIntegers([], ['1000001', 'is above 1000000']),
  },
  {
    variable: 'SERVICE_SUSPENDED_CALL_TIMEOUT_MS',
    read: (env) => env.suspendedCallTimeoutMs,
    unset: 300_000,
    accepted: [['1', 1]],
    rejected: rejectedIntegers([['0', 'is below 1']], TIMER_OVERRUN),
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
    rejected: [
      ['hunter2', 'the value is not a 32-byte key (got 7 characters)'],
      [HEX_KEY.slice(2), 'is not a 32-byte key'],
      [`${HEX_KEY}00`, 'is not a 32-byte key'],
      [Buffer.alloc(31).toString('base64'), 'is not a 32-byte key'],
      [Buffer.alloc(33).toString('base64'), 'is not a 32-byte key'],
      [`${KEY_BYTES.toString('base64')}\n`, 'is not a 32-byte key'],
    ],
  },
  {
    variable: 'SERVICE_INFERENCE_ALLOW',
    read: (env) => env.inferenceAllow?.map(({ method, segments }) => `${method} ${segments.join('/')}`).slice(0, 2),
    unset: undefined,
    accepted: [
      ['*', undefined],
      ['completions', ['POST /v1/chat/completions', 'POST /v1/completions']],
      ['GET  /x/*, HEAD /', ['GET /x/*', 'HEAD /']],
    ],
    rejected: [
      [',', 'contains no request'],
      ['chat', 'has "chat", which is not a method in capital letters and a path'],
      ['get /v1', 'which is not a method'],
      ['GET v1', 'which is not a method'],
      ['GET /a/../b', 'whose path no request may have'],
      ['GET /a%20b', 'whose path no request may have'],
      ['GET /a?b', 'whose path no request may have'],
    ],
  },
  {
    variable: 'SERVICE_MAX_LOG_BYTES',
    read: (env) => env.maxLogBytes,
    unset: 64 * 1024 * 1024,
    accepted: [['1048576', 1_048_576]],
    rejected: [
      ['1048575', 'is below 1048576'],
      ['64 MiB', 'is not a whole number'],
    ],
  },
  {
    variable: 'SERVICE_MAX_BODIES_BYTES',
    read: (env) => env.maxBodiesBytes,
    unset: 256 * 1024 * 1024,
    accepted: [['1048576', 1_048_576]],
    rejected: [
      ['1048575', 'is below 1048576'],
      ['1 GiB', 'is not a whole number'],
    ],
  },
  {
    variable: 'SERVICE_MAX_RESUMABLE_BYTES',
    read: (env) => env.maxResumableBytes,
    unset: 64 * 1024 * 1024,
    accepted: [['1048576', 1_048_576]],
    rejected: [['1048575', 'is below 1048576']],
  },
  {
    variable: 'SERVICE_MAX_CATALOG_ENTRIES',
    read: (env) => env.catalogLimits.entries,
    unset: 100_000,
    accepted: [['1', 1]],
    rejected: [
      ['0', 'is below 1'],
      ['10000001', 'is above 10000000'],
    ],
  },
  {
    variable: 'SERVICE_MAX_CATALOG_BYTES',
    read: (env) => env.catalogLimits.bytes,
    unset: 64 * 1024 * 1024,
    accepted: [['1024', 1024]],
    rejected: [
      ['1023', 'is below 1024'],
      ['1 MiB', 'is not a whole number'],
    ],
  },
  {
    variable: 'SERVICE_CLIENT_DISCOVERIES',
    read: (env) => env.clientDiscoveryLimits.concurrent,
    unset: 4,
    accepted: [['1', 1]],
    rejected: [['0', 'is below 1']],
  },
  {
    variable: 'SERVICE_CLIENT_DISCOVERIES_PER_MINUTE',
    read: (env) => env.clientDiscoveryLimits.perMinute,
    unset: 30,
    accepted: [['1', 1]],
    rejected: [['0', 'is below 1']],
  },
  {
    variable: 'SERVICE_DISCOVERY_WAIT_MS',
    read: (env) => env.discoveryWaitMs,
    unset: 5_000,
    accepted: [
      ['0', 0],
      ['60000', 60_000],
    ],
    rejected: [['60001', 'is above 60000']],
  },
  {
    variable: 'SERVICE_MAX_SUBSCRIPTIONS',
    read: (env) => env.subscriptionLimits.count,
    unset: 10_000,
    accepted: [['0', 0]],
    rejected: [['-1', 'is not a whole number']],
  },
  {
    variable: 'SERVICE_MAX_SUBSCRIPTION_BYTES',
    read: (env) => env.subscriptionLimits.bytes,
    unset: 64 * 1024 * 1024,
    accepted: [['1024', 1024]],
    rejected: [['1023', 'is below 1024']],
  },
  {
    variable: 'SERVICE_TASKS_FOR_PLAIN_CLIENTS',
    read: (env) => env.tasksForPlainClients,
    unset: true,
    accepted: [
      ['1', true],
      ['0', false],
    ],
    rejected: [['off', 'is not supported']],
  },
  {
    variable: 'SERVICE_TASK_AUTO_AFTER_MS',
    read: (env) => env.taskAutoAfterMs,
    unset: 10_000,
    accepted: [['250', 250]],
    rejected: [['0', 'is below 1']],
  },
  {
    variable: 'SERVICE_MAX_TASK_RESULT_BYTES',
    read: (env) => env.maxTaskResultBytes,
    unset: 67_108_864,
    accepted: [['1048576', 1_048_576]],
    rejected: [['1048575', 'is below 1048576']],
  },
  {
    variable: 'SERVICE_MAX_TASKS',
    read: (env) => env.taskLimits.total,
    unset: 100_000,
    accepted: [['1', 1]],
    rejected: [['0', 'is below 1']],
  },
  {
    variable: 'SERVICE_MAX_TASKS_PER_USER',
    read: (env) => env.taskLimits.perUser,
    unset: 1_000,
    accepted: [['1', 1]],
    rejected: [['0', 'is below 1']],
  },
  {
    variable: 'SERVICE_MAX_ENDED_SESSIONS',
    read: (env) => env.maxEndedSessions,
    unset: 100_000,
    accepted: [['1', 1]],
    rejected: [['0', 'is below 1']],
  },
  {
    variable: 'SERVICE_LOCAL',
    read: ({ local, mgmtListen }) => [local, mgmtListen.host],
    unset: [false, '0.0.0.0'],
    accepted: [
      ['0', [false, '0.0.0.0']],
      ['1', [true, '127.0.0.1']],
    ],
    rejected: [['true', 'is not supported']],
  },
  {
    variable: 'SERVICE_ALLOWED_HOSTS',
    read: (env) => env.allowedHosts,
    unset: undefined,
    accepted: [
      ['Gateway.example', ['gateway.example']],
      ['*', ['*']],
      ['a.example:8443, [::1] ,[::1]:80,a.example:8443', ['a.example:8443', '[::1]', '[::1]:80']],
    ],
    rejected: [
      [',', 'contains no host'],
      ['http://a.example', 'has an invalid port: must be 0–65535'],
      ['*.example', 'has an invalid host'],
      ['::1', 'has an IPv6 host without brackets'],
    ],
  },
  {
    variable: 'SERVICE_EVALUATORS_STRICT',
    read: (env) => env.evaluatorsStrict,
    unset: false,
    accepted: [
      ['1', true],
      ['0', false],
    ],
    rejected: [['true', 'is not supported; expected "0" or "1"']],
  },
  {
    variable: 'SERVICE_ACTIONS_PATH',
    read: (env) => env.actionsPath,
    unset: undefined,
    accepted: [['/srv/actions', '/srv/actions']],
    rejected: [],
  },
  {
    variable: 'SERVICE_SECRETS_PATH',
    read: (env) => env.secretsPath,
    unset: undefined,
    accepted: [['/run/secrets', '/run/secrets']],
    rejected: [],
  },
  {
    variable: 'SERVICE_SECRET_ORIGINS',
    read: (env) => env.secretOrigins,
    unset: new Map(),
    accepted: [
      [
        'SERVICE_SECRET_A=https://a.example, token=http://b:8000/,SERVICE_SECRET_A=https://A.example:8443',
        new Map([
          ['SERVICE_SECRET_A', new Set(['https://a.example', 'https://a.example:8443'])],
          ['token', new Set(['http://b:8000'])],
        ]),
      ],
    ],
    rejected: [
      ['=https://a', 'has no name in "=https://a"'],
      ['https://a', 'has no name in "https://a"'],
      ['A=a.example', 'has no http or https origin in "A=a.example"'],
      ['A=https://a/path', 'has no http or https origin'],
      ['A=ftp://a', 'has no http or https origin'],
    ],
  },
  {
    variable: 'SERVICE_BRIDGE_GRPC_TIMEOUT_MS',
    read: (env) => env.bridgeGrpc.timeoutMs,
    unset: undefined,
    accepted: [['250', 250]],
    rejected: rejectedIntegers([['0', 'is below 1']], TIMER_OVERRUN),
  },
  {
    variable: 'SERVICE_BRIDGE_GRPC_MAX_RETRIES',
    read: (env) => env.bridgeGrpc.maxRetries,
    unset: undefined,
    accepted: [['0', 0]],
    rejected: rejectedIntegers([], ['101', 'is above 100']),
  },
  {
    variable: 'SERVICE_BRIDGE_GRPC_RETRY_DELAY_MS',
    read: (env) => env.bridgeGrpc.retryDelayMs,
    unset: undefined,
    accepted: [['0', 0]],
    rejected: rejectedIntegers([], TIMER_OVERRUN),
  },
  {
    variable: 'SERVICE_LOG_FORMAT',
    read: (env) => env.logFormat,
    unset: undefined,
    accepted: [
      ['text', 'text'],
      ['json', 'json'],
    ],
    rejected: [['logfmt', 'is not supported']],
  },
  {
    variable: 'RUST_LOG',
    read: (env) => [env.logFilter['service::mcp'], env.logFilter['service::forward']],
    unset: ['info', 'info'],
    accepted: [
      ['debug', ['debug', 'debug']],
      ['warn,service::mcp=trace', ['trace', 'warn']],
      ['service::mcp=trace', ['trace', 'off']],
      ['service::forward', ['off', 'trace']],
      ['service=warn', ['warn', 'warn']],
      ['[request]=debug', ['info', 'info']],
    ],
    rejected: [
      ['service::mcp=loud', 'has an invalid level in "service::mcp=loud"'],
      ['=debug', 'has an invalid target in "=debug"'],
    ],
  },
];

function errorOf(env: NodeJS.ProcessEnv): string {
  try {
    parseEnvironment(env);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return 'accepted';
}

describe.each(ROWS)('$variable', ({ variable, beside, read, unset, accepted, rejected }) => {
  it('has its default if unset or empty', () => {
    expect(read(parseEnvironment({ ...beside }))).toEqual(unset);
    expect(read(parseEnvironment({ ...beside, [variable]: '' }))).toEqual(unset);
  });

  it.each(accepted)('accepts %j', (text, value) => {
    expect(read(parseEnvironment({ ...beside, [variable]: text }))).toEqual(value);
  });

  it.each(rejected)(
    'rejects %j with a one-line error that names the variable and the expected value',
    (text, problem) => {
      const message = errorOf({ ...beside, [variable]: text });
      expect(message).toContain(problem);
      expect(message).toMatch(new RegExp(`^${variable}: .+; expected .+$`));
      expect(message).not.toContain('\r');
      expect(message).not.toContain('hunter2');
    },
  );
});

describe('parseEnvironment', () => {
  it('reads exactly the variables tested above', () => {
    const read = new Set<string>();
    const env = new Proxy<NodeJS.ProcessEnv>({}, { get: (_, name) => void read.add(String(name)) });
    parseEnvironment(env);
    read.delete('HOME');
    expect([...read].sort()).toEqual(ROWS.map((row) => row.variable).sort());
  });

  it('stores the registry below the working directory without HOME', () => {
    const inWorkingDirectory = { backend: 'file', path: '.service/server', recover: false };
    expect(parseEnvironment({}).persist).toEqual(inWorkingDirectory);
    expect(parseEnvironment({ HOME: '' }).persist).toEqual(inWorkingDirectory);
  });

  it.each(['/admin', '/admin/', '/api/v1', '/healthz'])('rejects a console URL with the own path %s', (path) => {
    expect(errorOf({ SERVICE_CONSOLE_URL: `https://h${path}` })).toMatch(
      /^SERVICE_CONSOLE_URL: its path begins with \//,
    );
  });

  it('rejects an upstream issuer without an issuer', () => {
    expect(errorOf({ SERVICE_AUTH_UPSTREAM_ISSUER: 'http://id' })).toMatch(
      /^SERVICE_AUTH_UPSTREAM_ISSUER: .*SERVICE_AUTH_ISSUER/,
    );
  });

  it('requires the URL of the database, and a session key that replicas share', () => {
    const database = { url: SHARED.SERVICE_POSTGRES_URL, listenUrl: undefined, passwordFile: undefined };
    expect(parseEnvironment(SHARED).persist).toEqual({ backend: 'postgres', database });
    for (const variable of ['SERVICE_POSTGRES_URL', 'SERVICE_SESSION_KEY']) {
      expect(errorOf({ ...SHARED, [variable]: '' })).toMatch(
        new RegExp(`^${variable}: required by SERVICE_PERSIST_BACKEND=postgres`),
      );
    }
  });

  it('runs several processes on a database only, which reach each other on ports of their own', () => {
    expect(errorOf({ SERVICE_PROCESSES: '2' })).toMatch(
      /^SERVICE_PROCESSES: requires SERVICE_PERSIST_BACKEND=postgres/,
    );
    const processes = { ...SHARED, SERVICE_PROCESSES: '2' };
    expect(parseEnvironment(processes).peerListen).toEqual({ host: '127.0.0.1', port: 0 });
    expect(errorOf({ ...processes, SERVICE_PEER_LISTEN: '127.0.0.1:8090' })).toMatch(
      /^SERVICE_PEER_LISTEN: .* must be 0/,
    );
  });

  it('requires an address for other replicas where the listener for them has none', () => {
    const everywhere = { ...SHARED, SERVICE_PEER_LISTEN: '0.0.0.0:8090' };
    expect(errorOf(everywhere)).toMatch(/^SERVICE_PEER_ADVERTISE: required by SERVICE_PEER_LISTEN=0\.0\.0\.0:8090/);
    expect(errorOf({ ...everywhere, SERVICE_PEER_ADVERTISE: 'replica-1:8090' })).toBe('accepted');
  });

  it('rejects an invalid variable even if another one disables it', () => {
    expect(errorOf({ SERVICE_PERSIST_BACKEND: 'none', SERVICE_PERSIST_RECOVER: 'x' })).toContain(
      'SERVICE_PERSIST_RECOVER',
    );
  });

  it('ignores unknown variables', () => {
    const environment = parseEnvironment({ SERVICE_MGMT_LISTENER: 'nonsense', PORT: 'x' });
    expect(environment).toEqual(parseEnvironment({}));
    expect(environment.warnings).toEqual([]);
  });

  it('ignores headers that are never forwarded, with a warning that names variable and header', () => {
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
      'Sluice-Peer-Principal',
    ];
    const environment = parseEnvironment({ SERVICE_FORWARD_HEADERS: ['X-Forwarded-Tenant', ...denied].join(',') });
    expect(environment.forwardHeaders).toEqual(['x-forwarded-tenant']);
    expect(environment.warnings).toHaveLength(denied.length);
    denied.forEach((name, index) => {
      expect(environment.warnings[index]).toContain(`SERVICE_FORWARD_HEADERS: header "${name.toLowerCase()}"`);
    });
  });

  it('returns warnings of RUST_LOG with its name', () => {
    const { warnings } = parseEnvironment({ RUST_LOG: 'info,[request]=debug' });
    expect(warnings).toEqual([expect.stringMatching(/^RUST_LOG: span filter "\[request\]=debug" is ignored/)]);
  });

  it('truncates a long value in the error', () => {
    expect(errorOf({ SERVICE_CLASSIC_URL: 'x'.repeat(10_000) }).length).toBeLessThan(300);
  });
});
