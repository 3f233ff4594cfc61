import { isJsonObject, type JsonObject, type JsonValue, tryParseJson } from '@sluice/protocol/json/parse';
import { skipContainer, skipSpace } from '@sluice/protocol/json/text';
import { FieldTree } from '../answer-fields.ts';
import type { BoundedValues } from '../bounded-values.ts';
import type { AnswerAssembler, CompletionApi } from './api.ts';
import { AssembledList, AssembledMembers, objectIn } from './members.ts';

/** Anthropic's API for messages. */
export const messages: CompletionApi = {
  path: '/messages',
  request: { conversation: 'messages', instructions: 'system' },
  fields: new FieldTree({
    id: 'id',
    model: 'model',
    'usage.input_tokens': 'inputTokens',
    'usage.output_tokens': 'outputTokens',
    stop_reason: 'finish',
    'message.id': 'id',
    'message.model': 'model',
    'message.usage.input_tokens': 'inputTokens',
    'message.usage.output_tokens': 'outputTokens',
    'delta.stop_reason': 'finish',
    error: 'error',
    'error.type': 'errorType',
  }),
  recognizes: ({ type, error }) =>
    typeof type === 'string' && (EVENTS.has(type) || (type === 'error' && isJsonObject(error))),
  assembler: (values) => new MessageAssembler(values),
};

const EVENTS: ReadonlySet<string> = new Set([
  'message_start',
  'content_block_start',
  'content_block_delta',
  'content_block_stop',
  'message_delta',
  'message_stop',
]);

const MAX_BLOCKS = 1024;

/** Deeper input of a tool is stored as text. */
const MAX_INPUT_DEPTH = 128;

const NO_CONTENT: ReadonlySet<string> = new Set(['content', 'usage']);

/** Assembles the message of a stream of events. */
class MessageAssembler implements AnswerAssembler {
  readonly #values: BoundedValues;
  readonly #message: AssembledMembers;
  readonly #usage: AssembledMembers;
  readonly #blocks: AssembledList<AssembledMembers>;

  constructor(values: BoundedValues) {
    this.#values = values;
    this.#message = new AssembledMembers(values);
    this.#usage = new AssembledMembers(values);
    this.#blocks = new AssembledList(values, MAX_BLOCKS, () => new AssembledMembers(values));
  }

  add(event: JsonObject): void {
    switch (event.type) {
      case 'message_start': {
        const message = objectIn(event, 'message') ?? {};
        this.#message.setAll(message, NO_CONTENT);
        this.#usage.setAll(objectIn(message, 'usage') ?? {});
        break;
      }
      case 'content_block_start':
        this.#blocks.at(event.index)?.setAll(objectIn(event, 'content_block') ?? {});
        break;
      case 'content_block_delta':
        this.#addDelta(event.index, objectIn(event, 'delta') ?? {});
        break;
      case 'message_delta':
        this.#message.setAll(objectIn(event, 'delta') ?? {});
        this.#usage.setAll(objectIn(event, 'usage') ?? {});
        break;
      default:
        // Also of a proxy, in the form of another API.
        if (isJsonObject(event.error)) this.#message.set('error', event.error);
    }
  }

  #addDelta(index: JsonValue | undefined, delta: JsonObject): void {
    const block = this.#blocks.at(index);
    if (block === undefined) return;
    switch (delta.type) {
      case 'citations_delta':
        if (delta.citation !== undefined) block.extend('citations', [delta.citation]);
        break;
      case 'signature_delta':
        block.setAll(delta, TYPE);
        break;
      default:
        // Texts, thinking and the input of a tool.
        for (const name in delta) if (name !== 'type') block.append(name, delta[name]);
    }
  }

  take(): JsonObject {
    const message = this.#message.take();
    const content = this.#blocks.items().map((block) => this.#blockJson(block));
    const usage = this.#usage.take();
    if (message.id === undefined && message.error !== undefined && content.length === 0) {
      return { type: 'error', ...message };
    }
    return { ...message, content, ...(Object.keys(usage).length > 0 && { usage }) };
  }

  /** The input of a tool is the value of its JSON, or its text if it is not complete. */
  #blockJson(block: AssembledMembers): JsonObject {
    const { partial_json: json, ...members } = block.take();
    if (typeof json !== 'string' || json === '') return members;
    const { depth } = skipContainer(json, skipSpace(json, 0));
    const input = depth > MAX_INPUT_DEPTH ? undefined : tryParseJson(json);
    if (!isJsonObject(input)) return { ...members, input: json };
    this.#values.maxDepth = Math.max(this.#values.maxDepth, depth);
    return { ...members, input };
  }
}

const TYPE: ReadonlySet<string> = new Set(['type']);
