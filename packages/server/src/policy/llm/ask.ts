import type { LlmConnection } from '../../app/config/bootstrap-file.ts';
import { type LlmClient, LlmFailure, type LlmMessage } from './client.ts';
import { sanitised } from './prompt.ts';
import type { CompiledSchema } from './result-schema.ts';

/** What an LLM is asked. */
export interface LlmQuestion {
  readonly connection: LlmConnection;
  /** The operator's. */
  readonly systemPrompt: string;
  readonly userPrompt: string;
  /** What the answer should fit. */
  readonly schema: CompiledSchema | undefined;
  /** Ends the call under way, and the wait for a verdict on its answer. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Told of each step of a question when it is over (decisions 4.4: `llm` and `schema`), but of none that was ended because
 * nobody waits for it. Must not throw.
 */
export interface LlmObserver {
  /** One call, which took so many milliseconds. */
  called(success: boolean, durationMs: number): void;
  /** An answer was an empty text. */
  emptyResult(): void;
  validated(pass: boolean): void;
  /** The second call has brought an answer that fits, or has not. */
  retried(success: boolean): void;
}

/** Bytes of the previous answer that are shown again, as of any message (decisions 4.9). */
const ANSWER = 1000;
/** Ten errors of 300 characters, some of which have several bytes. */
const PROBLEM = 4096;

/**
 * Asks an LLM, and once more when the answer does not fit the schema (decisions 4.9, "result_schema"); the newest answer,
 * as it came. Throws `LlmFailure` when the first call fails; when only the second does, the first answer counts. Throws
 * the reason of the signal when that aborts while an answer is judged.
 */
export async function completeWithSchema(
  client: LlmClient,
  question: LlmQuestion,
  observer: LlmObserver,
): Promise<string> {
  const { schema, userPrompt, signal } = question;
  const first = await ask(client, question, userPrompt, observer);
  if (schema === undefined) return first;
  const problem = await validate(schema, first, observer, signal);
  if (problem === undefined) return first;
  const correction = `${userPrompt}\n\n${correctionSection(problem, schema, first)}`;
  let second: string;
  try {
    second = await ask(client, question, correction, observer);
  } catch (error) {
    if (!signal?.aborted) observer.retried(false);
    if (error instanceof LlmFailure && error.fault !== 'aborted') return first;
    throw error;
  }
  const remaining = await validate(schema, second, observer, signal);
  observer.retried(remaining === undefined);
  return second;
}

async function ask(
  client: LlmClient,
  { connection, systemPrompt, signal }: LlmQuestion,
  userPrompt: string,
  observer: LlmObserver,
): Promise<string> {
  const messages: LlmMessage[] = [
    { role: 'system', content: systemPrompt },
    { role: 'user', content: userPrompt },
  ];
  const startedAt = performance.now();
  try {
    const text = await client.ask(connection, messages, signal);
    observer.called(true, performance.now() - startedAt);
    if (text === '') observer.emptyResult();
    return text;
  } catch (error) {
    if (!signal?.aborted) observer.called(false, performance.now() - startedAt);
    throw error;
  }
}

async function validate(
  schema: CompiledSchema,
  text: string,
  observer: LlmObserver,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const problem = await schema.validate(text, signal);
  observer.validated(problem === undefined);
  return problem;
}

function correctionSection(problem: string, schema: CompiledSchema, answer: string): string {
  return [
    '# Correction',
    'The previous answer does not conform to the JSON Schema.',
    `error: ${sanitised(problem, PROBLEM)}`,
    `schema: ${schema.text}`,
    `previous answer: ${sanitised(answer, ANSWER)}`,
    'Answer with JSON that conforms to the schema, and with nothing else.',
  ].join('\n');
}

/** What became of a question whose answer did not fit at first. */
interface CorrectedQuestion {
  /** Calls that came to an end. */
  readonly llm_calls: number;
  readonly validation: 'corrected' | 'failed';
}

/** What the log says of a question, while another observer is told of each step of it. */
export class LlmCallStats implements LlmObserver {
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
