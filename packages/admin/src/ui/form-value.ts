import { deepEquals, findSchemaDefinition, getDefaultFormState, getSchemaType, type RJSFSchema } from '@rjsf/utils';
import { createValidator, DEFAULTS, isObject, type JsonSchema } from './schema-validator.ts';

/** Values of the properties of a schema. */
export type FormValue = Readonly<Record<string, unknown>>;

/** Attempts until the defaults of a schema, some of which may depend on others, do not change any more. */
const MAX_PASSES = 5;

/** Returns what the form of a schema, made by {@link formSchema}, shows before anything is typed. */
export function initialValue(schema: RJSFSchema): FormValue {
  const validator = createValidator<FormValue>();
  let value: FormValue = {};
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    const next = getDefaultFormState<FormValue>(validator, schema, value, schema, false, DEFAULTS);
    if (!isObject(next) || deepEquals(next, value)) break;
    value = next;
  }
  return value;
}

/** Returns what is sent for a form. What is empty is left out, unless it is a list, or an object that the schema requires. */
export function sentValue(value: FormValue, schema: JsonSchema): Record<string, unknown> {
  return sentObject(value, schema, schema);
}

function sentObject(value: JsonSchema, schema: JsonSchema, root: JsonSchema): Record<string, unknown> {
  const properties = isObject(schema.properties) ? schema.properties : {};
  const required: readonly unknown[] = Array.isArray(schema.required) ? schema.required : [];
  const names = new Set([...Object.keys(value), ...Object.keys(properties).filter((name) => required.includes(name))]);
  const members = [...names].flatMap((name): [string, unknown][] => {
    const property = resolved(properties[name], root);
    const sent = sentMember(value[name] ?? (required.includes(name) ? emptyOf(property) : value[name]), property, root);
    const isLeftOut = sent === undefined || (isObject(sent) && isEmpty(sent) && !required.includes(name));
    return isLeftOut ? [] : [[name, sent]];
  });
  return Object.fromEntries(members);
}

function sentMember(value: unknown, schema: JsonSchema, root: JsonSchema): unknown {
  if (Array.isArray(value)) {
    const items = resolved(schema.items, root);
    return value.filter((item) => item !== undefined).map((item) => sentMember(item, items, root));
  }
  return isObject(value) ? sentObject(value, schema, root) : value;
}

/** The value of an object or a list in which nothing has been entered. */
function emptyOf(schema: JsonSchema): unknown {
  const type = getSchemaType(schema);
  if (type === 'object') return {};
  return type === 'array' ? [] : undefined;
}

function isEmpty(value: JsonSchema): boolean {
  return Object.keys(value).length === 0;
}

/** The schema that a reference names; one without restrictions where there is none. */
function resolved(schema: unknown, root: JsonSchema): JsonSchema {
  if (!isObject(schema)) return {};
  const { $ref, ...rest } = schema;
  if (typeof $ref !== 'string') return schema;
  try {
    return { ...findSchemaDefinition($ref, root), ...rest };
  } catch {
    return rest;
  }
}
