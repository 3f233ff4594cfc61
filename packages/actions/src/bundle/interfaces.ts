import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

/** The module that the component is made of. */
export const ENTRY = '\0action';

/** What an interface of the service is imported as. */
export const PREFIX = 'service:evaluator/';

const RUNTIME = new URL('../runtime/', import.meta.url);

/** The files that stand for the interfaces: what authors import is theirs, and they import the service's own. */
const FILES: ReadonlyMap<string, string> = new Map(
  ['registry', 'conversation', 'response', 'validation', 'log'].map((name) => [
    `${PREFIX}${name}`,
    runtimeFile(`${name}.ts`),
  ]),
);

/** A file that goes into every component. */
export function runtimeFile(name: string): string {
  return fileURLToPath(new URL(name, RUNTIME));
}

/** True of a file that goes into every component. */
export function isRuntime(path: string): boolean {
  return path.startsWith(fileURLToPath(RUNTIME));
}

/** The names of the interfaces, `types` included, which has no values. */
export function interfaceNames(): string[] {
  return [...FILES.keys(), `${PREFIX}types`];
}

/** The file that stands for an interface; undefined for a name that is none. */
export function fileOf(name: string): string | undefined {
  return FILES.get(name);
}

/** The interface that a file stands for; undefined for any other file. */
export function interfaceOf(file: string | undefined): string | undefined {
  for (const [name, its] of FILES) if (its === file) return name;
  return undefined;
}

/** The functions of an interface. */
export async function namesOf(name: string): Promise<string[]> {
  const file = fileOf(name);
  const source = file === undefined ? '' : await readFile(file, 'utf8');
  return [...source.matchAll(/^export function (\w+)/gm)].map(([, found = '']) => found);
}
