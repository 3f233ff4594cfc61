import { isJsonObject } from '@sluice/protocol/json/parse';

/** The address that a schema without one has. */
const NOWHERE = 'schema:///';
const REFERENCES = ['$ref', '$dynamicRef', '$recursiveRef'];
/** Keywords whose values are no schemas. */
const DATA: ReadonlySet<string> = new Set(['const', 'enum', 'default', 'examples']);

/** The first reference of a schema that leads out of it, as it is spelled; undefined when all stay inside. */
export function remoteReference(schema: unknown): string | undefined {
  const own = new Set([NOWHERE]);
  const references: [spelled: string, base: string][] = [];
  collect(schema, NOWHERE, own, references);
  const [found] = references.find(([spelled, base]) => !isWithin(own, spelled, base)) ?? [];
  return found;
}

function collect(value: unknown, outer: string, own: Set<string>, references: [string, string][]): void {
  if (Array.isArray(value)) {
    for (const each of value) collect(each, outer, own, references);
  }
  if (!isJsonObject(value)) return;
  const id = value.$id ?? value.id;
  const base = (typeof id === 'string' ? resolved(id, outer) : undefined) ?? outer;
  own.add(base);
  for (const [keyword, member] of Object.entries(value)) {
    if (typeof member === 'string' && REFERENCES.includes(keyword)) references.push([member, base]);
    else if (!DATA.has(keyword)) collect(member, base, own, references);
  }
}

function isWithin(own: ReadonlySet<string>, spelled: string, base: string): boolean {
  if (spelled.startsWith('#')) return true;
  const address = resolved(spelled, base);
  return address !== undefined && own.has(address);
}

/** An address without its fragment; undefined when it is none. */
function resolved(spelled: string, base: string): string | undefined {
  if (!URL.canParse(spelled, base)) return undefined;
  const url = new URL(spelled, base);
  url.hash = '';
  return url.href;
}
