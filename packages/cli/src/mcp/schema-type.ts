/** Schemas may refer to each other in circles. */
const DEEPEST = 20;

/**
 * Whether a property may be text, as far as the schema of the whole object says: true too when it says nothing of it.
 */
export function takesStrings(schema: unknown, property: string): boolean {
  const properties = memberOf(schema, 'properties');
  const own = memberOf(properties, property);
  return own === undefined || allowsStrings(own, schema, 0);
}

function allowsStrings(schema: unknown, root: unknown, depth: number): boolean {
  if (typeof schema !== 'object' || schema === null || depth > DEEPEST) return true;
  const allows = (part: unknown) => allowsStrings(part, root, depth + 1);
  const type = memberOf(schema, 'type');
  if (typeof type === 'string' && type !== 'string') return false;
  if (Array.isArray(type) && !type.includes('string')) return false;
  const constant = memberOf(schema, 'const');
  if (constant !== undefined && typeof constant !== 'string') return false;
  const values = memberOf(schema, 'enum');
  if (Array.isArray(values) && !values.some((value) => typeof value === 'string')) return false;
  const reference = memberOf(schema, '$ref');
  if (typeof reference === 'string' && !allows(resolved(reference, root))) return false;
  const every = memberOf(schema, 'allOf');
  if (Array.isArray(every) && !every.every(allows)) return false;
  return [memberOf(schema, 'anyOf'), memberOf(schema, 'oneOf')].every(
    (options) => !Array.isArray(options) || options.some(allows),
  );
}

/** What a reference within the schema (`#/$defs/x`) leads to; undefined for any other. */
function resolved(reference: string, root: unknown): unknown {
  if (!reference.startsWith('#/')) return undefined;
  return reference
    .slice(2)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce(memberOf, root);
}

function memberOf(value: unknown, key: string): unknown {
  return typeof value === 'object' && value !== null
    ? Object.entries(value).find(([name]) => name === key)?.[1]
    : undefined;
}
