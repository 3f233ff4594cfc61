import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { Client } from 'undici';
import type { TextsByMember } from './arbitrary.ts';
import { ApiDocument, isObject, type Operation } from './document.ts';
import { dataOf, Exchanges, getRequest } from './exchanges.ts';
import { Findings } from './findings.ts';
import { Inventory } from './inventory.ts';
import { Pool } from './pool.ts';
import { type FuzzRequest, requests } from './request.ts';
import { ResponseChecker } from './response-checker.ts';
import { SharedLock } from './shared-lock.ts';
import { HEADS, sendHead } from './wire.ts';

/** Settings of {@link fuzz}. */
export interface FuzzOptions {
  /** Base URL of the service: `http://host:port`. */
  readonly origin: string;
  /** Seed of the requests. With one connection, a seed repeats the same requests. */
  readonly seed: number;
  /** Number of requests over all connections, without those that verify responses. */
  readonly requests: number;
  readonly connections: number;
  /** Values for `format: uri`. */
  readonly uris: readonly string[];
  /** Values for members of these names without `format: uri`. */
  readonly texts: TextsByMember;
  /** Error messages for rules that JSON Schema cannot express, so that the document describes them only in text. */
  readonly undocumentedRules: readonly RegExp[];
  /** Called every 500 requests with the number of requests so far. */
  readonly progress?: (sent: number) => void;
}

/** Result of {@link fuzz}. */
export interface FuzzResult {
  /** Requests sent, including those that verify responses. */
  readonly sent: number;
  /** Responses by operation and status; `-` for requests without an operation in the document. */
  readonly responses: ReadonlyMap<string, ReadonlyMap<number, number>>;
  /** A paragraph per deviation from the document. */
  readonly findings: readonly string[];
  readonly durationMs: number;
}

/** Every n-th request is sent exclusively, to verify its effect. */
const EXCLUSIVE_EVERY = 12;
/** Every n requests, all entries are deleted. */
const CLEAR_EVERY = 1_000;

/**
 * Sends valid and invalid requests to every operation of the `/openapi.json` of a service, without other knowledge of it, and
 * checks every response against that document. Throws without such a document.
 */
export async function fuzz(options: FuzzOptions): Promise<FuzzResult> {
  const response = await fetch(`${options.origin}/openapi.json`);
  return new Fuzzer(options, new ApiDocument(await response.json())).run();
}

class Fuzzer {
  readonly #options: FuzzOptions;
  readonly #document: ApiDocument;
  readonly #checker: ResponseChecker;
  readonly #findings: Findings;
  readonly #pool = new Pool();
  readonly #exchanges: Exchanges;
  readonly #inventory: Inventory;
  readonly #lock = new SharedLock();
  #made = 0;

  constructor(options: FuzzOptions, document: ApiDocument) {
    this.#options = options;
    this.#document = document;
    this.#checker = new ResponseChecker(document, options.undocumentedRules);
    this.#findings = new Findings(options.origin);
    this.#exchanges = new Exchanges(this.#checker, this.#findings, this.#pool);
    this.#inventory = new Inventory(document, this.#exchanges);
  }

  async run(): Promise<FuzzResult> {
    const { origin, requests: number, connections } = this.#options;
    const start = performance.now();
    const each = Math.ceil(number / connections);
    // Discovery of an upstream may take half a minute. An event stream must begin with an event or comment.
    const timeouts = { headersTimeout: 60_000, bodyTimeout: 5_000 };
    const clients = Array.from({ length: connections }, () => new Client(origin, timeouts));
    try {
      await this.#heads();
      await Promise.all(clients.map((client, index) => this.#connection(client, index, each)));
      const [client] = clients;
      if (client) await this.#inventory.clear(client);
    } finally {
      await Promise.all(clients.map((client) => client.destroy()));
    }
    const { sent, responses } = this.#exchanges;
    return { sent, responses, findings: this.#findings.lines, durationMs: performance.now() - start };
  }

  /** Sends the requests of one connection sequentially. */
  async #connection(client: Client, index: number, number: number): Promise<void> {
    const { seed, progress } = this.#options;
    await this.#inventory.read(client);
    const one = async (request: FuzzRequest): Promise<void> => {
      this.#made++;
      if (this.#made % 500 === 0) progress?.(this.#exchanges.sent);
      if (this.#made % CLEAR_EVERY === 0) await this.#lock.exclusive(() => this.#inventory.clear(client));
      if (this.#made % EXCLUSIVE_EVERY === 0) await this.#lock.exclusive(() => this.#sendExclusively(client, request));
      else await this.#lock.shared(() => this.#exchanges.send(client, request));
    };
    const property = fc.asyncProperty(requests(this.#document, this.#pool, this.#options), one);
    const { failed, errorInstance } = await fc.check(property, { seed: seed + index, numRuns: number });
    if (failed) throw new Error('the fuzzer itself failed', { cause: errorInstance });
  }

  /** Sends a request exclusively: a rejected one must have changed nothing, and `Location` must have the created item. */
  async #sendExclusively(client: Client, request: FuzzRequest): Promise<void> {
    const before = await this.#inventory.read(client);
    const { response, json } = await this.#exchanges.send(client, request);
    if (response === undefined) return;
    const operation = this.#document.route(request.target.split('?', 1)[0] ?? '').get(request.method);
    const name = operation?.id ?? '-';
    if (response.status >= 400 && !isDeepStrictEqual(await this.#inventory.read(client), before)) {
      this.#findings.add(name, 'rejected, but changed the state', request, response);
    }
    const { location } = response.headers;
    if (typeof location !== 'string' || !operation) return;
    const found = await this.#exchanges.send(client, getRequest(location));
    if (found.response?.status !== 200 || !this.#isWithin(operation, dataOf(json), dataOf(found.json))) {
      this.#findings.add(name, `GET "${location}" returned "${found.response?.text.slice(0, 300)}"`, request, response);
    }
  }

  /** True if the found item is the created one, or contains it in a list. */
  #isWithin(operation: Operation, made: unknown, found: unknown): boolean {
    const candidates = [found, ...(isObject(found) ? Object.values(found).filter(Array.isArray).flat() : [])];
    const expected = this.#inventory.settable(operation, made);
    return candidates.some((each) => isDeepStrictEqual(this.#inventory.settable(operation, each), expected));
  }

  /** Checks that responses to invalid request heads match the document too. */
  async #heads(): Promise<void> {
    for (const head of HEADS) {
      const response = await sendHead(this.#options.origin, head);
      const documented = response && this.#document.general(response.status);
      const lines =
        response && documented
          ? this.#checker.parse(response, documented).faults
          : [response ? `status ${response.status} is not in the document` : 'no response'];
      for (const line of lines) this.#findings.addHead(head, line, response);
    }
  }
}
