import { z } from 'zod';

/** Largest number of changes in the history of a forward. */
export const FORWARD_HISTORY_CAPACITY = 200;

const timestamp = z.iso.datetime({ precision: 3 }).describe('UTC');
const reason = z.string().describe('At most 500 characters');
const duration = z.number().nonnegative().describe('Milliseconds');
const count = z.number().int().nonnegative();

/** A change of a forward's availability, or the outcome of a discovery. */
export const forwardChange = z
  .discriminatedUnion('kind', [
    z.object({ kind: z.literal('available'), timestamp }),
    z.object({ kind: z.literal('unavailable'), timestamp, reason }),
    z.object({
      kind: z.literal('discovered'),
      timestamp,
      duration,
      eras: z.array(z.enum(['legacy', 'modern'])).describe('Eras in which the upstream was discovered'),
      tools: count,
      resources: count,
      prompts: count,
      notes: z.string().optional().describe('Entries that were left out, and the like; at most 500 characters'),
    }),
    z.object({ kind: z.literal('discovery_failed'), timestamp, duration, reason }),
  ])
  .meta({
    id: 'ForwardChange',
    description: 'A change of the availability of a forward, or the outcome of a discovery.',
  });

export type ForwardChange = z.infer<typeof forwardChange>;
