import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { counted } from '@sluice/protocol/text';
import { CONVERSATIONS, INSTRUCTIONS } from './apis/apis.ts';

/** Message of a request for a completion. */
export interface RequestMessage {
  /** Empty if it is only about messages that were left out. */
  readonly role: string;
  /** Text, or the texts of its parts. */
  readonly content: string;
  /** What it has besides, such as `image_url` or `3 earlier messages`. */
  readonly omitted?: string | undefined;
}

/** Types of parts with text. */
const TEXT_PARTS: ReadonlySet<string> = new Set(['text', 'input_text', 'output_text']);
/** A type is chosen by the client. */
const TYPE = /^[A-Za-z0-9_.-]{1,64}$/;
const MAX_TYPES = 8;
/** Named beside the parts if a text was cut. */
export const REST = 'rest of the text';
const OTHER = 'other part';

/** Whether a part of this type has text. */
export function isTextPart(type: JsonValue | undefined): boolean {
  return typeof type === 'string' && TEXT_PARTS.has(type);
}

/** Parts of a message that are not text, by type. */
export class OmittedParts {
  readonly #counts = new Map<string, number>();

  add(type: JsonValue | undefined): void {
    const named = typeof type === 'string' && TYPE.test(type) ? type : OTHER;
    const what = this.#counts.has(named) || this.#counts.size < MAX_TYPES ? named : OTHER;
    this.#counts.set(what, (this.#counts.get(what) ?? 0) + 1);
  }

  /** Images that Ollama's APIs have beside the text. */
  addImages(images: JsonValue | undefined): void {
    if (Array.isArray(images)) for (const _ of images) this.add('image');
  }

  /** The text was cut. */
  addRest(): void {
    this.#counts.set(REST, 1);
  }

  /** The member of a message; none if nothing was left out. */
  get member(): Pick<RequestMessage, 'omitted'> {
    if (this.#counts.size === 0) return {};
    const sorted = [...this.#counts].sort(([a], [b]) => (a < b ? -1 : 1));
    return { omitted: sorted.map(([type, count]) => (count === 1 ? type : `${count} ${type}`)).join(', ') };
  }
}

/** Returns the messages of a request of any API, except those in which there is nothing. */
export function requestMessages(request: JsonObject): RequestMessage[] {
  const messages = [
    ...[...INSTRUCTIONS].flatMap((name) => conversationOf(request[name], 'system')),
    ...[...CONVERSATIONS].flatMap((name) => conversationOf(request[name], 'user')),
  ];
  const omitted = new OmittedParts();
  omitted.addImages(request.images);
  return withOmitted(messages, omitted).filter(({ content, omitted }) => content !== '' || omitted !== undefined);
}

/** Returns the messages; the last one names also what was left out of the request beside them. */
export function withOmitted(messages: readonly RequestMessage[], { member }: OmittedParts): readonly RequestMessage[] {
  const last = messages.at(-1);
  if (last === undefined || member.omitted === undefined) return messages;
  const omitted = last.omitted === undefined ? member.omitted : `${last.omitted}, ${member.omitted}`;
  return [...messages.slice(0, -1), { ...last, omitted }];
}

function conversationOf(value: JsonValue | undefined, role: string): RequestMessage[] {
  if (typeof value === 'string') return [{ role, content: value.toWellFormed() }];
  if (!Array.isArray(value)) return [];
  // Instructions are one message, which may have parts.
  if (role === 'system') return [messageOf({ role, content: value })];
  return value.flatMap((each) => {
    if (typeof each === 'string') return { role, content: each.toWellFormed() };
    return isJsonObject(each) ? messageOf(each) : [];
  });
}

function messageOf({ role, content, type, images }: JsonObject): RequestMessage {
  const omitted = new OmittedParts();
  omitted.addImages(images);
  let text = '';
  if (typeof content === 'string') text = content;
  else if (Array.isArray(content)) {
    for (const part of content) {
      if (typeof part === 'string') text += part;
      else if (!isJsonObject(part)) continue;
      else if (typeof part.text === 'string' && isTextPart(part.type)) text += part.text;
      else omitted.add(part.type);
    }
  } else if (role === undefined && typeof type === 'string') {
    // An item of the API for responses, such as a call.
    omitted.add(type);
  }
  return { role: roleOf(role), content: text.toWellFormed(), ...omitted.member };
}

/** Role of a message; `unknown` without one. */
export function roleOf(role: JsonValue | undefined): string {
  return typeof role === 'string' && role !== '' ? role.toWellFormed() : 'unknown';
}

/** The note about messages that were left out before others. */
export function earlierMessages(count: number): RequestMessage {
  return { role: '', content: '', omitted: counted(count, 'earlier message') };
}
