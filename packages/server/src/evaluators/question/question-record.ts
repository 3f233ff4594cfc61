import type { LlmObserver } from './llm-question.ts';

/** What became of a question whose answer did not fit at first. */
interface CorrectedQuestion {
  /** Calls that came to an end. */
  readonly llm_calls: number;
  readonly validation: 'corrected' | 'failed';
}

/** What the log says of a question, while another observer is told of each step of it. */
export class QuestionRecord implements LlmObserver {
  readonly #observer: LlmObserver;
  #calls = 0;
  #validation: CorrectedQuestion['validation'] | undefined = undefined;

  constructor(observer: LlmObserver) {
    this.#observer = observer;
  }

  /** Nothing where the first answer fitted, or none had to, or nobody waited any more. */
  get correction(): CorrectedQuestion | undefined {
    return this.#validation && { llm_calls: this.#calls, validation: this.#validation };
  }

  called(success: boolean, durationMs: number): void {
    this.#calls++;
    this.#observer.called(success, durationMs);
  }

  emptyResult(): void {
    this.#observer.emptyResult();
  }

  validated(pass: boolean): void {
    this.#observer.validated(pass);
  }

  retried(success: boolean): void {
    this.#validation = success ? 'corrected' : 'failed';
    this.#observer.retried(success);
  }
}
