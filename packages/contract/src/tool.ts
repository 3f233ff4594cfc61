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
export const toolInput = withAliases(aliases, body.catchall(jsonValue));

/** Body of `PUT /api/v1/tools/{name}`: as {@link toolInput}, but without `name` the tool keeps its own. */
export const toolUpdate = withAliases(aliases, body.extend({ name: entryName.optional() }).catchall(jsonValue));

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
  .catchall(jsonValue);

export type ToolInput = z.infer<typeof toolInput>;
export type ToolUpdate = z.infer<typeof toolUpdate>;
export type Tool = z.infer<typeof tool>;
