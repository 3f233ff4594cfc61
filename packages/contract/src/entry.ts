import { z } from 'zod';
import { labels } from './labels.ts';
import { namespaceName } from './names.ts';

const configurationURI = z.string().optional().describe('Configuration for a capability service.');
const id = z.string().optional().describe('An identifier of the operator, kept as it is.');

/** Where a capability service finds its secrets: tools and resources have it (decisions 2.5, 2.6). */
export const secretsURI = z.string().optional().describe('Where a capability service finds its secrets.');

/** The name that an upstream uses: tools and prompts have it, for those can be renamed (decisions 2.5, 2.7). */
export const upstreamName = z
  .string()
  .optional()
  .describe('The name that the upstream uses, where it differs. Read only.');

/** What bodies of tools, resources and prompts have alike (decisions 2.5 to 2.7). */
export const entryInput = {
  namespace: namespaceName
    .optional()
    .describe('The namespace it belongs to; `default` when left out. One that does not exist is created.'),
  labels: labels.optional().describe('Free texts by name; replaced as a whole.'),
  configurationURI,
  id,
};

/** What answered tools, resources and prompts have alike. */
export const entryAnswer = {
  namespace: namespaceName,
  labels,
  configurationURI,
  id,
  forward: z.string().optional().describe('The forward that discovered it; absent on what operators made. Read only.'),
  shadowed: z.literal(true).optional().describe('Not served, because another entry has its key. Read only.'),
};
