import { z } from 'zod';
import { withAliases } from './aliases.ts';
import { jsonObject, jsonValue } from './json.ts';
import { labels } from './labels.ts';
import { entryName, location, namespaceName } from './names.ts';

const aliases = {
  type: 'toolType',
  inputSchema: 'input_schema',
  outputSchema: 'output_schema',
  configuration_uri: 'configurationURI',
  secrets_uri: 'secretsURI',
};

const body = z.object({
  name: entryName,
  description: z.string(),
  uri: location,
  toolType: location,
  input_schema: jsonObject,
  namespace: namespaceName.optional(),
  labels: labels.optional(),
  title: z.string().optional(),
  annotations: jsonObject.optional(),
  icons: z.array(jsonValue).optional(),
  output_schema: jsonObject.optional(),
  configurationURI: z.string().optional(),
  secretsURI: z.string().optional(),
  id: z.string().optional(),
});

/** Body of `POST /api/v1/tools` under canonical names (decisions 2.5). Other members are kept as they are. */
export const toolInput = withAliases(aliases, body.catchall(jsonValue)).meta({ id: 'ToolInput' });

/** Body of `PUT /api/v1/tools/{name}`: as {@link toolInput}, but without `name` the tool keeps its own. */
export const toolUpdate = withAliases(aliases, body.extend({ name: entryName.optional() }).catchall(jsonValue)).meta({
  id: 'ToolUpdate',
});

const fixed = z.never({ error: 'is set by its forward; leave it out' }).optional();

/**
 * What somebody wants of a discovered tool, under canonical names: which one it is, and any of the members that a PUT can
 * change. A member that is left out follows the upstream; null takes an optional one of the upstream's away.
 */
export const toolOverrides = withAliases(
  aliases,
  body
    .partial()
    .extend({
      forward: entryName,
      upstreamName: z.string().min(1, 'must not be empty').optional(),
      description: z.string().nullable().optional(),
      title: z.string().nullable().optional(),
      annotations: jsonObject.nullable().optional(),
      icons: z.array(jsonValue).nullable().optional(),
      output_schema: jsonObject.nullable().optional(),
      uri: fixed,
      toolType: fixed,
      shadowed: fixed,
      upstream: fixed,
    })
    .catchall(jsonValue),
);

/** A tool as it is answered (decisions 2.5). A discovered one carries whatever members its upstream sent. */
export const tool = z
  .object({
    name: z.string(),
    description: z.string(),
    uri: z.string(),
    toolType: z.string(),
    input_schema: jsonObject,
    namespace: namespaceName,
    labels,
    configurationURI: z.string().optional(),
    secretsURI: z.string().optional(),
    id: z.string().optional(),
    forward: z.string().optional(),
    upstreamName: z.string().optional(),
    shadowed: z.literal(true).optional(),
  })
  .catchall(jsonValue)
  .meta({ id: 'Tool' });

export type ToolInput = z.infer<typeof toolInput>;
export type ToolUpdate = z.infer<typeof toolUpdate>;
export type ToolOverrides = z.infer<typeof toolOverrides>;
export type Tool = z.infer<typeof tool>;
