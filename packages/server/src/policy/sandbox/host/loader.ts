/**
 * What a sandbox begins with, given as text: takes the first frame, which has its scripts, and imports `main` from it.
 */
import { readSync } from 'node:fs';
import { registerHooks } from 'node:module';

/** What a sandbox runs. */
export interface Scripts {
  /** The URL of the one that imports the others. */
  readonly main: string;
  /** JavaScript by URL, `sandbox:///{folder}/{file}`. */
  readonly sources: Readonly<Record<string, string>>;
  /** Where packages are looked for from: a file's URL. */
  readonly packages?: string;
}

const { main, sources, packages }: Scripts = JSON.parse(read(read(4).readUInt32LE()).toString());

registerHooks({
  resolve(specifier, context, next) {
    const url = URL.parse(specifier, context.parentURL)?.href ?? specifier;
    if (url in sources) return { url, format: 'module', shortCircuit: true };
    const inside = context.parentURL !== undefined && context.parentURL in sources;
    return next(specifier, inside ? { ...context, parentURL: packages } : context);
  },
  load(url, context, next) {
    const source = sources[url];
    return source === undefined ? next(url, context) : { format: 'module', source, shortCircuit: true };
  },
});
await import(main);

function read(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; ) {
    const count = readSync(0, bytes, at, length - at, null);
    if (count === 0) process.exit(0);
    at += count;
  }
  return bytes;
}
