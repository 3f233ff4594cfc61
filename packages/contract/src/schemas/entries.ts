import { z } from 'zod';
import { boundedLocation, entryName, existingName, labels, location, namespaceName } from './fields.ts';
import { boundedArray, coerceRawNumber, jsonObject, jsonValue, withAliases } from './json.ts';
import { mcpMembers, mcpResourceMembers, mcpToolMembers } from './mcp.ts';

const configurationURI = z.string().optional().describe('Configuration reference passed to the capability service.');
const id = z.string().optional().describe('Operator-defined identifier.');

/** Member of tools and resources. */
const secretsURI = z.string().optional().describe('Secrets reference passed to the capability service.');

/** Member of tools and prompts, which can be renamed. */
const upstreamName = z.string().optional().describe('Name on the upstream, if different. Read-only.');

/** Members shared by the request bodies of tools, resources and prompts. */
const entryInputMembers = {
  namespace: namespaceName
    .optional()
    .describe('Namespace of the entry (default `default`). Created if it does not exist.'),
  labels: labels.optional().describe('Labels. An update replaces all of them.'),
  enabled: z
    .boolean()
    .optional()
    .describe(
      'Default `true`. MCP clients and actions do not find a disabled entry, which keeps its key. An update without it changes nothing.',
    ),
  configurationURI,
  id,
};

/** Members shared by tools, resources and prompts in responses. */
const entryOutputMembers = {
  namespace: namespaceName,
  labels,
  enabled: z.boolean().describe('Whether MCP clients and actions find the entry.'),
  configurationURI,
  id,
  forward: z.string().optional().describe('Forward that discovered the entry. Read-only.'),
  shadowed: z
    .literal(true)
    .optional()
    .describe('The entry is not served, because another entry has the same key. Read-only.'),
};

/** Aliases of {@link toolMembers} and the canonical names. */
export const toolAliases = {
  type: 'toolType',
  inputSchema: 'input_schema',
  outputSchema: 'output_schema',
  configuration_uri: 'configurationURI',
  secrets_uri: 'secretsURI',
};

/** Writable members of a tool. */
export const toolMembers = z.object({
  name: entryName,
  description: z.string().describe('Description; may be empty.'),
  uri: location.describe('Upstream that calls are sent to. Cannot be changed on a discovered tool.'),
  toolType: location.describe('Type label; `mcp-forward` for discovered tools. Alias: `type`.'),
  ...mcpMembers,
  ...mcpToolMembers,
  secretsURI,
  ...entryInputMembers,
});

/** Body of `POST /api/v1/tools`. Additional members are stored. */
export const toolInput = withAliases(toolAliases, toolMembers.catchall(jsonValue)).meta({ id: 'ToolInput' });

/** Body of `PUT /api/v1/tools/{name}`: {@link toolInput} with an optional `name`. */
export const toolUpdate = withAliases(
  toolAliases,
  toolMembers.extend({ name: existingName.optional() }).catchall(jsonValue),
).meta({
  id: 'ToolUpdate',
});

/** A tool in responses. A discovered one includes all members sent by its upstream. */
export const tool = z
  .object({
    name: z.string(),
    description: z.string(),
    uri: z.string(),
    toolType: z.string(),
    input_schema: jsonObject,
    secretsURI,
    upstreamName,
    ...entryOutputMembers,
  })
  .catchall(jsonValue)
  .meta({ id: 'Tool' });

export type ToolInput = z.infer<typeof toolInput>;
export type ToolUpdate = z.infer<typeof toolUpdate>;
export type Tool = z.infer<typeof tool>;

const resourceAliases = {
  uri: 'location',
  mime_type: 'mimeType',
  configuration_uri: 'configurationURI',
  secrets_uri: 'secretsURI',
};

const resourceParameter = coerceRawNumber(z.object({ name: z.string(), value: z.string() }));

const LOCATION = 'MCP URI or URI template, unique in the namespace. Alias: `uri`.';

