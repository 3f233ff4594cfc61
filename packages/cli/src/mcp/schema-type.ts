/** Schemas may refer to each other in circles. */
const MAX_DEPTH = 20;

/**
 * Whether a property may be text, as far as the schema of the whole object says: true too when it says nothing of it.
 */
export function acceptsStrings(schema: unknown, property: string): boolean {
  const properties = getMember(schema, 'properties');
  const own = getMember(properties, property);
  return own === undefined || allowsStrings(own, schema, 0);
}

function allowsStrings(schema: unknown, root: unknown, depth: number): boolean {
  if (typeof schema !== 'object' || schema === null || depth > MAX_DEPTH) return true;
  const allows = (part: unknown) => allowsStrings(part, root, depth + 1);
  const type = getMember(schema, 'type');
  if (typeof type === 'string' && type !== 'string') return false;
  if (Array.isArray(type) && !type.includes('string')) return false;
  const constant = getMember(schema, 'const');
  if (constant !== undefined && typeof constant !== 'string') return false;
  const values = getMember(schema, 'enum');
  if (Array.isArray(values) && !values.some((value) => typeof value === 'string')) return false;
  const reference = getMember(schema, '$ref');
  if (typeof reference === 'string' && !allows(resolveReference(reference, root))) return false;
  const every = getMember(schema, 'allOf');
  if (Array.isArray(every) && !every.every(allows)) return false;
  return [getMember(schema, 'anyOf'), getMember(schema, 'oneOf')].every(
    (options) => !Array.isArray(options) || options.some(allows),
  );
}

/** What a reference within the schema (`#/$defs/x`) leads to; undefined for any other. */
function resolveReference(reference: string, root: unknown): unknown {
  if (!reference.startsWith('#/')) return undefined;
  return reference
    .slice(2)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce(getMember, root);
}

function getMember(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null
    ? Object.entries(value).find(([name]) => name === key)?.[1]
    : undefined;
}
