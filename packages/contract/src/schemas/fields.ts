import { z } from 'zod';
import { isDotName } from '../values.ts';
import { jsonObject, MAX_ITEMS } from './json.ts';

/** Control characters, for use in the character class of a pattern. */
export const CONTROL_CHARACTERS = '\\u0000-\\u001f\\u007f-\\u009f';
const CONTROL = new RegExp(`[${CONTROL_CHARACTERS}]`);
const PLAIN = `[^${CONTROL_CHARACTERS}]`;

/**
 * A name that may be empty: trimmed, at most 256 characters, no control characters. Lone surrogates are rejected, because a URL
 * cannot contain them.
 */
export const nameOrEmpty = z
  .string()
  .trim()
  .refine((name) => [...name].length <= 256, 'must have at most 256 characters')
  .refine((name) => !CONTROL.test(name), 'must not contain control characters')
  .refine((name) => name.isWellFormed(), 'must be valid Unicode')
  .meta({ maxLength: 256, pattern: `^${PLAIN}*$` });

/** Problem of a name that is a {@link isDotName}. */
export const DOT_NAME_PROBLEM = 'must not be "." or "..", which a URL path cannot contain';

/** Name of an existing tool, resource or prompt: a {@link nameOrEmpty} that is not empty. Upstreams may name theirs `.` or `..`. */
export const existingName = nameOrEmpty
  .refine((name) => name !== '', 'must not be empty')
  .meta({ minLength: 1, maxLength: 256, pattern: `^${PLAIN}*[^\\s${CONTROL_CHARACTERS}]${PLAIN}*$` });

/** Name of a tool, resource, prompt, forward or service that an operator gives: an {@link existingName} except `.` and `..`. */
export const entryName = existingName
  .refine((name) => !isDotName(name), DOT_NAME_PROBLEM)
  .meta({
    minLength: 1,
    maxLength: 256,
    pattern: `^(?!\\s*\\.{1,2}\\s*$)${PLAIN}*[^\\s${CONTROL_CHARACTERS}]${PLAIN}*$`,
  });

/** Name of a namespace, trimmed. The message names the violated rule. */
export const namespaceName = z
  .string()
  .trim()
  .refine((name) => name.length >= 1 && name.length <= 63, 'must have 1 to 63 characters')
  .refine((name) => /^[a-z0-9-]*$/.test(name), 'must consist of lowercase letters, digits and hyphens only')
  .refine((name) => !/^-|-$/.test(name), 'must start and end with a letter or digit')
  .meta({ pattern: '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$' });

/** MCP URI of a resource, URI of a tool, or type label: not empty, no control characters. */
export const location = z
  .string()
  .refine((uri) => uri !== '', 'must not be empty')
  .refine((uri) => !CONTROL.test(uri), 'must not contain control characters')
  .refine((uri) => uri.isWellFormed(), 'must be valid Unicode')
  .meta({ minLength: 1, pattern: `^${PLAIN}*$` });

/** A {@link location} set by an operator: short enough for a request header. */
export const boundedLocation = location
  .refine((uri) => [...uri].length <= 2_048, 'must have at most 2048 characters')
  .meta({ maxLength: 2_048 });

/** Labels: a map of strings, replaced as a whole on update. */
export const labels = jsonObject
  // Not `z.record`, which drops a label named `__proto__`.
  .transform((object, context) => {
    const entries = Object.entries(object);
    if (entries.length > MAX_ITEMS) {
      context.addIssue({ code: 'custom', message: `must have at most ${MAX_ITEMS} labels` });
      return z.NEVER;
    }
    const strings: [string, string][] = [];
    for (const [name, value] of entries) {
      if (typeof value === 'string') strings.push([name, value]);
      else context.addIssue({ code: 'invalid_type', expected: 'string', input: value, path: [name] });
    }
    return Object.fromEntries(strings);
  })
  .meta({ type: 'object', maxProperties: MAX_ITEMS, additionalProperties: { type: 'string' } });

/** Changes of labels: null removes a label. */
export const labelsPatch = jsonObject
  // Not `z.record`, as for `labels`.
  .transform((object, context) => {
    const changes: [string, string | null][] = [];
    for (const [name, value] of Object.entries(object)) {
      if (typeof value === 'string' || value === null) changes.push([name, value]);
      else context.addIssue({ code: 'invalid_type', expected: 'string', input: value, path: [name] });
    }
    return Object.fromEntries(changes);
  })
  .meta({ type: 'object', additionalProperties: { type: ['string', 'null'] } });

export type Labels = z.infer<typeof labels>;
