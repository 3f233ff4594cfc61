import { changedHeaders, type Evaluator, type Labels, mergeExpose, serviceKey } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';
import type { CurrentForward, CurrentService, CurrentState } from './current-state.ts';
import type { DesiredForward } from './desired-state.ts';
import type { NamespaceContents, Step } from './step.ts';

/** A tool of the model. `origin` is the stable part of a discovered one. */
interface Entry {
  readonly origin:
    | { readonly forward: string; readonly upstreamName: string; readonly upstream: JsonObject }
    | undefined;
  readonly namespace: string;
  readonly name: string;
  readonly labels: Labels;
  readonly enabled: boolean;
  readonly members: JsonObject;
}

/** By address, the tools that the upstream there offers. */
export type Upstreams = Readonly<Record<string, Readonly<Record<string, JsonObject>>>>;

/** Model of the service, according to the management API. Rejects by throwing. */
export class ServiceModel {
  readonly #upstreams: Upstreams;
  readonly #namespaces = new Map<string, Labels>([['default', {}]]);
  readonly #forwards = new Map<string, CurrentForward>();
  readonly #services = new Map<string, CurrentService>();
  /** Claimants by key; the first one is served. */
  readonly #claims = new Map<string, Entry[]>();
  #evaluators: readonly Evaluator[] = [];

  constructor(upstreams: Upstreams) {
    this.#upstreams = upstreams;
  }

