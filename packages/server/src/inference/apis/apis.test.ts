import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { bodyValue, RecordedExchanges } from '../exchange.fixture.ts';
import { ANSWERS, type AnswerContent, type ApiAnswers, encodeStream, wholeContent } from './answers.fixture.ts';

/** A form in which an answer may arrive. */
interface Form {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string | Buffer;
  /** Members of the content that differ from those of a complete answer. */
  readonly content?: Partial<AnswerContent>;
  readonly errorType?: string;
  /** Whether the end of the answer, with its usage and finish reason, is missing. */
  readonly isOpen?: boolean;
}

type Forms = Readonly<Record<string, (api: ApiAnswers) => Form>>;

const NO_CONTENT = { id: undefined, model: undefined, role: undefined, text: '', calls: [] };

function typeOf({ isLines }: ApiAnswers, isStream: boolean) {
  return { 'content-type': isStream ? (isLines ? 'application/x-ndjson' : 'text/event-stream') : 'application/json' };
}

const JSON_FORMS: Forms = {
  plain: (api) => ({ headers: typeOf(api, false), body: JSON.stringify(api.json) }),
  'no content type': ({ json }) => ({ body: JSON.stringify(json) }),
  'text/plain': ({ json }) => ({ headers: { 'content-type': 'text/plain' }, body: JSON.stringify(json, null, 2) }),
  'the label of a stream': (api) => ({ headers: typeOf(api, true), body: ` \n${JSON.stringify(api.json)}` }),
  gzip: (api) => ({
    headers: { ...typeOf(api, false), 'content-encoding': 'identity, gzip' },
    body: gzipSync(JSON.stringify(api.json)),
  }),
  'a byte order mark': ({ json }) => ({ body: `\ufeff${JSON.stringify(json)}` }),
  'the choices last': ({ json }) => ({ body: JSON.stringify(Object.fromEntries(Object.entries(json).reverse())) }),
  'an error in a 200': (api) => ({
    body: JSON.stringify(api.error),
    content: { ...NO_CONTENT, ...api.content({ ...api.error }) },
    errorType: api.errorType,
    isOpen: true,
  }),
  'an error beside the answer': (api) => ({
    body: JSON.stringify({ ...api.json, error: Reflect.get(api.error, 'error') }),
    errorType: api.errorType,
  }),
};

const STREAM_FORMS: Forms = {
  plain: (api) => ({ headers: typeOf(api, true), body: encodeStream(api, [...api.events, ...api.end]) }),
  'no content type': (api) => ({ body: encodeStream(api, [...api.events, ...api.end]) }),
  'text/plain': (api) => ({
    headers: { 'content-type': 'text/plain' },
    body: encodeStream(api, [...api.events, ...api.end]),
  }),
  'the label of JSON': (api) => ({ headers: typeOf(api, false), body: encodeStream(api, [...api.events, ...api.end]) }),
  gzip: (api) => ({
    headers: { ...typeOf(api, true), 'content-encoding': 'gzip' },
    body: gzipSync(encodeStream(api, [...api.events, ...api.end])),
  }),
  'a first event without choices': (api) => ({
    headers: typeOf(api, true),
    body: encodeStream(api, [api.first, ...api.events, ...api.end]),
  }),
  'an error in a 200': (api) => ({
    headers: typeOf(api, true),
    body: encodeStream(api, [api.errorEvent]),
    content: NO_CONTENT,
    errorType: api.errorType,
    isOpen: true,
  }),
  'an error in the stream': (api) => ({
    headers: typeOf(api, true),
    body: encodeStream(api, [...api.events.slice(0, -1), api.errorEvent]),
    errorType: api.errorType,
  }),
  'the end missing': (api) => ({ headers: typeOf(api, true), body: encodeStream(api, api.events) }),
};

/** What the recorder stored of an answer, and what it reported to telemetry. */
async function recorded({ path: target, request }: ApiAnswers, { headers = {}, body }: Form, pieces?: number) {
  const exchanges = new RecordedExchanges();
  const splitAt =
    pieces === undefined ? [] : Array.from({ length: body.length / pieces }, (_, at) => (at + 1) * pieces);
  const found = await exchanges.record({
    target,
    request: JSON.stringify(request),
    responseHeaders: headers,
    response: body,
    splitAt,
  });
  return { found, body: found && bodyValue(found.response), completion: exchanges.completions.at(-1) };
}

async function check(api: ApiAnswers, form: Form, pieces?: number): Promise<void> {
  const { found, body, completion } = await recorded(api, form, pieces);
  const { role, text, calls, ...names }: AnswerContent = { ...wholeContent(api), ...form.content };
  expect(found).toMatchObject({ completionId: names.id, model: names.model, response: { truncated: false } });
  const content = api.content(Object(body));
  expect(content).toMatchObject({ text, calls });
  if (text !== '') expect(content.role).toBe(role);
  expect(completion).toMatchObject({
    completionId: names.id,
    requestModel: 'm-1',
    responseModel: names.model,
    errorType: form.errorType,
  });
}

describe.for(Object.entries(ANSWERS))('%s', ([, api]) => {
  const whole = { inputTokens: 7, outputTokens: 9, finishReasons: [api.finish] };

  test.for(Object.entries(JSON_FORMS))('JSON: %s', async ([, form]) => {
    await check(api, form(api));
    if (!form(api).isOpen) expect((await recorded(api, form(api))).completion).toMatchObject(whole);
  });

  test.for(Object.entries(STREAM_FORMS))('a stream: %s', async ([name, form]) => {
    for (const pieces of [undefined, 7, 1]) {
      await check(api, form(api), pieces);
      if (name === 'an error in the stream' || form(api).isOpen) continue;
      expect((await recorded(api, form(api), pieces)).completion).toMatchObject(whole);
    }
  });

  test('a stream that is cut off anywhere has what has arrived', async () => {
    const { text } = wholeContent(api);
    const bytes = Buffer.from(encodeStream(api, api.events));
    let before = 0;
    for (let step = 1; step <= 40; step++) {
      const length = Math.ceil((bytes.length * step) / 40);
      const { found, body } = await recorded(api, { headers: typeOf(api, true), body: bytes.subarray(0, length) });
      const content = api.content(typeof body === 'string' ? {} : Object(body));
      expect(text.startsWith(content.text), content.text).toBe(true);
      expect(content.text.length).toBeGreaterThanOrEqual(before);
      before = content.text.length;
      if (step > 30) expect(found?.model).toBe('m-1');
    }
    expect(before).toBe(text.length);
  });

  test('JSON that is cut off has its fields as far as they have arrived', async () => {
    const text = JSON.stringify(api.json);
    const { found, completion } = await recorded(api, { body: `${text.slice(0, -1)},` });
    expect(found?.response.body?.isJson).toBe(false);
    expect(completion).toMatchObject(whole);
  });
});
