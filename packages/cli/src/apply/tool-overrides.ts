import { entryName, jsonObject, jsonValue, toolAliases, toolMembers, withAliases } from '@sluice/contract';
import { z } from 'zod';

const forwardManaged = z.never({ error: 'is set by its forward; leave it out' }).optional();

/**
 * What somebody wants of a discovered tool, under canonical names: which one it is, and any of the members that a PUT can
 * change. A member that is left out follows the upstream; null takes an optional one of the upstream's away.
 */
export const toolOverridesSchema = withAliases(
  toolAliases,
  toolMembers
    .partial()
    .extend({
      forward: entryName,
      upstreamName: z.string().min(1, 'must not be empty').optional(),
      description: z.string().nullable().optional(),
      title: z.string().nullable().optional(),
      annotations: jsonObject.nullable().optional(),
      icons: z.array(jsonValue).nullable().optional(),
      output_schema: jsonObject.nullable().optional(),
      uri: forwardManaged,
      toolType: forwardManaged,
      shadowed: forwardManaged,
      upstream: forwardManaged,
    })
    .catchall(jsonValue),
);
