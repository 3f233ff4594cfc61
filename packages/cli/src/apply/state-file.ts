import {
  DEFAULT_NAMESPACE,
  forwardInput,
  namespace,
  namespaceInput,
  service,
  serviceInput,
  serviceKey,
  suggestUriMember,
  toolAliases,
  toolInput,
} from '@sluice/contract';
import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import type { z } from 'zod';
import { Failure } from '../failure.ts';
import { type KeyPath, type LocatedDocument, readLocated } from '../files/located-document.ts';
import { type Desired, SECTIONS, type Section } from './desired.ts';
import { isOfService } from './effective.ts';
import { meantMember } from './misspelt.ts';
import { toolOverrides } from './tool-overrides.ts';

/** A state file as it was read. */
export interface StateText {
  /** As messages name it. */
  readonly name: string;
  readonly text: string;
}

/**
 * What state files say together (docs/desired-state.md). Throws {@link Failure} with everything that is wrong with them,
 * each with file, line and column.
 */
export function readState(texts: readonly StateText[]): Desired {
  const reader = new StateReader();
  for (const { name, text } of texts) reader.read(name, text);
  return reader.result();
}

/** Members that a section's entries may have. Those of tools are open: what is not known is kept (decisions 4.1). */
const KNOWN: Readonly<Partial<Record<Section, readonly string[]>>> = {
  namespaces: Object.keys(namespace.shape),
  forwards: Object.keys(forwardInput.shape),
  services: Object.keys(service.shape).filter((member) => member !== 'health'),
};

const ALIASES = new Map(Object.entries(toolAliases));

const EMPTY: LocatedDocument = { content: null, where: () => '' };

/** One entry of a section: its value, and where it stands. */
interface Item {
  readonly section: Section;
  readonly value: JsonObject;
  readonly where: (path?: KeyPath) => string;
}

/** Problems that are listed one by one. */
const TOLD = 20;

class StateReader {
  readonly #problems: string[] = [];
  readonly #warnings: string[] = [];
  readonly #sections = new Set<Section>();
  readonly #namespaces: Desired['namespaces'][number][] = [];
  readonly #forwards: Desired['forwards'][number][] = [];
  readonly #services: Desired['services'][number][] = [];
  readonly #tools: Desired['tools'][number][] = [];
  readonly #overrides: Desired['overrides'][number][] = [];
  /** By identity, where it stands. */
  readonly #seen = new Map<string, () => string>();

  read(name: string, text: string): void {
    // Nothing at all is more often what is left of something that went wrong than a state.
    const { content, where } = text.trim() === '' ? EMPTY : readLocated(text, name);
    if (content === null) {
      this.#problems.push(`${name} is empty; a state without anything is {}`);
      return;
    }
    if (!isJsonObject(content)) {
      this.#problems.push(`${where([])}: must be a map with any of ${SECTIONS.join(', ')}`);
      return;
    }
    for (const [key, list] of Object.entries(content)) {
      const section = SECTIONS.find((known) => known === key);
      if (section === undefined) {
        const hint = key === 'evaluators' ? '; "sluice evaluators apply" takes these' : '';
        this.#problems.push(`${where([key])}: unknown section ${quoted(key)}; there are ${SECTIONS.join(', ')}${hint}`);
      } else if (!Array.isArray(list)) {
        this.#problems.push(`${where([key])}: ${key} must be a list; [] is an empty one`);
      } else {
        this.#sections.add(section);
        list.forEach((value, index) => {
          this.#item(section, value, (path = []) => where([key, index, ...path]));
        });
      }
    }
  }

