import type { Client } from 'undici';
import { type ApiDocument, isObject, type JsonObject, type Operation } from './document.ts';
import { type Exchanges, getRequest } from './exchanges.ts';
import { encoded } from './target.ts';

/** All entries of the service, as its lists return them. */
export class Inventory {
  readonly #document: ApiDocument;
  readonly #exchanges: Exchanges;

  constructor(document: ApiDocument, exchanges: Exchanges) {
    this.#document = document;
    this.#exchanges = exchanges;
  }

  /** Reads every list with a create operation: the settable members of its items. */
  async read(client: Client): Promise<unknown> {
    const lists: unknown[] = [];
    for (const { method, path } of this.#document.operations) {
      const creating = this.#document.route(path).get('POST');
      if (method !== 'GET' || path.includes('{') || !creating) continue;
      const data = await this.#exchanges.read(client, path);
      lists.push(Array.isArray(data) ? data.map((item) => this.settable(creating, item)) : data);
    }
    return lists;
  }

  /** Members of an item that a request can set: others may change by themselves. */
  settable({ body }: Operation, item: unknown): unknown {
    const { properties } = body ? this.#document.resolve(body.schema) : {};
    if (!isObject(item) || !isObject(properties)) return item;
    return Object.fromEntries(Object.entries(item).filter(([name]) => Object.hasOwn(properties, name)));
  }

  /** Deletes all items of all lists that have a delete operation. */
  async clear(client: Client): Promise<void> {
    for (const operation of this.#document.operations) {
      if (operation.method !== 'DELETE' || !this.#document.route(operation.collection).has('GET')) continue;
      const data = await this.#exchanges.read(client, operation.collection);
      for (const item of Array.isArray(data) ? data.filter(isObject) : []) {
        for (const target of targetsOf(operation, item)) {
          const { response } = await this.#exchanges.send(client, { ...getRequest(target), method: 'DELETE' });
          if (response !== undefined && response.status < 400) break;
        }
      }
    }
    await this.read(client);
  }
}

/**
 * Path and query of the operation for one item: each parameter has the value of the member with its name; flags are set. If
 * a parameter is not a member, further targets have each string of the item for it.
 */
function* targetsOf({ path, parameters }: Operation, item: JsonObject): Generator<string> {
  const query: string[] = [];
  const missing: string[] = [];
  let target = path;
  for (const { name, in: where, schema } of parameters) {
    const flag = Array.isArray(schema.enum) && schema.enum.length === 1 ? schema.enum[0] : undefined;
    const value = item[name] ?? flag;
    if (value === undefined) missing.push(name);
    else if (where === 'path') target = target.replace(`{${name}}`, () => encoded(String(value)));
    else query.push(`${name}=${encoded(String(value))}`);
  }
  yield `${target}?${query.join('&')}`;
  const texts = Object.values(item).filter((value) => typeof value === 'string');
  for (const name of missing) {
    for (const text of texts) yield `${target}?${[...query, `${name}=${encoded(text)}`].join('&')}`;
  }
}
