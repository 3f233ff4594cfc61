import { applyEdits, type Edit, removeEdits } from '@sluice/protocol/json/edit';
import { members, memberText } from '@sluice/protocol/json/scan';

/** By the first letter of true, which allows anything, and of false, which allows nothing. */
const INSTEAD: Readonly<Record<string, string>> = { t: '{}', f: '{"not":{}}' };

/** Keys that are spelled with escapes are rare, and could be any. */
const ESCAPED = '\\u';

/**
 * What is in every tool with a member of `properties` that is true or false, and in few others: the first such member,
 * or one that follows on an object. A list of 100,000 tools is searched with it in 40 ms, member by member in 160 ms.
 */
const BOOLEAN_PROPERTY = /\\u|(?:"properties"\s*:\s*\{|\}\s*,)\s*"[^"\\]*(?:\\|"\s*:\s*[tf])/;

/**
 * A tool as legacy clients take it, who refuse a whole list for one tool whose schemas say more than 2025-11-25 allows
 * (mcp 5): an `outputSchema` whose `type` is not "object" is left out, and a property whose schema is true or false gets
 * an object that means the same. Everything else keeps its text.
 *
 * `json` is the tool's text, accepted by `JSON.parse` before.
 */
export function legacyTool(json: string): string {
  const output =
    json.includes('"outputSchema"') || json.includes(ESCAPED) ? memberText(json, 'outputSchema') : undefined;
  const drops = output !== undefined && !describesObject(output);
  const edits = drops ? removeEdits(json, 0, (key) => key === 'outputSchema') : [];
  if (BOOLEAN_PROPERTY.test(json)) {
    for (const { key, start } of members(json)) {
      if (key === 'inputSchema' || (key === 'outputSchema' && !drops)) edits.push(...objectsForBooleans(json, start));
    }
  }
  return edits.length === 0 ? json : applyEdits(json, edits);
}

function describesObject(schema: string): boolean {
  const type = memberText(schema, 'type');
  return type !== undefined && JSON.parse(type) === 'object';
}

/** The edits for the properties of the schema at `start`. Clients look no deeper than that. */
function objectsForBooleans(json: string, start: number): Edit[] {
  const edits: Edit[] = [];
  for (const schema of members(json, start)) {
    if (schema.key !== 'properties') continue;
    for (const property of members(json, schema.start)) {
      const text = INSTEAD[json.charAt(property.start)];
      if (text !== undefined) edits.push({ start: property.start, end: property.end, text });
    }
  }
  return edits;
}
