import { DEFAULT_NAMESPACE, type ToolInput, toolInput } from '@sluice/contract';
import { isJsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { Failure } from '../failure.ts';
import { tryValidate } from '../files/checked.ts';

/** Findings that are listed; a file that is wrong throughout would fill the screen. */
const MAX_FINDINGS = 20;

/**
 * The tools of a document: an array, or an object with `tools` (decisions 1.8). All of them are checked, as the service
 * would. Throws {@link Failure} that lists what is wrong; two tools of one name in a namespace are wrong too.
 */
export function parseTools(document: JsonValue, source: string): ToolInput[] {
  const items = isJsonObject(document) ? document.tools : document;
  if (!Array.isArray(items)) throw new Failure(`${source}: must be an array of tools, or an object with "tools"`);
  const tools: ToolInput[] = [];
  const findings: string[] = [];
  const places = new Map<string, number>();
  for (const [at, item] of items.entries()) {
    const result = tryValidate(toolInput, item);
    if ('findings' in result) {
      findings.push(...result.findings.map((finding) => `${describeItem(item, at)}: ${finding}`));
      continue;
    }
    const { name, namespace = DEFAULT_NAMESPACE } = result.value;
    const key = `${namespace}/${name}`;
    const earlier = places.get(key);
    if (earlier !== undefined)
      findings.push(`${describeItem(item, at)}: tool ${earlier} has this name in ${namespace} too`);
    else places.set(key, at + 1);
    tools.push(result.value);
  }
  if (findings.length === 0) return tools;
  const more = findings.length > MAX_FINDINGS ? [`and ${findings.length - MAX_FINDINGS} more`] : [];
  throw new Failure(`${source}: nothing was sent, because ${findings.length === 1 ? 'this is' : 'these are'} wrong`, {
    notes: [...findings.slice(0, MAX_FINDINGS), ...more],
  });
}

/** Which one it is, counted from one. */
function describeItem(item: JsonValue, at: number): string {
  const name = isJsonObject(item) && typeof item.name === 'string' ? ` (${item.name})` : '';
  return `tool ${at + 1}${name}`;
}
