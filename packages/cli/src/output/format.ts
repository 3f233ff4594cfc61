import type { Command } from 'commander';
import { Failure } from '../failure.ts';

/** Formats of `--output`. */
export const OUTPUT_FORMATS = ['table', 'json', 'yaml', 'name'] as const;

/** Format of `--output`. `name` prints one name per line, for scripts. */
export type OutputFormat = (typeof OUTPUT_FORMATS)[number];

/** Commands whose results have no names. `mcp tool` calls a tool; `mcp tool list` prints names. */
const WITHOUT_NAMES =
  /^(?:pipeline|action|apply|diff|export|configure|health|statistics|metrics|auth|keys|services provision|tools import|interactions clear|mcp \w+$)\b/;

/** Rejects `--output name` before a command runs that has no names to print. Throws {@link Failure}. */
export function requireNames(format: OutputFormat, command: Command): void {
  const path = commandPath(command);
  if (format === 'name' && WITHOUT_NAMES.test(path)) {
    throw new Failure(`--output name: "sluice ${path}" prints no names; use table, json or yaml`);
  }
}

/** Names of a command and those above it, without the program: `mcp tool`. */
function commandPath(command: Command): string {
  const { parent } = command;
  if (!parent) return '';
  return `${commandPath(parent)} ${command.name()}`.trim();
}

/** Members that identify an entry in responses of the API, the most specific first. */
const IDENTIFIERS = ['name', 'removed', 'refreshed', 'unbound', 'namespace', 'id'];

/** Returns the names in a payload, without duplicates; none when it has no identifying member. */
export function namesOf(payload: unknown): string[] {
  if (Array.isArray(payload)) return [...new Set(payload.flatMap(namesOf))];
  const members = new Map<string, unknown>(Object.entries(Object(payload)));
  const found = IDENTIFIERS.map((member) => members.get(member)).find((value) => value !== undefined);
  if (found === undefined) return [];
  return [typeof found === 'string' ? found : JSON.stringify(found)];
}
