import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { FieldTree } from '../answer-fields.ts';
import type { BoundedValues } from '../bounded-values.ts';
import type { AnswerAssembler, CompletionApi } from './api.ts';
import { AssembledList, AssembledMembers } from './members.ts';

/** OpenAI's API for responses. */
export const responses: CompletionApi = {
  path: '/responses',
  request: { conversation: 'input', instructions: 'instructions' },
  fields: new FieldTree({
    id: 'id',
    model: 'model',
    'usage.input_tokens': 'inputTokens',
    'usage.output_tokens': 'outputTokens',
    status: 'status',
    'incomplete_details.reason': 'incomplete',
    error: 'error',
    'error.type': 'errorType',
    'error.code': 'errorCode',
    'response.id': 'id',
    'response.model': 'model',
    'response.usage.input_tokens': 'inputTokens',
    'response.usage.output_tokens': 'outputTokens',
    'response.status': 'status',
    'response.incomplete_details.reason': 'incomplete',
    'response.error': 'error',
    'response.error.type': 'errorType',
    'response.error.code': 'errorCode',
  }),
  recognizes: ({ type }) => typeof type === 'string' && (type.startsWith('response.') || type === 'error'),
  assembler: (values) => new ResponseAssembler(values),
};

const MAX_ITEMS = 1024;

/** Parts of an item by the member that is their list. */
type PartList = 'content' | 'summary';
const LISTS: readonly PartList[] = ['content', 'summary'];
const NO_OUTPUT: ReadonlySet<string> = new Set(['output']);

interface Item {
  readonly members: AssembledMembers;
  readonly content: AssembledList<AssembledMembers>;
  readonly summary: AssembledList<AssembledMembers>;
}

/** Members that the deltas of an event extend, by the type of the event. */
const DELTAS: Readonly<Record<string, { readonly list?: PartList; readonly name: string }>> = {
  'response.output_text.delta': { list: 'content', name: 'text' },
  'response.refusal.delta': { list: 'content', name: 'refusal' },
  'response.reasoning_text.delta': { list: 'content', name: 'text' },
  'response.reasoning_summary_text.delta': { list: 'summary', name: 'text' },
  'response.function_call_arguments.delta': { name: 'arguments' },
  'response.mcp_call_arguments.delta': { name: 'arguments' },
  'response.custom_tool_call_input.delta': { name: 'input' },
  'response.code_interpreter_call_code.delta': { name: 'code' },
};

/** Assembles the response of a stream of events: the one that the last event contains, or what came before. */
class ResponseAssembler implements AnswerAssembler {
  readonly #values: BoundedValues;
  readonly #response: AssembledMembers;
  readonly #items: AssembledList<Item>;
  #final: JsonObject | undefined = undefined;

  constructor(values: BoundedValues) {
    this.#values = values;
    this.#response = new AssembledMembers(values);
    this.#items = new AssembledList(values, MAX_ITEMS, () => ({
      members: new AssembledMembers(values),
      content: new AssembledList(values, MAX_ITEMS, () => new AssembledMembers(values)),
      summary: new AssembledList(values, MAX_ITEMS, () => new AssembledMembers(values)),
    }));
  }

  add(event: JsonObject): void {
    if (this.#final !== undefined) return;
    const { type, response, delta } = event;
    if (type === 'error') {
      const { type: _, sequence_number: _number, ...error } = event;
      this.#response.set('error', error);
    } else if (isJsonObject(response)) {
      if (isEnd(type) && this.#values.replaceAll(response)) this.#final = response;
      else this.#response.setAll(response, NO_OUTPUT);
    } else if (isJsonObject(event.error)) {
      // An error of a proxy, in the form of another API.
      this.#response.set('error', event.error);
    } else if (delta !== undefined && typeof type === 'string') {
      this.#addDelta(event, DELTAS[type], delta);
    } else {
      this.#addPart(event);
    }
  }

  #addDelta(event: JsonObject, target: (typeof DELTAS)[string] | undefined, delta: JsonValue): void {
    const item = target && this.#items.at(event.output_index);
    if (!item) return;
    const members = target.list === undefined ? item.members : partOf(item, target.list, event);
    members?.append(target.name, delta);
  }

  /** An item or a part that begins or ends. Its texts are those of the deltas. */
  #addPart(event: JsonObject): void {
    const { type, item, part } = event;
    if (isJsonObject(item)) {
      const known = this.#items.at(event.output_index);
      known?.members.setAll(item, assembledMembers(known, item));
    } else if (isJsonObject(part) && typeof type === 'string' && type.endsWith('.added')) {
      const owner = this.#items.at(event.output_index);
      if (owner) partOf(owner, 'summary_index' in event ? 'summary' : 'content', event)?.setAll(part);
    }
  }

  take(): JsonObject {
    return this.#final ?? { ...this.#response.take(), output: this.#items.items().map(itemJson) };
  }
}

function isEnd(type: JsonValue | undefined): boolean {
  return type === 'response.completed' || type === 'response.incomplete' || type === 'response.failed';
}

/** Members of an item that its deltas contain. */
function assembledMembers({ members, ...lists }: Item, item: JsonObject): ReadonlySet<string> {
  const isAssembled = (name: string) =>
    members.text(name) !== undefined || LISTS.some((list) => list === name && lists[list].size > 0);
  return new Set(Object.keys(item).filter(isAssembled));
}

function partOf(item: Item, list: PartList, event: JsonObject): AssembledMembers | undefined {
  return item[list].at(list === 'summary' ? event.summary_index : event.content_index);
}

function itemJson({ members, ...lists }: Item): JsonObject {
  const item = members.take();
  for (const list of LISTS) if (lists[list].size > 0) item[list] = lists[list].items().map((part) => part.take());
  return item;
}
