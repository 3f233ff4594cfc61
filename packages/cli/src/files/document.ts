import { type JsonValue, parseLossless } from '@sluice/json/lossless';
import { Failure } from '../failure.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { readText } from './read.ts';

const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** A file, or standard input for `-`, as JSON or YAML. Throws {@link Failure} that names the file and the place. */
export async function readDocument(path: string, terminal: Terminal): Promise<JsonValue> {
  return parseDocument(await readText(path, terminal), path === '-' ? 'standard input' : path);
}

/** JSON or YAML as a value in which numbers keep their spelling. `source` names where it comes from. */
export async function parseDocument(text: string, source: string): Promise<JsonValue> {
  // JSON is YAML too, but a YAML parser takes some twenty times as long for it.
  const looksLikeJson = /^\s*[[{]/.test(text);
  try {
    return parseLossless(text.replace(/^\ufeff/, ''));
  } catch (error) {
    if (source.endsWith('.json')) throw notReadable(source, error);
    try {
      return await parseYaml(text);
    } catch (yamlError) {
      throw notReadable(source, looksLikeJson ? error : yamlError);
    }
  }
}

async function parseYaml(text: string): Promise<JsonValue> {
  const { parseDocument: parse, visit } = await import('yaml');
  const document = parse(text);
  const [problem] = document.errors;
  if (problem !== undefined) throw problem;
  visit(document, {
    Scalar: (_key, node) => {
      if (typeof node.value === 'number' && node.source !== undefined && JSON_NUMBER.test(node.source)) {
        node.value = parseLossless(node.source);
      }
    },
  });
  const value: JsonValue = document.toJS();
  return value;
}

function notReadable(source: string, error: unknown): Failure {
  const [reason] = (error instanceof Error ? error.message : String(error)).split('\n');
  return new Failure(`${source}: is neither JSON nor YAML: ${reason?.replace(/:$/, '')}`, { cause: error });
}
