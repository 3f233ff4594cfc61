import { type ExecutionState, INITIAL_STATE, isBadEnd, statesTowards } from './execution-state.ts';
import type { CodeExecutionReply__Output } from './generated/codeexecution/CodeExecutionReply.ts';
import { ServiceError } from './service-error.ts';

/** Most that an execution may put out, in characters: the result holds all of it (decisions 8, answers held whole). */
const MAX_OUTPUT_CHARACTERS = 64 * 1024 * 1024;
/** What a text counts besides its characters, since each has a place in lists and in the result, an empty one too. */
const TEXT_CHARACTERS = 64;

/** What a reply brought. */
export interface Taken {
  /** To be told to a client that follows the execution: output, and states as they are reached. */
  readonly news: readonly string[];
  /** True when its status contradicts the state, and so did not count. */
  readonly ignored: boolean;
}

/** One execution as its service reports it, reply by reply (decisions 3, 4.10 "Code result"). */
export class CodeExecution {
  readonly #maxCharacters: number;
  readonly #output: string[] = [];
  readonly #errors: string[] = [];
  #characters = 0;
  #state = INITIAL_STATE;
  #exitCode = 0;
  #errorReply = false;

  constructor(maxCharacters = MAX_OUTPUT_CHARACTERS) {
    this.#maxCharacters = maxCharacters;
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
  take({ isError, content, outputType, status, exitCode }: CodeExecutionReply__Output): Taken {
    const states = statesTowards(this.#state, status);
    this.#state = states?.at(-1) ?? this.#state;
    // An exit code belongs to the status that it came with.
    if (states && exitCode !== 0) this.#exitCode = exitCode;
    if (isError) this.#errorReply = true;
    const isOutput = outputType === 'STDOUT' || outputType === 'STDERR';
    if (isOutput || isError) this.#keep(content, isOutput, isError);
    const told = content.filter((text) => text !== '');
    const named = outputType === 'STATUS' && told.length === 0 ? (states ?? []) : told;
    return { news: named, ignored: !states };
  }

  #keep(content: readonly string[], isOutput: boolean, isError: boolean): void {
    for (const text of content) {
      this.#characters += text.length + TEXT_CHARACTERS;
      if (this.#characters > this.#maxCharacters) {
        throw new ServiceError(
          'UNKNOWN',
          `the execution was ended: it put out more than ${this.#maxCharacters} characters, where each text counts for ${TEXT_CHARACTERS} more`,
        );
      }
      if (isOutput) this.#output.push(text);
      if (isError) this.#errors.push(text);
    }
  }
}
