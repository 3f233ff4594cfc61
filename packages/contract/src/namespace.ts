import { z } from 'zod';
import { withAliases } from './aliases.ts';
import { labels } from './labels.ts';
import { namespaceName } from './names.ts';

const aliases = { path: 'name' };

/** A namespace as it is answered (decisions 2.3). */
export const namespace = z.object({ name: namespaceName, labels }).meta({ id: 'Namespace' });

/** Body of `POST /api/v1/namespaces`; alias `path` for `name`. */
export const namespaceInput = withAliases(
  aliases,
  z.object({
    name: namespaceName.describe('The path segment of its MCP endpoint. Alias `path`.'),
    labels: labels.optional().describe('Free texts by name.'),
  }),
).meta({
  id: 'NamespaceInput',
});

/** Body of `PUT /api/v1/namespaces/{name}`: replaces the labels. A valid name is ignored, an invalid one refused. */
export const namespaceUpdate = withAliases(
  aliases,
  z.object({
    name: namespaceName.optional().describe('Ignored.'),
    labels: labels.optional().describe('Free texts by name, in place of the present ones.'),
  }),
).meta({ id: 'NamespaceUpdate' });

export type Namespace = z.infer<typeof namespace>;
export type NamespaceInput = z.infer<typeof namespaceInput>;
export type NamespaceUpdate = z.infer<typeof namespaceUpdate>;
