// Generates what clients check in responses from the OpenAPI document.
import type { JsonTypes, Members, ResponseShape } from '../src/client/response-shape.ts';
import { openApiDocument } from '../src/openapi/document.ts';
import type { Schema } from '../src/openapi/schemas.ts';
import { allOperations } from '../src/operations/operations.ts';

/** Returns the shapes of all JSON responses by method, path and status. */
export function responseShapes(): Record<string, ResponseShape> {
  const document = openApiDocument('0');
  const schemas = document.components.schemas;
  const shapes: Record<string, ResponseShape> = {};
  for (const { method, path, responses } of allOperations) {
    for (const [status, { raw, mediaType, eventStream }] of Object.entries(responses)) {
      if (mediaType !== undefined || eventStream) continue;
      const operation: Partial<Record<string, unknown>> = Object(Object(document.paths)[path][method.toLowerCase()]);
      const body = Object(operation.responses)[status].content['application/json'].schema;
      const payload = resolve(raw ? body : body.properties.data);
      const isList = payload.type === 'array';
      const { type, members } = describe(isList ? resolve(Object(payload.items)) : payload);
      const hasMembers = Object.keys(members).length > 0;
      shapes[`${method} ${path} ${status}`] = {
        ...(isList && { list: true }),
        ...(raw && { raw }),
        type,
        ...(hasMembers && { members }),
      };
    }
  }
  return shapes;

  function resolve(schema: Schema): Schema {
    const [, name] = /^#\/components\/schemas\/(.+)$/.exec(schema.$ref ?? '') ?? [];
    const found = name === undefined ? undefined : schemas[name];
    return found === undefined ? schema : resolve(found);
  }

  function variantsOf(schema: Schema): Schema[] {
    const resolved = resolve(schema);
    const variants = resolved.anyOf ?? resolved.oneOf;
    return variants === undefined ? [resolved] : variants.flatMap((variant) => variantsOf(Object(variant)));
  }

  function typesOf(schema: Schema): JsonTypes {
    const types = variantsOf(schema).map(({ type, enum: values, const: value }) => {
      if (type !== undefined) return type === 'integer' ? 'number' : String(type);
      const known = values ?? (value === undefined ? [] : [value]);
      return known.length > 0 ? typeof known[0] : '';
    });
    // A schema without a type allows any value.
    return types.includes('') ? '' : [...new Set(types)].join('|');
  }

  /** A member is required if all variants require it. */
  function describe(schema: Schema): { readonly type: JsonTypes; readonly members: Members } {
    const variants = variantsOf(schema);
    const names = new Set(variants.flatMap(({ properties = {} }) => Object.keys(properties)));
    const members: Record<string, JsonTypes> = {};
    for (const name of names) {
      const types = [
        ...new Set(
          variants.flatMap(({ properties = {} }) => {
            const property = properties[name];
            return property === undefined ? [] : typesOf(Object(property)).split('|');
          }),
        ),
      ];
      const isRequired = variants.every(({ required = [] }) => required.includes(name));
      if (!types.includes('')) members[isRequired ? name : `${name}?`] = types.join('|');
    }
    return { type: typesOf(schema), members };
  }
}
