import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { Client } from 'undici';
import type { TextsByMember } from './arbitrary.ts';
import { ApiDocument, isObject, type Operation } from './document.ts';
import { dataOf, Exchanges, getting } from './exchanges.ts';
import { Findings } from './findings.ts';
import { Gate } from './gate.ts';
import { Inventory } from './inventory.ts';
import { Judge } from './judge.ts';
import { Pool } from './pool.ts';
import { type FuzzRequest, requests } from './request.ts';
import { HEADS, sendHead } from './wire.ts';

/** Settings of {@link fuzz}. */
export interface FuzzOptions {
  /** Where the service is: `http://host:port`. */
  readonly origin: string;
  /** What the requests are made of. With one connection the same seed makes the same requests. */
  readonly seed: number;
  /** How many are made, over all connections. What is sent to check their answers comes on top. */
  readonly requests: number;
  readonly connections: number;
  /** Addresses that the service may be given where the document says `format: uri`. */
  readonly uris: readonly string[];
  /** What it may be given for members of these names that are no `format: uri`. */
  readonly texts: TextsByMember;
  /** Messages of refusals for rules that no JSON Schema can say, so that the document has them in words only. */
  readonly unsaid: readonly RegExp[];
  /** Called every 500 requests with the number of those sent so far. */
  readonly progress?: (sent: number) => void;
}

/** What came of it. */
export interface FuzzResult {
  /** Requests sent, those that check answers included. */
  readonly sent: number;
  /** Answers by operation and status; `-` is what the document has no operation for. */
  readonly answers: ReadonlyMap<string, ReadonlyMap<number, number>>;
  /** A paragraph for everything that is not as the document says. */
  readonly findings: readonly string[];
  readonly durationMs: number;
}

/** One request in so many is sent while there is no other, so that what it changes can be seen. */
const ALONE = 12;
/** After so many requests, everything that can be deleted is. */
const CLEAR = 1_000;

/**
 * Sends requests, fitting and not, to every operation of the `/openapi.json` of a service, of which it knows nothing
 * else, and holds every answer against that document. Throws when there is no such document.
 */
export async function fuzz(options: FuzzOptions): Promise<FuzzResult> {
  const answer = await fetch(`${options.origin}/openapi.json`);
  return new Fuzzer(options, new ApiDocument(await answer.json())).run();
}

class Fuzzer {
  readonly #options: FuzzOptions;
  readonly #document: ApiDocument;
  readonly #judge: Judge;
  readonly #findings: Findings;
  readonly #pool = new Pool();
  readonly #exchanges: Exchanges;
  readonly #inventory: Inventory;
  readonly #gate = new Gate();
  #made = 0;

  constructor(options: FuzzOptions, document: ApiDocument) {
    this.#options = options;
    this.#document = document;
    this.#judge = new Judge(document, options.unsaid);
    this.#findings = new Findings(options.origin);
    this.#exchanges = new Exchanges(this.#judge, this.#findings, this.#pool);
    this.#inventory = new Inventory(document, this.#exchanges);
  }

  async run(): Promise<FuzzResult> {
    const { origin, requests: number, connections } = this.#options;
    const began = performance.now();
    const each = Math.ceil(number / connections);
    // An upstream's discovery may take the service half a minute. An event stream has to say something at its beginning.
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
    const { sent, answers } = this.#exchanges;
    return { sent, answers, findings: this.#findings.lines, durationMs: performance.now() - began };
  }

  /** Makes one connection's share of the requests, one after another. */
  async #connection(client: Client, index: number, number: number): Promise<void> {
    const { seed, progress } = this.#options;
    await this.#inventory.read(client);
    const one = async (request: FuzzRequest): Promise<void> => {
      this.#made++;
      if (this.#made % 500 === 0) progress?.(this.#exchanges.sent);
      if (this.#made % CLEAR === 0) await this.#gate.alone(() => this.#inventory.clear(client));
      if (this.#made % ALONE === 0) await this.#gate.alone(() => this.#watched(client, request));
      else await this.#gate.shared(() => this.#exchanges.send(client, request));
    };
    const property = fc.asyncProperty(requests(this.#document, this.#pool, this.#options), one);
    const { failed, errorInstance } = await fc.check(property, { seed: seed + index, numRuns: number });
    if (failed) throw new Error('the fuzzer itself failed', { cause: errorInstance });
  }

  /** A request while there is no other: one that is refused has changed nothing, and what is made is where it says. */
  async #watched(client: Client, request: FuzzRequest): Promise<void> {
    const before = await this.#inventory.read(client);
    const { answer, json } = await this.#exchanges.send(client, request);
    if (answer === undefined) return;
    const operation = this.#document.route(request.target.split('?', 1)[0] ?? '').get(request.method);
    const where = operation?.id ?? '-';
    if (answer.status >= 400 && !isDeepStrictEqual(await this.#inventory.read(client), before)) {
      this.#findings.add(where, 'it was refused, but changed something', request, answer);
    }
    const { location } = answer.headers;
    if (typeof location !== 'string' || !operation) return;
    const found = await this.#exchanges.send(client, getting(location));
    if (found.answer?.status !== 200 || !this.#isWithin(operation, dataOf(json), dataOf(found.json))) {
      this.#findings.add(where, `at "${location}" is "${found.answer?.text.slice(0, 300)}"`, request, answer);
    }
  }

  /** Whether what was found is the item made, or, where several are answered together, has it in a list. */
  #isWithin(operation: Operation, made: unknown, found: unknown): boolean {
    const candidates = [found, ...(isObject(found) ? Object.values(found).filter(Array.isArray).flat() : [])];
    const wanted = this.#inventory.settable(operation, made);
    return candidates.some((each) => isDeepStrictEqual(this.#inventory.settable(operation, each), wanted));
  }

  /** What is no request at all is answered as the document says of every answer, too. */
  async #heads(): Promise<void> {
    for (const head of HEADS) {
      const answer = await sendHead(this.#options.origin, head);
      const documented = answer && this.#document.general(answer.status);
      const lines =
        answer && documented
          ? this.#judge.read(answer, documented).wrong
          : [answer ? `status ${answer.status} is not in the document` : 'no answer'];
      for (const line of lines) this.#findings.addHead(head, line, answer);
    }
  }
}
