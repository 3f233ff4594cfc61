import { z } from 'zod';
import { entryName } from './names.ts';

const members = {
  name: entryName.describe('Configuration and secrets are kept under it.'),
  configuration: z.string().default('').describe('The configuration itself.'),
  secrets: z.string().default('').describe('The secrets themselves. They are handed on, and kept nowhere else.'),
  uri: z.string().default('').describe('What the service is to provision for; its own matter.'),
};

/**
 * Body of `POST /api/v1/services/{name}/provisions` (decisions 4.2). Unlike those of entries it takes no other members
 * (decisions 4.1): what is left out is empty, so that a misspelt one would put an empty secret in the place of a real one.
 */
export const provisionInput = z
  .strictObject(members, {
    error: ({ code }) =>
      code === 'unrecognized_keys' ? `is not known; known are ${Object.keys(members).join(', ')}` : undefined,
  })
  .meta({ id: 'ProvisionInput' });

/** Answer of `POST /api/v1/services/{name}/provisions`: what tools name to use it, and what there is to be set. */
export const provisioned = z
  .object({
    configurationUri: z.string().describe('What a tool gives as its `configurationURI`.'),
    secretUri: z.string().describe('What a tool gives as its `secretsURI`.'),
    properties: z
      .record(z.string(), z.object({ type: z.string(), description: z.string(), required: z.boolean() }))
      .describe('What the service takes, by name.'),
  })
  .meta({ id: 'Provisioned' });

export type ProvisionInput = z.output<typeof provisionInput>;
export type Provisioned = z.infer<typeof provisioned>;
