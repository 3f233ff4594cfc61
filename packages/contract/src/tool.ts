import { z } from 'zod';
import { withAliases } from './aliases.ts';
import { entryAnswer, entryInput, secretsURI, upstreamName } from './entry.ts';
import { jsonObject, jsonValue } from './json.ts';
import { entryName, location } from './names.ts';

/** Other names of {@link toolMembers} that bodies may use, with the canonical one of each. */
export const toolAliases = {
  type: 'toolType',
  inputSchema: 'input_schema',
  outputSchema: 'output_schema',
  configuration_uri: 'configurationURI',
  secrets_uri: 'secretsURI',
};

/** The members of a tool that operators set, under canonical names (decisions 2.5). */
export const toolMembers = z.object({
  name: entryName,
  description: z.string().describe('What it does; may be empty.'),
  uri: location.describe('The server that its calls go to. Set by discovery on a discovered tool, and fixed.'),
  toolType: location.describe('Type label; `mcp-forward` on what forwards discovered. Alias `type`.'),
  input_schema: jsonObject.describe('JSON Schema of the arguments. Alias `inputSchema`.'),
  title: z.string().optional().describe('A name for people.'),
  annotations: jsonObject.optional().describe('Hints for clients, as MCP has them.'),
  icons: z.array(jsonValue).optional().describe('Icons, as MCP has them.'),
  output_schema: jsonObject.optional().describe('JSON Schema of the structured result. Alias `outputSchema`.'),
  secretsURI,
  ...entryInput,
});

/** Body of `POST /api/v1/tools` under canonical names (decisions 2.5). Other members are kept as they are. */
export const toolInput = withAliases(toolAliases, toolMembers.catchall(jsonValue)).meta({ id: 'ToolInput' });

/** Body of `PUT /api/v1/tools/{name}`: as {@link toolInput}, but without `name` the tool keeps its own. */
export const toolUpdate = withAliases(
  toolAliases,
  toolMembers.extend({ name: entryName.optional() }).catchall(jsonValue),
).meta({
  id: 'ToolUpdate',
});

/** A tool as it is answered (decisions 2.5). A discovered one carries whatever members its upstream sent. */
export const tool = z
  .object({
    name: z.string(),
    description: z.string(),
    uri: z.string(),
    toolType: z.string(),
    input_schema: jsonObject,
    secretsURI,
    upstreamName,
    ...entryAnswer,
  })
  .catchall(jsonValue)
  .meta({ id: 'Tool' });

export type ToolInput = z.infer<typeof toolInput>;
export type ToolUpdate = z.infer<typeof toolUpdate>;
export type Tool = z.infer<typeof tool>;
