import { isUtf8 } from 'node:buffer';
import { isJsonObject, type JsonValue, tryParseJson } from '@sluice/protocol/json/parse';

/** Why an answer has no result. */
export interface UnusableAnswer {
  readonly fault: 'invalid' | 'no-content' | 'refusal';
  readonly problem: string;
}

/** Returns the content of a completion, which may be empty, or why there is none. */
export function readAnswer(body: Buffer): string | UnusableAnswer {
  if (!isUtf8(body)) return { fault: 'invalid', problem: 'response is not valid UTF-8' };
  const completion = tryParseJson(body.toString());
  if (completion === undefined) return { fault: 'invalid', problem: 'response is not valid JSON' };
  const message = messageOf(completion);
  const content = message && contentOf(message.content);
  if (content !== undefined) return content.toWellFormed();
  if (typeof message?.refusal === 'string' && message.refusal !== '') {
    return { fault: 'refusal', problem: 'the model refused to respond' };
  }
  return { fault: 'no-content', problem: 'response without text in choices[0].message.content' };
}

function messageOf(completion: unknown) {
  if (!isJsonObject(completion) || !Array.isArray(completion.choices)) return undefined;
  const [choice] = completion.choices;
  return isJsonObject(choice) && isJsonObject(choice.message) ? choice.message : undefined;
}

/** A text, or the texts of a list of parts; other parts, such as thinking, are not part of the result. */
function contentOf(content: JsonValue | undefined): string | undefined {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return undefined;
  const texts = content.flatMap((part) => {
    if (typeof part === 'string') return part;
    return isJsonObject(part) && part.type === 'text' && typeof part.text === 'string' ? part.text : [];
  });
  return texts.length > 0 ? texts.join('') : undefined;
}

/** What an error response says in identifiers; its texts may contain the name of the model. */
export interface ErrorDetails {
  /** Member of the request that is wrong. */
  readonly param?: string;
  /** Kind of the error. */
  readonly code?: string;
}

/** An error response of a model server. */
export interface ErrorResponse extends ErrorDetails {
  /** Members of our request that it names as the problem. */
  readonly refused: readonly string[];
}

/** Words of an error about a member that is not supported, in any order. */
const UNSUPPORTED =
  /\b(?:unsupported|support(?:s|ed)?|permitted|allowed|unknown|unrecognized|unexpected|extra|deprecated|invalid|default|must)\b/i;
/** Names and kinds are identifiers. */
const IDENTIFIER = /^[A-Za-z0-9_.:[\]-]{1,64}$/;
/** Texts that say nothing: some servers have "none" as a text. */
const ABSENT: ReadonlySet<string> = new Set(['', 'None', 'null', 'undefined', 'error']);
/** Values that are read of one response. */
const MAX_VALUES = 500;
/** Shorter texts may be part of an identifier by chance. */
const MIN_SECRET_CHARACTERS = 4;

/**
 * Reads the body of an error response in any of the forms that model servers have: OpenAI's object `error`, the lists
 * `detail` of FastAPI with `loc`, the violations of Google's APIs. `sent` are members of the request that can be left out;
 * identifiers that contain one of the texts `secrets` are ignored.
 */
export function readErrorResponse(body: Buffer, sent: readonly string[], secrets: readonly string[]): ErrorResponse {
  const found = new Findings();
  const text = body.toString();
  found.read(tryParseJson(text) ?? text);
  const hidden = secrets.map((secret) => secret.toLowerCase());
  const isPublic = (text: string) =>
    IDENTIFIER.test(text) && !hidden.some((secret) => reveals(text.toLowerCase(), secret));
  const param = found.params.find(isPublic);
  const code = found.codes.find(isPublic);
  return {
    ...(param !== undefined && { param }),
    ...(code !== undefined && { code }),
    refused: sent.filter((name) => found.isRefused(name)),
  };
}

function reveals(text: string, secret: string): boolean {
  return secret.length < MIN_SECRET_CHARACTERS ? text === secret : text.includes(secret);
}

/** What is found in an error response, from the outside in. */
class Findings {
  /** Names of members. */
  readonly params: string[] = [];
  /** Kinds of errors, the most specific first. */
  readonly codes: string[] = [];
  readonly #kinds: string[] = [];
  readonly #texts: string[] = [];

  read(value: unknown): void {
    const waiting: { readonly name: string; readonly value: unknown }[] = [{ name: '', value }];
    for (let at = 0; at < waiting.length && at < MAX_VALUES; at++) {
      const next = waiting[at];
      if (next) waiting.push(...this.#readOne(next.name, next.value).slice(0, MAX_VALUES));
    }
    this.codes.push(...this.#kinds);
  }

  /** Whether the response names this member. A text counts only if no member is named otherwise. */
  isRefused(name: string): boolean {
    if (this.params.length > 0) return this.params.some((param) => param.split(/[.[\]]/).includes(name));
    const quoted = new RegExp(`['"\`]${name}['"\`]`);
    const word = new RegExp(`\\b${name}\\b`);
    return this.#texts.some((text) => quoted.test(text) || (word.test(text) && UNSUPPORTED.test(text)));
  }

  /** Reads a value; returns those in it. */
  #readOne(name: string, value: unknown): { readonly name: string; readonly value: unknown }[] {
    if (typeof value === 'string' || typeof value === 'number') this.#readText(name, String(value));
    else if (Array.isArray(value) && name === 'loc') this.#addParam(value.filter(isMemberName).join('.'));
    else if (Array.isArray(value)) return value.map((each: unknown) => ({ name, value: each }));
    else if (isJsonObject(value)) return Object.entries(value).map(([key, member]) => ({ name: key, value: member }));
    return [];
  }

  #readText(name: string, text: string): void {
    if (ABSENT.has(text)) return;
    if (name === 'param' || name === 'field') this.#addParam(text);
    else if (name === 'code') this.codes.push(text);
    else if (name === 'type' || name === 'status') this.#kinds.push(text);
    else if (TEXTS.has(name)) this.#texts.push(text);
  }

  #addParam(name: string): void {
    if (name !== '') this.params.push(name);
  }
}

/** Members with a text about the error. */
const TEXTS: ReadonlySet<string> = new Set(['', 'message', 'msg', 'detail', 'error', 'description']);

/** Part of a path, which begins with the part of the request. */
function isMemberName(part: unknown): part is string {
  return typeof part === 'string' && part !== 'body';
}
