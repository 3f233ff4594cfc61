import { z } from 'zod';

/** What a deletion is answered: the name of what is gone (decisions 4.1). */
export const removed = z.object({ removed: z.string() }).meta({ id: 'Removed' });

export type Removed = z.infer<typeof removed>;
