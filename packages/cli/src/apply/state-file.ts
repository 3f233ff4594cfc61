import {
  DEFAULT_NAMESPACE,
  didYouMean,
  entryName,
  evaluatorInput,
  existingName,
  exposePatch,
  findUnknownMembers,
  forwardHeadersPatch,
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
  unknownField,
  withAliases,
} from '@sluice/contract';
import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { counted } from '@sluice/protocol/text';
import { z } from 'zod';
import { closestMatch } from '../closest-match.ts';
import { Failure } from '../failure.ts';
import { type KeyPath, type LocatedDocument, parseLocated } from '../files/located-document.ts';
import { type DesiredState, SECTIONS, type Section } from './desired-state.ts';
import { isServiceLabel } from './discovered-tools.ts';

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

const forwardManaged = z.never({ error: 'is set by its forward; remove it' }).optional();

/**
 * Overrides of a discovered tool under canonical names. Missing members follow the upstream; null removes an optional
 * member of the upstream.
 */
const toolOverridesSchema = withAliases(
  toolAliases,
  toolMembers
    .partial()
    .extend({
      forward: entryName,
      name: existingName.optional(),
      upstreamName: z.string().min(1, 'must not be empty').optional(),
      description: z.string().nullable().optional(),
      enabled: z.boolean().nullable().optional(),
      title: z.string().nullable().optional(),
      annotations: jsonObject.nullable().optional(),
      icons: z.array(jsonValue).nullable().optional(),
      output_schema: jsonObject.nullable().optional(),
      execution: jsonObject.nullable().optional(),
      _meta: jsonObject.nullable().optional(),
      uri: forwardManaged,
      toolType: forwardManaged,
      shadowed: forwardManaged,
      upstream: forwardManaged,
    })
    .catchall(jsonValue),
);

/** A forward: headers that it does not name and what its rules leave out stay unchanged. */
const forwardEntry = forwardInput.extend({ headers: forwardHeadersPatch.nullish(), expose: exposePatch.nullish() });

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
const KNOWN_MEMBERS: Readonly<Partial<Record<Section, readonly string[]>>> = {
  namespaces: Object.keys(namespace.omit({ mcpUrl: true }).shape),
  forwards: Object.keys(forwardInput.shape),
  services: Object.keys(service.shape).filter((member) => member !== 'health'),
};

const ALIASES = new Map(Object.entries(toolAliases));

const EMPTY: LocatedDocument = { content: null, positionOf: () => '' };

/** An entry of a section with its position. */
interface Entry {
  readonly section: Section;
  readonly value: JsonObject;
  readonly position: (path?: KeyPath) => string;
}

/** Maximum number of listed problems. */
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
  readonly #evaluators: DesiredState['evaluators'][number][] = [];
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
      this.#problems.push(`${positionOf([])}: expected a map with the sections ${SECTIONS.join(', ')}`);
      return;
    }
    for (const [key, list] of Object.entries(content)) {
      const section = SECTIONS.find((known) => known === key);
      if (section === undefined) {
        this.#problems.push(`${positionOf([key])}: ${key} ${unknownField(SECTIONS)}`);
      } else if (!Array.isArray(list)) {
        this.#problems.push(`${positionOf([key])}: ${key} must be a list; use [] for an empty one`);
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
    const notes = more > 0 ? [...this.#problems.slice(0, MAX_PROBLEMS), `and ${more} more`] : this.#problems;
    if (first !== undefined) throw new Failure(counted(this.#problems.length, 'problem'), { notes: notes });
    return {
      warnings: this.#warnings,
      sections: this.#sections,
      namespaces: this.#namespaces,
      forwards: this.#forwards,
      services: this.#services,
      tools: this.#tools,
      overrides: this.#overrides,
      evaluators: this.#evaluators,
    };
  }

  #readEntry(section: Section, value: JsonValue, position: Entry['position']): void {
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
    if (section === 'namespaces') this.#readNamespace(entry);
    else if (section === 'forwards') this.#readForward(entry);
    else if (section === 'services') this.#readService(entry);
    else if (section === 'evaluators') this.#readEvaluator(entry);
    else if (Object.hasOwn(value, 'forward')) this.#readOverrides(entry);
    else this.#readTool(entry);
  }

  #readNamespace(entry: Entry): void {
    const parsed = this.#parse(entry, namespaceInput);
    if (!parsed || !this.#isUnique(entry, ['namespace', parsed.name])) return;
    this.#namespaces.push({ name: parsed.name, labels: parsed.labels ?? {}, position: entry.position });
  }

  #readForward(entry: Entry): void {
    const parsed = this.#parse(entry, forwardEntry);
    if (!parsed || !this.#isUnique(entry, ['forward', parsed.name])) return;
    const { namespace = DEFAULT_NAMESPACE, labels = {}, prefix = '', ...described } = parsed;
    this.#forwards.push({
      ...described,
      namespace,
      labels,
      prefix,
      position: entry.position,
    });
  }

  #readService(entry: Entry): void {
    const service = this.#parse(entry, serviceInput);
    if (!service || !this.#isUnique(entry, ['service', serviceKey(service)])) return;
    this.#services.push({ entry: service, position: entry.position });
  }

  #readEvaluator(entry: Entry): void {
    // The service would ignore them, which changes the policy: `on_eror: block`.
    const unknown = findUnknownMembers(entry.value);
    for (const { path, known } of unknown) {
      this.#addProblem(entry, path, unknownField(known));
    }
    const definition = this.#parse(entry, evaluatorInput);
    if (!definition || unknown.length > 0 || !this.#isUnique(entry, ['evaluator', definition.name])) return;
    this.#evaluators.push({ definition, position: entry.position });
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
    const { forward, name, upstreamName = name, namespace: target, labels = {}, enabled, ...others } = parsed;
    if (upstreamName === undefined) return this.#addProblem(entry, ['upstreamName'], 'is required unless name is set');
    const reserved = Object.keys(labels).find(isServiceLabel);
    if (reserved !== undefined) {
      return this.#addProblem(entry, ['labels', reserved], 'is set by the service; remove it');
    }
    if (!this.#isUnique(entry, ['override', forward, upstreamName])) return;
    this.#warnMisspelled(entry);
    const members = definedMembers(others);
    const { position } = entry;
    // null removes the mark.
    const wanted = enabled === null ? true : enabled;
    this.#overrides.push({
      forward,
      upstreamName,
      name,
      namespace: target,
      labels,
      enabled: wanted,
      members,
      position,
    });
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

function definedMembers(members: Readonly<Record<string, JsonValue | undefined>>): JsonObject {
  const entries = Object.entries(members).filter((entry): entry is [string, JsonValue] => entry[1] !== undefined);
  return Object.fromEntries(entries);
}