  actual(): CurrentState {
    const served = [...this.#claims.values()].flatMap(([first]) => (first ? [first] : []));
    const shadowed = [...this.#claims.values()].flatMap(([, ...others]) => others);
    const discovered = [...served, ...shadowed].flatMap((entry) =>
      entry.origin ? [{ ...entry, ...entry.origin, shadowed: shadowed.includes(entry) }] : [],
    );
    return {
      namespaces: [...this.#namespaces].map(([name, labels]) => ({ name, labels })),
      forwards: [...this.#forwards.values()],
      services: [...this.#services.values()],
      manual: served
        .filter(({ origin }) => !origin)
        .map(({ namespace, name, labels, enabled, members }) => ({
          namespace,
          name,
          members: { ...members, name, namespace, labels, enabled },
        })),
      discovered,
      others: [],
      evaluators: { revision: 0, list: this.#evaluators },
    };
  }

  run(steps: readonly Step[]): void {
    for (const step of steps) this.#run(step);
  }

  #run(step: Step): void {
    if (step.kind === 'namespace') this.#namespace(step);
    else if (step.kind === 'service') this.#service(step);
    else if (step.kind === 'forward') this.#forward(step);
    else if (step.kind === 'tool') this.#tool(step);
    else if (step.kind === 'evaluator') this.#evaluators = step.list;
    else this.#override(step);
  }

  #namespace(step: Step & { kind: 'namespace' }): void {
    const exists = this.#namespaces.has(step.name);
    if (exists === (step.action === 'create')) throw new Error(`${step.action} of namespace ${step.name}`);
    if (step.action !== 'delete') {
      this.#namespaces.set(step.name, step.labels);
      return;
    }
    const forwards = [...this.#forwards.values()].filter(({ namespace }) => namespace === step.name);
    const entries = this.#entries().filter(({ namespace }) => namespace === step.name);
    const present: NamespaceContents = { tools: entries.length, resources: 0, prompts: 0, forwards: forwards.length };
    if (JSON.stringify(present) !== JSON.stringify(step.contents))
      throw new Error(`namespace ${step.name} has other contents`);
    for (const { name } of forwards) this.#removeForward(name);
    for (const entry of entries) this.#drop(entry);
    this.#namespaces.delete(step.name);
  }

  #service(step: Step & { kind: 'service' }): void {
    if (step.action !== 'delete') return this.#putService(step.entry);
    const { name, serviceType } = step.entry;
    for (const [id, each] of this.#services) {
      if (each.name === name && each.serviceType === serviceType) this.#services.delete(id);
    }
    for (const entry of step.reregister) this.#putService(entry);
  }

  #putService({
    labels = {},
    ...entry
  }: Omit<CurrentService, 'address' | 'labels'> & { labels?: Labels | undefined }): void {
    this.#services.set(serviceKey(entry), { ...entry, labels, address: `${entry.host}:${entry.port}` });
  }

  #forward(step: Step & { kind: 'forward' }): void {
    if (step.action === 'update') return this.#changeForward(step.forward);
    if (step.action === 'rename') {
      const before = this.#forwards.get(step.name);
      if (!before) throw new Error(`no forward ${step.name}`);
      return this.#relocate(before, { ...before, prefix: step.forward.prefix });
    }
    if (step.action === 'delete') return this.#removeForward(step.name);
    if (this.#forwards.has(step.name)) throw new Error(`forward ${step.name} exists`);
    const { name, address, namespace, labels, prefix, headers, expose, proxy, compression } = step.forward;
    if (!this.#namespaces.has(namespace)) throw new Error(`namespace ${namespace} was not planned`);
    const optional = { headers: changedHeaders(undefined, headers), expose: mergeExpose(undefined, expose) };
    this.#forwards.set(name, { name, address, namespace, labels, prefix, proxy, compression, ...optional });
    for (const [upstreamName, upstream] of Object.entries(this.#upstreams[address] ?? {})) {
      const origin = { forward: name, upstreamName, upstream };
      const members = { ...upstream, uri: address, toolType: 'mcp-forward' };
      this.#claim({ origin, namespace, name: prefix + upstreamName, labels: {}, enabled: true, members });
    }
  }

  /** At another address it has other tools; overrides of those with the same names stay. */
  #changeForward({ name, address, namespace, labels, prefix, ...changes }: DesiredForward): void {
    const before = this.#forwards.get(name);
    if (!before) throw new Error(`no forward ${name}`);
    if (!this.#namespaces.has(namespace)) throw new Error(`namespace ${namespace} was not planned`);
    const headers = changedHeaders(before.headers, changes.headers);
    const expose = mergeExpose(before.expose, changes.expose);
    const { proxy, compression } = changes;
    this.#relocate(before, { name, address, namespace, labels, prefix, headers, expose, proxy, compression });
    const own = this.#entries().filter(({ origin }) => origin?.forward === name);
    const known = new Map(own.map((entry) => [entry.origin?.upstreamName, entry]));
    const offered = this.#upstreams[address] ?? {};
    for (const entry of own) {
      const { upstreamName = '', upstream: before = {} } = entry.origin ?? {};
      const upstream = offered[upstreamName];
      if (!upstream) {
        this.#drop(entry);
        continue;
      }
      const members = {
        ...merged(upstream, overridesOf(before, entry.members)),
        uri: address,
        toolType: 'mcp-forward',
      };
      this.#replace(entry, { ...entry, origin: { forward: name, upstreamName, upstream }, members });
    }
    for (const [upstreamName, upstream] of Object.entries(offered)) {
      if (known.has(upstreamName)) continue;
      const origin = { forward: name, upstreamName, upstream };
      const members = { ...upstream, uri: address, toolType: 'mcp-forward' };
      this.#claim({ origin, namespace, name: prefix + upstreamName, labels: {}, enabled: true, members });
    }
  }

  /** Its tools follow, except moved and renamed ones. Rejects names that are in use, also by shadowed tools. */
  #relocate(before: CurrentForward, after: CurrentForward): void {
    const { name, namespace, prefix } = after;
    this.#forwards.set(name, after);
    if (before.namespace === namespace && before.prefix === prefix) return;
    const followers = this.#entries().flatMap((entry) => {
      if (entry.origin?.forward !== name) return [];
      const moved = {
        ...entry,
        namespace: entry.namespace === before.namespace ? namespace : entry.namespace,
        name:
          entry.name === before.prefix + entry.origin.upstreamName ? prefix + entry.origin.upstreamName : entry.name,
      };
      return keyOf(moved.namespace, moved.name) === keyOf(entry.namespace, entry.name) ? [] : [{ entry, moved }];
    });
    for (const { entry } of followers) this.#drop(entry);
    for (const { moved } of followers) {
      const key = keyOf(moved.namespace, moved.name);
      if ((this.#claims.get(key) ?? []).length > 0) throw new Error(`${key} is in use`);
      this.#claims.set(key, [moved]);
    }
  }

  #replace(before: Entry, after: Entry): void {
    for (const [key, claims] of this.#claims) {
      const others = claims.map((entry) => (entry === before ? after : entry));
      this.#claims.set(key, others);
    }
  }

  #removeForward(name: string): void {
    if (!this.#forwards.delete(name)) throw new Error(`no forward ${name}`);
    for (const entry of this.#entries()) if (entry.origin?.forward === name) this.#drop(entry);
  }

  #tool(step: Step & { kind: 'tool' }): void {
    const [claimant] = this.#claims.get(keyOf(step.namespace, step.name)) ?? [];
    if (step.action === 'create' ? claimant : !claimant || claimant.origin)
      throw new Error(`${step.action} of tool ${step.name}`);
    if (claimant) this.#drop(claimant);
    if (step.action === 'delete') return;
    const { name: _name, namespace: _namespace, labels: _labels, enabled: wanted, ...members } = step.members;
    const labels = Object(step.members.labels);
    const enabled = typeof wanted === 'boolean' ? wanted : (claimant?.enabled ?? true);
    this.#claim({ origin: undefined, namespace: step.namespace, name: step.name, labels, enabled, members });
  }

  #override(step: Step & { kind: 'override' }): void {
    const { discovered } = this.actual();
    const tool = discovered.find((each) => each.forward === step.forward && each.upstreamName === step.upstreamName);
    const forward = this.#forwards.get(step.forward);
    // An upstream at another address need not have it.
    if (!tool && !step.position) return;
    if (!tool || !forward || tool.shadowed)
      throw new Error(`tool ${step.upstreamName} of ${step.forward} cannot be changed`);
    const [entry] = this.#claims.get(keyOf(tool.namespace, tool.name)) ?? [];
    if (!entry) throw new Error('the name is not in use');
    const { upstreamName, upstream } = tool;
    // A step that renames a tool temporarily changes its name alone.
    const changed: Entry =
      step.action === 'rename'
        ? { ...entry, name: step.wanted.name ?? tool.name }
        : {
            ...entry,
            name: step.wanted.name ?? `${forward.prefix}${upstreamName}`,
            namespace: step.wanted.namespace ?? forward.namespace,
            labels: step.wanted.labels,
            enabled: step.wanted.enabled ?? entry.enabled,
            members: {
              ...merged(upstream, step.wanted.members),
              uri: forward.address,
              toolType: 'mcp-forward',
            },
          };
    this.#drop(entry);
    const key = keyOf(changed.namespace, changed.name);
    const others = this.#claims.get(key) ?? [];
    if (key !== keyOf(tool.namespace, tool.name) && others.length > 0) throw new Error(`${changed.name} is in use`);
    this.#claims.set(key, [changed, ...others]);
  }

  #entries(): Entry[] {
    return [...this.#claims.values()].flat();
  }

  #claim(entry: Entry): void {
    const key = keyOf(entry.namespace, entry.name);
    this.#claims.set(key, [...(this.#claims.get(key) ?? []), entry]);
  }

  #drop(entry: Entry): void {
    for (const [key, claims] of this.#claims) {
      if (claims.includes(entry))
        this.#claims.set(
          key,
          claims.filter((other) => other !== entry),
        );
    }
  }
}

function keyOf(namespace: string, name: string): string {
  return `${namespace}/${name}`;
}

/** What an entry changes of its upstream's members; null for a removed one. */
function overridesOf(upstream: JsonObject, members: JsonObject): JsonObject {
  const changed = Object.entries(members).filter(
    ([member, value]) =>
      !['uri', 'toolType'].includes(member) && JSON.stringify(upstream[member] ?? '') !== JSON.stringify(value),
  );
  const removed = Object.keys(upstream).filter((member) => !Object.hasOwn(members, member));
  return { ...Object.fromEntries(changed), ...Object.fromEntries(removed.map((member) => [member, null])) };
}

/** Upstream members with overrides applied; null removes a member, and empties a description. */
function merged(upstream: JsonObject, members: JsonObject): JsonObject {
  const result = { ...upstream, ...members };
  for (const [member, value] of Object.entries(members)) if (value === null) delete result[member];
  return { description: '', ...result };
}
