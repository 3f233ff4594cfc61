import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { type JsonValue, parseLossless } from '@sluice/protocol/json/parse';
import { Failure } from '../failure.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { errorReason } from './system-error.ts';

/** The text of a file, or of standard input for `-`. Throws {@link Failure} when it cannot be read. */
export async function readText(path: string, { cwd, stdin }: Terminal): Promise<string> {
  if (path === '-') return stdin.text();
  try {
    return await readFile(resolve(cwd, path), 'utf8');
  } catch (error) {
    throw new Failure(`${path}: ${errorReason(error) ?? 'cannot be read'}`, { cause: error });
  }
}

/**
 * The value of a file that is JSON, in which numbers keep their spelling; undefined when it must be YAML. JSON is YAML
 * too, but takes a YAML parser twenty times as long. Throws {@link Failure} for a file called `.json` that is none: in
 * YAML a misspelt `true` would be a text.
 */
export function parseJsonText(text: string, name: string): JsonValue | undefined {
  const mustBeJson = name.endsWith('.json');
  if (!mustBeJson && !/^\s*[[{]/.test(text)) return undefined;
  try {
    return parseLossless(text.replace(/^\ufeff/, ''));
  } catch (error) {
    if (!mustBeJson) return undefined;
    const reason = error instanceof Error ? error.message : String(error);
    throw new Failure(`${name}: is not JSON: ${reason.replace(/\s+/g, ' ')}`, { cause: error });
  }
}
