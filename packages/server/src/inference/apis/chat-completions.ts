import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import type { BoundedValues } from '../bounded-values.ts';
import type { CompletionApi } from './api.ts';
import { CHOICE_FIELDS, type ChoiceContent, ChoicesAssembler } from './choices.ts';
import { AssembledMembers } from './members.ts';
import { ToolCalls } from './tool-calls.ts';

/** OpenAI's API for chat completions, which most model servers have. */
export const chatCompletions: CompletionApi = {
  path: '/chat/completions',
  request: { conversation: 'messages' },
  fields: CHOICE_FIELDS,
  recognizes: ({ object, choices }) =>
    (typeof object === 'string' && object.startsWith('chat.completion')) ||
    (Array.isArray(choices) && choices.length > 0),
  assembler: (values) => new ChoicesAssembler('chat.completion', values, () => new ChatMessage(values)),
};

/** Members of a delta, besides the content, that are concatenated. */
const CONCATENATED: ReadonlySet<string> = new Set(['refusal', 'reasoning', 'reasoning_content']);
/** Members of `audio` that are. */
const AUDIO_TEXTS: ReadonlySet<string> = new Set(['data', 'transcript']);

/** Members of a message for which null is not stored. */
const NOT_NULL: ReadonlySet<string> = new Set(['role', 'content', 'refusal', 'tool_calls', 'function_call', 'audio']);

/** Assembles the message of one choice from its deltas. */
class ChatMessage implements ChoiceContent {
  readonly #values: BoundedValues;
  /** Content in text, and in lists of parts. */
  readonly #members: AssembledMembers;
  #audio: AssembledMembers | undefined = undefined;
  #functionCall: ToolCalls | undefined = undefined;
  #toolCalls: ToolCalls | undefined = undefined;

  constructor(values: BoundedValues) {
    this.#values = values;
    this.#members = new AssembledMembers(values);
  }

  add({ delta, message, ...others }: JsonObject): JsonObject {
    // Some servers send the whole message in one event.
    const added = isJsonObject(delta) ? delta : message;
    if (isJsonObject(added)) for (const name in added) this.#addMember(name, added[name] ?? null);
    return others;
  }

  #addMember(name: string, value: JsonValue): void {
    if (value === null) {
      if (!NOT_NULL.has(name)) this.#members.set(name, null);
    } else if (name === 'content' && typeof value === 'string') {
      this.#members.append(name, value);
    } else if (name === 'content' && Array.isArray(value)) {
      this.#addParts(value);
    } else if (name === 'tool_calls' && Array.isArray(value)) {
      this.#toolCalls ??= new ToolCalls(this.#values);
      this.#toolCalls.addAll(value);
    } else if (name === 'function_call' && isJsonObject(value)) {
      this.#functionCall ??= new ToolCalls(this.#values);
      this.#functionCall.addAll([{ index: 0, function: value }]);
    } else if (name === 'audio' && isJsonObject(value)) {
      this.#addAudio(value);
    } else if (typeof value === 'string' && CONCATENATED.has(name)) {
      if (value !== '' || name !== 'refusal') this.#members.append(name, value);
    } else if (value !== '' || name !== 'role') {
      this.#members.set(name, value);
    }
  }

  /** A text that came before becomes a part. */
  #addParts(parts: readonly JsonValue[]): void {
    const text = this.#members.takeText('content');
    if (text) this.#members.extend('content', [{ type: 'text', text }]);
    this.#members.extend('content', parts);
  }

  #addAudio(audio: JsonObject): void {
    this.#audio ??= new AssembledMembers(this.#values);
    for (const [name, value] of Object.entries(audio)) {
      if (AUDIO_TEXTS.has(name)) this.#audio.append(name, value);
      else if (value !== '') this.#audio.set(name, value);
    }
  }

  /** Returns the message as in a response without streaming: content and refusal are null if none has arrived. */
  take(): JsonObject {
    const { content: _, ...others } = this.#members.take();
    const functionCall = this.#functionCall?.take()[0]?.function;
    return {
      message: {
        role: 'assistant',
        content: this.#content(),
        refusal: null,
        ...others,
        ...(this.#audio && { audio: this.#audio.take() }),
        ...(functionCall !== undefined && { function_call: functionCall }),
        ...(this.#toolCalls && { tool_calls: this.#toolCalls.take() }),
      },
    };
  }

  #content(): JsonValue {
    const text = this.#members.text('content');
    const parts = this.#members.get('content');
    if (Array.isArray(parts)) return text ? [...parts, { type: 'text', text }] : parts;
    return text ?? parts ?? null;
  }
}
