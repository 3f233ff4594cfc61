import { z } from 'zod';
import { entryName, location, namespaceName } from './fields.ts';

/** Entries that one request may enable or disable. */
const MAX_SELECTED = 10_000;

function selected(item: z.ZodType<string>) {
  return z
    .array(item)
    .min(1, 'must not be empty')
    .max(MAX_SELECTED, `must have at most ${MAX_SELECTED} items`)
    .optional();
}

const members = {
  enabled: z.boolean().describe('`false` hides the entries from MCP clients and actions, `true` makes them available.'),
  namespace: namespaceName
    .optional()
    .describe('Namespace of the entries. Default: `default`, or else the only namespace with an entry of that name.'),
  forward: entryName
    .optional()
    .describe(
      'Selects by upstream names or URIs of this forward, in all namespaces. Entries that are not discovered yet are marked: the mark applies when they are.',
    ),
};

/** Upstream names may be any text. */
const anyName = z.string().min(1, 'must not be empty');

/** Body of `POST /api/v1/tools/enabled` and `POST /api/v1/prompts/enabled`. */
export const enabledByName = z
  .object({ ...members, names: selected(anyName).describe('Names of the entries; upstream names with `forward`.') })
  .refine(({ names }) => names !== undefined, { path: ['names'], error: 'is required' })
  .refine(({ forward, namespace }) => forward === undefined || namespace === undefined, {
    path: ['namespace'],
    error: 'cannot be combined with forward',
  })
  .meta({ id: 'EnabledByName' });

/** Body of `POST /api/v1/resources/enabled`. */
export const enabledByUri = z
  .object({
    ...members,
    names: selected(anyName).describe('Names of the resources; not with `forward`.'),
    uris: selected(location).describe('URIs or URI templates of the resources.'),
  })
  .refine(({ names, uris }) => (names === undefined) !== (uris === undefined), {
    path: ['uris'],
    error: 'is required, unless names is set',
  })
  .refine(({ forward, namespace }) => forward === undefined || namespace === undefined, {
    path: ['namespace'],
    error: 'cannot be combined with forward',
  })
  .refine(({ forward, names }) => forward === undefined || names === undefined, {
    path: ['names'],
    error: 'cannot be combined with forward; use uris',
  })
  .meta({ id: 'EnabledByUri' });

/** Response of `POST /api/v1/{tools|resources|prompts}/enabled`. */
export const enabledResult = z
  .object({
    enabled: z.boolean(),
    count: z.number().int().describe('Number of selected entries.'),
    pending: z
      .array(z.string())
      .optional()
      .describe('Upstream names or URIs that the forward has not discovered yet. The mark applies when they are.'),
  })
  .meta({ id: 'Enabled' });

export type EnabledResult = z.infer<typeof enabledResult>;
