import {
  DEFAULT_NAMESPACE,
  didYouMean,
  findUnknownMembers,
  forwardInput,
  identity,
  namespace,
  type StateInput,
  type StateSection,
  service,
  serviceKey,
  stateSections,
  stateToolSchema,
  suggestUriMember,
  toolAliases,
  toolInput,
  toolMembers,
  toolOverrides,
  unknownField,
  validate,
} from '@sluice/contract';
import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { counted } from '@sluice/protocol/text';
import type { z } from 'zod';
import { closestMatch } from '../closest-match.ts';
import { Failure } from '../failure.ts';
import { type KeyPath, type LocatedDocument, parseLocated } from '../files/located-document.ts';

/** The sections of a state file, in the order in which they are written. */
const SECTIONS = ['namespaces', 'forwards', 'services', 'tools', 'evaluators'] as const satisfies StateSection[];

/** State described by state files. Sections that no file contains stay unchanged. */
export interface DesiredState {
  /** Possible mistakes in the files, each with its position. */
  readonly warnings: readonly string[];
  /** Body of `PUT /api/v1/state`. */
  readonly body: StateInput;
  /** The position of an entry by its path in the body, such as `tools.3`, as `{file}:{line}:{column}`. */
  positionOf(path: string): string | undefined;
}

/** Members that identify a discovered tool. */
const ORIGIN_MEMBERS = ['forward', 'upstreamName'];
const TOOL_MEMBERS = [...Object.keys(toolMembers.shape), ...Object.keys(toolAliases)];

/**
 * Returns the known tool member that an unknown one is most similar to; undefined when it is known or similar
 * to none. Ignores case, `-` and `_`.
 */
function suggestMember(member: string): string | undefined {
  const known = [...TOOL_MEMBERS, ...ORIGIN_MEMBERS];
  return known.includes(member) ? undefined : closestMatch(member, known);
}

/** Name and text of a state file. */
export interface StateSource {
  /** Name for messages. */
  readonly name: string;
  readonly text: string;
}

/**
 * Merges state files (docs/desired-state.md). Throws {@link Failure} with all problems, each with file, line and
 * column.
 */
export function readStateFiles(texts: readonly StateSource[]): DesiredState {
  const reader = new StateReader();
  for (const { name, text } of texts) reader.read(name, text);
  return reader.result();
}

/** Members allowed in the entries of a section. Tools may have any. */
const KNOWN_MEMBERS: Readonly<Partial<Record<StateSection, readonly string[]>>> = {
  namespaces: Object.keys(namespace.omit({ mcpUrl: true }).shape),
  forwards: Object.keys(forwardInput.shape),
  services: Object.keys(service.shape).filter((member) => member !== 'health'),
};

const ALIASES = new Map(Object.entries(toolAliases));

const EMPTY: LocatedDocument = { content: null, positionOf: () => '' };

/** An entry of a section with its position. */
interface Entry {
  readonly section: StateSection;
  readonly value: JsonObject;
  readonly position: (path?: KeyPath) => string;
}

/** A section of the body. */
interface EntryList<T> {
  readonly length: number;
  push(entry: T): unknown;
}

/** Maximum number of listed problems. */
const MAX_PROBLEMS = 20;

class StateReader {
  readonly #problems: string[] = [];
  readonly #warnings: string[] = [];
  readonly #body: StateInput = {};
  /** By path in the body. */
  readonly #positions = new Map<string, () => string>();
  /** Position by identity of the entry. */
  readonly #seen = new Map<string, () => string>();

