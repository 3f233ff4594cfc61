import type { Client } from 'undici';
import { isObject, type Operation } from './document.ts';
import { textOf } from './event-stream.ts';
import type { Findings } from './findings.ts';
import type { Pool } from './pool.ts';
import type { FuzzRequest } from './request.ts';
import type { FuzzResponse, ResponseChecker } from './response-checker.ts';

/** A response and its parsed JSON, if any. */
export interface Exchange {
  /** Undefined if the connection broke. */
  readonly response: FuzzResponse | undefined;
  readonly json: unknown;
}

/** Sends requests, checks every response, and adds its items to the pool. */
export class Exchanges {
  /** Responses by operation and status; `-` for requests without an operation in the document. */
  readonly responses = new Map<string, Map<number, number>>();
  sent = 0;
  readonly #checker: ResponseChecker;
  readonly #findings: Findings;
  readonly #pool: Pool;

  constructor(checker: ResponseChecker, findings: Findings, pool: Pool) {
    this.#checker = checker;
    this.#findings = findings;
    this.#pool = pool;
  }

  /** Sends a request over the connection. */
  async send(client: Client, request: FuzzRequest): Promise<Exchange> {
    this.sent++;
    const { method, target, headers, body } = request;
    let response: FuzzResponse;
    try {
      const reply = await client.request({ method, path: target, headers, body: body ?? null });
      const { statusCode: status, headers: received } = reply;
      response = { status, headers: received, text: await textOf(received['content-type'], reply.body) };
    } catch (error) {
      this.#findings.add(`${method} ${target.slice(0, 80)}`, `no response: ${error}`, request, undefined);
      return { response: undefined, json: undefined };
    }
    const { operation, faults, json } = this.#checker.check(request, response);
    const name = operation?.id ?? '-';
    for (const line of faults) this.#findings.add(name, line, request, response);
    const statuses = this.responses.get(name) ?? new Map<number, number>();
    this.responses.set(name, statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1));
    if (operation && response.status < 300) this.#record(operation, request, json);
    return { response, json };
  }

  /** Reads a path with a query; returns the payload of the envelope. */
  async read(client: Client, target: string): Promise<unknown> {
    return dataOf((await this.send(client, getRequest(target))).json);
  }

  #record({ collection, path }: Operation, { target }: FuzzRequest, json: unknown): void {
    const data = dataOf(json);
    // A filtered list is not complete.
    if (!Array.isArray(data) || target === path) this.#pool.record(collection, data);
  }
}

/** A GET request. */
export function getRequest(target: string): FuzzRequest {
  return { method: 'GET', target, headers: {}, body: undefined, ambiguous: false };
}

/** The payload of an envelope. */
export function dataOf(json: unknown): unknown {
  return isObject(json) ? json.data : undefined;
}
