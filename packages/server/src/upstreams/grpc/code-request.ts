import { elements } from '@sluice/protocol/json/text';
import type { Entry } from '../../registry/entries.ts';
import { CallError } from '../operation.ts';
import type { CodeExecutionRequest } from './generated/codeexecution/CodeExecutionRequest.ts';
import {
  type ArgumentTexts,
  argumentEntries,
  isHeaderArgument,
  jsonToText,
  MAX_ARGUMENTS,
  objectMember,
  parseMembers,
  requireArguments,
  stringMember,
  tooManyMembersError,
} from './tool-operation.ts';

/** Engine and language of a tool's uri. */
export interface CodeTarget {
  readonly engine: string;
  readonly language: string;
}

const SCHEME = /^code-execution-engine:\/\//i;
const CODE_URI = /^code-execution-engine:\/\/([^/]+)\/([^/]+)\/?$/i;

/** True for the uri of a code tool, also without engine or language. */
export function isCodeUri(uri: string): boolean {
  return SCHEME.test(uri);
}

/** Parses such a uri; undefined unless it has both parts. */
export function parseCodeUri(uri: string): CodeTarget | undefined {
  const [, engine, language] = CODE_URI.exec(uri) ?? [];
  return engine === undefined || language === undefined ? undefined : { engine, language };
}

/** The normal form: `code-execution-engine://{engineType}/{language}`. */
export function formatCodeUri({ engine, language }: CodeTarget): string {
  return `code-execution-engine://${engine}/${language}`.toWellFormed();
}

/** Limit on decoded code, in bytes of UTF-8. */
const MAX_CODE_BYTES = 1024 * 1024;
/** Milliseconds that code may run without a `timeout` argument. */
const DEFAULT_TIMEOUT_MS = 30_000;
const MAX_TIMEOUT_MS = 300_000;

/** A complete request. */
export interface BuiltCodeRequest extends CodeExecutionRequest {
  readonly arguments: { [name: string]: string };
  /** Milliseconds. */
  readonly timeout: number;
}

/**
 * Builds the request to execute code. `target` has the service's own names. Throws CallError INVALID_ARGUMENTS with a message
 * for the caller.
 */
export function codeRequest(
  tool: Pick<Entry, 'members' | 'definition'>,
  target: CodeTarget,
  args: ArgumentTexts,
): BuiltCodeRequest {
  requireArguments(objectMember(tool.definition, 'inputSchema').required, args);
  requireArguments(['code'], args);
  return {
    uri: formatCodeUri(target),
    body: '',
    code: parseCode(args.code),
    arguments: parseCodeArguments(args.arguments ?? 'null'),
    configurationURI: stringMember(tool.members, 'configurationURI'),
    secretsURI: stringMember(tool.members, 'secretsURI'),
    timeout: parseTimeout(args.timeout ?? 'null'),
    environment: Object.fromEntries(argumentEntries(parseMembers(args.environment ?? 'null', 'environment'))),
  };
}

function parseCode(json: string | undefined): string {
  const text = json?.startsWith('"') ? jsonToText(json) : undefined;
  if (text === undefined) throw invalidArguments('code must be a string, plain or in Base64');
  const code = decodeBase64(text).toWellFormed();
  if (Buffer.byteLength(code) > MAX_CODE_BYTES) throw invalidArguments('code must have at most 1 MiB');
  return code;
}

/** Decodes a text that is the Base64 of UTF-8; else returns it unchanged. */
function decodeBase64(text: string): string {
  const bytes = Buffer.from(text, 'base64');
  // Node.js ignores invalid characters; only standard Base64 with padding encodes to the same text again.
  if (bytes.toString('base64') !== text) return text;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return text;
  }
}

/** The elements of a list become arg0, arg1 and so on; null elements are skipped, but counted. */
function parseCodeArguments(json: string): { [name: string]: string } {
  if (json.startsWith('[')) return Object.fromEntries(argumentEntries(numberElements(json)));
  if (!json.startsWith('{') && json !== 'null') throw invalidArguments('arguments must be an array or an object');
  return Object.fromEntries(
    argumentEntries(parseMembers(json, 'arguments')).filter(([name]) => !isHeaderArgument(name)),
  );
}

function numberElements(json: string): ArgumentTexts {
  const args: Record<string, string> = {};
  let count = 0;
  for (const { start, end } of elements(json)) {
    if (count === MAX_ARGUMENTS) throw tooManyMembersError('arguments');
    args[`arg${count++}`] = json.slice(start, end);
  }
  return args;
}

function parseTimeout(json: string): number {
  if (json === 'null') return DEFAULT_TIMEOUT_MS;
  // JSON numbers only; 5000.0 and 5e3 are integers too.
  const timeout = /^[-0-9]/.test(json) ? Number(json) : undefined;
  if (timeout === undefined || !Number.isInteger(timeout) || timeout < 1 || timeout > MAX_TIMEOUT_MS) {
    throw invalidArguments(`timeout must be an integer number of milliseconds from 1 to ${MAX_TIMEOUT_MS}`);
  }
  return timeout;
}

function invalidArguments(message: string): CallError {
  return new CallError('INVALID_ARGUMENTS', message);
}
