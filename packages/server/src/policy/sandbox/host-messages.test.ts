import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { HostExitedError } from './action.ts';
import { children } from './fixtures/child-processes.ts';
import { FORGED_HOST_PRELUDE } from './fixtures/forged-host.ts';
import { injected } from './fixtures/injected.ts';
import { ordinaryContext, TestHostFunctions } from './fixtures/test-host-functions.ts';
import { type HostMessage, MAX_HOST_FRAME_BYTES, parseHostMessage } from './ipc.ts';
import { SandboxWorker } from './sandbox-worker.ts';

const MEBIBYTE = 1024 * 1024;

const parsed = (message: unknown) => parseHostMessage(Buffer.from(JSON.stringify(message)));
/** Texts that look like structure of JSON or need escapes. */
const text = fc.string({ unit: fc.constantFrom(...'[]{}:,"\\\n', 'a', 'ü', '😀', '\ud800', '\u0000'), maxLength: 100 });

const messages: fc.Arbitrary<HostMessage> = fc.oneof(
  fc.constantFrom<HostMessage>({ kind: 'ready' }, { kind: 'loaded' }, { kind: 'call', function: 'tools' }),
  fc.record({
    kind: fc.constant('log' as const),
    level: fc.constantFrom('debug' as const, 'info' as const, 'warn' as const, 'error' as const),
    message: text,
  }),
  fc.record({
    kind: fc.constant('failed' as const),
    fault: fc.constantFrom('trap' as const, 'memory' as const, 'limit' as const),
    message: text,
  }),
  fc
    .oneof(
      fc.record({ function: fc.constant('tools' as const), namespace: text }),
      fc.record({ function: fc.constant('tool' as const), name: text }),
      fc.record({ function: fc.constant('copy' as const), name: text, namespace: text }),
      fc.record({ function: fc.constant('history' as const), conversation: text }),
      fc.record({ function: fc.constant('verify' as const), raw: text }),
    )
    .map((call) => ({ kind: 'call' as const, ...call })),
  fc.record({ kind: fc.constant('done' as const), ignored: fc.nat() }),
  fc.record({
    kind: fc.constant('done' as const),
    response: fc.oneof(
      fc.constant({ kind: 'pass' as const }),
      fc.record({ kind: fc.constantFrom('block' as const, 'reject_malformed' as const), reason: text }),
      fc.record({ kind: fc.constant('warn' as const), message: text }),
      fc.record({ kind: fc.constant('filter_tools' as const), tools: fc.array(text) }),
      fc.record({ kind: fc.constant('set_metadata' as const), key: text, value: text }),
    ),
    ignored: fc.nat(),
  }),
);

const filtering = (tools: string) => `{"kind":"done","ignored":0,"response":{"kind":"filter_tools","tools":${tools}}}`;
const logging = (message: string) => `{"kind":"log","level":"info","message":"${message}"}`;

/** Texts with another structure than any message, of about `bytes`. */
const malformed: readonly (readonly [what: string, make: (bytes: number) => string])[] = [
  ['lists in lists', (bytes) => '['.repeat(bytes / 2) + ']'.repeat(bytes / 2)],
  ['lists in lists for names', (bytes) => filtering('['.repeat(bytes / 2) + ']'.repeat(bytes / 2))],
  ['lists that do not end', (bytes) => '['.repeat(bytes)],
  ['objects in objects', (bytes) => `${'{"a":'.repeat(bytes / 6)}1${'}'.repeat(bytes / 6)}`],
  ['a list of objects', (bytes) => `[${'{},'.repeat(bytes / 3)}{}]`],
  ['a list of objects for names', (bytes) => filtering(`[${'{},'.repeat(bytes / 3)}{}]`)],
  [
    'unknown members',
    (bytes) => `{"kind":"done","ignored":0${Array.from({ length: bytes / 13 }, (_, n) => `,"k${n}":1`).join('')}}`,
  ],
  ['a repeated member', (bytes) => `{"kind":"ready"${',"kind":"ready"'.repeat(bytes / 15)}}`],
];
/** Texts with the structure of a message. */
const excessive: typeof malformed = [
  ['numbers for names', (bytes) => filtering(`[${'1,'.repeat(bytes / 2)}1]`)],
  ['a log line of a letter', (bytes) => logging('a'.repeat(bytes))],
  ['a log line of escapes', (bytes) => logging('\\u0041'.repeat(bytes / 6))],
];

const all = [...malformed, ...excessive];

