import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { members } from '@sluice/protocol/json/scan';
import { type Entry, isTemplate, type Offer } from './entries.ts';

/**
 * What MCP serves for an entry. A discovered one is the upstream's own text, untouched unless its name or an override
 * differs; a hand-made one is written from its definition (decisions 2.5 to 2.7).
 */
export function render(entry: Omit<Entry, 'served'>): Entry {
  const served = entry.discovered
    ? entry.discovered.offers.map((offer) => renderOffer(entry, offer, entry.discovered?.overrides ?? {}))
    : [{ json: JSON.stringify(handMade(entry)), catalogues: undefined }];
  return { ...entry, served };
}

function renderOffer(entry: Omit<Entry, 'served'>, offer: Offer, overrides: JsonObject): Offer {
  const renamed = entry.kind !== 'resource' && entry.key !== entry.discovered?.upstreamKey;
  const changes: JsonObject = renamed ? { ...overrides, name: entry.key } : overrides;
  return Object.keys(changes).length === 0 ? offer : { ...offer, json: withMembers(offer.json, changes) };
}

/** The object's text with these members set or, where null, taken away; all others keep their text and place. */
function withMembers(json: string, changes: JsonObject): string {
  const left = new Map(Object.entries(changes));
  const parts: string[] = [];
  for (const { key, start, end } of members(json)) {
    const change = left.get(key);
    left.delete(key);
    if (!Object.hasOwn(changes, key)) parts.push(`${JSON.stringify(key)}:${json.slice(start, end)}`);
    else if (change !== null && change !== undefined) parts.push(`${JSON.stringify(key)}:${JSON.stringify(change)}`);
  }
  for (const [key, value] of left) if (value !== null) parts.push(`${JSON.stringify(key)}:${JSON.stringify(value)}`);
  return `{${parts.join(',')}}`;
}

function handMade(entry: Omit<Entry, 'served'>): JsonObject {
  if (entry.kind === 'tool') {
    const tool: JsonObject = { name: entry.key, ...entry.definition };
    // A file written by hand may leave the schema out, and clients refuse a whole list for one tool without.
    const { inputSchema = {} } = tool;
    // The protocol demands the type, and clients refuse a whole list in which one schema lacks it.
    if (!isJsonObject(inputSchema) || inputSchema.type !== undefined) return tool;
    return { ...tool, inputSchema: { type: 'object', ...inputSchema } };
  }
  if (entry.kind === 'prompt') {
    return { name: entry.key, ...withoutEmpty(entry.definition, ['description', 'arguments']) };
  }
  const uri = isTemplate(entry) ? 'uriTemplate' : 'uri';
  return { [uri]: entry.key, name: entry.name, ...withoutEmpty(entry.definition, ['description', 'mimeType']) };
}

/** Empty texts and lists mean "not given" on REST (decisions 2.6, 2.7) and are no member on MCP. */
function withoutEmpty(definition: JsonObject, keys: readonly string[]): JsonObject {
  const empty = (value: JsonValue): boolean => value === '' || (Array.isArray(value) && value.length === 0);
  return Object.fromEntries(Object.entries(definition).filter(([key, value]) => !(keys.includes(key) && empty(value))));
}
