import { z } from 'zod';
import { objectOf } from './json.ts';

/** Labels: a map from text to text, replaced as a whole when it is written (decisions 2.3 to 2.7). */
export const labels = objectOf(z.record(z.string(), z.string()));

export type Labels = z.infer<typeof labels>;
