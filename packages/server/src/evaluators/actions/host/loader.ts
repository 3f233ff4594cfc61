/**
 * What a host process begins with, given as text: takes the first frame, which has the host's scripts by file name, and
 * imports `main` from it.
 */
import { readSync } from 'node:fs';
import { registerHooks } from 'node:module';

const sources: Record<string, string> = JSON.parse(read(read(4).readUInt32LE()).toString());

registerHooks({
  resolve(specifier, context, next) {
    const name = specifier.replace(/^(?:host:|\.\/)/, '');
    return name in sources ? { url: `host:${name}`, format: 'module', shortCircuit: true } : next(specifier, context);
  },
  load(url, context, next) {
    const source = sources[url.slice('host:'.length)];
    return source === undefined ? next(url, context) : { format: 'module', source, shortCircuit: true };
  },
});
await import('main.ts' in sources ? 'host:main.ts' : 'host:main.js');

function read(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at < length; ) {
    const count = readSync(0, bytes, at, length - at, null);
    if (count === 0) process.exit(0);
    at += count;
  }
  return bytes;
}
