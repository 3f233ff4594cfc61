import { run } from '../../packages/cli/src/run.ts';
import { scriptedTerminal } from '../../packages/cli/src/testing/scripted-terminal.ts';
import type { ExposePatch } from '../../packages/contract/src/index.ts';
import { type Choose, NAMES, NAMESPACES, PREFIXES } from './hidden-clients.ts';
import {
  changed,
  deleted,
  exposing,
  type HiddenObject,
  idOf,
  KINDS,
  marked,
  movedTo,
  type Operation,
  type Outcome,
  registered,
  type State,
  withoutNamespace,
} from './hidden-model.ts';
import type { HiddenUpstream } from './hidden-upstream.ts';

/** The service under test. */
export interface HiddenSystem {
  /** `host:port` of the management API. */
  management(): string;
  api(method: string, path: string, body?: unknown): Promise<{ readonly status: number; readonly data: unknown }>;
  url(namespace: string): string;
  /** Restarts it with this content of its bootstrap file; `crash`: without a shutdown, if it has a process of its own. */
  restart(bootstrap: string, crash: boolean): Promise<void>;
  close(): Promise<void>;
}

/** Creates random operations. */
export class HiddenOperations {
  readonly #system: HiddenSystem;
  readonly #upstreams: readonly HiddenUpstream[];
  readonly #objects: readonly HiddenObject[];
  readonly #choose: Choose;
  #label = 0;
  #focus: HiddenObject | undefined = undefined;

  constructor(
    system: HiddenSystem,
    upstreams: readonly HiddenUpstream[],
    objects: readonly HiddenObject[],
    choose: Choose,
  ) {
    this.#system = system;
    this.#upstreams = upstreams;
    this.#objects = objects;
    this.#choose = choose;
  }