  read(name: string, text: string): void {
    // An empty file is more often the result of a failed command than a state.
    const { content, positionOf } = text.trim() === '' ? EMPTY : parseLocated(text, name);
    if (content === null) {
      this.#problems.push(`${name} is empty; use {} for an empty state`);
      return;
    }
    if (!isJsonObject(content)) {
      this.#problems.push(
        `${positionOf([])}: expected a map with the sections ${[...SECTIONS, 'identity'].join(', ')}`,
      );
      return;
    }
    for (const [key, list] of Object.entries(content)) {
      if (key === 'identity') {
        this.#readIdentity(list, (path = []) => positionOf([key, ...path]));
        continue;
      }
      const section = SECTIONS.find((known) => known === key);
      if (section === undefined) {
        this.#problems.push(`${positionOf([key])}: ${key} ${unknownField([...SECTIONS, 'identity'])}`);
      } else if (!Array.isArray(list)) {
        this.#problems.push(`${positionOf([key])}: ${key} must be a list; use [] for an empty one`);
      } else {
        this.#body[section] ??= [];
        list.forEach((value, index) => {
          this.#readEntry(section, value, (path = []) => positionOf([key, index, ...path]));
        });
      }
    }
  }

  result(): DesiredState {
    const [first, ...others] = this.#problems;
    if (first !== undefined && others.length === 0) throw new Failure(first);
    const more = this.#problems.length - MAX_PROBLEMS;
    const notes = more > 0 ? [...this.#problems.slice(0, MAX_PROBLEMS), `and ${more} more`] : this.#problems;
    if (first !== undefined) throw new Failure(counted(this.#problems.length, 'problem'), { notes: notes });
    const positions = this.#positions;
    return { warnings: this.#warnings, body: this.#body, positionOf: (path) => positions.get(path)?.() };
  }

  #readIdentity(value: JsonValue, position: Entry['position']): void {
    const result = validate(identity, value);
    if ('issues' in result) {
      for (const { path, message } of result.issues) {
        const members = path.split('.').map((step) => (/^\d+$/.test(step) ? Number(step) : step));
        this.#problems.push(`${position(path === '' ? [] : members)}: identity: ${path} ${message}`);
      }
    } else if (this.#body.identity) this.#problems.push(`${position()}: identity is in an earlier file, too`);
    else this.#body.identity = result.value;
  }

  #readEntry(section: StateSection, value: JsonValue, position: Entry['position']): void {
    if (!isJsonObject(value)) {
      this.#problems.push(`${position()}: an entry of ${section} must be a map`);
      return;
    }
    const entry = { section, value, position };
    const known = KNOWN_MEMBERS[section];
    const unknown = known === undefined ? [] : Object.keys(value).filter((member) => !known.includes(member));
    for (const member of unknown) {
      this.#addProblem(entry, [member], unknownField(known ?? []));
    }
    if (unknown.length > 0) return;
    if (section === 'namespaces')
      this.#add(entry, stateSections.namespaces, this.#body.namespaces, ({ name }) => [name]);
    else if (section === 'forwards')
      this.#add(entry, stateSections.forwards, this.#body.forwards, ({ name }) => [name]);
    else if (section === 'services')
      this.#add(entry, stateSections.services, this.#body.services, (each) => [serviceKey(each)]);
    else if (section === 'evaluators') this.#readEvaluator(entry);
    else if (stateToolSchema(value) === toolOverrides) this.#readOverrides(entry);
    else this.#readTool(entry);
  }

  #readEvaluator(entry: Entry): void {
    // The service would ignore them, which changes the policy: `on_eror: block`.
    const unknown = findUnknownMembers(entry.value);
    for (const { path, known } of unknown) this.#addProblem(entry, path, unknownField(known));
    this.#add(entry, stateSections.evaluators, this.#body.evaluators, ({ name }) => [name]);
  }

  #readTool(entry: Entry): void {
    if (Object.hasOwn(entry.value, 'upstreamName')) {
      this.#addProblem(entry, ['upstreamName'], 'is allowed only with forward');
      return;
    }
    const named = new Set(Object.keys(entry.value).map((member) => ALIASES.get(member) ?? member));
    if (!named.has('uri') && !named.has('toolType')) {
      return this.#addProblem(entry, [], 'a discovered tool needs forward; any other tool needs uri and toolType');
    }
    if (this.#hasMisspelledUri(entry)) return;
    this.#warnMisspelled(entry);
    this.#add(entry, toolInput, this.#body.tools, ({ namespace = DEFAULT_NAMESPACE, name }) => [namespace, name]);
  }

  #readOverrides(entry: Entry): void {
    this.#warnMisspelled(entry);
    const identity = ({ forward, name = '', upstreamName = name }: z.output<typeof toolOverrides>) => {
      return ['override', forward, upstreamName];
    };
    this.#add(entry, toolOverrides, this.#body.tools, identity);
  }

  /** Adds an entry to its section, or its problems. */
  #add<T extends z.ZodType>(
    entry: Entry,
    schema: T,
    list: EntryList<z.output<T>> | undefined,
    identity: (parsed: z.output<T>) => readonly string[],
  ): void {
    const result = schema.safeParse(entry.value, { reportInput: true, error: describeIssue });
    if (!result.success) {
      for (const { path, message } of result.error.issues) {
        this.#addProblem(entry, path, message.replace(/^Invalid input: /, ''));
      }
      return;
    }
    if (!list || !this.#isUnique(entry, [entry.section, ...identity(result.data)])) return;
    this.#positions.set(`${entry.section}.${list.length}`, entry.position);
    list.push(result.data);
  }

  #isUnique(entry: Entry, identity: readonly string[]): boolean {
    const key = JSON.stringify(identity);
    const before = this.#seen.get(key);
    if (before) this.#addProblem(entry, [], `duplicate entry; first at ${before()}`);
    else this.#seen.set(key, entry.position);
    return before === undefined;
  }

  /** Reports misspelled secret and configuration URIs, which the service rejects; an upstream may have such members. */
  #hasMisspelledUri(entry: Entry): boolean {
    const misspelled = Object.keys(entry.value).filter(
      (member) => !ALIASES.has(member) && suggestUriMember(member) !== undefined,
    );
    for (const member of misspelled) {
      const suggestion = suggestUriMember(member);
      if (suggestion !== undefined) this.#addProblem(entry, [member], unknownField(didYouMean(suggestion)));
    }
    return misspelled.length > 0;
  }

  /** Unknown members are allowed, but one that is similar to a known member is probably a typo. */
  #warnMisspelled({ section, value, position }: Entry): void {
    for (const member of Object.keys(value)) {
      const suggestion = suggestMember(member);
      if (suggestion === undefined) continue;
      this.#warnings.push(`${position([member])}: ${section}: ${member}: ${unknownField(didYouMean(suggestion))}`);
    }
  }

  #addProblem({ section, position }: Entry, path: KeyPath, problem: string): void {
    const member = path.map(String).join('.');
    this.#problems.push(`${position(path)}: ${section}: ${member === '' ? problem : `${member}: ${problem}`}`);
  }
}

/** Messages for missing members and wrong types in YAML terms; other messages come from the contract. */
const describeIssue: z.core.$ZodErrorMap = ({ code, input, expected }) => {
  if (input === undefined) return 'is required';
  if (code !== 'invalid_type') return undefined;
  if (expected === 'array') return 'must be a list';
  // A name such as 007 or true is a number or a boolean in YAML.
  const quote = expected === 'string' && (typeof input !== 'object' || JSON.isRawJSON(input));
  return `must be a ${expected}${quote ? '; quote it' : ''}`;
};
