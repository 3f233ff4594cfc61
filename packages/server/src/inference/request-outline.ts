import { type JsonKind, JsonScanner, type JsonSink } from '@sluice/protocol/json/scanner';
import { stringStart, stringValue } from '@sluice/protocol/json/text';
import { detach } from '@sluice/protocol/text';
import { CONVERSATIONS, INSTRUCTIONS } from './apis/apis.ts';
import {
  earlierMessages,
  isTextPart,
  OmittedParts,
  REST,
  type RequestMessage,
  roleOf,
  withOmitted,
} from './request-messages.ts';

/** Messages of a large request that are kept. */
const MAX_MESSAGES = 10;
/** Text of a message, in characters. */
const MAX_TEXT = 64 * 1024;
/** Longest role and type, in bytes of JSON. */
const MAX_NAME_BYTES = 512;

/** Upper bound of the memory of an outline, in bytes. */
export const OUTLINE_BYTES: number = 2 * (MAX_MESSAGES + 1) * MAX_TEXT;

/** A message or a part of it that is being read. */
interface OpenMessage {
  role: string | undefined;
  type: string | undefined;
  text: string;
  readonly omitted: OmittedParts;
  hasContent: boolean;
}

interface OpenPart {
  type: string;
  text: string | undefined;
}

/** What is open: the request, its messages, one of them, its parts, one of them. */
type Level = 'request' | 'messages' | 'message' | 'parts' | 'part' | 'images';

/**
 * Reads the text of the last ten messages of a request of any size while it arrives, each up to 64 Ki characters, in bounded
 * memory. Images and other parts are counted.
 */
export class RequestOutline implements JsonSink {
  readonly #scanner = new JsonScanner(this);
  readonly #open: Level[] = [];
  #key = '';
  /** Member of the request that is being read. */
  #member = '';
  #isSkipping = false;
  #instructions: RequestMessage | undefined = undefined;
  readonly #messages: RequestMessage[] = [];
  /** Images of the request itself. */
  readonly #omitted = new OmittedParts();
  #earlier = 0;
  #isCut = false;
  #message = newMessage();
  #part: OpenPart = { type: '', text: undefined };

  /** Scans the next chunk. */
  write(chunk: Buffer): void {
    this.#scanner.write(chunk);
  }

  /** The messages so far, after a note about those that were left out. */
  take(): readonly RequestMessage[] {
    if (this.#open.includes('message')) this.#endMessage();
    const note = this.#earlier > 0 ? [earlierMessages(this.#earlier)] : [];
    const messages = [...(this.#instructions ? [this.#instructions] : []), ...note, ...this.#messages];
    return withOmitted(messages, this.#omitted);
  }

  onValue(kind: JsonKind): boolean {
    const level = this.#open.at(-1);
    const next = this.#levelOf(kind, level);
    if (level === 'images') (this.#open.length > 2 ? this.#message.omitted : this.#omitted).add('image');
    if (next === undefined) {
      this.#isSkipping = true;
      return kind === 'string' && this.#isRead(level);
    }
    this.#open.push(next);
    if (next === 'message') this.#message = newMessage();
    else if (next === 'part') this.#part = { type: '', text: undefined };
    else if (next === 'messages' && INSTRUCTIONS.has(this.#member)) {
      // Instructions are one message: their elements are its parts.
      this.#open.splice(-1, 1, 'parts');
      this.#message = newMessage();
      this.#message.role = 'system';
    }
    return true;
  }

  onKey(): void {
    const { token } = this.#scanner;
    this.#key = token === undefined ? '' : stringValue(token);
    if (this.#open.length === 1) this.#member = this.#key;
  }

  onScalar(): void {
    const level = this.#open.at(-1);
    if (level === 'message' && this.#key === 'role') this.#message.role = this.#text(MAX_NAME_BYTES);
    else if (level === 'message' && this.#key === 'type') this.#message.type = this.#text(MAX_NAME_BYTES);
    else if (level === 'part' && this.#key === 'type') this.#part.type = this.#text(MAX_NAME_BYTES);
    else if (level === 'part') this.#part.text = this.#text(MAX_TEXT);
    else if (level === 'parts' || level === 'message') this.#addText(this.#text(MAX_TEXT));
    else this.#addMessage(level === 'request' && INSTRUCTIONS.has(this.#member) ? 'system' : 'user');
  }

  onEnd(): void {
    if (this.#isSkipping) {
      this.#isSkipping = false;
      return;
    }
    const level = this.#open.pop();
    if (level === 'part') this.#endPart();
    else if (level === 'message') this.#endMessage();
    else if (level === 'parts' && this.#open.at(-1) === 'request') this.#endMessage();
  }

  /** The level that a container begins. */
  #levelOf(kind: JsonKind, level: Level | undefined): Level | undefined {
    const isArray = kind === 'array';
    if (!isArray && kind !== 'object') return undefined;
    switch (level) {
      case undefined:
        return isArray ? undefined : 'request';
      case 'request':
        if (isArray && this.#member === 'images') return 'images';
        return isArray && (CONVERSATIONS.has(this.#member) || INSTRUCTIONS.has(this.#member)) ? 'messages' : undefined;
      case 'messages':
        return isArray ? undefined : 'message';
      case 'message':
        if (isArray && this.#key === 'images') return 'images';
        return isArray && this.#key === 'content' ? 'parts' : undefined;
      case 'parts':
        return isArray ? undefined : 'part';
      default:
        return undefined;
    }
  }

  /** Whether a text at this level is read. */
  #isRead(level: Level | undefined): boolean {
    if (level === 'request') return CONVERSATIONS.has(this.#member) || INSTRUCTIONS.has(this.#member);
    if (level === 'message') return this.#key === 'role' || this.#key === 'content' || this.#key === 'type';
    if (level === 'part') return this.#key === 'text' || this.#key === 'type';
    return level === 'parts' || level === 'messages';
  }

  #text(maxBytes: number): string {
    if (this.#scanner.tokenLength <= maxBytes) return stringValue(this.#scanner.token ?? '""').toWellFormed();
    this.#isCut = true;
    return stringStart(this.#scanner.tokenStart(maxBytes)).toWellFormed();
  }

  #addText(text: string): void {
    const message = this.#message;
    message.hasContent = true;
    const room = MAX_TEXT - message.text.length;
    if (text.length > room) this.#isCut = true;
    message.text += text.slice(0, room);
  }

  /** Adds a message that is only a text. A request may have a million of them. */
  #addMessage(role: string): void {
    this.#isCut = false;
    const content = detach(this.#text(MAX_TEXT));
    this.#push(this.#isCut ? { role, content, omitted: REST } : { role, content });
  }

  #endPart(): void {
    const { type, text } = this.#part;
    if (text !== undefined && isTextPart(type)) this.#addText(text);
    else this.#message.omitted.add(type);
    this.#message.hasContent = true;
  }

  #endMessage(): void {
    const { role, type, text, omitted, hasContent } = this.#message;
    if (!hasContent && role === undefined && type !== undefined) omitted.add(type);
    if (this.#isCut) omitted.addRest();
    this.#isCut = false;
    this.#push({ role: detach(roleOf(role)), content: detach(text), ...omitted.member });
  }

  #push(message: RequestMessage): void {
    if (INSTRUCTIONS.has(this.#member)) this.#instructions = message;
    else this.#messages.push(message);
    if (this.#messages.length <= MAX_MESSAGES) return;
    this.#messages.shift();
    this.#earlier++;
  }
}

function newMessage(): OpenMessage {
  return { role: undefined, type: undefined, text: '', omitted: new OmittedParts(), hasContent: false };
}
