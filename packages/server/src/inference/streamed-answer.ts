import { isJsonObject, type JsonObject, tryParseJson } from '@sluice/protocol/json/parse';
import type { EventSink, ServerSentEvent } from '@sluice/protocol/mcp/event-stream';
import type { AnswerFields } from './answer-fields.ts';
import { AnswerScan } from './answer-scan.ts';
import type { AnswerAssembler, CompletionApi } from './apis/api.ts';
import { ALL_FIELDS, APIS, apiOfPath } from './apis/apis.ts';
import { BoundedBuffer, type MemoryBudget } from './bounded-memory.ts';
import { BoundedValues } from './bounded-values.ts';

/** Data of the event that ends a stream. */
const DONE = '[DONE]';
/** Events that are stored until one shows which API the stream is of. */
const MAX_PENDING = 64;
const MAX_PENDING_CHARACTERS = 64 * 1024;
/** Longer events are parsed only if they have few values, such as one with an image. */
const LONG_EVENT_BYTES = 256 * 1024;
const MAX_LONG_EVENT_VALUES = 8 * 1024;
/** Members of a first event that is part of a completion of any API. */
const COMPLETION_MEMBERS = ['choices', 'error', 'usage'] as const;

/** Options of {@link StreamedAnswer}. */
interface StreamedAnswerOptions {
  readonly fields: AnswerFields;
  /** Path of the request: decides only if no event does. */
  readonly path: string;
  /** Recorded bytes. */
  readonly limit: number;
  readonly budget: MemoryBudget;
  /** Called once, when the API is known. */
  readonly onKnown?: () => void;
}

/**
 * The answer of a stream of any length: its events show which API it is of, whose assembler stores their values within the
 * limit. The fields are read from all events. Data that is not JSON, and data after the end, is ignored.
 */
export class StreamedAnswer implements EventSink {
  /** The values of the answer: their depth, and whether some were dropped. */
  readonly values: BoundedValues;
  readonly #options: StreamedAnswerOptions;
  #api: CompletionApi | undefined = undefined;
  #assembler: AnswerAssembler | undefined = undefined;
  /** Events of no known API so far. */
  #pending: JsonObject[] = [];
  #pendingCharacters = 0;
  #hasEnded = false;
  /** A long event. */
  #scan: AnswerScan | undefined = undefined;
  #held: BoundedBuffer | undefined = undefined;

  constructor(options: StreamedAnswerOptions) {
    this.#options = options;
    // Values cost about twice their JSON.
    this.values = new BoundedValues(2 * options.limit, options.budget);
  }

  onEvent({ data }: ServerSentEvent): void {
    if (data === '' || this.#hasEnded) return;
    if (data.startsWith(DONE)) this.#hasEnded = true;
    else this.#add(tryParseJson(data), data.length);
  }

  onLargeData(bytes: Buffer): void {
    if (this.#hasEnded) return;
    const { fields, limit, budget } = this.#options;
    this.#scan ??= new AnswerScan(this.#api?.fields ?? ALL_FIELDS, fields);
    this.#scan.scanner.write(bytes);
    this.#held ??= new BoundedBuffer(limit, budget);
    const hasManyValues = this.#scan.scanner.size > MAX_LONG_EVENT_VALUES;
    if (hasManyValues && this.#held.length + bytes.length > LONG_EVENT_BYTES) this.#held.isTruncated = true;
    this.#held.push(bytes);
  }

  onLargeEvent(): void {
    const scan = this.#scan;
    const held = this.#held;
    this.#scan = undefined;
    this.#held = undefined;
    if (scan === undefined || held === undefined) return;
    const bytes = held.take();
    const event = held.isTruncated ? undefined : tryParseJson(bytes?.toString() ?? '');
    if (event === undefined) this.values.isTruncated = true;
    else this.#add(event, MAX_PENDING_CHARACTERS / 2);
  }

  onEventError(): void {
    this.values.isTruncated = true;
  }

  /** Returns the answer as far as it has arrived; undefined if the events are not those of a completion. */
  take(): JsonObject | undefined {
    this.#beginByPath();
    return this.#assembler?.take();
  }

  /** Releases the memory. */
  release(): void {
    this.#hasEnded = true;
    this.#assembler = undefined;
    this.#pending = [];
    this.values.release();
    this.#held?.take();
    this.#held = undefined;
  }

  #add(event: unknown, characters: number): void {
    if (!isJsonObject(event)) return;
    const { fields } = this.#options;
    if (this.#assembler === undefined) {
      const api = APIS.find((each) => each.recognizes(event));
      if (api) this.#begin(api);
      else this.#addPending(event, characters);
    }
    fields.read(this.#api?.fields ?? ALL_FIELDS, event);
    // The API for responses has errors without an object.
    if (event.type === 'error' && event.error === undefined)
      fields.read(ALL_FIELDS, { error: { code: event.code ?? 0 } });
    this.#assembler?.add(event);
  }

  #begin(api: CompletionApi): void {
    this.#api = api;
    this.#assembler = api.assembler(this.values);
    for (const event of this.#pending) this.#assembler.add(event);
    this.#pending = [];
    this.#options.onKnown?.();
  }

  #addPending(event: JsonObject, characters: number): void {
    this.#pendingCharacters += characters;
    if (this.#pending.length < MAX_PENDING && this.#pendingCharacters <= MAX_PENDING_CHARACTERS)
      this.#pending.push(event);
    else this.values.isTruncated = true;
  }

  /** Takes the API from the path if no event tells it: every API has events with only an error or usage. */
  #beginByPath(): void {
    if (this.#assembler !== undefined) return;
    if (!this.#pending.some((event) => COMPLETION_MEMBERS.some((name) => event[name] !== undefined))) return;
    const api = apiOfPath(this.#options.path) ?? apiOfPath('/chat/completions');
    if (api) this.#begin(api);
  }
}
