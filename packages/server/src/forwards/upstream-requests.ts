import type { JsonObject } from '@sluice/protocol/json/parse';
import { refusalOf } from '@sluice/protocol/mcp/message';
import type { QuestionSink, Questions } from './questions.ts';
import { Refusals } from './refusals.ts';

/** Requests of an upstream that are refused on one call before the call is given up. */
const MAX_REFUSED = 16;

/** What the requests of one call's upstream lead to. */
export interface RequestRoute extends QuestionSink {
  /** The upstream goes on asking: it is not serious. */
  tooMany(): void;
}

/** What an upstream asks on one call: it goes to the client, where that can be asked, and is refused otherwise. */
export class UpstreamRequests {
  readonly #questions: Questions | undefined;
  readonly #route: RequestRoute;
  readonly #pings: Refusals;
  #refused = 0;

  /** `questions` where the client can be asked. */
  constructor(questions: Questions | undefined, route: RequestRoute) {
    this.#questions = questions;
    this.#route = route;
    this.#pings = new Refusals((answer) => route.deliver(answer));
  }

  /** How many questions wait for the client. */
  get open(): number {
    return this.#questions?.open ?? 0;
  }

  /** Takes a request, as text and parsed. `gone`: the client is not there any more. */
  take(text: string, value: JsonObject, gone: boolean): void {
    if (gone || !this.#questions?.ask(text, value)) this.#refuse(text, value);
  }

  /** The upstream takes a request back, in this `notifications/cancelled`. */
  takenBack(text: string): void {
    this.#questions?.takenBack(text);
  }

  /** Nobody waits for the answers any more. */
  withdrawAll(): void {
    this.#questions?.withdrawAll();
  }

  /** Nobody will answer any more. */
  abandonAll(): void {
    this.#questions?.abandonAll();
  }

  #refuse(text: string, { method, params }: JsonObject): void {
    // Whoever waits long may ping for as long.
    if (method === 'ping') return this.#pings.refuse(text, method);
    if (typeof method === 'string') this.#route.refused(method, params);
    if (++this.#refused > MAX_REFUSED) return this.#route.tooMany();
    this.#route.deliver(refusalOf(text, method)).catch(() => undefined);
  }
}
