import { legacyClient, modernClient, type RawClient } from '../fixtures/raw-client.ts';
import type { HiddenModel, HiddenObject } from './hidden-model.ts';
import { idsIn } from './hidden-upstream.ts';

/** Namespaces in which the clients ask. */
export const NAMESPACES = ['default', 'a', 'vault'] as const;
/** Names that tools are given, and prefixes of forwards. */
export const NAMES = ['n1', 'n2'] as const;
export const PREFIXES = ['', 'p_'] as const;

/** Returns a random element. */
export type Choose = <T>(items: readonly T[]) => T;

/** Clients that ask all the while for lists and objects, hidden or not, and report what they may not see. */
export class HiddenClients {
  readonly failures: string[] = [];
  /** Responses with objects, and requests that were answered at all. */
  sightings = 0;
  answers = 0;
  readonly #model: HiddenModel;
  readonly #urlOf: (namespace: string) => string;
  readonly #objects: readonly HiddenObject[];
  readonly #pick: Choose;
  readonly #running: Promise<void>[];
  #closed = false;
  #waiting: { readonly until: number; readonly resolve: () => void }[] = [];
  #requests = 0;

  constructor(
    model: HiddenModel,
    objects: readonly HiddenObject[],
    urlOf: (namespace: string) => string,
    pick: Choose,
    count: number,
  ) {
    this.#model = model;
    this.#objects = objects;
    this.#urlOf = urlOf;
    this.#pick = pick;
    this.#running = Array.from({ length: count }, () => this.#run());
  }

  /** Waits until this many more requests have ended. */
  async asked(count: number): Promise<void> {
    const until = this.#requests + count;
    await new Promise<void>((resolve) => this.#waiting.push({ until, resolve }));
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#running);
  }

  async #run(): Promise<void> {
    while (!this.#closed) {
      const start = this.#model.clock;
      const { method, params, namespace } = this.#request();
      // While the service restarts, nothing is answered.
      const text = await this.#ask(namespace, method, params).catch(() => '');
      if (text !== '') this.answers++;
      const ids = idsIn(text);
      if (ids.length > 0) this.sightings++;
      for (const id of ids) {
        if (!this.#model.wasHiddenSince(id, start)) continue;
        this.failures.push(`${method} ${params} in ${namespace} shows the hidden ${id}`);
      }
      this.#requests++;
      const ready = this.#waiting.filter(({ until }) => until <= this.#requests);
      this.#waiting = this.#waiting.filter((other) => !ready.includes(other));
      for (const { resolve } of ready) resolve();
    }
  }

  async #ask(namespace: string, method: string, params: string): Promise<string> {
    const url = this.#urlOf(namespace);
    const client: RawClient = this.#pick([true, true, false]) ? modernClient(url) : await legacyClient(url);
    return (await client.call(method, params)).text;
  }

  /** Most requests are about something that is hidden. */
  #request(): { readonly method: string; readonly params: string; readonly namespace: string } {
    const { hidden } = this.#model;
    const any = { ...this.#pick(this.#objects), namespace: this.#pick(NAMESPACES) };
    const object = hidden.length > 0 && this.#pick([true, true, true, false]) ? this.#pick(hidden) : any;
    const [method, params] = this.#pick([true, false, false]) ? [`${object.kind}/list`, '{}'] : this.#requestOf(object);
    return { method, params, namespace: this.#pick([object.namespace, object.namespace, any.namespace]) };
  }

  #requestOf({ kind, key }: HiddenObject): readonly [method: string, params: string] {
    const encode = (text: string) => text.replace(/[a-z0-9]$/, (last) => `%${last.charCodeAt(0).toString(16)}`);
    if (kind === 'resources') {
      const uri = this.#pick([key, key, encode(key), encode(key).replaceAll('%', '%25')]);
      return ['resources/read', JSON.stringify({ uri })];
    }
    const name = this.#pick([`${this.#pick(PREFIXES)}${key}`, key, this.#pick(NAMES)]);
    return [kind === 'tools' ? 'tools/call' : 'prompts/get', JSON.stringify({ name })];
  }
}
