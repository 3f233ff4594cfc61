import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';

/** What the input schema of a tool says of a value, as far as policies can rely on it. */
export type InputType =
  | { readonly kind: 'boolean' | 'string' | 'integer' | 'number' }
  | { readonly kind: 'array'; readonly element: InputType }
  | RecordType;

/** The declared members of an object; others may occur. */
export interface RecordType {
  readonly kind: 'object';
  readonly members: ReadonlyMap<string, InputMember>;
  /** Names of the members by their {@link foldedName}. */
  readonly folded: ReadonlyMap<string, string>;
}

/** A declared member. */
export interface InputMember {
  readonly type: InputType;
  /** Whether each valid object has it, with a value. */
  readonly isRequired: boolean;
}

/** Nested more deeply, nothing is declared. */
const MAX_DEPTH = 8;

/** Returns the type of a tool's arguments. */
export function inputTypeOf(inputSchema: JsonValue | undefined): RecordType {
  return recordOf(isJsonObject(inputSchema) ? inputSchema : {}, 0);
}

function recordOf({ properties, required }: JsonObject, depth: number): RecordType {
  const names: ReadonlySet<JsonValue> = new Set(Array.isArray(required) ? required : []);
  const members = new Map<string, InputMember>();
  for (const [name, schema] of Object.entries(isJsonObject(properties) ? properties : {})) {
    const type = typeOf(schema, depth + 1);
    if (type) members.set(name, { type, isRequired: names.has(name) && !isNullable(schema) });
  }
  return { kind: 'object', members, folded: new Map(Array.from(members.keys(), (name) => [foldedName(name), name])) };
}

const IS_FOLDED = /^[a-z0-9_-]*$/;

/**
 * Returns what two names share that some server takes for the same: those that differ only in case, in what follows U+0000, or in the
 * compatible forms of their characters.
 */
export function foldedName(name: string): string {
  if (IS_FOLDED.test(name)) return name;
  const [text = ''] = name.split('\0', 1);
  return text.normalize('NFKC').toUpperCase().toLowerCase().normalize('NFKC');
}

/** Undefined for a schema that permits values of several types, or that refers to another one. */
function typeOf(schema: JsonValue, depth: number): InputType | undefined {
  if (!isJsonObject(schema) || depth > MAX_DEPTH) return undefined;
  switch (typeName(schema)) {
    case 'boolean':
      return { kind: 'boolean' };
    case 'string':
      return { kind: 'string' };
    case 'integer':
      return { kind: 'integer' };
    case 'number':
      return { kind: 'number' };
    case 'array': {
      const element = schema.items === undefined ? undefined : typeOf(schema.items, depth + 1);
      return element && { kind: 'array', element };
    }
    case 'object':
      return recordOf(schema, depth);
    default:
      return undefined;
  }
}

function typeName({ type, enum: values }: JsonObject): JsonValue | undefined {
  if (Array.isArray(type)) {
    const types = type.filter((each) => each !== 'null');
    return types.length === 1 ? types[0] : undefined;
  }
  const isText = type === undefined && Array.isArray(values) && values.every((value) => typeof value === 'string');
  return isText ? 'string' : type;
}

function isNullable(schema: JsonValue): boolean {
  return isJsonObject(schema) && Array.isArray(schema.type) && schema.type.includes('null');
}
