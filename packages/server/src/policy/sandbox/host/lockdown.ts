import { registerHooks } from 'node:module';

/** Members of `process` that reach the system, or other code of Node.js. */
const PROCESS_MEMBERS = `kill _kill binding _linkedBinding dlopen getBuiltinModule abort execve loadEnvFile chdir umask setuid
  mainModule report permission _debugProcess _debugEnd _startProfilerIdleNotifier`;
/** Globals of Node.js that reach the network, other threads or modules. */
const GLOBALS = `fetch WebSocket EventSource XMLHttpRequest Request Response BroadcastChannel MessageChannel require module`;

/**
 * Locks down the process's own realm, in case a script of a component is ever executed there: drops the permission to read
 * the host's files and removes imports, built-in modules, signals, bindings and the globals of Node.js. Must be called
 * before anything of a component is read.
 */
export function lockdown(): void {
  const { permission } = process;
  registerHooks({
    resolve(specifier) {
      throw new Error(`import of ${specifier} is not allowed`);
    },
  });
  permission?.drop('fs.read');
  for (const name of PROCESS_MEMBERS.split(/\s+/)) Reflect.deleteProperty(process, name);
  for (const name of GLOBALS.split(' ')) Reflect.deleteProperty(globalThis, name);
}

/**
 * Freezes everything that a script can reach in a realm: its global object, ECMAScript's intrinsics and the given roots.
 * Nothing that one run leaves there can be found by the next. Like `createGuestBindings`, its text is evaluated in the
 * guest realm, so it refers only to its parameters and ECMAScript's own.
 */
export function freezeIntrinsics(...roots: readonly object[]): void {
  // Legacy static properties that expose the last matched text.
  for (const name of ['input', 'lastMatch', 'lastParen', 'leftContext', 'rightContext', '$_', '$&', '$+', '$`', "$'"]) {
    Reflect.deleteProperty(RegExp, name);
  }
  for (let group = 1; group <= 9; group++) Reflect.deleteProperty(RegExp, `$${group}`);

  // Intrinsics without a global name.
  const hiddenIntrinsics = [
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
    // The accessors of its own `stack`.
    new Error('hidden'),
    // The class of shared buffers, whose global is removed (`loaded-action.ts`).
    new WebAssembly.Memory({ initial: 0, maximum: 0, shared: true }).buffer,
  ];
  const visited = new Set<object>();
  const pending: object[] = [globalThis, ...hiddenIntrinsics, ...roots];
  for (let value = pending.pop(); value !== undefined; value = pending.pop()) {
    if (visited.has(value)) continue;
    visited.add(value);
    const prototype: object | null = Object.getPrototypeOf(value);
    if (prototype) pending.push(prototype);
    for (const key of Reflect.ownKeys(value)) {
      const { value: member, get, set } = Object.getOwnPropertyDescriptor(value, key) ?? {};
      for (const part of [member, get, set]) {
        if ((typeof part === 'object' && part !== null) || typeof part === 'function') pending.push(part);
      }
    }
    Object.freeze(value);
  }
}
