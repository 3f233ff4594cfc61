import type { AnswerTarget } from './answer-target.ts';
import { BatchMember, type MemberRequest } from './batch-member.ts';
import { ClientAnswer } from './client-answer.ts';

/** What is known of a batch before anything of it runs. */
export interface BatchAnswerOptions {
  /** How many members the batch has. */
  readonly size: number;
  /** True when there are requests among them. */
  readonly asks: boolean;
  /** True when the client reads event streams. */
  readonly streams: boolean;
}

/**
 * The answer to a batch (2025-03-26, "Sending Messages to the Server"), made of what its members' answers are:
 *
 * - 202 without a body when there is nothing to say
 * - else, with requests in the batch, HTTP 200: an event stream that carries every member's messages, or for a client
 *   that reads none an array of the responses
 * - else an array of what is wrong with the notifications and responses, with the first one's HTTP status (400 where it
 *   had none)
 *
 * Everything is sent as soon as it is there: no member's answer waits in memory for another's. The answer is complete when
 * all members have ended.
 */
export class BatchAnswer {
  readonly #target: AnswerTarget;
  readonly #client: ClientAnswer;
  readonly #asks: boolean;
  readonly #members: BatchMember[] = [];
  /** True when members share an event stream, false when they share an array. */
  readonly streams: boolean;
  #open: number;
  #begun = false;

  /** `headers` are those of every answer to this request. */
  constructor(target: AnswerTarget, headers: readonly string[], { size, asks, streams }: BatchAnswerOptions) {
    this.#target = target;
    this.#client = new ClientAnswer(target, headers, 'null');
    this.#asks = asks;
    this.#open = size;
    this.streams = asks && streams;
    target.on('close', () => this.#tell('close'));
    target.on('drain', () => this.#tell('drain'));
  }

  /** True when the client has left. */
  get destroyed(): boolean {
    return this.#target.destroyed;
  }

  /** The place of the next member's answer. */
  member(request: MemberRequest): BatchMember {
    const member = new BatchMember(this, request);
    this.#members.push(member);
    return member;
  }

  /** One message of a member that had this HTTP status. False when the client reads too slowly. */
  message(text: string, status: number): boolean {
    const first = !this.#begun;
    this.#begin(status);
    return this.streams ? this.#client.event(text) : this.#client.write(`${first ? '[' : ','}${text}`);
  }

  /** A piece of a member's event stream, whole events only. False when the client reads too slowly. */
  events(chunk: Buffer | string): boolean {
    this.#begin(200);
    return this.#client.write(chunk);
  }

  /** A member has ended. */
  ended(): void {
    if (--this.#open > 0) return;
    if (!this.#begun) this.#client.plain(202);
    else if (this.streams) this.#client.end();
    else this.#client.end(']');
  }

  #begin(status: number): void {
    if (this.#begun) return;
    this.#begun = true;
    if (this.streams) this.#client.beginStream();
    else this.#client.beginJson(this.#asks ? 200 : Math.max(status, 400), undefined);
  }

  #tell(event: 'close' | 'drain'): void {
    for (const member of this.#members) member.emit(event);
  }
}
