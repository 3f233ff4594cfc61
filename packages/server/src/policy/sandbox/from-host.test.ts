import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { HostExitedError } from './action.ts';
import { children } from './fixtures/child-processes.ts';
import { FORGER } from './fixtures/forged-host.ts';
import { injected } from './fixtures/injected.ts';
import { OrdinaryAnswers, ordinaryContext } from './fixtures/ordinary-answers.ts';
import type { FromHost } from './host/messages.ts';
import { Host } from './host-process.ts';
import { fromHost, MAX_WORD_BYTES } from './ipc.ts';

const MEBIBYTE = 1024 * 1024;

const said = (word: unknown) => fromHost(Buffer.from(JSON.stringify(word)));
/** Anything that looks like structure, and what JSON has to escape. */
const text = fc.string({ unit: fc.constantFrom(...'[]{}:,"\\\n', 'a', 'ü', '😀', '\ud800', '\u0000'), maxLength: 100 });

const words: fc.Arbitrary<FromHost> = fc.oneof(
  fc.constantFrom<FromHost>({ kind: 'ready' }, { kind: 'loaded' }, { kind: 'question', ask: 'tools' }),
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
      fc.record({ ask: fc.constant('tools' as const), namespace: text }),
      fc.record({ ask: fc.constant('tool' as const), name: text }),
      fc.record({ ask: fc.constant('copy' as const), name: text, namespace: text }),
      fc.record({ ask: fc.constant('history' as const), conversation: text }),
      fc.record({ ask: fc.constant('verify' as const), raw: text }),
    )
    .map((question) => ({ kind: 'question' as const, ...question })),
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

/** What no word is like; `bytes`: how much of it. */
const misshapen: readonly (readonly [what: string, make: (bytes: number) => string])[] = [
  ['lists in lists', (bytes) => '['.repeat(bytes / 2) + ']'.repeat(bytes / 2)],
  ['lists in lists for names', (bytes) => filtering('['.repeat(bytes / 2) + ']'.repeat(bytes / 2))],
  ['lists that do not end', (bytes) => '['.repeat(bytes)],
  ['objects in objects', (bytes) => `${'{"a":'.repeat(bytes / 6)}1${'}'.repeat(bytes / 6)}`],
  ['a list of objects', (bytes) => `[${'{},'.repeat(bytes / 3)}{}]`],
  ['a list of objects for names', (bytes) => filtering(`[${'{},'.repeat(bytes / 3)}{}]`)],
  [
    'members that nobody asked for',
    (bytes) => `{"kind":"done","ignored":0${Array.from({ length: bytes / 13 }, (_, n) => `,"k${n}":1`).join('')}}`,
  ],
  ['the same member again and again', (bytes) => `{"kind":"ready"${',"kind":"ready"'.repeat(bytes / 15)}}`],
];
/** What looks like a word. */
const overdone: typeof misshapen = [
  ['numbers for names', (bytes) => filtering(`[${'1,'.repeat(bytes / 2)}1]`)],
  ['a log line of a letter', (bytes) => logging('a'.repeat(bytes))],
  ['a log line of escapes', (bytes) => logging('\\u0041'.repeat(bytes / 6))],
];

const all = [...misshapen, ...overdone];

