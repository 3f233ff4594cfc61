/** Filters that edit headers and paths or respond with fixed content. */

import { z } from 'zod';
import { conditions, type Filter } from '../chain.ts';
import type { HeaderEdits, ResponseLike } from '../exchange.ts';
import { filterHeaders } from '../header-lines.ts';
import { httpProblem } from '../outcome.ts';
import { editableHeader, headerField, path } from '../settings.ts';

/** Settings of the `headers` filter. */
export const headersSettings = z.strictObject({
  filter: z.literal('headers'),
  conditions,
  request_add: z.array(headerField).default([]),
  response_add: z.array(headerField).default([]),
  response_set: z.array(headerField).default([]),
  response_remove: z.array(editableHeader).default([]),
});

/** Edits headers of upstream requests and of all responses. */
export function headers({
  request_add,
  response_add,
  response_set,
  response_remove,
}: z.output<typeof headersSettings>): Filter {
  const added = request_add.flatMap(({ name, value }) => [name, value]);
  const edits: HeaderEdits = {
    remove: new Set([...response_remove, ...response_set.map(({ name }) => name)].map((name) => name.toLowerCase())),
    set: response_set.flatMap(({ name, value }) => [name, value]),
    add: response_add.flatMap(({ name, value }) => [name, value]),
  };
  const editsResponses = edits.remove.size > 0 || edits.set.length > 0 || edits.add.length > 0;
  return (exchange) => {
    if (added.length > 0) exchange.addedHeaders = [...exchange.addedHeaders, ...added];
    if (editsResponses) exchange.headerEdits = [...exchange.headerEdits, edits];
    return undefined;
  };
}

/** Applies the edits to the head of the response when it is written, in the order of the filters. */
export function editResponseHead(target: ResponseLike, edits: readonly HeaderEdits[]): void {
  const writeHead = target.writeHead.bind(target);
  const writeEdited: ResponseLike['writeHead'] = (status, headers, reason) =>
    writeHead(status, edits.reduce(applyEdits, headers), reason);
  target.writeHead = writeEdited;
}

function applyEdits(headers: string[], { remove, set, add }: HeaderEdits): string[] {
  return [...filterHeaders(headers, (name) => !remove.has(name)), ...set, ...add];
}

const pattern = z.string().superRefine((text, { addIssue }) => {
  try {
    new RegExp(text, 'u');
  } catch {
    addIssue({ code: 'custom', message: 'must be a regular expression' });
  }
});

/** The replacement becomes part of a path. */
const replacement = z.string().regex(/^[!"$->@-~]*$/, { error: 'must not have characters that are invalid in a path' });

/** Settings of the `path_rewrite` filter. */
export const pathRewriteSettings = z
  .strictObject({
    filter: z.literal('path_rewrite'),
    conditions,
    strip_prefix: path.optional(),
    add_prefix: path.optional(),
    replace: z.strictObject({ pattern, replacement }).optional(),
  })
  .refine(
    ({ strip_prefix, add_prefix, replace }) =>
      [strip_prefix, add_prefix, replace].filter((edit) => edit !== undefined).length === 1,
    { error: 'must have exactly one of strip_prefix, add_prefix, replace' },
  );

/** Longer paths are not matched: the time that a pattern takes may grow faster than the length. */
const MAX_PATH_LENGTH = 1_024;
const TOO_LONG = httpProblem(414, `the path has more than ${MAX_PATH_LENGTH} characters`);

/** Rewrites the path for all later filters and for the upstream request. */
export function pathRewrite({ strip_prefix, add_prefix, replace }: z.output<typeof pathRewriteSettings>): Filter {
  const pattern = replace && new RegExp(replace.pattern, 'u');
  return (exchange) => {
    if (strip_prefix !== undefined) {
      if (exchange.path.startsWith(strip_prefix))
        exchange.path = absolutePath(exchange.path.slice(strip_prefix.length));
    } else if (add_prefix !== undefined) {
      exchange.path = add_prefix.replace(/\/$/, '') + exchange.path;
    } else if (replace && pattern) {
      if (exchange.path.length > MAX_PATH_LENGTH) return TOO_LONG;
      exchange.path = absolutePath(exchange.path.replace(pattern, replace.replacement));
    }
    return undefined;
  };
}

/** Returns the path with exactly one leading slash: two would be read as the beginning of a host name. */
function absolutePath(path: string): string {
  return `/${path.replace(/^\/+/, '')}`;
}

/** Settings of the `static_response` filter. */
export const staticResponseSettings = z
  .strictObject({
    filter: z.literal('static_response'),
    conditions,
    status: z.int().min(200).max(599),
    headers: z.array(headerField).default([]),
    body: z.string().default(''),
  })
  .refine(({ status, body }) => body === '' || ![204, 205, 304].includes(status), {
    path: ['body'],
    error: 'must not be set with status 204, 205 or 304',
  });

/** Responds to every request with the configured response; no later filter runs. */
export function staticResponse({ status, headers, body }: z.output<typeof staticResponseSettings>): Filter {
  const outcome = {
    kind: 'plain',
    status,
    headers: headers.flatMap(({ name, value }) => [name, value]),
    body,
  } as const;
  return () => outcome;
}
