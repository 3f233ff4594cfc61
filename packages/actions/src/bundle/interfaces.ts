import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

/** Id of the virtual entry module. */
export const ENTRY_MODULE = '\0action';

/** Prefix of the host interfaces' module names. */
export const INTERFACE_PREFIX = 'service:evaluator/';

const RUNTIME = new URL('../runtime/', import.meta.url);

/** Runtime files that wrap the host interfaces, by interface. */
const INTERFACE_FILES: ReadonlyMap<string, string> = new Map(
  ['registry', 'conversation', 'response', 'validation', 'log'].map((name) => [
    `${INTERFACE_PREFIX}${name}`,
    runtimeFile(`${name}.ts`),
  ]),
);

/** Returns the path of a runtime file, which becomes part of every component. */
export function runtimeFile(name: string): string {
  return fileURLToPath(new URL(name, RUNTIME));
}

/** Returns true for runtime files. */
export function isRuntimeFile(path: string): boolean {
  return path.startsWith(fileURLToPath(RUNTIME));
}

/** Returns the names of the interfaces, including `types`, which has no functions. */
export function interfaceNames(): string[] {
  return [...INTERFACE_FILES.keys(), `${INTERFACE_PREFIX}types`];
}

/** Returns the runtime file of an interface; undefined for other names. */
export function interfaceFile(name: string): string | undefined {
  return INTERFACE_FILES.get(name);
}

/** Returns the interface of a runtime file; undefined for other files. */
export function interfaceOfFile(file: string | undefined): string | undefined {
  for (const [name, path] of INTERFACE_FILES) if (path === file) return name;
  return undefined;
}

/** Returns the function names of an interface. */
export async function exportedFunctions(name: string): Promise<string[]> {
  const file = interfaceFile(name);
  const source = file === undefined ? '' : await readFile(file, 'utf8');
  return [...source.matchAll(/^export function (\w+)/gm)].map(([, match = '']) => match);
}
