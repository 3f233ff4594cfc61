import { getClosestMatchingOption, getDefaultFormState, type RJSFSchema } from '@rjsf/utils';
import { visibleText } from './inert-text.tsx';
import {
  createValidator,
  DEFAULTS,
  definitionsOf,
  errorsOf,
  isObject,
  type JsonSchema,
  mapMembers,
} from './schema-validator.ts';

/** Keywords whose values are schemas by name, alternatives, and schemas or lists of them. */
const NAMED: ReadonlySet<string> = new Set(['patternProperties', '$defs', 'definitions', 'dependentSchemas']);
const ALTERNATIVES: ReadonlySet<string> = new Set(['anyOf', 'oneOf']);
const NESTED: ReadonlySet<string> = new Set([
  'items',
  'prefixItems',
  'additionalProperties',
  'allOf',
  'if',
  'then',
  'else',
]);

/**
 * Returns a schema for the form. All characters of titles are visible. A constant is a choice of one, selected where every value
 * of the schema has it. Defaults that their own schemas reject are left out, since the form could not show them.
 */
export function formSchema(schema: JsonSchema): RJSFSchema {
  return convert(schema, schema, true);
}

/** `isRequired`: whether every value of the root has a value of this schema. */
function convert(schema: JsonSchema, root: JsonSchema, isRequired: boolean): RJSFSchema {
  const required: readonly unknown[] = Array.isArray(schema.required) ? schema.required : [];
  const nested = (value: unknown) => (isObject(value) ? convert(value, root, false) : value);
  const convertMember = (value: unknown, keyword: string): unknown => {
    if (keyword === 'default') return isShowable(schema, root) ? value : undefined;
    if (keyword === 'title') return typeof value === 'string' ? visibleText(value) : undefined;
    if (keyword === 'properties' && isObject(value))
      return mapMembers(value, (property, name) =>
        isObject(property) ? convertProperty(name, property, root, isRequired && required.includes(name)) : property,
      );
    if (ALTERNATIVES.has(keyword) && Array.isArray(value)) {
      const options = value.map((option) => (isObject(option) ? convert(option, root, isRequired) : option));
      return isFirstShown(options, root) ? options : options.map(withoutDefaults);
    }
    if (NAMED.has(keyword) && isObject(value)) return mapMembers(value, nested);
    if (NESTED.has(keyword)) return Array.isArray(value) ? value.map(nested) : nested(value);
    return value;
  };
  return withoutMissing(mapMembers(schema, convertMember));
}

function withoutMissing(members: JsonSchema): RJSFSchema {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}

function convertProperty(name: string, property: JsonSchema, root: JsonSchema, isRequired: boolean): RJSFSchema {
  const { const: only, ...rest } = convert(property, root, isRequired);
  const title = rest.title ?? visibleText(name);
  if (!isPlain(only)) return { ...rest, ...(only !== undefined && { const: only }), title };
  return { type: typeOf(only), ...rest, enum: [only], title, ...(isRequired && { default: only }) };
}

/**
 * Whether the form shows the first alternative, whose defaults it fills in: it guesses from the value which alternative that
 * belongs to.
 */
function isFirstShown(options: readonly unknown[], root: JsonSchema): boolean {
  const [first] = options;
  if (!isObject(first)) return true;
  const validator = createValidator<unknown>();
  const value = getDefaultFormState<unknown, RJSFSchema>(validator, first, undefined, root, false, DEFAULTS);
  return getClosestMatchingOption<unknown, RJSFSchema>(validator, root, value, options.filter(isObject), 0) === 0;
}

function withoutDefaults(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutDefaults);
  if (!isObject(schema)) return schema;
  const { default: _default, ...rest } = schema;
  return mapMembers(rest, (value, keyword) => {
    if (keyword === 'properties' && isObject(value)) return mapMembers(value, withoutDefaults);
    return keyword === 'items' || ALTERNATIVES.has(keyword) ? withoutDefaults(value) : value;
  });
}

/** Whether the form can show the default of a schema. */
function isShowable(schema: JsonSchema, root: JsonSchema): boolean {
  const { default: value, ...rest } = schema;
  return errorsOf({ ...definitionsOf(root), ...rest }, value).length === 0;
}

function isPlain(value: unknown): value is string | number | boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
}

function typeOf(value: string | number | boolean): 'string' | 'number' | 'boolean' {
  if (typeof value === 'string') return 'string';
  return typeof value === 'number' ? 'number' : 'boolean';
}
