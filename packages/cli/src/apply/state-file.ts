import {
  DEFAULT_NAMESPACE,
  entryName,
  forwardInput,
  jsonObject,
  jsonValue,
  namespace,
  namespaceInput,
  service,
  serviceInput,
  serviceKey,
  suggestUriMember,
  toolAliases,
  toolInput,
  toolMembers,
  withAliases,
} from '@sluice/contract';
import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { z } from 'zod';
import { closestMatch } from '../closest-match.ts';
import { Failure } from '../failure.ts';
import { type KeyPath, type LocatedDocument, parseLocated } from '../files/located-document.ts';
import { type DesiredState, SECTIONS, type Section } from './desired-state.ts';
import { isServiceLabel } from './discovered-tools.ts';

/** Members that say which tool of a forward is meant. */
const ORIGIN_MEMBERS = ['forward', 'upstreamName'];
const TOOL_MEMBERS = [...Object.keys(toolMembers.shape), ...Object.keys(toolAliases)];

/**
 * The member of a tool that this one, which nobody knows, is most likely meant to be; undefined when it is known, or is
 * near to none. Case counts for nothing, nor do `-` and `_`.
 */
export function suggestMember(member: string): string | undefined {
  const known = [...TOOL_MEMBERS, ...ORIGIN_MEMBERS];
  return known.includes(member) ? undefined : closestMatch(member, known);
}

const forwardManaged = z.never({ error: 'is set by its forward; leave it out' }).optional();

/**
 * What somebody wants of a discovered tool, under canonical names: which one it is, and any of the members that a PUT can
 * change. A member that is left out follows the upstream; null takes an optional one of the upstream's away.
 */
export const toolOverridesSchema = withAliases(
  toolAliases,
  toolMembers
    .partial()
    .extend({
      forward: entryName,
      upstreamName: z.string().min(1, 'must not be empty').optional(),
      description: z.string().nullable().optional(),
      title: z.string().nullable().optional(),
      annotations: jsonObject.nullable().optional(),
      icons: z.array(jsonValue).nullable().optional(),
      output_schema: jsonObject.nullable().optional(),
      uri: forwardManaged,
      toolType: forwardManaged,
      shadowed: forwardManaged,
      upstream: forwardManaged,
    })
    .catchall(jsonValue),
);

/** A state file as it was read. */
export interface StateSource {
  /** As messages name it. */
  readonly name: string;
  readonly text: string;
}

/**
 * What state files say together (docs/desired-state.md). Throws {@link Failure} with everything that is wrong with them,
 * each with file, line and column.
 */
export function readStateFiles(texts: readonly StateSource[]): DesiredState {
  const reader = new StateReader();
  for (const { name, text } of texts) reader.read(name, text);
  return reader.result();
}

/** Members that a section's entries may have. Those of tools are open: what is not known is kept (decisions 4.1). */
const KNOWN_MEMBERS: Readonly<Partial<Record<Section, readonly string[]>>> = {
  namespaces: Object.keys(namespace.shape),
  forwards: Object.keys(forwardInput.shape),
  services: Object.keys(service.shape).filter((member) => member !== 'health'),
};

const ALIASES = new Map(Object.entries(toolAliases));

const EMPTY: LocatedDocument = { content: null, positionOf: () => '' };

/** One entry of a section: its value, and where it stands. */
interface Entry {
  readonly section: Section;
  readonly value: JsonObject;
  readonly position: (path?: KeyPath) => string;
}

/** Problems that are listed one by one. */
const MAX_PROBLEMS = 20;

class StateReader {
  readonly #problems: string[] = [];
  readonly #warnings: string[] = [];
  readonly #sections = new Set<Section>();
  readonly #namespaces: DesiredState['namespaces'][number][] = [];
  readonly #forwards: DesiredState['forwards'][number][] = [];
  readonly #services: DesiredState['services'][number][] = [];
  readonly #tools: DesiredState['tools'][number][] = [];
  readonly #overrides: DesiredState['overrides'][number][] = [];
  /** By identity, where it stands. */
  readonly #seen = new Map<string, () => string>();

