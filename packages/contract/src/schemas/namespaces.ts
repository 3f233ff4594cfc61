import { z } from 'zod';
import { labels, namespaceName } from './fields.ts';
import { withAliases } from './json.ts';

const aliases = { path: 'name' };

/** A namespace in responses. */
export const namespace = z
  .object({
    name: namespaceName,
    labels,
    mcpUrl: z.string().optional().describe('URL of the MCP endpoint for clients, if SERVICE_PUBLIC_URL is set.'),
  })
  .meta({ id: 'Namespace' });

/** Response of `DELETE /api/v1/namespaces/{name}`. */
export const namespaceDeleteResult = z
  .object({
    removed: z.string(),
    disabled: z
      .array(
        z.object({
          kind: z.enum(['tool', 'resource', 'prompt']),
          name: z.string(),
          namespace: namespaceName,
          forward: z.string(),
        }),
      )
      .optional()
      .describe(
        'Discovered entries that had been moved to the namespace: now disabled in the namespace of their forward.',
      ),
  })
  .meta({ id: 'RemovedNamespace' });

/** Body of `POST /api/v1/namespaces`. */
export const namespaceInput = withAliases(
  aliases,
  z.object({
    name: namespaceName.describe('Path segment of the MCP endpoint. Alias: `path`.'),
    labels: labels.optional().describe('Labels.'),
  }),
).meta({
  id: 'NamespaceInput',
});

/** Body of `PUT /api/v1/namespaces/{name}`: replaces the labels. `name` is validated and ignored. */
export const namespaceUpdate = withAliases(
  aliases,
  z.object({
    name: namespaceName.optional().describe('Ignored.'),
    labels: labels.optional().describe('Labels. An update replaces all of them.'),
  }),
).meta({ id: 'NamespaceUpdate' });

export type Namespace = z.infer<typeof namespace>;
export type NamespaceDeleteResult = z.infer<typeof namespaceDeleteResult>;
export type NamespaceInput = z.infer<typeof namespaceInput>;
export type NamespaceUpdate = z.infer<typeof namespaceUpdate>;
