/** Schemas that the settings of several filters share (decisions 1.4). */

import { z } from 'zod';

/** Headers that frame a message or control the connection: filters cannot set or remove them. */
const FRAMING_HEADERS: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** A header name (RFC 9110 5.1). */
export const headerName = z.string().regex(/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, { error: 'must be a header name' });

/** Name of a header that a filter can set or remove. */
export const editableHeader = headerName.refine((name) => !FRAMING_HEADERS.has(name.toLowerCase()), {
  error: 'must not be a header that the server sets itself',
});

/** A header to add or set. */
export const headerField = z.strictObject({
  name: editableHeader,
  value: z.string().regex(/^(?![\t ])[\t\x20-\x7e\x80-\xff]*(?<![\t ])$/, {
    error: 'must not have invalid characters or surrounding spaces',
  }),
});

/** Headers and values that a request must have. */
export const requiredHeaders = z.record(headerName, z.string()).superRefine((headers, { addIssue }) => {
  const seen = new Set<string>();
  for (const name of Object.keys(headers)) {
    // No request could have both values.
    if (seen.has(name.toLowerCase())) addIssue({ code: 'custom', path: [name], message: 'is a duplicate' });
    seen.add(name.toLowerCase());
  }
});

/** A request path or path prefix. */
export const path = z.string().regex(/^\/[!"$->@-~]*$/, {
  error: 'must be a path that starts with / and is percent-encoded',
});

/** An HTTP method. */
export const method = z.string().regex(/^[A-Z][A-Z-]*$/, { error: 'must be a method in capital letters, such as GET' });

/** A size limit in bytes. */
export const byteLimit = z
  .int()
  .min(1)
  .max(2 ** 31);
