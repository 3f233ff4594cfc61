import { truncateBytes } from '@sluice/protocol/text';
import type { TimeSlicer } from '@sluice/protocol/time-slicer';
import type { VisibleSet } from '../../access/access.ts';
import type { RequestMessage } from '../../inference/request-messages.ts';
import { forEachInSteps, type Steps } from '../../registry/steps.ts';
import type { EvaluatedRequest } from '../context.ts';
import { toToolEntry } from '../registry-view.ts';
import type { ToolEntry } from '../sandbox/action.ts';

/** Maximum lengths of inserted text. */
const MAX_MESSAGE_BYTES = 1000;
const MAX_ARGUMENT_BYTES = 500;
const MAX_NAME_BYTES = 200;

/** Content of a user prompt. */
export interface PromptInput {
  readonly request: EvaluatedRequest;
  /** Messages of the latest interactions of the conversation, oldest first. */
  readonly conversation: readonly (readonly RequestMessage[])[];
  /** Lines of the tools of the namespace, in order of registration; only for `tools/list`. */
  readonly tools: readonly string[] | undefined;
}

/** Builds the user prompt. All inserted text is sanitized. */
export function buildUserPrompt({ request, conversation, tools }: PromptInput): string {
  const sections = [requestSection(request)];
  const interactions = conversation.filter((messages) => messages.length > 0);
  const texts = interactions.map((messages) => messages.map(messageLine).join('\n'));
  if (texts.length > 0) sections.unshift(`# Conversation\n${texts.join('\n\n')}`);
  if (tools !== undefined) sections.push(['# Available tools', ...tools].join('\n'));
  return sections.join('\n\n');
}

/** The line of a message, which names what was left out of the conversation. */
function messageLine({ role, content, omitted }: RequestMessage): string {
  const note = omitted === undefined ? '' : `(left out: ${sanitizeText(omitted, MAX_NAME_BYTES)})`;
  if (role === '') return note;
  const text = [sanitizeText(content, MAX_MESSAGE_BYTES), note].filter((part) => part !== '').join(' ');
  return `[${sanitizeText(role, MAX_NAME_BYTES)}]: ${text}`;
}

function requestSection({ method, namespace, toolName, arguments: pairs }: EvaluatedRequest): string {
  const lines = [
    '# Request',
    `method: ${sanitizeText(method, MAX_MESSAGE_BYTES)}`,
    `namespace: ${sanitizeText(namespace, MAX_MESSAGE_BYTES)}`,
  ];
  if (toolName !== undefined) lines.push(`tool: ${sanitizeText(toolName, MAX_NAME_BYTES)}`);
  if (pairs.length > 0) lines.push('arguments:');
  for (const [key, value] of pairs)
    lines.push(`  ${sanitizeText(key, MAX_ARGUMENT_BYTES)}: ${sanitizeText(value, MAX_ARGUMENT_BYTES)}`);
  return lines.join('\n');
}

/** The line of a tool. */
export function toolLine({ name, description }: PromptTool): string {
  const line = `- ${sanitizeText(name, MAX_NAME_BYTES)}`;
  return description === '' ? line : `${line}: ${sanitizeText(description, MAX_NAME_BYTES)}`;
}

/** A tool in a prompt. */
export type PromptTool = Pick<ToolEntry, 'name' | 'description'>;

/**
 * Cache of the lines of a namespace's tools, in order of registration, by their immutable index: a namespace may have 100,000
 * tools, and each evaluated `tools/list` needs all of them.
 */
export class PromptToolCache {
  readonly #lines = new WeakMap<VisibleSet, Promise<readonly string[]>>();

  /** The lines; they are made in slices. */
  lines(index: VisibleSet, slicer: TimeSlicer): Promise<readonly string[]> {
    return this.#lines.getOrInsertComputed(index, () => slicer.run(linesOf(index)));
  }
}

function* linesOf({ entries }: VisibleSet): Steps<readonly string[]> {
  const lines: string[] = [];
  yield* forEachInSteps(entries, (entry) => lines.push(toolLine(toToolEntry(entry))));
  return lines;
}

/** Text that needs no sanitizing, as most. */
const SAFE_TEXT = /^(?:[!"$-~][ -~]*)?$/;
/** Line breaks (Unicode 5.8, "Newline Guidelines") and tabs. */
const BREAKS = /[\t\n\v\f\r\u0085\u2028\u2029]+/g;
const LEADING_BREAKS = /^[\t\n\v\f\r\u0085\u2028\u2029]+/;
const TRAILING_BREAK = /[\t\n\v\f\r\u0085\u2028\u2029]$/;
/** Other control characters (C0, DEL, C1) and bidirectional controls (Unicode `Bidi_Control`). */
const DROPPED =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is removed
  /[\u0000-\u0008\u000e-\u001f\u007f-\u0084\u0086-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+/g;
const LEADING_HASHES = /^[\s#]+/;

/**
 * Sanitizes text for a prompt: one line without control and bidirectional characters, not starting like a heading, at most
 * `maxBytes` bytes of UTF-8, truncated between two characters.
 *
 * A sequence of line breaks and tabs becomes one space. Leading `#` are removed, leading spaces are not. Lone surrogates
 * become U+FFFD. Apart from dropped characters, hardly more of the text is read than returned.
 */
export function sanitizeText(text: string, maxBytes: number): string {
  const head = text.slice(0, maxBytes);
  if (SAFE_TEXT.test(head)) return head;
  let sanitized = '';
  let afterBreak = false;
  let isAtStart = true;
  for (let from = 0; from < text.length && sanitized.length < maxBytes; from += maxBytes) {
    let part = text.slice(from, from + maxBytes).replace(DROPPED, '');
    if (afterBreak) part = part.replace(LEADING_BREAKS, '');
    if (part === '') continue;
    afterBreak = TRAILING_BREAK.test(part);
    sanitized += part.replace(BREAKS, ' ');
    if (!isAtStart) continue;
    sanitized = sanitized.replace(LEADING_HASHES, (leading) => leading.replaceAll('#', ''));
    isAtStart = sanitized.trim() === '';
  }
  return truncateBytes(sanitized, maxBytes);
}
