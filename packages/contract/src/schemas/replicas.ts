import { z } from 'zod';

/** A process of the service that shares its database with others (docs/replicas.md). */
export const replica = z
  .object({
    id: z.string().describe('Of the process: another one after a restart.'),
    self: z.boolean().describe('Whether this replica has answered the request.'),
    version: z.string(),
    startedAt: z.iso.datetime(),
    live: z.boolean().describe('Whether it has renewed its lease in time. It is listed for ten minutes longer.'),
    lag: z.number().int().describe('Commits that it has not confirmed; it does so at least once a second.'),
    load: z
      .number()
      .describe('Processors that it used on average since it last renewed its lease: 0.5 is half of one.'),
    forwards: z.number().int().describe('Forwards that it discovers and checks for all replicas.'),
  })
  .meta({ id: 'Replica' });

export type Replica = z.infer<typeof replica>;
