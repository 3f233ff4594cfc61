import { z } from 'zod';

const time = z.iso.datetime({ precision: 3 });

/** For how long something is blocked, such as `1h`. */
export const blockDuration = z.string().regex(/^[1-9]\d{0,4}[smhd]$/, 'must be a duration such as 30m, 1h or 7d');

const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Returns the milliseconds of a {@link blockDuration}. */
export function durationMs(duration: string): number {
  return Number(duration.slice(0, -1)) * (UNIT_MS[duration.slice(-1)] ?? 0);
}

const reason = z.string().min(1).max(500);

/** Body of a request that blocks something. */
export const blockInput = z
  .strictObject({
    for: blockDuration.optional().describe('For how long; without it, until the block is removed.'),
    reason: reason.optional().describe('Why, for other administrators. The blocked principal does not see it.'),
  })
  .meta({ id: 'BlockInput' });

/** A principal, key or forward that is blocked. */
export const block = z
  .object({
    id: z.string().describe('Id of a principal or key, or `forward:` and the name of a forward.'),
    since: time.describe('UTC'),
    until: time.optional().describe('UTC; missing if it does not end by itself.'),
    reason: reason.optional(),
    by: z.string().optional().describe('Principal that has blocked it; missing if it was anonymous.'),
  })
  .meta({ id: 'Block' });

/** See {@link block}. */
export type Block = z.output<typeof block>;
