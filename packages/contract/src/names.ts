import { z } from 'zod';

/** Control characters, as a part of a pattern's class: the schemas of the document say it too. */
export const CONTROLS = '\\u0000-\\u001f\\u007f-\\u009f';
const CONTROL = new RegExp(`[${CONTROLS}]`);
const PLAIN = `[^${CONTROLS}]`;

/**
 * A name that may be empty as far as its form goes, for who says otherwise what is wrong with that: trimmed, at most 256
 * characters, no control characters (decisions 2.2). Text that is no valid Unicode is refused too, since no URL could
 * carry it.
 */
export const nameOrNothing = z
  .string()
  .trim()
  .refine((name) => [...name].length <= 256, 'must have at most 256 characters')
  .refine((name) => !CONTROL.test(name), 'must not contain control characters')
  .refine((name) => name.isWellFormed(), 'must be valid Unicode')
  .meta({ maxLength: 256, pattern: `^${PLAIN}*$` });

/** The name of a tool, resource, prompt or forward that an operator gives: a {@link nameOrNothing}, and not empty. */
export const entryName = nameOrNothing
  .refine((name) => name !== '', 'must not be empty')
  .meta({ minLength: 1, maxLength: 256, pattern: `^${PLAIN}*[^\\s${CONTROLS}]${PLAIN}*$` });

/**
 * The name of a namespace, trimmed: 1 to 63 characters, lowercase letters, digits and hyphens only, a letter or digit at
 * both ends (specification, "Namespace"). The message names the rule that is broken.
 */
export const namespaceName = z
  .string()
  .trim()
  .refine((name) => name.length >= 1 && name.length <= 63, 'must have 1 to 63 characters')
  .refine((name) => /^[a-z0-9-]*$/.test(name), 'must consist of lowercase letters, digits and hyphens only')
  .refine((name) => !/^-|-$/.test(name), 'must start and end with a letter or digit')
  .meta({ pattern: '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$' });

/** The namespace that always exists, and that entries belong to when they name none (specification, "Namespace"). */
export const DEFAULT_NAMESPACE = 'default';

/** The MCP uri of a resource or the address of a tool's server: not empty, without control characters. */
export const location = z
  .string()
  .refine((uri) => uri !== '', 'must not be empty')
  .refine((uri) => !CONTROL.test(uri), 'must not contain control characters')
  .refine((uri) => uri.isWellFormed(), 'must be valid Unicode')
  .meta({ minLength: 1, pattern: `^${PLAIN}*$` });

/** A {@link location} that an operator gives: short enough to stand in the head of a request for it. */
export const givenLocation = location
  .refine((uri) => [...uri].length <= 2_048, 'must have at most 2048 characters')
  .meta({ maxLength: 2_048 });
