import { readdirSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

const FOLDER = fileURLToPath(new URL('./host/', import.meta.url));
/** Of the sources, or of what they were compiled to. */
const EXTENSION = extname(import.meta.url);

/** What a host process is started with: its scripts come as the first frame, so that it needs no file at all. */
export interface HostScripts {
  /** Text for `--eval`. */
  readonly loader: string;
  /** The first frame: JavaScript by file name, as JSON. */
  readonly sources: Buffer;
}

/**
 * Reads the scripts of hosts. Their types are taken out here, once: a process that does so itself takes some 60 ms longer
 * to start, and 25 MB more.
 */
export function readHostScripts(): HostScripts {
  const names = readdirSync(FOLDER).filter((name) => name.endsWith(EXTENSION) && !/\.(?:test|d)\.ts$/.test(name));
  const sources = Object.fromEntries(names.map((name) => [name, javaScript(readFileSync(`${FOLDER}${name}`, 'utf8'))]));
  return { loader: `(${load})('main${EXTENSION}')`, sources: Buffer.from(JSON.stringify(sources)) };
}

function javaScript(source: string): string {
  if (EXTENSION !== '.ts') return source;
  // It warns of being new, to whoever reads the service's output and can do nothing about it.
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return stripTypeScriptTypes(source);
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** Runs in the host process, as text: takes the first frame and imports the scripts from it. Names nothing around it. */
function load(main: string): void {
  const { readSync } = process.getBuiltinModule('node:fs');
  const { registerHooks } = process.getBuiltinModule('node:module');
  const read = (length: number): Buffer => {
    const bytes = Buffer.alloc(length);
    for (let at = 0; at < length; ) {
      const count = readSync(0, bytes, at, length - at, null);
      if (count === 0) process.exit(0);
      at += count;
    }
    return bytes;
  };
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
  void import(`host:${main}`);
}