  read(name: string, text: string): void {
    // Nothing at all is more often what is left of something that went wrong than a state.
    const { content, positionOf } = text.trim() === '' ? EMPTY : parseLocated(text, name);
    if (content === null) {
      this.#problems.push(`${name} is empty; a state without anything is {}`);
      return;
    }
    if (!isJsonObject(content)) {
      this.#problems.push(`${positionOf([])}: must be a map with any of ${SECTIONS.join(', ')}`);
      return;
    }
    for (const [key, list] of Object.entries(content)) {
      const section = SECTIONS.find((known) => known === key);
      if (section === undefined) {
        const hint = key === 'evaluators' ? '; "sluice evaluators apply" takes these' : '';
        this.#problems.push(
          `${positionOf([key])}: unknown section ${quote(key)}; there are ${SECTIONS.join(', ')}${hint}`,
        );
      } else if (!Array.isArray(list)) {
        this.#problems.push(`${positionOf([key])}: ${key} must be a list; [] is an empty one`);
      } else {
        this.#sections.add(section);
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
    const told = more > 0 ? [...this.#problems.slice(0, MAX_PROBLEMS), `and ${more} more`] : this.#problems;
    if (first !== undefined) throw new Failure(`${this.#problems.length} problems`, { notes: told });
    return {
      warnings: this.#warnings,
      sections: this.#sections,
      namespaces: this.#namespaces,
      forwards: this.#forwards,
      services: this.#services,
      tools: this.#tools,
      overrides: this.#overrides,
    };
  }

  #readEntry(section: Section, value: JsonValue, position: Entry['position']): void {
    if (!isJsonObject(value)) {
      this.#problems.push(`${position()}: must be a map with the members of one of the ${section}`);
      return;
    }
    const entry = { section, value, position };
    const known = KNOWN_MEMBERS[section];
    const unknown = known === undefined ? [] : Object.keys(value).filter((member) => !known.includes(member));
    for (const member of unknown) {
      this.#addProblem(entry, [member], `unknown member; there are ${known?.join(', ')}`);
    }
    if (unknown.length > 0) return;
    if (section === 'namespaces') this.#readNamespace(entry);
    else if (section === 'forwards') this.#readForward(entry);
    else if (section === 'services') this.#readService(entry);
    else if (Object.hasOwn(value, 'forward')) this.#readOverrides(entry);
    else this.#readTool(entry);
  }

  #readNamespace(entry: Entry): void {
    const parsed = this.#parse(entry, namespaceInput);
    if (!parsed || !this.#isUnique(entry, ['namespace', parsed.name])) return;
    this.#namespaces.push({ name: parsed.name, labels: parsed.labels ?? {}, position: entry.position });
  }

  #readForward(entry: Entry): void {
    const parsed = this.#parse(entry, forwardInput);
    if (!parsed || !this.#isUnique(entry, ['forward', parsed.name])) return;
    const { name, address, namespace: target = DEFAULT_NAMESPACE, labels = {}, prefix = '' } = parsed;
    this.#forwards.push({ name, address, namespace: target, labels, prefix, position: entry.position });
  }

  #readService(entry: Entry): void {
    const service = this.#parse(entry, serviceInput);
    if (!service || !this.#isUnique(entry, ['service', serviceKey(service)])) return;
    this.#services.push({ entry: service, position: entry.position });
  }

  #readTool(entry: Entry): void {
    if (Object.hasOwn(entry.value, 'upstreamName')) {
      this.#addProblem(entry, ['upstreamName'], 'goes with forward, which says whose tool it is');
      return;
    }
    const named = new Set(Object.keys(entry.value).map((member) => ALIASES.get(member) ?? member));
    if (!named.has('uri') && !named.has('toolType')) {
      return this.#addProblem(entry, [], 'a tool of a forward needs forward; one made by hand needs uri and toolType');
    }
    const parsed = this.#parse(entry, toolInput);
    if (!parsed || this.#hasMisspelledUri(entry)) return;
    const { name, namespace: target = DEFAULT_NAMESPACE, labels = {}, shadowed: _readOnly, ...others } = parsed;
    if (!this.#isUnique(entry, ['tool', target, name])) return;
    this.#warnMisspelled(entry);
    const members = { name, namespace: target, labels, ...definedMembers(others) };
    this.#tools.push({ namespace: target, name, members, position: entry.position });
  }

  #readOverrides(entry: Entry): void {
    const parsed = this.#parse(entry, toolOverridesSchema);
    if (!parsed) return;
    const { forward, name, upstreamName = name, namespace: target, labels = {}, ...others } = parsed;
    if (upstreamName === undefined) return this.#addProblem(entry, ['upstreamName'], 'is required, or name');
    const reserved = Object.keys(labels).find(isServiceLabel);
    if (reserved !== undefined) {
      return this.#addProblem(entry, ['labels', reserved], 'is set by the service; leave it out');
    }
    if (!this.#isUnique(entry, ['override', forward, upstreamName])) return;
    this.#warnMisspelled(entry);
    const members = definedMembers(others);
    this.#overrides.push({ forward, upstreamName, name, namespace: target, labels, members, position: entry.position });
  }

  #parse<T extends z.ZodType>(entry: Entry, schema: T): z.output<T> | undefined {
    const result = schema.safeParse(entry.value, { reportInput: true, error: describeIssue });
    if (result.success) return result.data;
    for (const { path, message } of result.error.issues) {
      this.#addProblem(entry, path, message.replace(/^Invalid input: /, ''));
    }
    return undefined;
  }

  #isUnique(entry: Entry, identity: readonly string[]): boolean {
    const key = JSON.stringify(identity);
    const before = this.#seen.get(key);
    if (before) this.#addProblem(entry, [], `is there already at ${before()}`);
    else this.#seen.set(key, entry.position);
    return before === undefined;
  }

