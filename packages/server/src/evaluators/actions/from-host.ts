import { z } from 'zod';
import type { FromHost } from './host/messages.ts';

const text = z.string();

const response = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('pass') }),
  z.object({ kind: z.literal('block'), reason: text }),
  z.object({ kind: z.literal('reject_malformed'), reason: text }),
  z.object({ kind: z.literal('warn'), message: text }),
  z.object({ kind: z.literal('filter_tools'), tools: z.array(text) }),
  z.object({ kind: z.literal('set_metadata'), key: text, value: text }),
]);

const question = z.discriminatedUnion('ask', [
  z.object({ kind: z.literal('question'), ask: z.literal('tools'), namespace: text.optional() }),
  z.object({ kind: z.literal('question'), ask: z.literal('tool'), name: text }),
  z.object({ kind: z.literal('question'), ask: z.literal('copy'), name: text, namespace: text }),
  z.object({ kind: z.literal('question'), ask: z.literal('history'), conversation: text }),
  z.object({ kind: z.literal('question'), ask: z.literal('verify'), raw: text }),
]);

const word = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('ready') }),
  z.object({ kind: z.literal('loaded') }),
  z.object({ kind: z.literal('log'), level: z.enum(['debug', 'info', 'warn', 'error']), message: text }),
  z.object({ kind: z.literal('done'), response: response.optional(), ignored: z.int().nonnegative() }),
  z.object({ kind: z.literal('failed'), fault: z.enum(['trap', 'memory', 'limit']), message: text }),
  question,
]);

/** What a host process says, if it is anything that one may say. */
export function fromHost(bytes: Buffer): FromHost | undefined {
  try {
    return word.safeParse(JSON.parse(bytes.toString())).data;
  } catch {
    return undefined;
  }
}