describe('what a host says', () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it('is taken as it was said, whatever its texts are', () => {
    fc.assert(
      fc.property(words, (word) => {
        expect(said(word)).toEqual(word);
      }),
    );
  });

  it('is taken with as long a response or question as there may be', () => {
    const longest = 'x'.repeat(MEBIBYTE - 40);
    const done: FromHost = { kind: 'done', response: { kind: 'block', reason: longest }, ignored: 9_999_999 };
    const question: FromHost = { kind: 'question', ask: 'copy', name: longest, namespace: 'x' };
    expect([said(done), said(question)]).toEqual([done, question]);
    const tools = Array.from({ length: MEBIBYTE / 3 - 20 }, () => '');
    const names: FromHost = { kind: 'done', response: { kind: 'filter_tools', tools }, ignored: 0 };
    expect(said(names)).toEqual(names);
    expect(fromHost(Buffer.alloc(MAX_WORD_BYTES + 1, `${JSON.stringify(done)} `))).toBeUndefined();
  });

  it('loses what nobody asked for', () => {
    expect(said({ kind: 'ready', more: 1 })).toEqual({ kind: 'ready' });
    expect(fromHost(Buffer.from('{"kind":"ready","__proto__":{"kind":"loaded"}}'))).toEqual({ kind: 'ready' });
  });

  it.each<[string, unknown]>([
    ['no object', 'ready'],
    ['nothing', null],
    ['a list', [{ kind: 'ready' }]],
    ['no kind', {}],
    ['a kind that there is not', { kind: 'secret' }],
    ['a level that there is not', { kind: 'log', level: 'trace', message: '' }],
    ['a line that is no text', { kind: 'log', level: 'info', message: 1 }],
    ['a line that is too long', { kind: 'log', level: 'info', message: 'x'.repeat(4097) }],
    [
      'a line that is long because of something else',
      { kind: 'log', level: 'info', message: '', more: 'x'.repeat(33_000) },
    ],
    ['a fault that is not its own to tell', { kind: 'failed', fault: 'timeout', message: '' }],
    ['a failure that is too long', { kind: 'failed', fault: 'trap', message: 'x'.repeat(301) }],
    ['no count', { kind: 'done' }],
    ['a count below nothing', { kind: 'done', ignored: -1 }],
    ['half a count', { kind: 'done', ignored: 0.5 }],
    ['a response that is no object', { kind: 'done', ignored: 0, response: null }],
    ['a response that there is not', { kind: 'done', ignored: 0, response: { kind: 'allow' } }],
    ['a response without its text', { kind: 'done', ignored: 0, response: { kind: 'block' } }],
    ['names that are no list', { kind: 'done', ignored: 0, response: { kind: 'filter_tools', tools: 'a' } }],
    ['a name that is no text', { kind: 'done', ignored: 0, response: { kind: 'filter_tools', tools: ['a', null] } }],
    ['a value that is no text', { kind: 'done', ignored: 0, response: { kind: 'set_metadata', key: 'a', value: 1 } }],
    ['a question that there is not', { kind: 'question', ask: 'password' }],
    ['a question without its text', { kind: 'question', ask: 'copy', name: 'a' }],
    ['a namespace that is none', { kind: 'question', ask: 'tools', namespace: null }],
  ])('is refused: %s', (_what, word) => {
    expect(said(word)).toBeUndefined();
  });

  it.each(['', '{', '{"kind":"ready"', '"', '"\\', '\ufeff{"kind":"ready"}', 'NaN'])('is refused: %j', (json) => {
    expect(fromHost(Buffer.from(json))).toBeUndefined();
  });

  it.each(all)('is not parsed where it is too long: %s', (_what, make) => {
    const parse = vi.spyOn(JSON, 'parse');
    expect(fromHost(Buffer.from(make(8 * MEBIBYTE)))).toBeUndefined();
    expect(parse).not.toHaveBeenCalled();
  });

  it.each(misshapen)('is not parsed where it has another structure: %s', (_what, make) => {
    const parse = vi.spyOn(JSON, 'parse');
    expect(fromHost(Buffer.from(make(MEBIBYTE)))).toBeUndefined();
    expect(parse).not.toHaveBeenCalled();
  });

  it('is looked at no further than to the first name that is none', () => {
    let looks = 0;
    const tools = new Proxy(['a', 1, ...Array(1_000).fill('a')], {
      get(list, key, proxy) {
        looks++;
        return Reflect.get(list, key, proxy);
      },
    });
    vi.spyOn(JSON, 'parse').mockReturnValue({ kind: 'done', ignored: 0, response: { kind: 'filter_tools', tools } });
    expect(fromHost(Buffer.from('{}'))).toBeUndefined();
    expect(looks).toBeGreaterThan(2);
    expect(looks).toBeLessThan(10);
  });
});

describe('a host that says what no host may', () => {
  const hosts: Host[] = [];

  /** Asked to run something, it says what it was given in the place of the scripts. */
  const loader = `${FORGER} run(); sayTexts(scripts); stay();`;

  afterEach(async () => {
    for (const host of hosts) host.kill();
    await Promise.all(hosts.splice(0).map(({ ended }) => ended));
    expect(children()).toEqual([]);
  });

  it.each<[what: string, word: string, message: RegExp]>([
    ...all.map(([what, make]): [string, string, RegExp] => [`${what}, 8 MiB`, make(8 * MEBIBYTE), /too much at once/]),
    ...all.map(([what, make]): [string, string, RegExp] => [what, make(MEBIBYTE), /may not/]),
  ])('is ended, and its run has failed: %s', async (_what, word, message) => {
    const action = injected('');
    const host = new Host({ loader, sources: Buffer.from(word) }, { runMs: 30_000 }, () => undefined);
    hosts.push(host);
    await host.load(action);
    await expect(host.run(action, ordinaryContext, new OrdinaryAnswers())).rejects.toMatchObject({
      fault: 'host',
      message: expect.stringMatching(message),
    });
    await host.ended;
    // Else it would be tried in another one.
    await expect(host.load(action)).rejects.not.toBeInstanceOf(HostExitedError);
  });
});