  /** Members that the service refuses, since they look as if they said where secrets are; an upstream may have them. */
  #hasMisspelledUri(entry: Entry): boolean {
    const misspelt = Object.keys(entry.value).filter(
      (member) => !ALIASES.has(member) && suggestUriMember(member) !== undefined,
    );
    for (const member of misspelt)
      this.#addProblem(entry, [member], `has no effect; it is spelled ${suggestUriMember(member)}`);
    return misspelt.length > 0;
  }

  /** Members that nobody knows are kept, but most of those that are near to a known one are meant to be that. */
  #warnMisspelled({ section, value, position }: Entry): void {
    for (const member of Object.keys(value)) {
      const meant = suggestMember(member);
      if (meant === undefined) continue;
      this.#warnings.push(`${position([member])}: ${section}: ${member}: is not known, and kept; is ${meant} meant?`);
    }
  }

  #addProblem({ section, position }: Entry, path: KeyPath, problem: string): void {
    const member = path.map(String).join('.');
    this.#problems.push(`${position(path)}: ${section}: ${member === '' ? problem : `${member}: ${problem}`}`);
  }
}

/** What is missing or of the wrong type, for someone who writes YAML; the other words are those of the contract. */
const describeIssue: z.core.$ZodErrorMap = ({ code, input, expected }) => {
  if (input === undefined) return 'is required';
  if (code !== 'invalid_type') return undefined;
  if (expected === 'array') return 'must be a list';
  // A name such as 007 or true is a number or a truth value to YAML.
  const quote = expected === 'string' && (typeof input !== 'object' || JSON.isRawJSON(input));
  return `must be a ${expected}${quote ? '; quote it' : ''}`;
};

function definedMembers(members: Readonly<Record<string, JsonValue | undefined>>): JsonObject {
  const entries = Object.entries(members).filter((entry): entry is [string, JsonValue] => entry[1] !== undefined);
  return Object.fromEntries(entries);
}

function quote(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
}
