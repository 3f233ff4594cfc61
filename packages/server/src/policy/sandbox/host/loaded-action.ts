import { constants, createContext, Script } from 'node:vm';
import { type GuestBindings, type HeldModule, type Instantiate, inside } from './guest-realm.ts';
import { freezeIntrinsics } from './lockdown.ts';
import type { RealmBridge } from './realm-bridge.ts';
import { wasiStubs } from './wasi-stubs.ts';

/** How jco exports what it makes. */
const EXPORTED = /^export (?=function |const )/gm;

/**
 * Glue as a script: a function of what it has besides ECMAScript's own, whose value makes instances. Strict, as the
 * module was.
 */
export function glueScript(glue: string): string {
  const body = glue.replace(EXPORTED, '');
  return `(function (TextDecoder, TextEncoder) { 'use strict'; ${body}\nreturn instantiate; })`;
}

/**
 * What a realm has besides ECMAScript's own; of that it loses what could wait or share, and `Intl`: glue has no use for it,
 * its objects have prototypes that no name leads to, and making some of them, to freeze those, takes 20 ms.
 */
const PARTS = new Script(
  `'use strict';
  for (const name of ['console', 'SharedArrayBuffer', 'Atomics', 'Intl']) delete globalThis[name];
  (outer, held) => (${inside})(outer, held, ${wasiStubs}, ${freezeIntrinsics})`,
  { filename: 'host.js' },
);

/**
 * An action that a host has taken in, in a realm of its own without anything of Node.js in it and without making code of
 * text. All of the realm is frozen, and the glue is evaluated anew for each run, so that one run leaves nothing to another.
 * Names in the component have been judged before; should something of it come to run as a script all the same, it finds
 * ECMAScript and the door.
 *
 * Measured: a realm for each run would cost a small component 1.2 ms, evaluating the glue anew costs 0.07 ms.
 */
export class LoadedAction {
  readonly #inside: GuestBindings;
  readonly #makeGlue: () => Instantiate;
  #next: Instantiate | undefined;

  /** Throws for glue that is no script. */
  constructor(door: RealmBridge, glue: string, modules: readonly HeldModule[]) {
    const context = createContext(constants.DONT_CONTEXTIFY, { codeGeneration: { strings: false, wasm: true } });
    const made: GuestBindings = PARTS.runInContext(context)(door, modules);
    const script = new Script(glueScript(glue), { filename: 'action.js' });
    this.#inside = made;
    this.#makeGlue = () => script.runInContext(context)(made.TextDecoder, made.TextEncoder);
  }

  /** Makes what the next run begins with, so that it need not wait for it. */
  prepare(): void {
    this.#next = this.#makeGlue();
  }

  /** JSON of the evaluation context to what came of it, which may be anything if the glue was a script. */
  run(context: string): unknown {
    const instantiate = this.#next ?? this.#makeGlue();
    this.#next = undefined;
    return this.#inside.run(instantiate, context);
  }

  /** Pages of 64 KiB that the last run left behind. */
  pagesLeft(): unknown {
    return this.#inside.pagesLeft();
  }
}
