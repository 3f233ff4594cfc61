import { describe, expect, it } from 'vitest';
import { actionTests } from './fixtures/action-tests.ts';
import { injected } from './fixtures/injected.ts';
import { toolchains } from './fixtures/ordinary-actions.ts';
import { TestHostFunctions } from './fixtures/test-host-functions.ts';

const { compiler, run, end, reason } = actionTests();

/** Runs a script as glue; returns the text that it passes to `say`. */
const output = (script: string, more = {}) => reason(injected(script), '', more);

/** Globals of Node.js and browsers, which are not ECMAScript's own. */
const nonEcmaScriptGlobals = [
  ...['process', 'require', 'module', 'exports', '__filename', '__dirname', 'global', 'Buffer', 'console', 'fetch'],
  ...['WebSocket', 'EventSource', 'XMLHttpRequest', 'Request', 'Response', 'Headers', 'FormData', 'Blob', 'File'],
  ...['setTimeout', 'setInterval', 'setImmediate', 'queueMicrotask', 'structuredClone', 'MessageChannel', 'Worker'],
  ...['BroadcastChannel', 'AbortController', 'EventTarget', 'Event', 'URL', 'TextDecoderStream', 'ReadableStream'],
  ...['CompressionStream', 'performance', 'crypto', 'navigator', 'localStorage', 'sessionStorage', 'caches', 'gc'],
  ...[
    'SharedArrayBuffer',
    'Atomics',
    'Intl',
    'importScripts',
    'postMessage',
    'Deno',
    'Bun',
    'window',
    'self',
    'v8debug',
  ],
];

/** WebAssembly module with a function that traps. */
const trapping = '0,97,115,109,1,0,0,0, 1,4,1,96,0,0, 3,2,1,0, 7,5,1,1,102,0,0, 10,5,1,3,0,0,11';

