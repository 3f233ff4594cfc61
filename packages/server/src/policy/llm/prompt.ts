import type { EntryIndex } from '../../registry/index.ts';
import type { EvaluatedRequest } from '../context.ts';
import { toolEntry } from '../registry-view.ts';
import type { HistoryMessage, ToolEntry } from '../sandbox/action.ts';
import { cutBytes } from '../verdict.ts';

/** What most texts are, and then there is nothing to be done to them. */
const PLAIN = /^(?:[!"$-~][ -~]*)?$/;
/** What Unicode calls a line break (5.8, "Newline Guidelines"), and the tab. */
const BREAKS = /[\t\n\v\f\r\u0085\u2028\u2029]+/g;
const BREAKS_FIRST = /^[\t\n\v\f\r\u0085\u2028\u2029]+/;
const BREAK_LAST = /[\t\n\v\f\r\u0085\u2028\u2029]$/;
/** Other controls (C0, DEL, C1), and those of the direction of writing: Unicode's `Bidi_Control`. */
const DROPPED =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is taken out
  /[\u0000-\u0008\u000e-\u001f\u007f-\u0084\u0086-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+/g;
const BEGINNING = /^[\s#]+/;

/**
 * A text of somebody else as it may stand in a prompt (decisions 4.9): on one line, without control characters and those
 * that turn the text around, and not like a heading; at most `mostBytes` bytes of UTF-8, cut between two characters.
 *
 * Line breaks that follow each other, with tabs, are one space. Of the blanks and `#` that a text begins with, the blanks
 * stay. Surrogates without their other half become U+FFFD.
 *
 * Beside what is dropped, hardly more of a text is read than stays of it.
 */
export function sanitised(text: string, mostBytes: number): string {
  const head = text.slice(0, mostBytes);
  if (PLAIN.test(head)) return head;
  let made = '';
  let afterBreak = false;
  let atBeginning = true;
  for (let from = 0; from < text.length && made.length < mostBytes; from += mostBytes) {
    let piece = text.slice(from, from + mostBytes).replace(DROPPED, '');
    if (afterBreak) piece = piece.replace(BREAKS_FIRST, '');
    if (piece === '') continue;
    afterBreak = BREAK_LAST.test(piece);
    made += piece.replace(BREAKS, ' ');
    if (!atBeginning) continue;
    made = made.replace(BEGINNING, (beginning) => beginning.replaceAll('#', ''));
    atBeginning = made.trim() === '';
  }
  return cutBytes(made, mostBytes);
}

/** Bytes that are left of a text of each kind (decisions 4.9). */
const MESSAGE = 1000;
const ARGUMENT = 500;
const NAME = 200;

/** What the LLM is told about a request. */
export interface PromptInput {
  readonly request: EvaluatedRequest;
  /** The latest interactions of the conversation, oldest first, each with its messages. */
  readonly conversation: readonly (readonly HistoryMessage[])[];
  /** Tools of the request's namespace, in order of registration; undefined unless the trigger is `tools/list`. */
  readonly tools: readonly PromptTool[] | undefined;
}

/** The user prompt (decisions 4.9). Every text in it that came from outside is {@link sanitised}. */
export function userPrompt({ request, conversation, tools }: PromptInput): string {
  const sections = [requestSection(request)];
  const interactions = conversation.filter((messages) => messages.length > 0);
  if (interactions.length > 0) sections.unshift(`# Conversation\n${interactions.map(spoken).join('\n\n')}`);
  if (tools !== undefined) sections.push(['# Available tools', ...tools.map(toolLine)].join('\n'));
  return sections.join('\n\n');
}

function spoken(messages: readonly HistoryMessage[]): string {
  return messages.map(({ role, content }) => `[${sanitised(role, NAME)}]: ${sanitised(content, MESSAGE)}`).join('\n');
}

function requestSection({ method, namespace, toolName, arguments: pairs }: EvaluatedRequest): string {
  const lines = ['# Request', `method: ${sanitised(method, MESSAGE)}`, `namespace: ${sanitised(namespace, MESSAGE)}`];
  if (toolName !== undefined) lines.push(`tool: ${sanitised(toolName, NAME)}`);
  if (pairs.length > 0) lines.push('arguments:');
  for (const [key, value] of pairs) lines.push(`  ${sanitised(key, ARGUMENT)}: ${sanitised(value, ARGUMENT)}`);
  return lines.join('\n');
}

function toolLine({ name, description }: PromptTool): string {
  const line = `- ${sanitised(name, NAME)}`;
  return description === '' ? line : `${line}: ${sanitised(description, NAME)}`;
}

/** A tool as prompts name it. */
export type PromptTool = Pick<ToolEntry, 'name' | 'description'>;

/**
 * The tools of a namespace for prompts, in order of registration. They are kept with the shelf that they were read from,
 * which never changes: a namespace may have thousands, and each list that is judged asks for all of them.
 */
export class PromptTools {
  readonly #tools = new WeakMap<EntryIndex, readonly PromptTool[]>();

  of(shelf: EntryIndex): readonly PromptTool[] {
    const known = this.#tools.get(shelf);
    if (known) return known;
    const tools = shelf.entries.map(toolEntry).map(({ name, description }) => ({ name, description }));
    this.#tools.set(shelf, tools);
    return tools;
  }
}