describe('a message of a host process', () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it('is parsed unchanged, regardless of its texts are', () => {
    fc.assert(
      fc.property(messages, (message) => {
        expect(parsed(message)).toEqual(message);
      }),
    );
  });

  it('may have a response or arguments of the maximum length', () => {
    const longest = 'x'.repeat(MEBIBYTE - 40);
    const done: HostMessage = { kind: 'done', response: { kind: 'block', reason: longest }, ignored: 9_999_999 };
    const request: HostMessage = { kind: 'call', function: 'copy', name: longest, namespace: 'x' };
    expect([parsed(done), parsed(request)]).toEqual([done, request]);
    const tools = Array.from({ length: MEBIBYTE / 3 - 20 }, () => '');
    const names: HostMessage = { kind: 'done', response: { kind: 'filter_tools', tools }, ignored: 0 };
    expect(parsed(names)).toEqual(names);
    expect(parseHostMessage(Buffer.alloc(MAX_HOST_FRAME_BYTES + 1, `${JSON.stringify(done)} `))).toBeUndefined();
  });

  it('loses unknown members', () => {
    expect(parsed({ kind: 'ready', more: 1 })).toEqual({ kind: 'ready' });
    expect(parseHostMessage(Buffer.from('{"kind":"ready","__proto__":{"kind":"loaded"}}'))).toEqual({ kind: 'ready' });
  });

  it.each<[string, unknown]>([
    ['not an object', 'ready'],
    ['null', null],
    ['a list', [{ kind: 'ready' }]],
    ['no kind', {}],
    ['an unknown kind', { kind: 'secret' }],
    ['an unknown level', { kind: 'log', level: 'trace', message: '' }],
    ['a log line that is not a string', { kind: 'log', level: 'info', message: 1 }],
    ['a log line that is too long', { kind: 'log', level: 'info', message: 'x'.repeat(4097) }],
    [
      'a log message that is too long as a whole',
      { kind: 'log', level: 'info', message: '', more: 'x'.repeat(33_000) },
    ],
    ['a fault that only the service reports', { kind: 'failed', fault: 'timeout', message: '' }],
    ['a failure message that is too long', { kind: 'failed', fault: 'trap', message: 'x'.repeat(301) }],
    ['no count', { kind: 'done' }],
    ['a negative count', { kind: 'done', ignored: -1 }],
    ['a fractional count', { kind: 'done', ignored: 0.5 }],
    ['a response that is not an object', { kind: 'done', ignored: 0, response: null }],
    ['an unknown response', { kind: 'done', ignored: 0, response: { kind: 'allow' } }],
    ['a response without its text', { kind: 'done', ignored: 0, response: { kind: 'block' } }],
    ['names that are not a list', { kind: 'done', ignored: 0, response: { kind: 'filter_tools', tools: 'a' } }],
    [
      'a name that is not a string',
      { kind: 'done', ignored: 0, response: { kind: 'filter_tools', tools: ['a', null] } },
    ],
    [
      'a value that is not a string',
      { kind: 'done', ignored: 0, response: { kind: 'set_metadata', key: 'a', value: 1 } },
    ],
    ['a call of an unknown function', { kind: 'call', function: 'password' }],
    ['a call without an argument', { kind: 'call', function: 'copy', name: 'a' }],
    ['a namespace that is not a string', { kind: 'call', function: 'tools', namespace: null }],
  ])('is rejected: %s', (_what, message) => {
    expect(parsed(message)).toBeUndefined();
  });

  it.each(['', '{', '{"kind":"ready"', '"', '"\\', '\ufeff{"kind":"ready"}', 'NaN'])('is rejected: %j', (json) => {
    expect(parseHostMessage(Buffer.from(json))).toBeUndefined();
  });

  it.each(all)('is not parsed if it is too long: %s', (_what, make) => {
    const parse = vi.spyOn(JSON, 'parse');
    expect(parseHostMessage(Buffer.from(make(8 * MEBIBYTE)))).toBeUndefined();
    expect(parse).not.toHaveBeenCalled();
  });

  it.each(malformed)('is not parsed if it has another structure: %s', (_what, make) => {
    const parse = vi.spyOn(JSON, 'parse');
    expect(parseHostMessage(Buffer.from(make(MEBIBYTE)))).toBeUndefined();
    expect(parse).not.toHaveBeenCalled();
  });

  it('is validated only up to the first invalid name', () => {
    let accesses = 0;
    const tools = new Proxy(['a', 1, ...Array(1_000).fill('a')], {
      get(list, key, proxy) {
        accesses++;
        return Reflect.get(list, key, proxy);
      },
    });
    vi.spyOn(JSON, 'parse').mockReturnValue({ kind: 'done', ignored: 0, response: { kind: 'filter_tools', tools } });
    expect(parseHostMessage(Buffer.from('{}'))).toBeUndefined();
    expect(accesses).toBeGreaterThan(2);
    expect(accesses).toBeLessThan(10);
  });
});

describe('a host process that sends invalid messages', () => {
  const hosts: SandboxWorker[] = [];

  /** For a run, it sends its input in place of the scripts. */
  const loader = `${FORGED_HOST_PRELUDE} run(); sendTexts(scripts); stay();`;

  afterEach(async () => {
    for (const host of hosts) host.kill();
    await Promise.all(hosts.splice(0).map(({ exited: ended }) => ended));
    expect(children()).toEqual([]);
  });

  it.each<[what: string, text: string, failure: RegExp]>([
    ...all.map(([what, make]): [string, string, RegExp] => [`${what}, 8 MiB`, make(8 * MEBIBYTE), /oversized/]),
    ...all.map(([what, make]): [string, string, RegExp] => [what, make(MEBIBYTE), /invalid message/]),
  ])('is killed, and its run fails: %s', async (_what, text, failure) => {
    const action = injected('');
    const host = new SandboxWorker({ loader, sources: Buffer.from(text) }, { runMs: 30_000 }, () => undefined);
    hosts.push(host);
    await host.load(action);
    await expect(host.run(action, ordinaryContext, new TestHostFunctions())).rejects.toMatchObject({
      fault: 'host',
      message: expect.stringMatching(failure),
    });
    await host.exited;
    // Otherwise the run would be retried in another process.
    await expect(host.load(action)).rejects.not.toBeInstanceOf(HostExitedError);
  });
});
