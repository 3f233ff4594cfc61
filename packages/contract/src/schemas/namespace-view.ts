import { z } from 'zod';
import { jsonObject } from './json.ts';

/** Where an entry comes from. */
const entrySource = z
  .discriminatedUnion('kind', [
    z.object({
      kind: z.literal('forward'),
      forward: z.string(),
      upstreamKey: z.string().describe('Name at the upstream; URI of a resource'),
      era: z.enum(['legacy', 'modern']).optional().describe('Era of the catalog that is chosen for the client'),
      copied: z.literal(true).optional().describe('A copy that an action made'),
      moved: z.literal(true).optional().describe('Moved to this namespace by an operator'),
      renamed: z.literal(true).optional().describe('Renamed by an operator'),
    }),
    z.object({
      kind: z.literal('manual'),
      type: z.string().optional().describe('`toolType` of a tool, `type` of a resource'),
      uri: z.string().optional().describe('`uri` of a tool, without user, password and query'),
    }),
  ])
  .meta({ id: 'EntrySource' });

/** An entry of a namespace as one kind of client sees it. */
export const viewEntry = z
  .object({
    kind: z.enum(['tool', 'resource', 'resource_template', 'prompt']),
    name: z.string(),
    key: z.string().describe('Name of a tool or prompt; URI of a resource'),
    offered: z.boolean().describe('Whether such a client finds the entry in its list'),
    reason: z
      .enum(['disabled', 'blocked', 'shadowed', 'other_clients'])
      .optional()
      .describe(
        'Why it is not offered: an operator disabled it or blocked its forward, another entry holds its key, or its upstream ' +
          'lists it only for clients of another era or with other capabilities',
      ),
    definition: jsonObject.optional().describe('The object in the list of the client; omitted if it is not offered'),
    source: entrySource,
    overrides: z.array(z.string()).describe('Members of the MCP object that an operator has replaced or removed'),
    shadows: z.array(entrySource).optional().describe('Entries that are not offered because this one holds their key'),
    shadowedBy: entrySource.optional().describe('The entry that holds the key'),
  })
  .meta({ id: 'ViewEntry' });

export type ViewEntry = z.infer<typeof viewEntry>;
export type EntrySource = z.infer<typeof entrySource>;
