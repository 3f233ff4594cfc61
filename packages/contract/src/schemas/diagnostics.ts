import { z } from 'zod';

/** A check of `sluice doctor`. */
export const diagnosticCheck = z
  .object({
    name: z.string().describe('What was checked, such as `forward crm`'),
    status: z.enum(['ok', 'warning', 'failed']),
    message: z.string().describe('What was found, without credentials'),
    remedy: z.string().optional().describe('What to do about it'),
  })
  .meta({ id: 'DiagnosticCheck' });

/** Checks of the service. */
export const diagnostics = z
  .object({
    version: z.string().describe('Version of the service'),
    checks: z.array(diagnosticCheck),
  })
  .meta({ id: 'Diagnostics' });

export type DiagnosticCheck = z.infer<typeof diagnosticCheck>;
export type Diagnostics = z.infer<typeof diagnostics>;
