import { z } from 'zod';
import { coerceRawNumber } from './json.ts';

/** A revision of settings that are replaced as a whole, without its content. */
export const revision = z.object({
  id: z.number().int().positive().describe('Revision number, from 1.'),
  created_at: z.iso.datetime({ precision: 3 }).describe('UTC'),
  activated_at: z.iso.datetime({ precision: 3 }).optional().describe('UTC; omitted if never active.'),
  status: z.enum(['active', 'superseded', 'rejected']),
  checksum: z
    .string()
    .regex(/^[0-9a-f]{16}$/)
    .describe('Checksum of the content.'),
  origin: z.enum(['startup', 'api']).describe('Source of the revision: bootstrap file or API.'),
  actor: z.string().optional().describe('Id of the caller.'),
  failure_reason: z.string().optional().describe('Reason for the rejection.'),
});

/** Optimistic concurrency of a replacement. */
export const expectedRevision = coerceRawNumber(z.number().int().nonnegative())
  .optional()
  .describe('Expected active revision; CONFLICT if it differs. 0 expects none.');

/** Optional body of the activation of a revision. */
export const activationInput = z.object({ expected_revision: expectedRevision }).meta({ id: 'ActivationInput' });

export type RevisionMetadata = z.infer<typeof revision>;
