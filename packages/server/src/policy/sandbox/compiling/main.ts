/**
 * The compiling process: judges one component, has jco make glue and core modules of it, and ends. It is started like a
 * host process (`sandbox-process.ts`), since what it reads is as hostile.
 */
import { Script } from 'node:vm';
import { glueScript } from '../host/loaded-action.ts';
import { close } from '../host/lockdown.ts';
import type { ModuleHead } from '../host/messages.ts';
import { Wire } from '../host/wire.ts';
import { boundMemories } from '../validate/core-module.ts';
import { InvalidComponentError, shown } from '../validate/reader.ts';
import { validateComponent } from '../validate/types.ts';
import { loadTools } from './tools.ts';

const GLUE = 'action.js';
const MODULE = /^action\.core\d*\.wasm$/;

const tools = await loadTools();
close();
const wire = new Wire<CompileRequest, CompileAnswer>();
wire.message();
const component = wire.bytes();
const wit = wire.bytes();
if (component && wit) answer(component, wit.toString());

function answer(bytes: Uint8Array, witText: string): void {
  try {
    validateComponent(bytes, { tools, wit: witText });
    const files = tools.generate(bytes);
    const glue = files.find(([name]) => name === GLUE);
    // What is no script would end the host only when somebody waits for it.
    new Script(glueScript(Buffer.from(glue?.[1] ?? []).toString()));
    const modules = files.filter(([name]) => MODULE.test(name));
    const bounded = boundMemories(modules.map(([, module]) => module));
    const heads: ModuleHead[] = modules.map(([name], index) => ({ name, pages: bounded[index]?.pages ?? 0 }));
    wire.send({ kind: 'compiled', modules: heads });
    wire.sendBytes(glue?.[1] ?? new Uint8Array());
    for (const { bytes: module } of bounded) wire.sendBytes(module);
  } catch (error) {
    wire.send({ kind: 'refused', message: reasonOf(error) });
  }
}

/** jco's tools throw errors with a payload. */
function reasonOf(error: unknown): string {
  if (error instanceof InvalidComponentError) return error.message;
  const payload = error instanceof Error && 'payload' in error ? error.payload : error;
  return `not a valid component: ${shown(String(payload), 120)}; build the action anew`;
}

/** What the compiling process is told, followed by a frame with the component and one with the WIT. */
export interface CompileRequest {
  readonly kind: 'compile';
}

/** What it answers; `compiled` is followed by a frame with the glue and one for each module. */
export type CompileAnswer =
  | { readonly kind: 'compiled'; readonly modules: readonly ModuleHead[] }
  | { readonly kind: 'refused'; readonly message: string };
