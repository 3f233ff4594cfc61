/**
 * Entry of the compiler process: validates one component, has jco generate glue and core modules from it, and exits. It is
 * sandboxed like a host process (`sandbox-process.ts`), since its input is just as untrusted.
 */
import { Script } from 'node:vm';
import type { CompileResponse } from '../compiler.ts';
import { glueScript } from '../host/loaded-action.ts';
import { lockdown } from '../host/lockdown.ts';
import { ParentPipe } from '../host/parent-pipe.ts';
import { boundMemories } from '../validate/core-module.ts';
import { validateComponent } from '../validate/interface.ts';
import { InvalidComponentError, printable } from '../validate/reader.ts';
import { loadJco } from './jco.ts';

/** Files that jco generates for the name `action`. */
const GLUE_FILE = 'action.js';
const MODULE_FILE = /^action\.core\d*\.wasm$/;

const jco = await loadJco();
lockdown();
const pipe = new ParentPipe<never, CompileResponse>();
// A frame with the component and one with the WIT.
const component = pipe.receiveBytes();
const wit = pipe.receiveBytes();
if (component && wit) compile(component, wit.toString());

function compile(bytes: Uint8Array, witText: string): void {
  try {
    validateComponent(bytes, jco, witText);
    const files = jco.generate(bytes);
    const glue = files.find(([name]) => name === GLUE_FILE)?.[1] ?? new Uint8Array();
    // Invalid syntax is detected here rather than by the first run.
    new Script(glueScript(Buffer.from(glue).toString()));
    const modules = files.filter(([name]) => MODULE_FILE.test(name));
    const bounded = boundMemories(modules.map(([, module]) => module));
    const infos = modules.map(([name], index) => ({ name, pages: bounded[index]?.pages ?? 0 }));
    pipe.send({ kind: 'compiled', modules: infos });
    pipe.sendBytes(glue);
    for (const { bytes: module } of bounded) pipe.sendBytes(module);
  } catch (error) {
    pipe.send({ kind: 'rejected', message: reasonOf(error) });
  }
}

/** jco's tools throw errors with a payload. */
function reasonOf(error: unknown): string {
  if (error instanceof InvalidComponentError) return error.message;
  const payload = error instanceof Error && 'payload' in error ? error.payload : error;
  return `not a valid component: ${printable(String(payload), 120)}; rebuild the action`;
}
