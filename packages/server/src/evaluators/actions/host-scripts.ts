import { readdirSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

const FOLDER = fileURLToPath(new URL('./host/', import.meta.url));
/** Of the sources, or of what they were compiled to. */
const EXTENSION = extname(import.meta.url);

/** What a host process is started with: its scripts come as the first frame, so that it needs no file at all. */
export interface HostScripts {
  /** A module, as text for `--eval`. */
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
  const scripts = new Map(names.map((name) => [name, javaScript(readFileSync(`${FOLDER}${name}`, 'utf8'))]));
  const loader = scripts.get(`loader${EXTENSION}`) ?? '';
  return { loader, sources: Buffer.from(JSON.stringify(Object.fromEntries(scripts))) };
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
