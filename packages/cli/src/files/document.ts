import type { JsonValue } from '@sluice/protocol/json/parse';
import type { Terminal } from '../terminal/terminal.ts';
import { parseJsonText } from './json-text.ts';
import { readText } from './read.ts';

/** A file, or standard input for `-`, as JSON or YAML. Throws `Failure` that names the file and the place. */
export async function readDocument(path: string, terminal: Terminal): Promise<JsonValue> {
  return parseDocument(await readText(path, terminal), path === '-' ? 'standard input' : path);
}

/** JSON or YAML as a value in which numbers keep their spelling. `source` names where it comes from. */
export async function parseDocument(text: string, source: string): Promise<JsonValue> {
  const json = parseJsonText(text, source);
  if (json !== undefined) return json;
  // The YAML parser is loaded for who needs it.
  const { parseLocated } = await import('./located-document.ts');
  return parseLocated(text, source).content;
}
