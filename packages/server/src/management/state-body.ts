import { jsonObject, type StateInput, type StateSection, stateSections, stateToolSchema } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { z } from 'zod';
import { OperationError } from '../registry/operation-error.ts';
import type { Steps } from '../registry/steps.ts';
import { SectionOutline } from '../registry/store/registry-reader.ts';
import { parseBody } from './body.ts';
import { parseIdentity } from './identity/routes.ts';

/** Entries of all sections. */
const MAX_ENTRIES = 20_000;
const OPENING_BRACE = 0x7b;
/** Bytes that are scanned in one step. */
const CHUNK = 256 * 1024;
/** Entries that are parsed in one step. */
const PER_STEP = 16;

/**
 * Parses a desired state, entry by entry, since it may be longer than other bodies. OperationError BAD_REQUEST as for those, with
 * paths such as `tools.3.name`; UNPROCESSABLE for members of `identity`.
 */
export function* parseState(body: Buffer): Steps<StateInput> {
  const outline = yield* findEntries(body);
  function* parse<T extends z.ZodType>(
    section: StateSection,
    schema: T | ((entry: JsonObject) => T),
  ): Steps<z.output<T>[] | undefined> {
    const positions = outline.entries.get(section);
    if (!positions) return undefined;
    const parsed: z.output<T>[] = [];
    for (let at = 0; at < positions.length; at += 2) {
      if (parsed.length % PER_STEP === 0) yield;
      const text = body.subarray(positions[at], positions[at + 1]);
      parsed.push(parseEntry(text, schema, `${section}.${parsed.length}`));
    }
    return parsed;
  }
  const { namespaces, forwards, services, evaluators } = stateSections;
  const identity = outline.members.get('identity');
  const settings = identity && body.subarray(identity.value, identity.end);
  return {
    ...(settings && { identity: parseIdentity(parseBody(settings, jsonObject, { kind: 'state: identity' })) }),
    namespaces: yield* parse('namespaces', namespaces),
    forwards: yield* parse('forwards', forwards),
    services: yield* parse('services', services),
    tools: yield* parse<ReturnType<typeof stateToolSchema>>('tools', stateToolSchema),
    evaluators: yield* parse('evaluators', evaluators),
  };
}

function parseEntry<T extends z.ZodType>(
  text: Buffer,
  schema: T | ((entry: JsonObject) => T),
  path: string,
): z.output<T> {
  try {
    return parseBody(text, schema, { kind: `state: ${path}` });
  } catch (error) {
    if (!(error instanceof OperationError) || !Array.isArray(error.details)) throw error;
    const details = error.details.map((issue) => ({ ...issue, path: [path, issue.path].filter(Boolean).join('.') }));
    throw new OperationError(error.code, error.message, details);
  }
}

/** A state whose entries are not checked. */
const stateShape = z.strictObject({
  ...Object.fromEntries(Object.keys(stateSections).map((section) => [section, z.array(z.unknown()).optional()])),
  identity: jsonObject.optional(),
});

/** The positions of the entries of each section, and of `identity`. OperationError BAD_REQUEST if these are not arrays in an object. */
function* findEntries(body: Buffer): Steps<SectionOutline> {
  const sections = Object.keys(stateSections);
  const outline = new SectionOutline(sections);
  const { scanner } = outline;
  for (let at = 0; at < body.length && outline.count <= MAX_ENTRIES; at += CHUNK) {
    scanner.write(body.subarray(at, at + CHUNK));
    yield;
  }
  if (outline.count > MAX_ENTRIES) {
    throw new OperationError('BAD_REQUEST', `invalid state: more than ${MAX_ENTRIES} entries`);
  }
  const identity = outline.members.get('identity');
  const isKnown =
    outline.isObject &&
    (!identity || body[identity.value] === OPENING_BRACE) &&
    outline.members.keys().every((member) => [...sections, 'identity'].includes(member));
  // Throws if it is not a state: the parser describes it better.
  if (!scanner.isComplete || !isKnown || outline.hasDuplicates || outline.problem !== undefined) {
    parseBody(body, stateShape, { kind: 'state' });
  }
  return outline;
}
