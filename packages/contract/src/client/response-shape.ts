/** JSON types that a value may have, joined by `|`. */
export type JsonTypes = string;

/** Members of an object that have a certain type; the names of optional ones end with `?`. */
export type Members = Readonly<Record<string, JsonTypes>>;

/** The payload of a response as far as clients rely on it: the members of an object, or of the objects of a list. */
export interface ResponseShape {
  /** The payload is a list. */
  readonly list?: true;
  /** The payload is the whole body. */
  readonly raw?: true;
  /** Type of the payload, or of the items of a list. */
  readonly type: JsonTypes;
  readonly members?: Members;
}

/**
 * Compares the body of a response with its shape. Returns what is missing or of the wrong type, such as
 * `0.name: expected string`. Members of members are not compared, since a service of another version may differ in them.
 */
export function findShapeIssues(shape: ResponseShape, body: unknown): string[] {
  const payload: unknown = shape.raw ? body : Object(body).data;
  if (!shape.list) return issuesOf(payload, shape, '');
  if (!Array.isArray(payload)) return ['expected array'];
  return payload.flatMap((item, at) => issuesOf(item, shape, `${at}`));
}

function issuesOf(value: unknown, { type, members = {} }: ResponseShape, path: string): string[] {
  const found = mismatch(value, type);
  if (found !== undefined) return [path === '' ? found : `${path}: ${found}`];
  return Object.entries(members).flatMap(([key, types]) => {
    const isOptional = key.endsWith('?');
    const name = isOptional ? key.slice(0, -1) : key;
    const member: unknown = Object(value)[name];
    if (member === undefined && isOptional) return [];
    const issue = mismatch(member, types);
    return issue === undefined ? [] : [`${path === '' ? '' : `${path}.`}${name}: ${issue}`];
  });
}

function mismatch(value: unknown, types: JsonTypes): string | undefined {
  return types.split('|').includes(typeOf(value)) ? undefined : `expected ${types.replaceAll('|', ' or ')}`;
}

function typeOf(value: unknown): string {
  return value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
}