/** Expressions for ECMAScript's intrinsics, in particular those without a name. */
const intrinsics: readonly string[] = [
  ...['globalThis', 'imports', 'getCoreModule', 'instantiateCore', 'instantiate', 'foreign', 'ctx'],
  ...['types', 'log', 'response', 'registry', 'conversation', 'validation'].map(
    (api) => `imports['service:evaluator/${api}']`,
  ),
  ...['new TextDecoder()', 'new TextEncoder()', '/x/', `'x'.match(/(?<name>x)/d)`, `'x'.matchAll(/x/g)`],
  ...['[][Symbol.iterator]()', `''[Symbol.iterator]()`, 'new Map().entries()', 'new Set().keys()', '[].entries()'],
  ...['new Uint8Array(1).values()', '[].values().map(String)', '[].values().filter(String)', '[].values().take(1)'],
  ...['[].values().drop(1)', '[].values().flatMap(String)', 'Iterator.from({ next() {} })', 'Iterator.concat([])'],
  ...['(function* () {})', '(async function* () {})'],
  // A generator function has a prototype object of its own in between.
  ...['(function* () {})', '(async function* () {})'].map((made) => `Object.getPrototypeOf(${made}())`),
  ...['(async () => {})', '(async () => {})()', '(() => {})', '(() => {}).bind()', '(class {})', 'import("x")'],
  ...['(function () { return arguments; })()', '((parts) => parts)`x`', 'Promise.withResolvers()'],
  ...['Proxy.revocable({}, {})', 'Object.groupBy([1], String)', 'JSON.rawJSON(1)', 'Symbol.prototype'],
  ...['new DisposableStack()', 'new AsyncDisposableStack()', 'new WeakRef({})', 'new FinalizationRegistry(String)'],
  ...['new WeakMap()', 'new WeakSet()', 'new Date()', 'new DataView(new ArrayBuffer(1))', 'Object(1n)', `Object('x')`],
  ...['new ArrayBuffer(1, { maxByteLength: 2 })', 'new Float16Array(1)', 'Object(Symbol.iterator)'],
  ...[
    'new Error("x")',
    'new AggregateError([])',
    'new SuppressedError()',
    `(() => { const traced = {};
      Error.captureStackTrace(traced); return traced; })()`,
  ],
  ...['null.x', 'missing', 'new Array(-1)', '(1n).x.x', 'BigInt("x")', 'decodeURI("%")', 'Symbol() + ""'].map(thrown),
  ...['(function deeper() { deeper(); })()', `new RegExp('[')`, 'Object.freeze({}).x = 1', 'eval("1")'].map(thrown),
  ...['imports["wasi:cli/exit"].exit()', 'getCoreModule', 'new (imports["wasi:a/b"].C)()'].map(thrown),
  ...['Module', 'Instance', 'Memory', 'Table', 'Global', 'Tag', 'Exception'].map((name) => `WebAssembly.${name}`),
  'new WebAssembly.Memory({ initial: 1, maximum: 1 })',
  'new WebAssembly.Memory({ initial: 1, maximum: 1 }).buffer',
  'new WebAssembly.Memory({ initial: 1, maximum: 2 }).toResizableBuffer()',
  'new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer',
  'new WebAssembly.Memory({ initial: 1, maximum: 2, shared: true }).toResizableBuffer()',
  `new WebAssembly.Table({ initial: 1, element: 'externref' })`,
  `new WebAssembly.Global({ value: 'i32' })`,
  'new WebAssembly.Tag({ parameters: [] })',
  'new WebAssembly.Exception(new WebAssembly.Tag({ parameters: [] }), [])',
  'WebAssembly.JSTag',
  `new WebAssembly.Module(new Uint8Array([${trapping}]))`,
  `WebAssembly.Module.exports(new WebAssembly.Module(new Uint8Array([${trapping}])))`,
  `new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array([${trapping}])))`,
  `new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array([${trapping}]))).exports.f`,
  `WebAssembly.compile(new Uint8Array([${trapping}]))`,
  ...[
    `new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array([${trapping}]))).exports.f()`,
    'new WebAssembly.Module(new Uint8Array(1))',
  ].map(thrown),
  ...['Temporal.Now.instant()', 'Temporal.Now.zonedDateTimeISO()', 'new Temporal.Duration()'].map(
    (made) => `typeof Temporal === 'undefined' ? {} : ${made}`,
  ),
  // Removed now; its objects have prototypes without names.
  ...[`new Intl.Segmenter().segment('')`, `new Intl.Segmenter().segment('')[Symbol.iterator]()`].map(
    (made) => `typeof Intl === 'undefined' ? {} : ${made}`,
  ),
  ...['random/random', 'io/streams', 'cli/stdin', 'io/poll', 'clocks/wall-clock'].map(
    (api) => `imports['wasi:${api}']`,
  ),
];

/** Expression for the error that another one throws. */
function thrown(expression: string): string {
  return `(() => { try { ${expression}; } catch (error) { return error; } return {}; })()`;
}

