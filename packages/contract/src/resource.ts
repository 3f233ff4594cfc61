import { z } from 'zod';
import { withAliases } from './aliases.ts';
import { jsonValue, objectOf } from './json.ts';
import { labels } from './labels.ts';
import { entryName, givenLocation, location, namespaceName } from './names.ts';

const aliases = {
  uri: 'location',
  mime_type: 'mimeType',
  configuration_uri: 'configurationURI',
  secrets_uri: 'secretsURI',
};

/** Parameters that a capability service gets with each acquisition of the resource. */
const params = z.array(objectOf(z.object({ name: z.string(), value: z.string() })));

const LOCATION = 'Its MCP uri or uri template; unique in the namespace. Alias `uri`.';

const body = z.object({
  name: entryName,
  location: location.describe(LOCATION),
  type: location.describe('Type label; `mcp-forward` on what forwards discovered.'),
  description: z.string().optional(),
  mimeType: z.string().optional().describe('Alias `mime_type`.'),
  namespace: namespaceName
    .optional()
    .describe('The namespace it belongs to; `default` when left out. One that does not exist is created.'),
  labels: labels.optional().describe('Free texts by name; replaced as a whole.'),
  params: params.optional().describe('What a capability service gets with each acquisition.'),
  configurationURI: z.string().optional().describe('Configuration for a capability service.'),
  secretsURI: z.string().optional().describe('Where a capability service finds its secrets.'),
  id: z.string().optional().describe('An identifier of the operator, kept as it is.'),
});

/** Body of `POST /api/v1/resources` under canonical names (decisions 2.6). Other members are kept as they are. */
export const resourceInput = withAliases(
  aliases,
  body.extend({ location: givenLocation.describe(LOCATION) }).catchall(jsonValue),
).meta({ id: 'ResourceInput' });

/** Body of `PUT /api/v1/resources/{name}`: as {@link resourceInput}, but without `name` it keeps its own. */
export const resourceUpdate = withAliases(
  aliases,
  body.extend({ name: entryName.optional() }).catchall(jsonValue),
).meta({ id: 'ResourceUpdate' });

/** A resource or resource template as it is answered (decisions 2.6). */
export const resource = z
  .object({
    name: z.string(),
    location: z.string(),
    type: z.string(),
    description: z.string(),
    mimeType: z.string(),
    namespace: namespaceName,
    labels,
    params: params.optional(),
    configurationURI: z.string().optional().describe('Configuration for a capability service.'),
    secretsURI: z.string().optional().describe('Where a capability service finds its secrets.'),
    id: z.string().optional().describe('An identifier of the operator, kept as it is.'),
    forward: z
      .string()
      .optional()
      .describe('The forward that discovered it; absent on what operators made. Read only.'),
    shadowed: z.literal(true).optional().describe('Not served, because another entry has its key. Read only.'),
  })
  .catchall(jsonValue)
  .meta({ id: 'Resource' });

export type ResourceInput = z.infer<typeof resourceInput>;
export type ResourceUpdate = z.infer<typeof resourceUpdate>;
export type Resource = z.infer<typeof resource>;
