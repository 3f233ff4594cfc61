import { Tag } from '@carbon/react';
import { InertText } from './inert-text.tsx';

/** Levels to show; schemas may refer to themselves. */
const MAX_DEPTH = 8;

type Schema = Readonly<Record<string, unknown>>;

/** A JSON Schema as a tree of its properties: name, type, whether it is required, description, default and choices. */
export function SchemaTree({ schema, label }: { readonly schema: unknown; readonly label: string }) {
  if (!isSchema(schema) || propertiesOf(schema).length === 0) return <p>No arguments.</p>;
  return (
    <div className="schema-tree">
      <Properties schema={schema} depth={0} label={label} />
    </div>
  );
}

function Properties({ schema, depth, label }: { schema: Schema; depth: number; label?: string }) {
  const required = Array.isArray(schema.required) ? schema.required : [];
  return (
    <ul aria-label={label}>
      {propertiesOf(schema).map(([name, property]) => (
        <li key={name}>
          <strong>
            <InertText text={name} maxLength={200} />
          </strong>{' '}
          <Tag size="sm" type="cool-gray">
            <InertText text={typeOf(property)} maxLength={100} />
          </Tag>{' '}
          {required.includes(name) && (
            <Tag size="sm" type="blue">
              required
            </Tag>
          )}
          <Notes property={property} />
          {depth < MAX_DEPTH &&
            nestedIn(property).map((nested, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: alternatives of a schema have no other identity
              <Properties key={index} schema={nested} depth={depth + 1} />
            ))}
        </li>
      ))}
    </ul>
  );
}

function Notes({ property }: { readonly property: unknown }) {
  if (!isSchema(property)) return null;
  const { description, default: value, enum: choices, format, minimum, maximum, pattern } = property;
  const notes = [
    Array.isArray(choices) && `one of ${choices.map((choice) => JSON.stringify(choice)).join(', ')}`,
    value !== undefined && `default ${JSON.stringify(value)}`,
    typeof format === 'string' && `format ${format}`,
    minimum !== undefined && `from ${String(minimum)}`,
    maximum !== undefined && `to ${String(maximum)}`,
    typeof pattern === 'string' && `pattern ${pattern}`,
  ].filter((note) => note !== false);
  return (
    <>
      {typeof description === 'string' && (
        <p>
          <InertText text={description} />
        </p>
      )}
      {notes.length > 0 && (
        <p className="schema-notes">
          <InertText text={notes.join('; ')} />
        </p>
      )}
    </>
  );
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function propertiesOf({ properties }: Schema): [string, unknown][] {
  return isSchema(properties) ? Object.entries(properties) : [];
}

/** Schemas of objects within a property: itself, its items, and its alternatives. */
function nestedIn(property: unknown): Schema[] {
  if (!isSchema(property)) return [];
  const alternatives = [property.anyOf, property.oneOf, property.allOf].flatMap((list) =>
    Array.isArray(list) ? list : [],
  );
  return [property, property.items, ...alternatives]
    .filter(isSchema)
    .filter((schema) => propertiesOf(schema).length > 0);
}

function typeOf(property: unknown): string {
  if (!isSchema(property)) return 'any';
  const { type, $ref, items, anyOf, oneOf } = property;
  if (type === 'array') return `array of ${typeOf(items)}`;
  if (typeof type === 'string') return type;
  if (Array.isArray(type)) return type.join(' or ');
  if (typeof $ref === 'string') return $ref.split('/').at(-1) ?? $ref;
  const alternatives = Array.isArray(anyOf) ? anyOf : oneOf;
  return Array.isArray(alternatives) ? alternatives.map(typeOf).join(' or ') : 'any';
}
