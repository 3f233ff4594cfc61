import { z } from 'zod';
import { withAliases } from './aliases.ts';
import { entryAnswer, entryInput, secretsURI } from './entry.ts';
import { byValue, jsonValue, listOf } from './json.ts';
import { entryName, givenLocation, location } from './names.ts';

const aliases = {
  uri: 'location',
  mime_type: 'mimeType',
  configuration_uri: 'configurationURI',
  secrets_uri: 'secretsURI',
};

/** A parameter that a capability service gets with each acquisition of the resource. */
const params = byValue(z.object({ name: z.string(), value: z.string() }));

const LOCATION = 'Its MCP uri or uri template; unique in the namespace. Alias `uri`.';

const body = z.object({
  name: entryName,
  location: location.describe(LOCATION),
  type: location.describe('Type label; `mcp-forward` on what forwards discovered.'),
  description: z.string().optional(),
  mimeType: z.string().optional().describe('Alias `mime_type`.'),
  params: listOf(params).optional().describe('What a capability service gets with each acquisition.'),
  secretsURI,
  ...entryInput,
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
    params: z.array(params).optional(),
    secretsURI,
    ...entryAnswer,
  })
  .catchall(jsonValue)
  .meta({ id: 'Resource' });

export type ResourceInput = z.infer<typeof resourceInput>;
export type ResourceUpdate = z.infer<typeof resourceUpdate>;
export type Resource = z.infer<typeof resource>;
