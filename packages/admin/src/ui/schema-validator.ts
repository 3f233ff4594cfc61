import { Validator } from '@cfworker/json-schema';
import {
  type Experimental_DefaultFormStateBehavior,
  type RJSFSchema,
  type RJSFValidationError,
  toErrorSchema,
  type ValidatorType,
} from '@rjsf/utils';

/** A JSON Schema. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** Only what the schema names as a default is filled in: no constants, no items, no objects without members, not "false". */
export const DEFAULTS: Experimental_DefaultFormStateBehavior = {
  constAsDefaults: 'never',
  emptyObjectFields: 'skipEmptyDefaults',
  arrayMinItems: { populate: 'never' },
  requiredBooleanDefault: 'skip',
};

/** Keywords whose errors only say that another error is below them. */
const CONTAINERS: ReadonlySet<string> = new Set(['properties', 'items', '$ref', 'allOf', 'anyOf', 'oneOf']);

/** A validator that interprets schemas: the content security policy forbids generated code. */
export function createValidator<Value>(): ValidatorType<Value, RJSFSchema> {
  return {
    validateFormData: (data, schema) => {
      const errors = errorsOf(schema, data).filter(({ name }) => !CONTAINERS.has(name ?? ''));
      return { errors, errorSchema: toErrorSchema<Value>(errors) };
    },
    isValid: (schema, data, rootSchema) =>
      errorsOf({ ...tolerant(schema), ...definitionsOf(rootSchema) }, data).length === 0,
    rawValidation: (schema, data) => ({
      errors: [],
      ...(errorsOf(schema, data).length > 0 && { validationError: new Error() }),
    }),
  };
}

/**
 * Returns a schema that also accepts a value whose objects and lists are not filled in yet: the form shows the alternative that
 * accepts the value.
 */
function tolerant(schema: JsonSchema): JsonSchema {
  const { properties, items } = schema;
  return {
    ...schema,
    ...(isObject(properties) && { properties: mapMembers(properties, withoutRequirements) }),
    ...(isObject(items) && { items: withoutRequirements(items) }),
  };
}

function withoutRequirements(schema: unknown): unknown {
  if (!isObject(schema)) return schema;
  const { required: _required, minItems: _minItems, oneOf, anyOf = oneOf, ...rest } = schema;
  return { ...tolerant(rest), ...(Array.isArray(anyOf) && { anyOf: anyOf.map(withoutRequirements) }) };
}

/** Returns the definitions that references in a schema name. */
export function definitionsOf({ $defs, definitions }: JsonSchema): JsonSchema {
  return { ...(isObject($defs) && { $defs }), ...(isObject(definitions) && { definitions }) };
}

/** Returns what a value violates; nothing if the schema cannot be interpreted. */
export function errorsOf(schema: JsonSchema, data: unknown): RJSFValidationError[] {
  try {
    return new Validator({ ...schema }, '2020-12', false)
      .validate(data === undefined ? {} : data)
      .errors.map(({ keyword, error, instanceLocation }) => ({
        name: keyword,
        message: error,
        stack: error,
        property: instanceLocation.replace(/^#/, '').replaceAll('/', '.'),
      }));
  } catch {
    // A schema with an unknown reference: the upstream validates.
    return [];
  }
}

/** Whether a value is an object of JSON. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns an object with other values under the same names. */
export function mapMembers<T>(members: JsonSchema, change: (member: unknown, name: string) => T): Record<string, T> {
  return Object.fromEntries(Object.entries(members).map(([name, member]) => [name, change(member, name)]));
}
