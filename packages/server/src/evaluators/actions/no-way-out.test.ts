import { describe, expect, it } from 'vitest';
import { actionTests } from './fixtures/action-tests.ts';
import { injected } from './fixtures/injected.ts';
import { toolchains } from './fixtures/ordinary-actions.ts';
import { OrdinaryAnswers } from './fixtures/ordinary-answers.ts';

const { compiler, run, end, reason } = actionTests({ runMs: 4_000 });

/** What the script says when it is run as glue. */
const said = (script: string, more = {}) => reason(injected(script), '', more);

/** Everything that is not ECMAScript's own. */
const ofNode = [
  ...['process', 'require', 'module', 'exports', '__filename', '__dirname', 'global', 'Buffer', 'console', 'fetch'],
  ...['WebSocket', 'EventSource', 'XMLHttpRequest', 'Request', 'Response', 'Headers', 'FormData', 'Blob', 'File'],
  ...['setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask', 'structuredClone', 'MessageChannel', 'Worker'],
  ...['BroadcastChannel', 'AbortController', 'EventTarget', 'Event', 'URL', 'TextDecoderStream', 'ReadableStream'],
  ...['CompressionStream', 'performance', 'crypto', 'navigator', 'localStorage', 'sessionStorage', 'caches', 'gc'],
  ...['SharedArrayBuffer', 'Atomics', 'importScripts', 'postMessage', 'Deno', 'Bun', 'window', 'self', 'v8debug'],
];

