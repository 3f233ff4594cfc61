import { AnswerSize } from './answer-size.ts';
import { type ExecutionState, INITIAL_STATE, isBadEnd, statesTowards } from './execution-state.ts';
import type { CodeExecutionReply__Output } from './generated/codeexecution/CodeExecutionReply.ts';
import { ServiceError } from './service-error.ts';

/** What a reply brought. */
export interface TakenReply {
  /** To be told to a client that follows the execution: output, all of a reply at once, and states as they are reached. */
  readonly news: readonly string[];
  /** True when its status contradicts the state, and so did not count. */
  readonly ignored: boolean;
}

/** One execution as its service reports it, reply by reply (decisions 3, 4.10 "Code result"). */
export class CodeExecution {
  readonly #size: AnswerSize;
  readonly #output: string[] = [];
  readonly #errors: string[] = [];
  #state = INITIAL_STATE;
  #exitCode = 0;
  #errorReply = false;

  /** `maxBytes` is for what it puts out, as JSON. */
  constructor(maxBytes?: number) {
    this.#size = new AnswerSize(maxBytes);
  }

  get state(): ExecutionState {
    return this.#state;
  }

  /** Contents of STDOUT and STDERR in the order in which they came. */
  get output(): readonly string[] {
    return this.#output;
  }

  /** What is wrong with the execution, in a sentence or in the words of its error replies; undefined when nothing is. */
  get problem(): string | undefined {
    if (!this.#errorReply && !isBadEnd(this.#state) && this.#exitCode === 0) return undefined;
    return this.#errors.join('\n') || `the execution ended as ${this.#state} with exit code ${this.#exitCode}`;
  }

  /** Takes the next reply. Throws ServiceError when the output becomes larger than can be held. */
  take({ isError, content, outputType, status, exitCode }: CodeExecutionReply__Output): TakenReply {
    const states = statesTowards(this.#state, status);
    this.#state = states?.at(-1) ?? this.#state;
    // An exit code belongs to the state that it came with. Where that stays, a 0 takes none back: it is also what a reply
    // has that says nothing of it.
    if (states && (states.length > 0 || exitCode !== 0)) this.#exitCode = exitCode;
    if (isError) this.#errorReply = true;
    this.#keep(content, outputType === 'STDOUT' || outputType === 'STDERR', isError);
    const told = content.filter((text) => text !== '');
    if (told.length > 0) return { news: [told.join('\n')], ignored: !states };
    return { news: outputType === 'STATUS' && states ? states : [], ignored: !states };
  }

  #keep(content: readonly string[], isOutput: boolean, isError: boolean): void {
    for (const text of content) {
      // What is told and not kept counts too: the client is sent it.
      if (!this.#size.add(text)) {
        throw new ServiceError('UNKNOWN', `the execution was ended: it put out ${this.#size.excess}`);
      }
      if (isOutput) this.#output.push(text);
      if (isError) this.#errors.push(text);
    }
  }
}
