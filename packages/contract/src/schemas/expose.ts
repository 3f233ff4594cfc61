import { z } from 'zod';
import { EXPOSED_KINDS } from '../values.ts';
import { CONTROL_CHARACTERS } from './fields.ts';

/** Globs of one list, and characters of one glob: each requested uri is matched with all of them. */
const MAX_GLOBS = 200;
const MAX_GLOB_LENGTH = 1_024;

const CONTROL = new RegExp(`[${CONTROL_CHARACTERS}]`);

const glob = z
  .string()
  .min(1, 'must not be empty')
  .max(MAX_GLOB_LENGTH, `must have at most ${MAX_GLOB_LENGTH} characters`)
  .refine((text) => !CONTROL.test(text), 'must not contain control characters')
  .refine((text) => text.isWellFormed(), 'must be valid Unicode')
  .meta({ pattern: `^[^${CONTROL_CHARACTERS}]*$` });

const globs = z.array(glob).max(MAX_GLOBS, `must have at most ${MAX_GLOBS} globs`);

const newEntries = z.enum(['enabled', 'disabled']);

const ALLOW =
  'Globs of the entries that are discovered (default: all). `*` matches any characters, `?` one, case-sensitively.';
const DENY = 'Globs of entries that are not discovered, also if they are allowed.';
const NEW =
  'State of entries that appear after the first discovery (default `enabled`). `disabled`: hidden until an operator enables them.';

/** Which entries of one kind a forward exposes. */
const exposeRules = z.strictObject({
  allow: globs.optional().describe(ALLOW),
  deny: globs.optional().describe(DENY),
  new: newEntries.optional().describe(NEW),
});

const members = { tools: exposeRules.optional(), resources: exposeRules.optional(), prompts: exposeRules.optional() };

/**
 * Which entries of its upstream a forward exposes to MCP clients, by upstream names of tools and prompts and by URIs of
 * resources.
 */
export const expose = z.strictObject(members).meta({ id: 'Expose' });

/** {@link expose} in requests, without unknown members. */
export const exposeInput = z.strictObject(members).meta({ id: 'ExposeInput' });

const rulesPatch = z
  .strictObject({
    allow: globs.nullable().optional().describe(`${ALLOW} null: all.`),
    deny: globs.nullable().optional().describe(`${DENY} null: none.`),
    new: newEntries.nullable().optional().describe(`${NEW} null: \`enabled\`.`),
  })
  .nullable()
  .optional();

/** Changes of {@link expose}: missing members stay unchanged, null removes. */
export const exposePatch = z
  .strictObject({ tools: rulesPatch, resources: rulesPatch, prompts: rulesPatch })
  .meta({ id: 'ExposePatch' });

export type Expose = z.infer<typeof expose>;
export type ExposePatch = z.infer<typeof exposePatch>;
/** Rules for one kind of entry. */
export type ExposeRules = z.infer<typeof exposeRules>;

/**
 * Applies changes to the rules of a forward, in a canonical order of members. Undefined if no rule remains: everything is
 * exposed.
 */
export function mergeExpose(before: Expose | undefined, changes: ExposePatch | null | undefined): Expose | undefined {
  if (changes === null) return undefined;
  const merged: { -readonly [Kind in keyof Expose]: Expose[Kind] } = {};
  for (const kind of EXPOSED_KINDS) {
    const rules = mergeRules(before?.[kind], changes?.[kind]);
    if (rules) merged[kind] = rules;
  }
  return Object.keys(merged).length === 0 ? undefined : merged;
}

function mergeRules(before: ExposeRules | undefined, changes: ExposePatch['tools']): ExposeRules | undefined {
  if (changes === null) return undefined;
  const allow = merged(before?.allow, changes?.allow);
  const deny = merged(before?.deny, changes?.deny);
  const added = merged(before?.new, changes?.new);
  if (allow === undefined && deny === undefined && added === undefined) return undefined;
  return { ...(allow && { allow }), ...(deny && { deny }), ...(added && { new: added }) };
}

function merged<T>(before: T | undefined, change: T | null | undefined): T | undefined {
  return change === undefined ? before : (change ?? undefined);
}
