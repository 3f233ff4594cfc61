import { elements } from '@sluice/protocol/json/scan';
import type { Entry } from '../registry/entries.ts';
import { objectIn, textIn, textOfJson } from './as-text.ts';
import {
  becomesHeader,
  type GivenArguments,
  MOST_ARGUMENTS,
  membersOf,
  requireAll,
  textsOf,
  tooMany,
} from './call-arguments.ts';
import { type CodeTarget, codeUri } from './code-uri.ts';
import type { CodeExecutionRequest } from './generated/codeexecution/CodeExecutionRequest.ts';
import { ServiceError } from './service-error.ts';

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