describe('a script injected into glue', () => {
  it('finds the functions that it is given, which the tests below rely on', async () => {
    expect(await output(`say([typeof imports, typeof getCoreModule, typeof ctx, ctx.toolName].join())`)).toBe(
      'object,function,object,größe',
    );
    // `foreign` detects objects of another realm.
    expect(await output(`say(foreign({}) + foreign(() => 1) + foreign(Object.create(Object.create(null))))`)).toBe(
      'from another realm: object ',
    );
  });

  it('finds nothing of Node.js', async () => {
    const names = JSON.stringify(nonEcmaScriptGlobals);
    expect(await output(`say(${names}.filter((name) => name in globalThis))`)).toBe('');
    const bare = nonEcmaScriptGlobals.map((name) => `typeof ${name} === 'undefined' ? '' : '${name}'`);
    expect(await output(`say([${bare}].join(''))`)).toBe('');
  });

  it('finds nothing in the enclosing scope', async () => {
    expect(await output(`say([typeof this, typeof arguments[1], typeof new.target].join())`)).toBe(
      'object,undefined,undefined',
    );
    expect(await output(`say((function () { return typeof this; })())`)).toBe('undefined');
  });

  it.each([
    ['eval', `(0, eval)('1')`],
    ['Function', `Function('return 1')()`],
    ['the constructor of a generator function', `(function* () {}).constructor('yield 1')().next()`],
    ['the constructor of an async function', `(async () => {}).constructor('return 1')()`],
    ['the constructor of an import', `imports['service:evaluator/response'].pass.constructor('return 1')()`],
    ['the constructor of a core module getter', `getCoreModule.constructor('return 1')()`],
    ['the constructor of a decoder', `TextDecoder.constructor('return 1')()`],
  ])('cannot evaluate text as code: %s', async (_what, code) => {
    expect(
      await output(`try { say('evaluated ' + ${code}); } catch (error) { say(error.name + foreign(error)); }`),
    ).toBe('EvalError');
  });

  it('cannot import modules', async () => {
    const action = injected(`
      const got = [];
      for (const name of ['node:fs', 'fs', './main.ts', 'data:text/javascript,export default 1']) {
        const imported = import(name);
        if (foreign(imported)) got.push('a promise ' + foreign(imported));
        imported.then((module) => got.push('a module'), (error) => foreign(error) && got.push(foreign(error)));
      }
      say(got.join());`);
    for (let time = 0; time < 3; time++) expect(await reason(action, '')).toBe('');
  });

  it.each([
    ['an object as text', `new TextEncoder().encode({})`],
    ['a symbol as text', `new TextEncoder().encode(Symbol('x'))`],
    ['an object as a buffer', `new TextEncoder().encodeInto('x', {})`],
    ['no buffer', `new TextEncoder().encodeInto('x', undefined)`],
    ['an object as bytes', `new TextDecoder().decode({})`],
    [
      'bytes of a detached buffer',
      `const buffer = new ArrayBuffer(8); const bytes = new Uint8Array(buffer); buffer.transfer();
      return new TextDecoder().decode(bytes)`,
    ],
    [
      'bytes of shared memory',
      `return new TextDecoder().decode(new Uint8Array(
      new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer))`,
    ],
    [
      'a buffer in shared memory',
      `return new TextEncoder().encodeInto('x', new Uint8Array(
      new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer))`,
    ],
    ['a log line that is not serializable', `imports['service:evaluator/log'].info({ slice: () => 1n })`],
    ['a circular log line', `const o = {}; o.o = o; imports['service:evaluator/log'].info({ slice: () => o })`],
    ['an undefined log line', `imports['service:evaluator/log'].info(undefined)`],
    ['a response that is not serializable', `imports['service:evaluator/response'].warn(1n)`],
    ['a circular response', `const o = []; o.push(o); imports['service:evaluator/response'].filterTools(o)`],
    ['a circular argument of a call', `const o = {}; o.o = o; imports['service:evaluator/registry'].getTool(o)`],
    [
      'a call whose JSON is not text',
      `JSON.stringify = () => ({ slice: () => Symbol('x') });
      imports['service:evaluator/registry'].copyToolToNamespace('a', 'b')`,
    ],
    ['too many random bytes', `imports['wasi:random/random'].getRandomBytes(1n << 60n)`],
    ['a random length that is not a number', `imports['wasi:random/random'].getRandomBytes('x')`],
    [
      'a replaced array constructor',
      `globalThis.Uint8Array = function () { return { length: 8 }; };
      imports['wasi:random/random'].getRandomBytes(8n)`,
    ],
    ['an unknown core module', `getCoreModule('no such')`],
    ['an instance of no module', `instantiateCore({}, {})`],
    ['an unknown import', `imports['foo:bar/baz']?.f?.()`],
    ['a file', `new (imports['wasi:filesystem/types'].Descriptor)()`],
    ['a folder', `imports['wasi:filesystem/preopens'].getDirectories()`],
    ['a socket', `imports['wasi:sockets/instance-network'].instanceNetwork()`],
    ['a request', `imports['wasi:http/outgoing-handler'].handle()`],
    ['an exit', `imports['wasi:cli/exit'].exit({ tag: 'ok' })`],
  ])('gets neither a result nor an error that leads to another realm: %s', async (_what, code) => {
    const body = /\breturn\b/.test(code) ? code : code.replace(/(^|; ?|;\s+)(?=[^;]*$)/, '$1return ');
    const script = `const stringify = JSON.stringify; const result = caught(() => { ${body} });
      JSON.stringify = stringify; say('tried' + result);`;
    // Some end the run, which is acceptable, too.
    expect([{ fault: 'trap' }, { response: { kind: 'block', reason: 'tried' } }]).toContainEqual(
      await end(injected(script), ''),
    );
  });

  it('gets no object of another realm when its methods are called as arguments', async () => {
    expect(
      await output(`
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

  it('gets no error of another realm when the stack is exhausted', async () => {
    expect(
      await output(`
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

  it('gets nothing of another realm from a stack trace', async () => {
    expect(
      await output(`
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

  it('can forge messages of the host only for its own run', async () => {
    const ordinary = await compiler.compile(await toolchains.wat());
    for (const message of [
      '"kind":"done","ignored":0}',
      '"kind":"loaded"}',
      '"kind":"ready"}',
      '"kind":"result"}',
      '}',
      '',
    ]) {
      const forger = injected(`
        JSON.stringify = () => ${JSON.stringify(`x${message}`)};
        imports['service:evaluator/registry'].listTools();`);
      await end(forger, '');
      expect([message, await end(ordinary, 'block:own')]).toEqual([
        message,
        { response: { kind: 'block', reason: 'own' } },
      ]);
    }
  });

  it('sees nothing of the runs of another action', async () => {
    const ordinary = await compiler.compile(await toolchains.wat());
    // Modifies prototypes of any foreign object: the serialization of the other run's context would call them.
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
    await end(ordinary, 'pass', { arguments: [['name', 'a secret of another user']] });
    expect(JSON.stringify(await end(thief, ''))).not.toContain('a secret');
  });

  it('sees nothing of its own earlier runs', async () => {
    const secret = 'a secret of another user';
    // Stores the argument on every object that it can reach, and outputs where it finds an earlier one.
    const collector = injected(`
      const found = [];
      const seen = new Set();
      const visit = (value, path) => {
        if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) return;
        seen.add(value);
        try {
          if (Object.getOwnPropertyDescriptor(value, 'stored')?.value === ${JSON.stringify(secret)}) found.push(path);
          Object.defineProperty(value, 'stored', { configurable: true, value: ctx.arguments[0][1] });
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
      ${intrinsics.map((expression) => `visit(${expression}, ${JSON.stringify(expression)});`).join('\n')}
      say(found.join('\\n'));`);
    expect(await reason(collector, '', { arguments: [['name', secret]] })).toBe('');
    expect(await reason(collector, '', { arguments: [['name', 'another']] })).toBe('');
  });

  it('can modify nothing that it has not created', async () => {
    const open = await output(`
      const open = [];
      const seen = new Set();
      const visit = (value, path) => {
        if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) return;
        seen.add(value);
        if (!Object.isFrozen(value)) open.push(path);
        for (const name of Reflect.ownKeys(value)) {
          const { value: next, get, set } = Object.getOwnPropertyDescriptor(value, name);
          for (const part of [next, get, set]) visit(part, path + '.' + String(name));
        }
        visit(Object.getPrototypeOf(value), path + '.__proto__');
      };
      // The glue itself is new in each run.
      for (const own of [rootOf, foreign, caught, instantiate, instantiate.prototype, say, ctx]) seen.add(own);
      const enter = (value, path) => visit(Object.getPrototypeOf(value), path + '.__proto__');
      ${intrinsics.map((expression) => `enter(${expression}, ${JSON.stringify(expression)});`).join('\n')}
      visit(globalThis, 'globalThis');
      visit(new WebAssembly.Memory({ initial: 1, maximum: 1, shared: true }).buffer.constructor, 'shared');
      say(open.join('\\n'));`);
    expect(open).toBe('');
  });

  it('finds nothing on limit errors, either', async () => {
    const collector = injected(`
      const { info } = imports['service:evaluator/log'];
      try {
        for (;;) new TextDecoder().decode(new Uint8Array(1 << 20));
      } catch (error) {
        for (const target of [error.constructor, Object.getPrototypeOf(error)]) {
          info('found: ' + target.stored);
          Reflect.defineProperty(target, 'stored', { configurable: true, value: ctx.arguments[0][1] });
        }
      }`);
    const functions = new TestHostFunctions();
    for (const value of ['a secret', 'another']) {
      await expect(run(collector, '', { arguments: [['name', value]] }, functions)).rejects.toMatchObject({
        fault: 'limit',
      });
    }
    expect(functions.logged.map(([, message]) => message)).toEqual(Array(4).fill('found: undefined'));
  });

  it('gets random numbers that do not depend on earlier runs', async () => {
    // A realm's own generator is predictable, and its state could transfer information between runs.
    expect(await output(`say(/native code/.test(Math.random.toString()))`)).toBe('false');
    expect(
      await output(`const numbers = Array.from({ length: 100 }, () => Math.random());
        say([new Set(numbers).size, numbers.every((number) => number >= 0 && number < 1)].join())`),
    ).toBe('100,true');
  });

  const respond = `const { block, warn, filterTools, setMetadata } = imports['service:evaluator/response'];
    let count = 0;
    const later = (value) => ({ toJSON: () => (count++ === 0 ? '' : value), toString: () => (count++ === 0 ? 'a' : value) });`;
  it.each([
    ['a reason', `block(later('x'.repeat(2 << 20)))`, { kind: 'block', reason: 'a' }],
    ['a message', `warn(later('x'.repeat(2 << 20)))`, { kind: 'warn', message: 'a' }],
    ['a name', `filterTools([later('x'.repeat(2 << 20))])`, { kind: 'filter_tools', tools: ['a'] }],
    ['a value', `setMetadata('key', later([]))`, { kind: 'set_metadata', key: 'key', value: 'a' }],
    ['a number for a name', `filterTools([1, 2])`, { kind: 'filter_tools', tools: ['1', '2'] }],
    [
      'names whose list changes',
      `filterTools({ toJSON: () => Array(9).fill(1), *[Symbol.iterator]() { if (count++ === 0) yield 'a'; else yield 1; } })`,
      { kind: 'filter_tools', tools: ['a'] },
    ],
  ])('responds with the text at the time of the call: %s', async (_what, script, response) => {
    expect(await end(injected(`${respond} ${script}`), '')).toEqual({ response });
  });

  it('cannot pass an object that is not a list as names', async () => {
    const script = `let count = 0; const numbers = Array(3_900_000).fill(1);
      imports['service:evaluator/response'].filterTools({ toJSON: () => (count++ === 0 ? [] : numbers) });`;
    expect(await end(injected(script), '')).toEqual({ fault: 'trap' });
  });

  it.each([
    [
      `const error = new Error(); Object.defineProperty(error, 'message', { get() { throw globalThis; } }); throw error`,
    ],
    [`throw Object.assign(Object.create(Error.prototype), { text: 'x' })`],
    [`throw new Proxy(new Error('x'), { getPrototypeOf() { throw 1; }, get() { throw 2; } })`],
    [
      `const error = new Error(); Object.defineProperty(error, 'message', { value: { slice: () => 'x'.repeat(7e6) } }); throw error`,
    ],
  ])('fails only its own run, whatever it throws: %s', async (script) => {
    const ordinary = await compiler.compile(await toolchains.wat());
    expect(await end(injected(script), '')).toEqual({ fault: 'trap' });
    expect(await end(ordinary, 'block:own')).toEqual({ response: { kind: 'block', reason: 'own' } });
  });

  const views = `
    class Lying extends Uint8Array {
      get length() { return -1e12; }
      get byteLength() { return -1e12; }
      get [Symbol.toStringTag]() { return undefined; }
      subarray() { return new Uint8Array(0); }
    }
    class LyingView extends DataView { get byteLength() { return -1e12; } }
    const bytes = new ArrayBuffer(1 << 20);
    const full = () => { for (let count = 0; count < 9; count++) new TextDecoder().decode(new Uint8Array(bytes)); };`;
  it.each([
    ['decoded', `new TextDecoder().decode(new Lying(1)); full();`],
    ['decoded as a view', `new TextDecoder().decode(new LyingView(bytes)); full();`],
    ['decoded again and again', `for (let count = 0; count < 9; count++) new TextDecoder().decode(new Lying(bytes));`],
    ['printed', `imports['wasi:cli/stdout'].getStdout().write(new Lying(1)); full();`],
  ])('cannot exceed the text limit with a false length: %s', async (_how, script) => {
    expect(await end(injected(`${views} ${script}`), '')).toEqual({ fault: 'limit' });
  });

  it('gets the text of bytes with overridden members', async () => {
    expect(
      await output(`${views} const lying = new Lying(3); lying.set([97, 98, 99]);
        say(new TextDecoder().decode(lying.fill(98, 1, 2)) + new TextDecoder().decode(new LyingView(lying.buffer, 1, 1)));`),
    ).toBe('abcb');
  });

  it('responds and calls with up to 1 MiB of JSON', async () => {
    const longest = 1024 * 1024 - '{"kind":"block","reason":""}'.length;
    expect(await output(`say('x'.repeat(${longest}))`)).toHaveLength(longest);
    expect(await end(injected(`say('x'.repeat(${longest} + 1))`), '')).toEqual({ fault: 'limit' });
    const escaped = Math.floor(longest / 6);
    expect(await output(`say('\\0'.repeat(${escaped}))`)).toHaveLength(escaped);
    expect(await end(injected(`say('\\0'.repeat(${escaped} + 1))`), '')).toEqual({ fault: 'limit' });

    const calls = (length: number) => `imports['service:evaluator/registry'].getTool('x'.repeat(${length}))`;
    expect(await output(`say(${calls(1024 * 1024 - 4)})`)).toBe('undefined');
    expect(await end(injected(calls(1024 * 1024)), '')).toEqual({ fault: 'limit' });
    const verifies = (length: number) => `try {
        imports['service:evaluator/validation'].verifyLlmResult('x'.repeat(${length}));
        say('valid');
      } catch (error) { say(error.payload); }`;
    expect(await output(verifies(1024 * 1024 - 4))).toBe('valid');
    expect(await output(verifies(1024 * 1024))).toBe('the text is longer than 1 MiB');
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
    const functions = new TestHostFunctions();
    for (let time = 0; time < 5; time++) await run(ordinary, 'log:own', {}, functions);
    expect(functions.logged.map(([, message]) => message)).toEqual(Array.from({ length: 15 }, () => 'own'));
  });

  it.each([
    [
      'memories',
      `for (const memories of [[]]) for (;;) {
      const memory = new WebAssembly.Memory({ initial: 512 });
      new Uint8Array(memory.buffer).fill(1);
      memories.push(memory);
    }`,
    ],
    ['buffers', `for (const buffers of [[]]) for (;;) buffers.push(new Uint8Array(1 << 24).fill(1));`],
    ['objects', `for (const objects of [[]]) for (;;) objects.push({ list: [1, 2, 3, 4] });`],
    [
      'text',
      `for (let text = 'x'; ; ) { text += text; if (text.length > 1 << 28) text = text.slice(1); text.indexOf('y'); }`,
    ],
  ])('is limited to the memory of its process: %s', async (_what, script) => {
    const ordinary = await compiler.compile(await toolchains.wat());
    expect(await end(injected(script), '')).toHaveProperty('fault');
    expect(await end(ordinary, 'block:own')).toEqual({ response: { kind: 'block', reason: 'own' } });
  });
});
