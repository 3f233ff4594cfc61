import { refusalOf } from '@sluice/protocol/mcp/message';

/** Requests of an upstream that are being answered at once; further ones are not answered. */
const MAX_ANSWERING = 16;

/** Answers the requests of an upstream that come where no client can be asked, a few at a time. */
export class Refusals {
  readonly #deliver: (answer: string) => Promise<void>;
  #answering = 0;

  /** `deliver` sends the upstream an answer; one that it does not take is lost. */
  constructor(deliver: (answer: string) => Promise<void>) {
    this.#deliver = deliver;
  }

  /** Answers the request `text`, whose method this is. */
  refuse(text: string, method: unknown): void {
    if (this.#answering >= MAX_ANSWERING) return;
    this.#answering++;
    this.#deliver(refusalOf(text, method))
      .catch(() => undefined)
      .finally(() => {
        this.#answering--;
      });
  }
}
