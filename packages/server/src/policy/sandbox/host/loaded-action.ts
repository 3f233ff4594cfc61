import { constants, createContext, Script } from 'node:vm';
import { type CompiledModule, createGuestBindings, type GuestBindings, type Instantiate } from './guest-realm.ts';
import { freezeIntrinsics } from './lockdown.ts';
import type { RealmBridge } from './realm-bridge.ts';
import { createWasiStubs } from './wasi-stubs.ts';

/** Exports in the glue that jco generates. */
const EXPORT = /^export (?=function |const )/gm;

/**
 * Converts glue from a module to a script: a function of the globals it needs besides ECMAScript's own, which returns
 * `instantiate`. Strict, as modules are.
 */
export function glueScript(glue: string): string {
  const body = glue.replace(EXPORT, '');
  return `(function (TextDecoder, TextEncoder) { 'use strict'; ${body}\nreturn instantiate; })`;
}

/**
 * Initializes a guest realm. It removes the globals that could wait or share memory, and `Intl`: glue does not need it, it
 * has prototypes that no name leads to, and creating its objects in order to freeze these takes 20 ms.
 */
const INIT_SCRIPT = new Script(
  `'use strict';
  for (const name of ['console', 'SharedArrayBuffer', 'Atomics', 'Intl']) delete globalThis[name];
  (hostBridge, modules) => (${createGuestBindings})(hostBridge, modules, ${createWasiStubs}, ${freezeIntrinsics})`,
  { filename: 'host.js' },
);

/**
 * Action loaded into a host process, in a realm of its own without Node.js APIs and `eval`. The realm is frozen,
 * and the glue is evaluated again for each run, so that no run leaves state for another. Names in the component have been
 * validated; if a part of it is executed as a script nevertheless, it has access to ECMAScript and the bridge only.
 *
 * Measured: a realm per run would cost a small component 1.2 ms, evaluating the glue again costs 0.07 ms.
 */
export class LoadedAction {
  readonly #bindings: GuestBindings;
  readonly #evaluateGlue: () => Instantiate;
  #prepared: Instantiate | undefined;

  /** Throws for glue that is not a valid script. */
  constructor(bridge: RealmBridge, glue: string, modules: readonly CompiledModule[]) {
    const context = createContext(constants.DONT_CONTEXTIFY, { codeGeneration: { strings: false, wasm: true } });
    const bindings: GuestBindings = INIT_SCRIPT.runInContext(context)(bridge, modules);
    const script = new Script(glueScript(glue), { filename: 'action.js' });
    this.#bindings = bindings;
    this.#evaluateGlue = () => script.runInContext(context)(bindings.TextDecoder, bindings.TextEncoder);
  }

  /** Evaluates the glue for the next run in advance. */
  prepare(): void {
    this.#prepared = this.#evaluateGlue();
  }

  /**
   * Takes JSON of the evaluation context; returns JSON of a `HostMessage`, or anything if a script was injected into
   * the glue.
   */
  run(context: string): unknown {
    const instantiate = this.#prepared ?? this.#evaluateGlue();
    this.#prepared = undefined;
    return this.#bindings.run(instantiate, context);
  }

  /** Memory pages of 64 KiB at the end of the last run; not trustworthy either. */
  lastRunPages(): unknown {
    return this.#bindings.lastRunPages();
  }
}
