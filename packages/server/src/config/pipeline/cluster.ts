import { z } from 'zod';
import { listenAddress } from '../addresses.ts';
import { Refusal } from '../setting.ts';

/** `host:port`, parsed; port 0 only where it is bound to. */
export function address(withPortZero: boolean) {
  return z.string().transform((text, { addIssue }) => {
    try {
      const parsed = listenAddress.parse(text);
      if (parsed.port > 0 || withPortZero) return parsed;
      addIssue({ code: 'custom', message: 'has port 0, which nothing can be reached at' });
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      addIssue({ code: 'custom', message: `${error.message}; accepted: ${listenAddress.accepts}` });
    }
    return z.NEVER;
  });
}

const reachable = address(false);

const endpoint = z.union(
  [
    reachable.transform((parsed) => ({ address: parsed, weight: 1 })),
    z.strictObject({ address: reachable, weight: z.int().min(1).max(1_000_000).default(1) }),
  ],
  { error: 'is not host:port or a map with address and weight' },
);

/** Where requests are sent on to (decisions 1.4): its endpoints take turns, by weight. */
export const cluster = z.strictObject({
  name: z.string().min(1, { error: 'is empty' }),
  endpoints: z.array(endpoint).min(1, { error: 'has no endpoint' }),
  // That it is there says that connections are to be secured.
  tls: z.strictObject({}).optional(),
  connection_timeout_ms: z.int().min(1).max(600_000).optional(),
});

export type Cluster = z.output<typeof cluster>;
