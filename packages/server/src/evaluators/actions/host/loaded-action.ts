import { constants, createContext, Script } from 'node:vm';
import type { Door } from './door.ts';
import { glueScript } from './glue-script.ts';
import { type HeldModule, type Inside, type Instantiate, inside } from './inside.ts';
import { wasiStubs } from './wasi-stubs.ts';

/** What a realm has besides ECMAScript's own; of that it loses what could wait or share. */
const PARTS = new Script(
  `'use strict';
  for (const name of ['console', 'SharedArrayBuffer', 'Atomics']) delete globalThis[name];
  (outer, held) => (${inside})(outer, held, ${wasiStubs})`,
  { filename: 'host.js' },
);

/**
 * An action that a host has taken in. Each run has a realm of its own, without anything of Node.js in it and without making
 * code of text, so that one run cannot see another, whatever it may have changed. Names in the component have been judged
 * before; should something of it come to run as a script all the same, it finds ECMAScript and the door.
 */
export class LoadedAction {
  readonly #door: Door;
  readonly #modules: readonly HeldModule[];
  readonly #glue: Script;
  #next: { readonly inside: Inside; readonly instantiate: Instantiate } | undefined;

  /** Throws for glue that is no script. */
  constructor(door: Door, glue: string, modules: readonly HeldModule[]) {
    this.#door = door;
    this.#modules = modules;
    this.#glue = new Script(glueScript(glue), { filename: 'action.js' });
  }

  /** Makes the realm of the next run, so that it need not wait for it. */
  prepare(): void {
    const context = createContext(constants.DONT_CONTEXTIFY, { codeGeneration: { strings: false, wasm: true } });
    const made: Inside = PARTS.runInContext(context)(this.#door, this.#modules);
    const instantiate = this.#glue.runInContext(context)(made.TextDecoder, made.TextEncoder);
    this.#next = { inside: made, instantiate };
  }

  /** JSON of the evaluation context to what came of it, which may be anything if the glue was a script. */
  run(context: string): { readonly said: unknown; pagesLeft(): unknown } {
    if (!this.#next) this.prepare();
    const realm = this.#next;
    this.#next = undefined;
    return {
      said: realm?.inside.run(realm.instantiate, context),
      pagesLeft: () => realm?.inside.pagesLeft(),
    };
  }
}
