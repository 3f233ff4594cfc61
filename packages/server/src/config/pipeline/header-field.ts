import { z } from 'zod';

/** Fields that say where a message ends and what becomes of its connection: no file can set or remove them. */
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
export const headerName = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, { error: 'is not a header name' });

/** The name of a header that can be edited. */
export const editableHeader = headerName.refine((name) => !FRAMING.has(name.toLowerCase()), {
  error: 'is a header that only the connection itself sets',
});

/** A header that is added or set. */
export const headerField = z.strictObject({
  name: editableHeader,
  value: z.string().regex(/^(?![\t ])[\t\x20-\x7e\x80-\xff]*(?<![\t ])$/, {
    error: 'has characters that a header cannot have, or blanks at an end',
  }),
});

/** Headers that a request has to have, each with this value. */
export const wantedHeaders = z.record(headerName, z.string()).superRefine((headers, { addIssue }) => {
  const seen = new Set<string>();
  for (const name of Object.keys(headers)) {
    // It would have to have two values at once.
    if (seen.has(name.toLowerCase())) addIssue({ code: 'custom', path: [name], message: 'stands there twice' });
    seen.add(name.toLowerCase());
  }
});
