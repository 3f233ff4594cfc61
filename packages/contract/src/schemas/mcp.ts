import { z } from 'zod';
import { validate } from '../validate.ts';
import { coerceRawNumber, jsonObject, jsonValue } from './json.ts';

/**
 * What MCP's schemas of both eras demand of tools, resources and prompts. Clients reject a whole list for one entry that violates
 * them.
 */

const text = z.string();
/** An object with any further members; a raw number is none. */
const open = <T extends z.ZodRawShape>(shape: T) => coerceRawNumber(z.object(shape).catchall(jsonValue));

/** Icons of an entry. */
const icons = z.array(
  open({
    src: text,
    mimeType: text.optional(),
    sizes: z.array(text).optional(),
    theme: z.enum(['light', 'dark']).optional(),
  }),
);

/** Members of each kind of entry. */
const common = {
  name: text,
  title: text.optional(),
  description: text.optional(),
  icons: icons.optional(),
  _meta: jsonObject.optional(),
};

/** An object, true or false. Clients check no more of the schema of a property. */
const schemas = z.record(text, z.union([jsonObject, z.boolean()], { error: 'must be a schema' }));

const schemaMembers = { $schema: text.optional(), properties: schemas.optional(), required: z.array(text).optional() };
const objectType = z.literal('object');
const objectSchema = open({ ...schemaMembers, type: objectType });

/** Legacy clients do not get an output schema of another type. */
const outputSchema = open({ $schema: text.optional() }).superRefine((schema, context) => {
  if (schema.type === 'object') addIssues(objectSchema, schema, context);
});

const toolAnnotations = open({
  title: text.optional(),
  readOnlyHint: z.boolean().optional(),
  destructiveHint: z.boolean().optional(),
  idempotentHint: z.boolean().optional(),
  openWorldHint: z.boolean().optional(),
});

const execution = open({ taskSupport: z.enum(['required', 'optional', 'forbidden']).optional() });

const annotations = open({
  audience: z.array(z.enum(['user', 'assistant'])).optional(),
  priority: coerceRawNumber(z.number().min(0).max(1)).optional(),
  lastModified: z.iso.datetime({ offset: true, error: 'must be a time of ISO 8601 with an offset' }).optional(),
});

const resourceMembers = { ...common, mimeType: text.optional(), annotations: annotations.optional() };

/** Entries of the list methods, by the list's name. */
export const mcpEntries = {
  tools: z.object({
    ...common,
    inputSchema: objectSchema,
    outputSchema: outputSchema.optional(),
    annotations: toolAnnotations.optional(),
    execution: execution.optional(),
  }),
  resources: z.object({ ...resourceMembers, uri: text, size: z.number().optional() }),
  templates: z.object({ ...resourceMembers, uriTemplate: text }),
  prompts: z.object({
    ...common,
    arguments: z
      .array(z.object({ name: text, description: text.optional(), required: z.boolean().optional() }))
      .optional(),
  }),
};

/** MCP members of request bodies; their values are stored as they are. */
export const mcpMembers = {
  title: text.optional().describe('Display name.'),
  icons: checked(icons).optional().describe('MCP icons.'),
  _meta: jsonObject.optional().describe('MCP metadata.'),
};
export const mcpToolMembers = {
  input_schema: checked(open({ ...schemaMembers, type: objectType.optional() })).describe(
    'JSON Schema of the arguments, of type object. Served with its type, also when it has none. Alias: `inputSchema`.',
  ),
  output_schema: checked(open(schemaMembers))
    .optional()
    .describe('JSON Schema of the structured result. Alias: `outputSchema`.'),
  annotations: checked(toolAnnotations).optional().describe('MCP tool annotations.'),
  execution: checked(execution).optional().describe('MCP execution properties.'),
};
export const mcpResourceMembers = {
  annotations: checked(annotations).optional().describe('MCP annotations.'),
  size: checked(coerceRawNumber(z.number())).optional().describe('Size in bytes.'),
};

/** A schema that only checks: values are passed through without copying, raw numbers keep their digits. */
function checked<T extends z.ZodType>(schema: T) {
  const { $schema: _dialect, ...document } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  return z
    .custom<z.output<T>>((value) => value !== undefined)
    .superRefine((value, context) => addIssues(schema, value, context))
    .meta(document);
}

function addIssues(schema: z.ZodType, value: unknown, context: z.RefinementCtx): void {
  const result = validate(schema, value);
  if (!('issues' in result)) return;
  for (const { path, message } of result.issues) {
    context.addIssue({ code: 'custom', path: path === '' ? [] : path.split('.'), message });
  }
}