  next(): Operation {
    // Several operations about one object, so that they meet.
    if (!this.#focus || this.#choose([true, false, false, false, false])) this.#focus = this.#choose(this.#objects);
    const { forward } = this.#focus;
    const upstream = this.#upstreams.find((one) => one.forward === forward) ?? this.#choose(this.#upstreams);
    const own = this.#objects.filter((object) => object.forward === forward);
    const object = this.#choose([this.#focus, this.#focus, this.#choose(own)]);
    const tools = own.filter(({ kind }) => kind === 'tools');
    const kinds: readonly (() => Operation)[] = [
      ...Array(5).fill(() => this.#mark(object, this.#choose([true, false, false]))),
      ...Array(4).fill(() => this.#expose(upstream.forward)),
      ...Array(2).fill(() => this.#change(upstream)),
      ...Array(3).fill(() => this.#place(object.kind === 'tools' ? object : this.#choose(tools))),
      ...Array(2).fill(() => this.#apply(upstream, object)),
      () => this.#outage(upstream),
      ...Array(4).fill(() => this.#offer(upstream, object)),
      () => this.#remove(object),
      () => this.#plain(`refresh ${upstream.forward}`, 'POST', `/forwards/${upstream.forward}/refreshes`),
      ...Array(2).fill(() => this.#deleteNamespace(this.#choose(['a', 'vault', 'vault']))),
      () => this.#delete(upstream.forward),
      () => this.#restart(this.#choose([true, false])),
    ];
    return this.#choose(kinds)();
  }

  /** Registers a forward. */
  register({ forward: name, servers, offered }: HiddenUpstream): Operation {
    const expose: ExposePatch = {
      tools: { new: 'disabled' },
      resources: { new: 'disabled' },
      prompts: { new: 'disabled' },
    };
    let late: string[] = [];
    return {
      text: `register ${name}`,
      stages: [
        (state) =>
          state.forwards[name]
            ? state
            : exposing(registered(state, name, { namespace: 'default', expose: undefined, late }), name, expose),
      ],
      run: async () => {
        const before = new Set(offered);
        const body = { name, address: servers[0]?.url, expose };
        const { status, data } = await this.#system.api('POST', '/forwards', body);
        // Which objects are new is known only after a first discovery.
        const isDiscovered = status === 201 && Object(data).available === true;
        // A resource that is in no list is read by its uri.
        const missing = this.#objects.filter(
          (object) => object.forward === name && object.kind !== 'resources' && !before.has(object),
        );
        if (isDiscovered) late = missing.map(idOf);
        return outcomeOf(status);
      },
    };
  }

  #plain(text: string, method: string, path: string, body?: unknown, ...stages: Operation['stages']): Operation {
    return { text, stages, run: async () => outcomeOf((await this.#system.api(method, path, body)).status) };
  }

  #mark(object: HiddenObject, enabled: boolean): Operation {
    const { forward, kind, key } = object;
    const selected = kind === 'resources' ? { uris: [key] } : { names: [key] };
    const body = { forward, enabled, ...selected };
    const stage = (state: State) => (state.forwards[forward] ? marked(state, idOf(object), enabled) : state);
    return this.#plain(`${enabled ? 'enable' : 'disable'} ${idOf(object)}`, 'POST', `/${kind}/enabled`, body, stage);
  }

  #rules(): ExposePatch {
    const allow = this.#choose([null, null, ['*0', '*e'], ['*1', '?1', '*late'], []]);
    const deny = this.#choose([null, ['*0'], ['*1', 'x'], ['?late', '*:*1'], ['*late', '*0']]);
    const added = this.#choose(['disabled', 'disabled', 'disabled', 'disabled', 'disabled', 'enabled', null] as const);
    const [kind, other] = [this.#choose(KINDS), this.#choose(KINDS)];
    return this.#choose<ExposePatch>([
      { [kind]: { allow } },
      { [kind]: { deny } },
      { [kind]: { allow, deny, new: added } },
      { [kind]: { allow: null, deny: null }, [other]: { deny } },
    ]);
  }

  #expose(name: string): Operation {
    const expose = this.#choose([null, ...Array.from({ length: 7 }, () => this.#rules())]);
    const text = `expose ${name} ${JSON.stringify(expose)}`;
    return this.#plain(text, 'PATCH', `/forwards/${name}`, { expose }, (state) => exposing(state, name, expose));
  }

  #change({ forward: name, servers }: HiddenUpstream): Operation {
    const change = this.#choose<{ namespace?: string; prefix?: string | null; address?: string; labels?: object }>([
      { namespace: this.#choose(['default', 'default', ...NAMESPACES]) },
      { prefix: this.#choose(PREFIXES) || null },
      { address: this.#choose(servers).url },
      { labels: { at: String(++this.#label) } },
    ]);
    const { namespace } = change;
    const stage = (state: State) => (namespace === undefined ? state : changed(state, name, { namespace }));
    return this.#plain(`change ${name} ${JSON.stringify(change)}`, 'PATCH', `/forwards/${name}`, change, stage);
  }

  /** Moves or renames a tool. */
  #place(object: HiddenObject): Operation {
    const id = idOf(object);
    const [name, namespace] = [this.#choose([...NAMES, undefined, undefined]), this.#choose([...NAMESPACES, 'vault'])];
    return {
      text: `move ${id} to ${namespace} as ${name}`,
      stages: [
        (state) => movedTo(state, id, state.forwards[object.forward]?.namespace === namespace ? undefined : namespace),
      ],
      run: async () => {
        const { data } = await this.#system.api('GET', '/tools');
        const tool = Object.values(Object(data))
          .map(Object)
          .find(({ description }) => description === `[[${id}]]`);
        if (!tool) return 'rejected';
        const { upstreamName: _ignored, enabled: _unchanged, ...members } = tool;
        const path = `/tools/${tool.name}?namespace=${tool.namespace}`;
        const body = { ...members, namespace, ...(name !== undefined && { name }) };
        return outcomeOf((await this.#system.api('PUT', path, body)).status);
      },
    };
  }

  /** Deletes an entry; it returns with the next discovery. */
  #remove(object: HiddenObject): Operation {
    const { kind, key } = object;
    return this.#plain(`delete ${kind} ${key}`, 'DELETE', `/${kind}/${encodeURIComponent(key)}`);
  }

  #outage(upstream: HiddenUpstream): Operation {
    const isUp = this.#choose([true, true, true, false]);
    const run = async (): Promise<Outcome> => {
      await upstream.setUp(isUp);
      return 'done';
    };
    return { text: `${upstream.forward} is ${isUp ? 'up' : 'down'}`, stages: [], run };
  }

  /** The upstream changes its lists, and says so. */
  #offer({ offered, servers }: HiddenUpstream, object: HiddenObject): Operation {
    const isOffered = this.#choose([true, true, false]);
    const run = async (): Promise<Outcome> => {
      if (isOffered) offered.add(object);
      else offered.delete(object);
      for (const server of servers) {
        server.push(`{"jsonrpc":"2.0","method":"notifications/${object.kind}/list_changed"}`);
      }
      return 'done';
    };
    return { text: `${isOffered ? 'offer' : 'withdraw'} ${idOf(object)}`, stages: [], run };
  }

  #deleteNamespace(namespace: string): Operation {
    const path = `/namespaces/${namespace}?cascade=true`;
    return this.#plain(`delete namespace ${namespace}`, 'DELETE', path, undefined, (state) =>
      withoutNamespace(state, namespace),
    );
  }

  #delete(name: string): Operation {
    return this.#plain(`delete ${name}`, 'DELETE', `/forwards/${name}`, undefined, (state) => deleted(state, name));
  }

  /** A forward as in a file, and its effects. */
  #declared({ forward: name, servers }: HiddenUpstream): { entry: object; stage: (state: State) => State } {
    const expose = this.#choose([undefined, undefined, this.#rules(), this.#rules(), null]);
    const namespace = this.#choose(['default', 'default', 'a']);
    const entry = {
      name,
      address: this.#choose(servers).url,
      namespace,
      labels: { at: String(++this.#label) },
      ...(expose !== undefined && { expose }),
    };
    const stage = (state: State): State => {
      const known = state.forwards[name]
        ? changed(state, name, { namespace })
        : registered(state, name, { namespace, expose: undefined, late: [] });
      return expose === undefined ? known : exposing(known, name, expose);
    };
    return { entry, stage };
  }

  /** `sluice apply` of a forward and perhaps one of its tools, which returns to its own name and namespace. */
  #apply(upstream: HiddenUpstream, object: HiddenObject): Operation {
    const { entry, stage } = this.#declared(upstream);
    const enabled = this.#choose([undefined, true, false]);
    const hasTool = object.kind === 'tools' && this.#choose([true, false]);
    const tool = { forward: object.forward, upstreamName: object.key, ...(enabled !== undefined && { enabled }) };
    const state = JSON.stringify({ forwards: [entry], ...(hasTool && { tools: [tool] }) });
    const id = idOf(object);
    const stages = [
      stage,
      (before: State) => {
        const back = hasTool ? movedTo(before, id, undefined) : before;
        return hasTool && enabled !== undefined ? marked(back, id, enabled) : back;
      },
    ];
    return {
      text: `apply ${state}`,
      stages,
      run: async () => {
        const argv = ['apply', '-f', '-', '--yes', '--allow-widening', '--host', `http://${this.#system.management()}`];
        // It stops at a failed step.
        return (await run(argv, scriptedTerminal({ input: state }))) === 0 ? 'done' : 'unknown';
      },
    };
  }

  /** Restarts the service with other content of its bootstrap file. A forward that cannot be changed is skipped. */
  #restart(crash: boolean): Operation {
    const declared = this.#upstreams.filter(() => this.#choose([true, false])).map((one) => this.#declared(one));
    const file = JSON.stringify({ forwards: declared.map(({ entry }) => entry) });
    return {
      text: `${crash ? 'crash' : 'restart'} with ${file}`,
      stages: declared.map(({ stage }) => stage),
      run: async () => {
        await this.#system.restart(file, crash);
        return declared.length === 0 ? 'done' : 'unknown';
      },
    };
  }
}

function outcomeOf(status: number): Outcome {
  if (status < 300) return 'done';
  return status < 500 || status === 502 ? 'rejected' : 'unknown';
}
