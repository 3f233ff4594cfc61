import { registerHooks } from 'node:module';

/**
 * Takes away what would lead out of a script, should one ever run in the process's own realm: the permission to read the
 * host's files, imports, built-in modules, signals, bindings and the globals of Node.js. Called before anything of a
 * component comes in.
 */
export function close(): void {
  const { permission } = process;
  registerHooks({
    resolve(specifier) {
      throw new Error(`import of ${specifier} is refused`);
    },
  });
  permission?.drop('fs.read');
  for (const name of [
    'kill',
    '_kill',
    'binding',
    '_linkedBinding',
    'dlopen',
    'getBuiltinModule',
    'abort',
    'execve',
    'loadEnvFile',
    'chdir',
    'umask',
    'setuid',
    'mainModule',
    'report',
    'permission',
    '_debugProcess',
    '_debugEnd',
    '_startProfilerIdleNotifier',
  ]) {
    Reflect.deleteProperty(process, name);
  }
  for (const name of [
    'fetch',
    'WebSocket',
    'EventSource',
    'XMLHttpRequest',
    'Request',
    'Response',
    'BroadcastChannel',
    'MessageChannel',
    'require',
    'module',
  ]) {
    Reflect.deleteProperty(globalThis, name);
  }
}

/**
 * Freezes everything of a realm that a script in it can reach: its global object, ECMAScript's own objects and those given.
 * Then nothing that one run leaves there can be found by the next. Like `inside`, it is evaluated in the realm and names
 * nothing but its parameters and ECMAScript's own.
 */
export function freezeIntrinsics(...given: readonly object[]): void {
  // What remembers the text that was looked at last.
  for (const name of ['input', 'lastMatch', 'lastParen', 'leftContext', 'rightContext', '$_', '$&', '$+', '$`', "$'"]) {
    Reflect.deleteProperty(RegExp, name);
  }
  for (let group = 1; group <= 9; group++) Reflect.deleteProperty(RegExp, `$${group}`);

  // Objects of the language that no name leads to.
  const hidden = [
    function* () {},
    async () => {},
    async function* () {},
    (function* () {})(),
    (async function* () {})(),
    [][Symbol.iterator](),
    ''[Symbol.iterator](),
    new Map()[Symbol.iterator](),
    new Set()[Symbol.iterator](),
    ''.matchAll(/./g),
    Iterator.from({ next: () => ({ done: true, value: undefined }) }),
    [].values().map(String),
    // Its `stack` has functions that no name leads to.
    new Error('hidden'),
    // What is shared is not there by name (`loaded-action.ts`).
    new WebAssembly.Memory({ initial: 0, maximum: 0, shared: true }).buffer,
  ];
  const seen = new Set<object>();
  const found: object[] = [globalThis, ...hidden, ...given];
  for (let value = found.pop(); value !== undefined; value = found.pop()) {
    if (seen.has(value)) continue;
    seen.add(value);
    const prototype: object | null = Object.getPrototypeOf(value);
    if (prototype) found.push(prototype);
    for (const key of Reflect.ownKeys(value)) {
      const { value: member, get, set } = Object.getOwnPropertyDescriptor(value, key) ?? {};
      for (const part of [member, get, set]) {
        if ((typeof part === 'object' && part !== null) || typeof part === 'function') found.push(part);
      }
    }
    Object.freeze(value);
  }
}