/** Writable members of a resource. */
export const resourceMembers = z.object({
  name: entryName,
  location: location.describe(LOCATION),
  type: location.describe('Type label; `mcp-forward` for discovered resources.'),
  description: z.string().optional(),
  mimeType: z.string().optional().describe('Alias: `mime_type`.'),
  ...mcpMembers,
  ...mcpResourceMembers,
  params: boundedArray(resourceParameter)
    .optional()
    .describe('Parameters passed to the capability service on each acquisition.'),
  secretsURI,
  ...entryInputMembers,
});

/** Body of `POST /api/v1/resources`. Additional members are stored. */
export const resourceInput = withAliases(
  resourceAliases,
  resourceMembers.extend({ location: boundedLocation.describe(LOCATION) }).catchall(jsonValue),
).meta({ id: 'ResourceInput' });

/** Body of `PUT /api/v1/resources/{name}`: {@link resourceInput} with an optional `name` and any `location`. */
export const resourceUpdate = withAliases(
  resourceAliases,
  resourceMembers.extend({ name: existingName.optional() }).catchall(jsonValue),
).meta({ id: 'ResourceUpdate' });

/** A resource or resource template in responses. */
export const resource = z
  .object({
    name: z.string(),
    location: z.string(),
    type: z.string(),
    description: z.string(),
    mimeType: z.string(),
    params: z.array(resourceParameter).optional(),
    secretsURI,
    ...entryOutputMembers,
  })
  .catchall(jsonValue)
  .meta({ id: 'Resource' });

export type ResourceInput = z.infer<typeof resourceInput>;
export type ResourceUpdate = z.infer<typeof resourceUpdate>;
export type Resource = z.infer<typeof resource>;

const promptAliases = { configuration_uri: 'configurationURI' };

const promptArgument = z
  .object({ name: z.string(), description: z.string().optional(), required: z.boolean().optional() })
  .catchall(jsonValue);

const promptMessage = z
  .object({
    role: z.enum(['user', 'assistant', 'system']),
    content: z.union([z.string(), jsonObject], { error: 'must be a string or a content object' }),
  })
  .catchall(jsonValue);

/** Writable members of a prompt. */
export const promptMembers = z.object({
  name: entryName,
  description: z.string().optional(),
  ...mcpMembers,
  arguments: boundedArray(coerceRawNumber(promptArgument)).optional().describe('Arguments of the template.'),
  messages: boundedArray(coerceRawNumber(promptMessage))
    .optional()
    .describe(
      'Messages; `{name}` is replaced by the value of that argument. Empty for discovered prompts, which the upstream renders.',
    ),
  ...entryInputMembers,
});

/** Body of `POST /api/v1/prompts`. Additional members are stored. */
export const promptInput = withAliases(promptAliases, promptMembers.catchall(jsonValue)).meta({ id: 'PromptInput' });

/** Body of `PUT /api/v1/prompts/{name}`: {@link promptInput} with an optional `name`. */
export const promptUpdate = withAliases(
  promptAliases,
  promptMembers.extend({ name: existingName.optional() }).catchall(jsonValue),
).meta({
  id: 'PromptUpdate',
});

/** A prompt in responses. */
export const prompt = z
  .object({
    name: z.string(),
    description: z.string(),
    arguments: z.array(jsonValue),
    messages: z.array(promptMessage),
    upstreamName,
    ...entryOutputMembers,
  })
  .catchall(jsonValue)
  .meta({ id: 'Prompt' });

export type PromptInput = z.infer<typeof promptInput>;
export type PromptUpdate = z.infer<typeof promptUpdate>;
export type Prompt = z.infer<typeof prompt>;

const URI_MEMBERS: Readonly<Record<string, string>> = {
  configurationuri: 'configurationURI',
  secretsuri: 'secretsURI',
  secreturi: 'secretsURI',
};

/**
 * Returns the correct name of a misspelled `configurationURI` or `secretsURI`, such as the `secretUri` of a provision response;
 * undefined for other members. Additional members are stored, so a misspelled one would silently leave the tool without its
 * secrets.
 */
export function suggestUriMember(member: string): string | undefined {
  const normalized = member.toLowerCase().replace(/[-_]/g, '');
  const canonical = Object.hasOwn(URI_MEMBERS, normalized) ? URI_MEMBERS[normalized] : undefined;
  return canonical === member ? undefined : canonical;
}
