import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { describe, expect, test } from 'vitest';
import { bodyValue, RecordedExchanges } from '../exchange.fixture.ts';
import { ANSWERS, type AnswerEvent, type ApiAnswers, encodeStream } from './answers.fixture.ts';

// The official clients are the reference: what is recorded is what they assemble from the same bytes. They decide by the
// label what a body is, so they get the correct one here. They read no error and no unknown first event in a stream, and they
// assemble no text completions: `apis.test.ts` tests those forms. Of tool calls with the same index they make one.

/** Pieces in which a body arrives. */
type Pieces = 'one piece' | 'pieces of 7 bytes';

/** A server that responds with these bytes. */
function serving(bytes: string, type: string, pieces: Pieces): typeof fetch {
  return async () => {
    const whole = Buffer.from(bytes);
    const size = pieces === 'one piece' ? whole.length : 7;
    const body = new ReadableStream({
      start(controller) {
        for (let at = 0; at < whole.length; at += size) controller.enqueue(whole.subarray(at, at + size));
        controller.close();
      },
    });
    return new Response(body, { headers: { 'content-type': type } });
  };
}

const openai = (fetch: typeof globalThis.fetch) =>
  new OpenAI({ apiKey: 'k', baseURL: 'http://x/v1', maxRetries: 0, fetch });
const anthropic = (fetch: typeof globalThis.fetch) =>
  new Anthropic({ apiKey: 'k', baseURL: 'http://x', maxRetries: 0, fetch });

const CHAT: OpenAI.ChatCompletionCreateParams = { model: 'm-1', messages: [{ role: 'user', content: 'Weather?' }] };
const MESSAGES: Anthropic.MessageCreateParams = {
  model: 'm-1',
  max_tokens: 9,
  messages: [{ role: 'user', content: 'x' }],
};

/** Reads the answer with the official client: the last state, if the stream ends early. */
interface Reader {
  json(fetch: typeof globalThis.fetch): Promise<unknown>;
  stream(fetch: typeof globalThis.fetch): Promise<unknown>;
}

const READERS: Readonly<Record<string, Reader>> = {
  'chat completions': {
    json: (fetch) => openai(fetch).chat.completions.create({ ...CHAT, stream: false }),
    async stream(fetch) {
      let last: unknown;
      const stream = openai(fetch).chat.completions.stream({ ...CHAT, stream: true });
      stream.on('chunk', (_, snapshot) => {
        last = structuredClone(snapshot);
      });
      await stream.done().catch(() => undefined);
      return last;
    },
  },
  responses: {
    json: (fetch) => openai(fetch).responses.create({ model: 'm-1', input: 'x', stream: false }),
    stream: async (fetch) => openai(fetch).responses.stream({ model: 'm-1', input: 'x' }).finalResponse(),
  },
  messages: {
    json: (fetch) => anthropic(fetch).messages.create({ ...MESSAGES, stream: false }),
    async stream(fetch) {
      let last: unknown;
      const stream = anthropic(fetch).messages.stream(MESSAGES);
      stream.on('streamEvent', (_, snapshot) => {
        last = structuredClone(snapshot);
      });
      await stream.done().catch(() => undefined);
      return last;
    },
  },
};

function recorded({ path: target, request }: ApiAnswers, response: string): Record<string, unknown> {
  const found = new RecordedExchanges().recordPlain({ target, request: JSON.stringify(request), response });
  return Object(found && bodyValue(found.response));
}

/** Members that the clients add, and one that is that of a chunk until the stream has ended. */
const ADDED: ReadonlySet<string> = new Set([
  'object',
  'parsed',
  'parsed_arguments',
  'output_parsed',
  'output_text',
  '_request_id',
]);

/** The value without members that the clients add, and without those that only one side has as null. */
function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).filter(([name, member]) => !ADDED.has(name) && member !== null);
  return Object.fromEntries(members.map(([name, member]) => [name, comparable(member)]));
}

describe.for(Object.entries(READERS))('%s', ([name, reader]) => {
  const api = ANSWERS[name];
  if (api === undefined) throw new Error(`no answers of ${name}`);
  const read = (events: readonly AnswerEvent[], pieces: Pieces) =>
    reader.stream(serving(encodeStream(api, events), 'text/event-stream', pieces));

  test.for<Pieces>(['one piece', 'pieces of 7 bytes'])('JSON in %s', async (pieces) => {
    const text = JSON.stringify(api.json);
    const answer = await reader.json(serving(text, 'application/json', pieces));
    expect(comparable(answer)).toEqual(comparable(recorded(api, text)));
  });

  test.for<Pieces>(['one piece', 'pieces of 7 bytes'])('a stream in %s', async (pieces) => {
    const events = [...api.events, ...api.end];
    const answer = await read(events, pieces);
    expect(comparable(recorded(api, encodeStream(api, events)))).toEqual(comparable(answer));
  });

  // The client has no snapshot of a response that is not complete.
  test.skipIf(name === 'responses')('a stream that ends after any event', async () => {
    for (let count = 1; count <= api.events.length; count++) {
      const events = api.events.slice(0, count);
      const answer = api.content(Object(await read(events, 'one piece')));
      const found = api.content(recorded(api, encodeStream(api, events)));
      // The client completes the JSON of arguments that are cut off.
      const names = (calls: (typeof found)['calls']) => calls.map((call) => call.name);
      expect({ ...found, calls: names(found.calls) }).toEqual({ ...answer, calls: names(answer.calls) });
    }
  });
});
