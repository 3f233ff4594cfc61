import type { Client, MethodDefinition } from '@grpc/grpc-js';
import { elements } from '@sluice/protocol/json/scan';
import type { Entry } from '../../registry/entries.ts';
import { ServiceError } from './call.ts';
import type { CodeExecutionRequest } from './generated/codeexecution/CodeExecutionRequest.ts';
import {
  becomesHeader,
  type GivenArguments,
  MOST_ARGUMENTS,
  membersOf,
  objectIn,
  requireAll,
  textIn,
  textOfJson,
  textsOf,
  tooMany,
} from './tools.ts';
import { type Call, type CallSettings, metadataOf, RetryPolicy } from './unary.ts';

/** Where code is to be executed, as a tool's uri names it. */
export interface CodeTarget {
  readonly engine: string;
  readonly language: string;
}

const SCHEME = /^code-execution-engine:\/\//i;
const WHOLE = /^code-execution-engine:\/\/([^/]+)\/([^/]+)\/?$/i;

/** True for the uri of a tool that has code executed, also of one that names no engine or language (decisions 4.7). */
export function isCodeUri(uri: string): boolean {
  return SCHEME.test(uri);
}

/** What such a uri names; undefined where it does not name both. */
export function codeTarget(uri: string): CodeTarget | undefined {
  const [, engine, language] = WHOLE.exec(uri) ?? [];
  return engine === undefined || language === undefined ? undefined : { engine, language };
}

/** The normal form: `code-execution-engine://{engineType}/{language}` (specification, "Request-building rules" 4). */
export function codeUri({ engine, language }: CodeTarget): string {
  return `code-execution-engine://${engine}/${language}`.toWellFormed();
}

/** Most that code may have, in bytes of UTF-8, after it was decoded (decisions 8). */
const MAX_CODE_BYTES = 1024 * 1024;
/** Milliseconds that code may run for where the caller names no `timeout` (decisions 8). */
const DEFAULT_TIMEOUT_MS = 30_000;
const MAX_TIMEOUT_MS = 300_000;

/** A request that can be sent: its members that others look at are there. */
export interface BuiltCodeRequest extends CodeExecutionRequest {
  readonly arguments: { [name: string]: string };
  /** Milliseconds. */
  readonly timeout: number;
}

/**
 * The request that has a capability service execute code (specification, "Request-building rules" 4; decisions 4.10).
 * `target` is what the service calls itself. Throws ServiceError INVALID_ARGUMENTS, with a message for the caller.
 */
export function codeRequest(
  tool: Pick<Entry, 'members' | 'definition'>,
  target: CodeTarget,
  given: GivenArguments,
): BuiltCodeRequest {
  requireAll(objectIn(tool.definition, 'inputSchema').required, given);
  requireAll(['code'], given);
  return {
    uri: codeUri(target),
    body: '',
    code: codeOf(given.code),
    arguments: argumentsOf(given.arguments ?? 'null'),
    configurationURI: textIn(tool.members, 'configurationURI'),
    secretsURI: textIn(tool.members, 'secretsURI'),
    timeout: timeoutOf(given.timeout ?? 'null'),
    environment: environmentOf(given.environment ?? 'null'),
  };
}

function codeOf(json: string | undefined): string {
  const text = json?.startsWith('"') ? textOfJson(json) : undefined;
  if (text === undefined) throw refused('code must be a text, plain or in Base64');
  const code = decoded(text).toWellFormed();
  if (Buffer.byteLength(code) > MAX_CODE_BYTES) throw refused('code must have at most 1 MiB');
  return code;
}

/** What the text is the Base64 of, where it is that of UTF-8; else the text itself. */
function decoded(text: string): string {
  const bytes = Buffer.from(text, 'base64');
  // Node.js decodes whatever it can; only what comes out the same again was standard Base64, padding included.
  if (bytes.toString('base64') !== text) return text;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return text;
  }
}

/** A list becomes arg0, arg1 and so on; one that is null leaves its number free. */
function argumentsOf(json: string): { [name: string]: string } {
  if (json.startsWith('[')) return Object.fromEntries(textsOf(numbered(json)));
  if (!json.startsWith('{') && json !== 'null') throw refused('arguments must be a list or an object');
  return Object.fromEntries(textsOf(membersOf(json, 'arguments')).filter(([name]) => !becomesHeader(name)));
}

function numbered(json: string): GivenArguments {
  const given: Record<string, string> = {};
  let count = 0;
  for (const { start, end } of elements(json)) {
    if (count === MOST_ARGUMENTS) throw tooMany('arguments');
    given[`arg${count++}`] = json.slice(start, end);
  }
  return given;
}

function environmentOf(json: string): { [name: string]: string } {
  return Object.fromEntries(textsOf(membersOf(json, 'environment')));
}

function timeoutOf(json: string): number {
  if (json === 'null') return DEFAULT_TIMEOUT_MS;
  // Numbers alone begin so: 5000.0 and 5e3 are as whole as 5000.
  const timeout = /^[-0-9]/.test(json) ? Number(json) : undefined;
  if (timeout === undefined || !Number.isInteger(timeout) || timeout < 1 || timeout > MAX_TIMEOUT_MS) {
    throw refused(`timeout must be a whole number of milliseconds from 1 to ${MAX_TIMEOUT_MS}`);
  }
  return timeout;
}

function refused(message: string): ServiceError {
  return new ServiceError('INVALID_ARGUMENTS', message);
}

/** How long a stream may go on after the time that its code was given, in milliseconds (decisions 4.10). */
export const GRACE_MS = 5_000;

/** Settings of an execution's stream. */
export interface StreamSettings extends Pick<CallSettings, 'maxRetries' | 'retryDelayMs'> {
  /** Milliseconds for each attempt, from its beginning to its last message. */
  readonly deadlineMs: number;
}

/**
 * Calls a method that takes one message and gives a stream of them. It is read no faster than the loop over it runs, and
 * ended at the service when that is left. It is called anew while the service is unavailable ({@link RetryPolicy}), but not
 * once a message was here: the code has begun (decisions 4.10). Throws the status of the last attempt.
 */
export async function* callStream<Request, Reply>(
  client: Client,
  method: MethodDefinition<Request, Reply>,
  request: Request,
  call: Call,
  settings: StreamSettings,
): AsyncGenerator<Reply, void, undefined> {
  const retries = new RetryPolicy(settings, call.signal);
  for (;;) {
    let begun = false;
    try {
      for await (const reply of attemptStream(client, method, request, call, settings.deadlineMs)) {
        begun = true;
        yield reply;
      }
      return;
    } catch (error) {
      if (begun) throw error;
      await retries.after(error);
    }
  }
}

async function* attemptStream<Request, Reply>(
  client: Client,
  { path, requestSerialize, responseDeserialize }: MethodDefinition<Request, Reply>,
  request: Request,
  call: Call,
  deadlineMs: number,
): AsyncGenerator<Reply, void, undefined> {
  const { signal } = call;
  const stream = client.makeServerStreamRequest(
    path,
    requestSerialize,
    responseDeserialize,
    request,
    metadataOf(call),
    { deadline: Date.now() + deadlineMs },
  );
  // The loop below hears of an error; one that comes after the loop was left is the cancellation, and nobody's concern.
  stream.on('error', () => undefined);
  const cancel = (): void => stream.cancel();
  signal?.addEventListener('abort', cancel, { once: true });
  if (signal?.aborted) cancel();
  try {
    for await (const reply of stream) yield reply;
  } finally {
    signal?.removeEventListener('abort', cancel);
    cancel();
  }
}
