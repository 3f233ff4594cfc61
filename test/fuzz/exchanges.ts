import type { Client } from 'undici';
import { isObject, type Operation } from './document.ts';
import { textOf } from './event-stream.ts';
import type { Findings } from './findings.ts';
import type { FuzzAnswer, Judge } from './judge.ts';
import type { Pool } from './pool.ts';
import type { FuzzRequest } from './request.ts';

/** An answer that came, and its JSON where it has any. */
export interface Answered {
  /** Undefined where the connection broke instead. */
  readonly answer: FuzzAnswer | undefined;
  readonly json: unknown;
}

/** Sends requests, has every answer judged, and lets the pool learn from it. */
export class Exchanges {
  /** Answers by operation and status; `-` is what the document has no operation for. */
  readonly answers = new Map<string, Map<number, number>>();
  sent = 0;
  readonly #judge: Judge;
  readonly #findings: Findings;
  readonly #pool: Pool;

  constructor(judge: Judge, findings: Findings, pool: Pool) {
    this.#judge = judge;
    this.#findings = findings;
    this.#pool = pool;
  }

  /** Sends a request over the connection. */
  async send(client: Client, request: FuzzRequest): Promise<Answered> {
    this.sent++;
    const { method, target, headers, body } = request;
    let answer: FuzzAnswer;
    try {
      const response = await client.request({ method, path: target, headers, body: body ?? null });
      const { statusCode: status, headers: answered } = response;
      answer = { status, headers: answered, text: await textOf(answered['content-type'], response.body) };
    } catch (error) {
      this.#findings.add(`${method} ${target.slice(0, 80)}`, `no answer: ${error}`, request, undefined);
      return { answer: undefined, json: undefined };
    }
    const { operation, broken, json } = this.#judge.judge(request, answer);
    const where = operation?.id ?? '-';
    for (const line of broken) this.#findings.add(where, line, request, answer);
    const statuses = this.answers.get(where) ?? new Map<number, number>();
    this.answers.set(where, statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1));
    if (operation && answer.status < 300) this.#remember(operation, request, json);
    return { answer, json };
  }

  /** Reads what is at a path, and a query; the payload of the envelope. */
  async read(client: Client, target: string): Promise<unknown> {
    return dataOf((await this.send(client, getting(target))).json);
  }

  #remember({ collection, path }: Operation, { target }: FuzzRequest, json: unknown): void {
    const data = dataOf(json);
    // A list of a part is not all that there is.
    if (!Array.isArray(data) || target === path) this.#pool.learn(collection, data);
  }
}

/** A request that reads. */
export function getting(target: string): FuzzRequest {
  return { method: 'GET', target, headers: {}, body: undefined, ambiguous: false };
}

/** The payload of an envelope. */
export function dataOf(json: unknown): unknown {
  return isObject(json) ? json.data : undefined;
}
