import { z } from 'zod';

/** Fields that say where a message ends and what becomes of its connection: no file can set them. */
const FRAMING: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** A header's name (RFC 9110 5.1). */
export const headerName = z
  .string()
  .regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, { error: 'is not a header name' })
  .refine((name) => !FRAMING.has(name.toLowerCase()), { error: 'is a header that only the connection itself sets' });

/** A header that is added or set. */
export const headerField = z.strictObject({
  name: headerName,
  value: z.string().regex(/^[\t\x20-\x7e\x80-\xff]*$/, { error: 'has characters that a header cannot have' }),
});