  result(): Desired {
    const [first, ...others] = this.#problems;
    if (first !== undefined && others.length === 0) throw new Failure(first);
    const more = this.#problems.length - TOLD;
    const told = more > 0 ? [...this.#problems.slice(0, TOLD), `and ${more} more`] : this.#problems;
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

  #item(section: Section, value: JsonValue, where: Item['where']): void {
    if (!isJsonObject(value)) {
      this.#problems.push(`${where()}: must be a map with the members of one of the ${section}`);
      return;
    }
    const item = { section, value, where };
    const known = KNOWN[section];
    const strangers = known === undefined ? [] : Object.keys(value).filter((member) => !known.includes(member));
    for (const member of strangers) {
      this.#problem(item, [member], `unknown member; there are ${known?.join(', ')}`);
    }
    if (strangers.length > 0) return;
    if (section === 'namespaces') this.#namespace(item);
    else if (section === 'forwards') this.#forward(item);
    else if (section === 'services') this.#service(item);
    else if (Object.hasOwn(value, 'forward')) this.#override(item);
    else this.#tool(item);
  }

  #namespace(item: Item): void {
    const parsed = this.#parse(item, namespaceInput);
    if (!parsed || !this.#isFirst(item, ['namespace', parsed.name])) return;
    this.#namespaces.push({ name: parsed.name, labels: parsed.labels ?? {}, where: item.where });
  }

  #forward(item: Item): void {
    const parsed = this.#parse(item, forwardInput);
    if (!parsed || !this.#isFirst(item, ['forward', parsed.name])) return;
    const { name, address, namespace: target = DEFAULT_NAMESPACE, labels = {}, prefix = '' } = parsed;
    this.#forwards.push({ name, address, namespace: target, labels, prefix, where: item.where });
  }

  #service(item: Item): void {
    const entry = this.#parse(item, serviceInput);
    if (!entry || !this.#isFirst(item, ['service', serviceKey(entry)])) return;
    this.#services.push({ entry, where: item.where });
  }

  #tool(item: Item): void {
    if (Object.hasOwn(item.value, 'upstreamName')) {
      this.#problem(item, ['upstreamName'], 'goes with forward, which says whose tool it is');
      return;
    }
    const named = new Set(Object.keys(item.value).map((member) => ALIASES.get(member) ?? member));
    if (!named.has('uri') && !named.has('toolType')) {
      return this.#problem(item, [], 'a tool of a forward needs forward; one made by hand needs uri and toolType');
    }
    const parsed = this.#parse(item, toolInput);
    if (!parsed || this.#hasMisspelt(item)) return;
    const { name, namespace: target = DEFAULT_NAMESPACE, labels = {}, shadowed: _readOnly, ...others } = parsed;
    if (!this.#isFirst(item, ['tool', target, name])) return;
    this.#warn(item);
    const members = { name, namespace: target, labels, ...given(others) };
    this.#tools.push({ namespace: target, name, members, where: item.where });
  }

  #override(item: Item): void {
    const parsed = this.#parse(item, toolOverrides);
    if (!parsed) return;
    const { forward, name, upstreamName = name, namespace: target, labels = {}, ...others } = parsed;
    if (upstreamName === undefined) return this.#problem(item, ['upstreamName'], 'is required, or name');
    const reserved = Object.keys(labels).find(isOfService);
    if (reserved !== undefined) {
      return this.#problem(item, ['labels', reserved], 'is set by the service; leave it out');
    }
    if (!this.#isFirst(item, ['override', forward, upstreamName])) return;
    this.#warn(item);
    const members = given(others);
    this.#overrides.push({ forward, upstreamName, name, namespace: target, labels, members, where: item.where });
  }

  #parse<T extends z.ZodType>(item: Item, schema: T): z.output<T> | undefined {
    const result = schema.safeParse(item.value, { reportInput: true, error: inWords });
    if (result.success) return result.data;
    for (const { path, message } of result.error.issues) {
      this.#problem(item, path, message.replace(/^Invalid input: /, ''));
    }
    return undefined;
  }

  #isFirst(item: Item, identity: readonly string[]): boolean {
    const key = JSON.stringify(identity);
    const before = this.#seen.get(key);
    if (before) this.#problem(item, [], `is there already at ${before()}`);
    else this.#seen.set(key, item.where);
    return before === undefined;
  }

  /** Members that the service refuses, since they look as if they said where secrets are; an upstream may have them. */
  #hasMisspelt(item: Item): boolean {
    const misspelt = Object.keys(item.value).filter(
      (member) => !ALIASES.has(member) && suggestUriMember(member) !== undefined,
    );
    for (const member of misspelt)
      this.#problem(item, [member], `has no effect; it is spelled ${suggestUriMember(member)}`);
    return misspelt.length > 0;
  }

  /** Members that nobody knows are kept, but most of those that are near to a known one are meant to be that. */
  #warn({ section, value, where }: Item): void {
    for (const member of Object.keys(value)) {
      const meant = meantMember(member);
      if (meant === undefined) continue;
      this.#warnings.push(`${where([member])}: ${section}: ${member}: is not known, and kept; is ${meant} meant?`);
    }
  }

  #problem({ section, where }: Item, path: KeyPath, problem: string): void {
    const member = path.map(String).join('.');
    this.#problems.push(`${where(path)}: ${section}: ${member === '' ? problem : `${member}: ${problem}`}`);
  }
}

/** What is missing or of the wrong type, for someone who writes YAML; the other words are those of the contract. */
const inWords: z.core.$ZodErrorMap = ({ code, input, expected }) => {
  if (input === undefined) return 'is required';
  if (code !== 'invalid_type') return undefined;
  if (expected === 'array') return 'must be a list';
  // A name such as 007 or true is a number or a truth value to YAML.
  const quote = expected === 'string' && (typeof input !== 'object' || JSON.isRawJSON(input));
  return `must be a ${expected}${quote ? '; quote it' : ''}`;
};

function given(members: Readonly<Record<string, JsonValue | undefined>>): JsonObject {
  const entries = Object.entries(members).filter((entry): entry is [string, JsonValue] => entry[1] !== undefined);
  return Object.fromEntries(entries);
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
}