describe('a script that got into glue', () => {
  it('finds the functions that it is given, or nothing below would say anything', async () => {
    expect(await said(`say([typeof imports, typeof getCoreModule, typeof ctx, ctx.toolName].join())`)).toBe(
      'object,function,object,größe',
    );
    // `foreign` tells a realm from another one.
    expect(await said(`say(foreign({}) + foreign(() => 1) + foreign(Object.create(Object.create(null))))`)).toBe(
      'from another realm: object ',
    );
  });

  it('finds nothing of Node.js', async () => {
    const names = JSON.stringify(ofNode);
    expect(await said(`say(${names}.filter((name) => name in globalThis))`)).toBe('');
    const bare = ofNode.map((name) => `typeof ${name} === 'undefined' ? '' : '${name}'`);
    expect(await said(`say([${bare}].join(''))`)).toBe('');
  });

  it('finds nothing in what encloses it', async () => {
    expect(await said(`say([typeof this, typeof arguments[1], typeof new.target].join())`)).toBe(
      'object,undefined,undefined',
    );
    expect(await said(`say((function () { return typeof this; })())`)).toBe('undefined');
  });

  it.each([
    ['eval', `(0, eval)('1')`],
    ['Function', `Function('return 1')()`],
    ['a generator', `(function* () {}).constructor('yield 1')().next()`],
    ['an async function', `(async () => {}).constructor('return 1')()`],
    ['the constructor of an import', `imports['service:evaluator/response'].pass.constructor('return 1')()`],
    ['the constructor of a core module getter', `getCoreModule.constructor('return 1')()`],
    ['the constructor of a decoder', `TextDecoder.constructor('return 1')()`],
  ])('makes no code of text: %s', async (_what, code) => {
    expect(await said(`try { say('made ' + ${code}); } catch (error) { say(error.name + foreign(error)); }`)).toBe(
      'EvalError',
    );
  });

  it('imports nothing', async () => {
    const action = injected(`
      const got = [];
      for (const name of ['node:fs', 'fs', './main.ts', 'data:text/javascript,export default 1']) {
        const asked = import(name);
        if (foreign(asked)) got.push('a promise ' + foreign(asked));
        asked.then((module) => got.push('a module'), (error) => foreign(error) && got.push(foreign(error)));
      }
      say(got.join());`);
    for (let time = 0; time < 3; time++) expect(await reason(action, '')).toBe('');
  });

  it.each([
    ['text that is none', `new TextEncoder().encode({})`],
    ['text that is a symbol', `new TextEncoder().encode(Symbol('x'))`],
    ['room that is none', `new TextEncoder().encodeInto('x', {})`],
    ['text for no room', `new TextEncoder().encodeInto('x', undefined)`],
    ['bytes that are none', `new TextDecoder().decode({})`],
    [
      'bytes that are gone',
      `const buffer = new ArrayBuffer(8); const bytes = new Uint8Array(buffer); buffer.transfer();
      return new TextDecoder().decode(bytes)`,
    ],
    [
      'bytes of shared memory',
      `return new TextDecoder().decode(new Uint8Array(
      new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer))`,
    ],
    [
      'room in shared memory',
      `return new TextEncoder().encodeInto('x', new Uint8Array(
      new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer))`,
    ],
    ['a log line that JSON cannot have', `imports['service:evaluator/log'].info({ slice: () => 1n })`],
    ['a log line in a circle', `const o = {}; o.o = o; imports['service:evaluator/log'].info({ slice: () => o })`],
    ['a log line of nothing', `imports['service:evaluator/log'].info(undefined)`],
    ['a response that JSON cannot have', `imports['service:evaluator/response'].warn(1n)`],
    ['a response in a circle', `const o = []; o.push(o); imports['service:evaluator/response'].filterTools(o)`],
    ['a question in a circle', `const o = {}; o.o = o; imports['service:evaluator/registry'].getTool(o)`],
    [
      'a question that is no text',
      `JSON.stringify = () => ({ slice: () => Symbol('x') });
      imports['service:evaluator/registry'].copyToolToNamespace('a', 'b')`,
    ],
    ['random that is too much', `imports['wasi:random/random'].getRandomBytes(1n << 60n)`],
    ['random that is no number', `imports['wasi:random/random'].getRandomBytes('x')`],
    [
      'an array that is none',
      `globalThis.Uint8Array = function () { return { length: 8 }; };
      imports['wasi:random/random'].getRandomBytes(8n)`,
    ],
    ['a core module that is not there', `getCoreModule('no such')`],
    ['an instance of nothing', `instantiateCore({}, {})`],
    ['an import that is not there', `imports['foo:bar/baz']?.f?.()`],
    ['a file', `new (imports['wasi:filesystem/types'].Descriptor)()`],
    ['a folder', `imports['wasi:filesystem/preopens'].getDirectories()`],
    ['a socket', `imports['wasi:sockets/instance-network'].instanceNetwork()`],
    ['a request', `imports['wasi:http/outgoing-handler'].handle()`],
    ['an exit', `imports['wasi:cli/exit'].exit({ tag: 'ok' })`],
  ])('is thrown nothing and given nothing that leads to another realm: %s', async (_what, code) => {
    const body = /\breturn\b/.test(code) ? code : code.replace(/(^|; ?|;\s+)(?=[^;]*$)/, '$1return ');
    const script = `const stringify = JSON.stringify; const result = caught(() => { ${body} });
      JSON.stringify = stringify; say('tried' + result);`;
    // Some end the run, which is in order too.
    expect([{ fault: 'trap' }, { response: { kind: 'block', reason: 'tried' } }]).toContainEqual(
      await end(injected(script), ''),
    );
  });

  it('gets no function of another realm where its own are called with what is wrong', async () => {
    expect(
      await said(`
        const got = [];
        const evil = () => ({
          constructor: undefined,
          byteLength: 1,
          [Symbol.for('nodejs.util.inspect.custom')](...given) { got.push(...given.map(foreign)); return 'x'; },
          toJSON(...given) { got.push(...given.map(foreign), foreign(this)); return 'x'; },
          toString(...given) { got.push(...given.map(foreign)); return 'x'; },
          get [Symbol.toPrimitive]() { return (...given) => { got.push(...given.map(foreign)); return 'x'; }; },
          slice: () => evil(),
        });
        caught(() => new TextEncoder().encode(evil()));
        caught(() => new TextEncoder().encodeInto(evil(), evil()));
        caught(() => new TextDecoder().decode(evil()));
        for (const api of ['log', 'response', 'registry', 'conversation', 'validation']) {
          const functions = imports['service:evaluator/' + api];
          for (const name of ['info', 'warn', 'getTool', 'listToolsInNamespace', 'getHistory', 'verifyLlmResult']) {
            caught(() => functions[name]?.(evil(), evil()));
          }
        }
        say(got.join(''));`),
    ).toBe('');
  });

  it('gets no error of another realm where the stack is full', async () => {
    expect(
      await said(`
        const got = new Set();
        const work = [
          () => new TextEncoder().encode('text'),
          () => new TextEncoder().encodeInto('text', new Uint8Array(8)),
          () => new TextDecoder().decode(new Uint8Array(8)),
          () => imports['service:evaluator/log'].info('text'),
          () => imports['service:evaluator/registry'].copyToolToNamespace('a', 'b'),
          () => imports['wasi:random/random'].getRandomU64(),
          () => imports['wasi:clocks/monotonic-clock'].now(),
          () => imports['wasi:clocks/wall-clock'].now(),
        ];
        const deeper = (step) => {
          try { deeper(step); } catch (error) { got.add(foreign(error)); }
          try { step(); } catch (error) { got.add(foreign(error)); }
        };
        for (const step of work) deeper(step);
        say([...got].join(''));`),
    ).toBe('');
  });

  it('gets nothing of another realm out of a stack trace', async () => {
    expect(
      await said(`
        const got = [];
        const before = Error.prepareStackTrace;
        try {
          Error.prepareStackTrace = (error, sites) => {
            got.push(foreign(sites));
            for (const site of sites) {
              got.push(foreign(site));
              for (const name of Object.getOwnPropertyNames(Object.getPrototypeOf(site))) {
                got.push(caught(() => site[name]()));
              }
            }
            return '';
          };
          new Error('x').stack;
        } catch (error) {
          got.push(foreign(error));
        }
        say(got.join(''));`),
    ).toBe('');
  });

  it('speaks for nobody: what it makes the host say ends its own run alone', async () => {
    const ordinary = await compiler.compile(await toolchains.wat());
    for (const word of [
      '"kind":"done","ignored":0}',
      '"kind":"loaded"}',
      '"kind":"ready"}',
      '"kind":"answer"}',
      '}',
      '',
    ]) {
      const forger = injected(`
        JSON.stringify = () => ${JSON.stringify(`x${word}`)};
        imports['service:evaluator/registry'].listTools();`);
      await end(forger, '');
      expect([word, await end(ordinary, 'block:mine')]).toEqual([
        word,
        { response: { kind: 'block', reason: 'mine' } },
      ]);
    }
  });

  it('sees nothing of the runs of another action', async () => {
    const ordinary = await compiler.compile(await toolchains.wat());
    // By whatever leads to the other realm: what is asked of all objects there is asked of the context too.
    const thief = injected(`
      globalThis.loot ??= [];
      const leads = [];
      const note = (work) => { try { leads.push(work()); } catch (error) { leads.push(error); } };
      note(() => new TextEncoder().encodeInto('x', {}));
      note(() => imports['service:evaluator/log'].info({ slice: () => 1n }));
      const deeper = () => {
        try { deeper(); } catch {}
        note(() => new TextEncoder().encode('text'));
      };
      deeper();
      for (const lead of leads) {
        if (!foreign(lead)) continue;
        Object.defineProperty(rootOf(lead), 'toJSON', {
          configurable: true,
          value() { globalThis.loot.push(String(this.arguments)); return this; },
        });
      }
      say(globalThis.loot.join());`);
    await end(thief, '');
    await end(ordinary, 'pass', { arguments: [['name', 'a secret of somebody else']] });
    expect(JSON.stringify(await end(thief, ''))).not.toContain('a secret');
  });

  it('sees nothing of its own earlier runs', async () => {
    const secret = 'a secret of somebody else';
    // Leaves what it sees on everything that it can reach, and says where it finds what it left.
    const keeper = injected(`
      const found = [];
      const seen = new Set();
      const visit = (value, path) => {
        if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) return;
        seen.add(value);
        try {
          if (Object.getOwnPropertyDescriptor(value, 'kept')?.value === ${JSON.stringify(secret)}) found.push(path);
          Object.defineProperty(value, 'kept', { configurable: true, value: ctx.arguments[0][1] });
        } catch {}
        let names = [];
        try { names = Reflect.ownKeys(value); } catch {}
        for (const name of names) {
          try {
            const { value: next, get, set } = Object.getOwnPropertyDescriptor(value, name);
            for (const part of [next, get, set]) visit(part, path + '.' + String(name));
          } catch {}
        }
        try { visit(Object.getPrototypeOf(value), path + '.__proto__'); } catch {}
      };
      if (RegExp.lastMatch === ${JSON.stringify(secret)}) found.push('RegExp.lastMatch');
      /.*/.exec(ctx.arguments[0][1]);
      visit(globalThis, 'globalThis');
      visit(imports, 'imports');
      for (const api of ['log', 'response', 'registry', 'types']) visit(imports['service:evaluator/' + api], api);
      for (const api of ['random/random', 'io/streams', 'cli/stdin']) visit(imports['wasi:' + api], api);
      visit(getCoreModule, 'getCoreModule');
      visit(instantiateCore, 'instantiateCore');
      visit(instantiate, 'instantiate');
      visit(foreign, 'glue');
      visit(new TextDecoder(), 'decoder');
      visit(new TextEncoder(), 'encoder');
      visit(new Error('x'), 'error');
      visit((function* () {})(), 'generator');
      visit((async () => {})(), 'promise');
      visit([][Symbol.iterator](), 'iterator');
      visit(/x/, 'expression');
      say(found.join('\\n'));`);
    expect(await reason(keeper, '', { arguments: [['name', secret]] })).toBe('');
    expect(await reason(keeper, '', { arguments: [['name', 'another']] })).toBe('');
  });

  it('does nothing after its run', async () => {
    const ordinary = await compiler.compile(await toolchains.wat());
    const later = injected(`
      const log = imports['service:evaluator/log'];
      Promise.resolve().then(() => log.error('later'));
      (async () => { for (;;) { await 0; log.error('later'); } })();
      new FinalizationRegistry(() => log.error('later')).register({}, 1);
      say('now');`);
    expect(await reason(later, '')).toBe('now');
    const answers = new OrdinaryAnswers();
    for (let time = 0; time < 5; time++) await run(ordinary, 'log:mine', {}, answers);
    expect(answers.logged.map(([, message]) => message)).toEqual(Array.from({ length: 15 }, () => 'mine'));
  });

  it.each([
    [
      'memories',
      `for (const kept of [[]]) for (;;) {
      const memory = new WebAssembly.Memory({ initial: 512 });
      new Uint8Array(memory.buffer).fill(1);
      kept.push(memory);
    }`,
    ],
    ['buffers', `for (const kept of [[]]) for (;;) kept.push(new Uint8Array(1 << 24).fill(1));`],
    ['objects', `for (const kept of [[]]) for (;;) kept.push({ kept: [1, 2, 3, 4] });`],
    [
      'text',
      `for (let text = 'x'; ; ) { text += text; if (text.length > 1 << 28) text = text.slice(1); text.indexOf('y'); }`,
    ],
  ])('takes no more than its process may have: %s', async (_what, script) => {
    const ordinary = await compiler.compile(await toolchains.wat());
    expect(await end(injected(script), '')).toHaveProperty('fault');
    expect(await end(ordinary, 'block:mine')).toEqual({ response: { kind: 'block', reason: 'mine' } });
  });
});
