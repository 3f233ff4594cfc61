import type { WaitBudget } from '../../http/fair-queue.ts';
import { type LlmClient, type LlmConnection, LlmError, type LlmMessage } from './client.ts';
import { sanitizeText } from './prompt.ts';
import type { CompiledSchema } from './result-schema.ts';

/** A completion to request from an LLM. */
export interface LlmRequest {
  readonly connection: LlmConnection;
  /** Prompt of the evaluator. */
  readonly systemPrompt: string;
  readonly userPrompt: string;
  /** Schema for the result. */
  readonly schema: CompiledSchema | undefined;
  /** Cancels the call in progress and the validation of its result. */
  readonly signal?: AbortSignal | undefined;
  /** Place of the request in the queue of the validator. */
  readonly budget?: WaitBudget | undefined;
  /** Called after a second call for a correction: whether its result is valid. */
  readonly onCorrection?: (isValid: boolean) => void;
}

/**
 * Observes the steps of a request when they are complete (`llm` and `schema`), except canceled ones. Must not throw.
 */
export interface LlmObserver {
  /** One LLM call. */
  onCall(isSuccess: boolean, durationMs: number): void;
  /** A result was empty. */
  onEmptyResult?(): void;
  onValidation?(isValid: boolean): void;
  /** The correction returned a valid result, or failed. */
  onRetry?(isSuccess: boolean): void;
}

/** Length of the previous answer in a correction, as of any message. */
const MAX_ANSWER_BYTES = 1000;
/** Ten errors of 300 characters, some of which have several bytes. */
const MAX_PROBLEM_BYTES = 4096;

/**
 * Requests a completion, and a correction if the result does not match the schema. Returns the last result unchanged. Throws
 * {@link LlmError} if the first call fails; if only the second fails, the first result is returned. Throws the reason of the
 * signal if it aborts during validation, and `BusyError` if there is no room for one.
 */
export async function completeWithSchema(
  client: LlmClient,
  request: LlmRequest,
  observer: LlmObserver,
): Promise<string> {
  const { schema, userPrompt, signal, budget, onCorrection } = request;
  const first = await complete(client, request, userPrompt, observer);
  if (schema === undefined) return first;
  const findProblem = async (text: string): Promise<string | undefined> => {
    const problem = await schema.validate(text, signal, budget);
    observer.onValidation?.(problem === undefined);
    return problem;
  };
  const problem = await findProblem(first);
  if (problem === undefined) return first;
  const onRetry = (isValid: boolean) => {
    observer.onRetry?.(isValid);
    onCorrection?.(isValid);
  };
  const correction = `${userPrompt}\n\n${correctionSection(problem, schema, first)}`;
  let second: string;
  try {
    second = await complete(client, request, correction, observer);
  } catch (error) {
    if (!signal?.aborted) onRetry(false);
    if (error instanceof LlmError && error.fault !== 'aborted') return first;
    throw error;
  }
  onRetry((await findProblem(second)) === undefined);
  return second;
}

async function complete(
  client: LlmClient,
  { connection, systemPrompt, signal, budget }: LlmRequest,
  userPrompt: string,
  observer: LlmObserver,
): Promise<string> {
  const messages: LlmMessage[] = [
    { role: 'system', content: systemPrompt },
    { role: 'user', content: userPrompt },
  ];
  const startedAt = performance.now();
  try {
    const text = await client.complete(connection, messages, signal, budget);
    observer.onCall(true, performance.now() - startedAt);
    if (text === '') observer.onEmptyResult?.();
    return text;
  } catch (error) {
    if (!signal?.aborted) observer.onCall(false, performance.now() - startedAt);
    throw error;
  }
}

function correctionSection(problem: string, schema: CompiledSchema, response: string): string {
  return [
    '# Correction',
    'The previous answer does not conform to the JSON Schema.',
    `error: ${sanitizeText(problem, MAX_PROBLEM_BYTES)}`,
    `schema: ${schema.text}`,
    `previous answer: ${sanitizeText(response, MAX_ANSWER_BYTES)}`,
    'Answer with JSON that conforms to the schema, and with nothing else.',
  ].join('\n');
}
