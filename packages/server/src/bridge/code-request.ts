import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/json/lossless';
import type { Entry } from '../registry/entries.ts';
import { asText, asTexts, becomesHeader, own, textIn } from './arguments.ts';
import { MAX_MESSAGE_BYTES } from './channels.ts';
import { type CodeTarget, codeUri } from './code-uri.ts';
import type { CodeExecutionRequest } from './generated/codeexecution/CodeExecutionRequest.ts';
import { ServiceError } from './service-error.ts';
import { requireAll } from './tool-request.ts';

/** Most that code may have, in bytes of UTF-8, after it was decoded (decisions 8). */
const MAX_CODE_BYTES = 1024 * 1024;
/** Milliseconds that code may run for where the caller names no `timeout` (decisions 8). */
const DEFAULT_TIMEOUT_MS = 30_000;
const MAX_TIMEOUT_MS = 300_000;

/**
 * Most that a list of arguments may have. More do not fit into a message (decisions 2.12), where each takes 12 bytes and
 * more; to find that out by making the message of a list of millions would hold everybody up for seconds.
 */
const MOST_LISTED = Math.floor(MAX_MESSAGE_BYTES / 12);

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
  given: JsonObject,
): BuiltCodeRequest {
  const schema = own(tool.definition, 'inputSchema');
  requireAll(isJsonObject(schema) ? schema.required : undefined, given);
  requireAll(['code'], given);
  return {
    uri: codeUri(target),
    body: '',
    code: codeOf(own(given, 'code')),
    arguments: argumentsOf(own(given, 'arguments') ?? {}),
    configurationURI: textIn(tool.members, 'configurationURI'),
    secretsURI: textIn(tool.members, 'secretsURI'),
    timeout: timeoutOf(own(given, 'timeout') ?? DEFAULT_TIMEOUT_MS),
    environment: environmentOf(own(given, 'environment') ?? {}),
  };
}

function codeOf(given: JsonValue | undefined): string {
  if (typeof given !== 'string') throw refused('code must be a text, plain or in Base64');
  const code = decoded(given).toWellFormed();
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
function argumentsOf(given: JsonValue): { [name: string]: string } {
  if (Array.isArray(given)) {
    if (given.length > MOST_LISTED) throw refused(`arguments must have at most ${MOST_LISTED} members`);
    const named = given.map((value, index) => [`arg${index}`, asText(value)] as const);
    return Object.fromEntries(named.flatMap(([name, text]) => (text === undefined ? [] : [[name, text]])));
  }
  if (!isJsonObject(given)) throw refused('arguments must be a list or an object');
  return Object.fromEntries(asTexts(given).filter(([name]) => !becomesHeader(name)));
}

function environmentOf(given: JsonValue): { [name: string]: string } {
  if (!isJsonObject(given)) throw refused('environment must be an object');
  return Object.fromEntries(asTexts(given));
}

function timeoutOf(given: JsonValue): number {
  // 5000.0 is kept as it is spelled.
  const timeout = JSON.isRawJSON(given) ? Number(given.rawJSON) : given;
  if (typeof timeout !== 'number' || !Number.isInteger(timeout) || timeout < 1 || timeout > MAX_TIMEOUT_MS) {
    throw refused(`timeout must be a whole number of milliseconds from 1 to ${MAX_TIMEOUT_MS}`);
  }
  return timeout;
}

function refused(message: string): ServiceError {
  return new ServiceError('INVALID_ARGUMENTS', message);
}
