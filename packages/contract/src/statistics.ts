import { z } from 'zod';

/** Answer of `GET /api/v1/management/statistics` (decisions 4.4): what is served, over all namespaces. */
export const statistics = z
  .object({
    toolsCount: z.number().int(),
    resourcesCount: z.number().int(),
    promptsCount: z.number().int(),
    forwardsCount: z.number().int(),
    dataStoresCount: z.literal(0),
  })
  .meta({ id: 'Statistics' });

export type Statistics = z.infer<typeof statistics>;
