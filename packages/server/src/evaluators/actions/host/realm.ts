import { randomFillSync } from 'node:crypto';
import { constants, createContext, runInContext, Script } from 'node:vm';
import { glueScript } from './glue-script.ts';
import { type Door, type Inside, type Instantiate, inside } from './inside.ts';
import type { ModuleHead } from './messages.ts';
import { wasiStubs } from './wasi-stubs.ts';

/**
 * An action in a realm of its own, without anything of Node.js in it and without making code of text. Names in its
 * component have been judged before; should something of it come to run as a script all the same, it finds ECMAScript
 * and the door.
 */
export class Realm {
  readonly #inside: Inside;
  readonly #instantiate: Instantiate;

  /** Throws what keeps the glue or a module from being loaded. */
  constructor(ask: (question: string) => string, log: Door['log'], glue: string, modules: readonly LoadedModule[]) {
    const context = createContext(constants.DONT_CONTEXTIFY, { codeGeneration: { strings: false, wasm: true } });
    const make: (door: Door, wasi: unknown) => Inside = runInContext(
      `'use strict'; delete globalThis.console; delete globalThis.SharedArrayBuffer; delete globalThis.Atomics;
      (${inside})`,
      context,
    );
    this.#inside = make(door(ask, log), runInContext(`'use strict'; (${wasiStubs})`, context));
    for (const { name, pages, bytes } of modules) this.#inside.addModule(name, bytes, pages);
    const script = new Script(glueScript(glue), { filename: 'action.js' });
    this.#instantiate = script.runInContext(context)(this.#inside.TextDecoder, this.#inside.TextEncoder);
  }

  /** JSON of the evaluation context to JSON of what came of it. */
  run(context: string): string {
    return this.#inside.run(this.#instantiate, context);
  }

  /** Pages of 64 KiB that the last run left behind. */
  pagesLeft(): number {
    return this.#inside.pagesLeft();
  }
}

/** A core module with its bytes. */
export interface LoadedModule extends ModuleHead {
  readonly bytes: Uint8Array;
}

/** Functions without prototypes, so that they lead nowhere; they take and give text, numbers and memory alone. */
function door(ask: (question: string) => string, log: Door['log']): Door {
  const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const encoder = new TextEncoder();
  const members: Door = {
    decode(bytes) {
      try {
        return utf8.decode(bytes);
      } catch {
        return undefined;
      }
    },
    encodeInto: (text, into) => encoder.encodeInto(text, into).written,
    utf8Length: (text) => Buffer.byteLength(text),
    ask,
    log,
    randomFill: (bytes) => void randomFillSync(bytes),
    monotonicNanoseconds: () => process.hrtime.bigint(),
    wallMilliseconds: () => Date.now(),
  };
  for (const member of Object.values(members)) Object.setPrototypeOf(member, null);
  return Object.freeze(Object.setPrototypeOf(members, null));
}
