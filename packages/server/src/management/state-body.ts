import { type StateInput, type StateSection, stateSections, stateToolSchema } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import { type JsonKind, JsonScanner, type JsonSink } from '@sluice/protocol/json/scanner';
import { stringValue } from '@sluice/protocol/json/text';
import { z } from 'zod';
import { OperationError } from '../registry/operation-error.ts';
import type { Steps } from '../registry/steps.ts';
import { parseBody } from './body.ts';

/** Entries of all sections. */
const MAX_ENTRIES = 20_000;
/** Bytes that are scanned in one step. */
const CHUNK = 256 * 1024;
/** Entries that are parsed in one step. */
const PER_STEP = 16;

/**
 * Parses a desired state, entry by entry, since it may be longer than other bodies. OperationError BAD_REQUEST as for those, with
 * paths such as `tools.3.name`.
 */
export function* parseState(body: Buffer): Steps<StateInput> {
  const found = yield* findEntries(body);
  function* parse<T extends z.ZodType>(
    section: StateSection,
    schema: T | ((entry: JsonObject) => T),
  ): Steps<z.output<T>[] | undefined> {
    const ranges = found.get(section);
    const parsed: z.output<T>[] = [];
    for (const [index, { start, end }] of ranges?.entries() ?? []) {
      parsed.push(parseEntry(body.subarray(start, end), schema, `${section}.${index}`));
      if (index % PER_STEP === 0) yield;
    }
    return ranges && parsed;
  }
  const { namespaces, forwards, services, evaluators } = stateSections;
  return {
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

/** The place of a value in the body. */
interface Range {
  readonly start: number;
  end: number;
}

/** A state whose entries are not checked. */
const stateShape = z.strictObject(
  Object.fromEntries(Object.keys(stateSections).map((section) => [section, z.array(z.unknown()).optional()])),
);

/** The entries of each section. OperationError BAD_REQUEST if the body is not an object of known sections with arrays. */
function* findEntries(body: Buffer): Steps<ReadonlyMap<string, readonly Range[]>> {
  const sections = new StateSections((): string => scanner.token ?? '');
  const scanner = new JsonScanner(sections);
  for (let at = 0; at < body.length && sections.count <= MAX_ENTRIES; at += CHUNK) {
    scanner.write(body.subarray(at, at + CHUNK));
    yield;
  }
  if (sections.count > MAX_ENTRIES) {
    throw new OperationError('BAD_REQUEST', `invalid state: more than ${MAX_ENTRIES} entries`);
  }
  // Throws: the parser describes it better.
  if (!scanner.isComplete || !sections.isValid) parseBody(body, stateShape, { kind: 'state' });
  return sections.entries;
}

/** Finds the elements of the arrays in an object. */
class StateSections implements JsonSink {
  readonly entries = new Map<string, Range[]>();
  count = 0;
  /** Whether this is an object of unique sections with arrays. */
  isValid = true;
  readonly #token: () => string;
  #section: Range[] = [];
  /** Containers around the next value. */
  #depth = 0;

  constructor(token: () => string) {
    this.#token = token;
  }

  onValue(kind: JsonKind, start: number): boolean {
    const depth = this.#depth++;
    if ((depth === 0 && kind !== 'object') || (depth === 1 && kind !== 'array')) this.isValid = false;
    if (depth === 2) {
      this.#section.push({ start, end: start });
      this.count++;
    }
    return depth < 2 && this.isValid;
  }

  onKey(): void {
    const name = stringValue(this.#token());
    if (!Object.hasOwn(stateSections, name) || this.entries.has(name)) this.isValid = false;
    this.#section = [];
    this.entries.set(name, this.#section);
  }

  onScalar(): void {}

  onEnd(end: number): void {
    const last = this.#section.at(-1);
    if (--this.#depth === 2 && last) last.end = end;
  }
}
