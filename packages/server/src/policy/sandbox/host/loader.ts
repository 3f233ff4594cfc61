/**
 * Bootstrap of a sandbox, passed as text to `--eval`: reads the first frame, which contains the scripts, and imports the
 * main script from it.
 */
import { readSync } from 'node:fs';
import { registerHooks } from 'node:module';

/** Scripts of a sandbox. */
export interface Scripts {
  /** URL of the script that imports the others. */
  readonly main: string;
  /** JavaScript by URL, `sandbox:///{folder}/{file}`. */
  readonly sources: Readonly<Record<string, string>>;
  /** URL of the file that package resolution starts from. */
  readonly packages?: string;
}

const { main, sources, packages }: Scripts = JSON.parse(read(read(4).readUInt32LE()).toString());

registerHooks({
  resolve(specifier, context, next) {
    const url = URL.parse(specifier, context.parentURL)?.href ?? specifier;
    if (url in sources) return { url, format: 'module', shortCircuit: true };
    const isOwnImport = context.parentURL !== undefined && context.parentURL in sources;
    return next(specifier, isOwnImport ? { ...context, parentURL: packages } : context);
  },
  load(url, context, next) {
    const source = sources[url];
    return source === undefined ? next(url, context) : { format: 'module', source, shortCircuit: true };
  },
});
await import(main);

function read(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let offset = 0; offset < length; ) {
    const count = readSync(0, bytes, offset, length - offset, null);
    if (count === 0) process.exit(0);
    offset += count;
  }
  return bytes;
}
