import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { deliverChunks, splitPositions } from './chunks.fixture.ts';
import { MIB, RecordedExchanges } from './exchange.fixture.ts';
import { type RequestMessage, requestMessages } from './request-messages.ts';
import { RequestOutline } from './request-outline.ts';

function outlined(request: object | string, positions: readonly number[] = []): readonly RequestMessage[] {
  const outline = new RequestOutline();
  const text = typeof request === 'string' ? request : JSON.stringify(request);
  deliverChunks(Buffer.from(text), positions, (chunk) => outline.write(chunk));
  return outline.take();
}

const contents = fc.oneof(
  fc.string({ minLength: 1 }),
  fc.array(
    fc.oneof(
      fc.record({ type: fc.constantFrom('text', 'input_text', 'image_url', 'x y'), text: fc.string({ minLength: 1 }) }),
      fc.record({ type: fc.constant('image_url'), image_url: fc.record({ url: fc.string() }) }),
    ),
    { minLength: 1 },
  ),
);
const images = fc.array(fc.string());
const message = fc.record(
  { role: fc.constantFrom('user', 'assistant', ''), content: contents, images },
  { requiredKeys: ['role', 'content'] },
);
const requests = fc.record(
  {
    model: fc.string(),
    system: contents,
    images,
    messages: fc.array(message, { maxLength: 9 }),
    tools: fc.array(fc.record({ messages: fc.array(message) })),
  },
  { requiredKeys: ['messages'] },
);

test('the outline of a request of up to ten messages has the messages of the request', () => {
  const hasText = ({ content, omitted }: RequestMessage) => content !== '' || omitted !== undefined;
  fc.assert(
    fc.property(requests, splitPositions, (request, positions) => {
      const parsed = requestMessages(JSON.parse(JSON.stringify(request)));
      expect(outlined(request, positions).filter(hasText)).toEqual(parsed);
    }),
  );
});

test('any JSON, and any beginning of it, can be outlined', () => {
  const name = fc.constantFrom('messages', 'system', 'input', 'prompt', 'content', 'role', 'type', 'text');
  const any = fc.letrec((tie) => ({
    value: fc.oneof({ depthSize: 'small' }, fc.string(), fc.integer(), fc.constant(null), tie('list'), tie('object')),
    list: fc.array(tie('value'), { maxLength: 4 }),
    object: fc.dictionary(name, tie('value')),
  })).value;
  fc.assert(
    fc.property(any, fc.nat(), (value, end) => {
      const text = JSON.stringify(value);
      expect(() => outlined(text)).not.toThrow();
      expect(() => outlined(text.slice(0, end % (text.length + 1)))).not.toThrow();
    }),
  );
});

describe('an outline', () => {
  const user = (content: unknown) => ({ role: 'user', content });

  test('has the last ten messages and counts the earlier ones', () => {
    const messages = Array.from({ length: 25 }, (_, at) => user(`m${at}`));
    const last = messages.slice(15).map(({ role, content }) => ({ role, content }));
    expect(outlined({ messages })).toEqual([{ role: '', content: '', omitted: '15 earlier messages' }, ...last]);
    const system = 'Be kind.';
    expect(outlined({ messages, system })[0]).toEqual({ role: 'system', content: system });
  });

  test('has the beginning of long texts', () => {
    const [found] = outlined({ messages: [user('é'.repeat(3 * MIB))] });
    expect(found).toMatchObject({ omitted: 'rest of the text' });
    expect(found?.content).toMatch(/^é{32000,65536}$/);
    const many = outlined({
      messages: [user(Array.from({ length: 99 }, () => ({ type: 'text', text: 'x'.repeat(9_000) })))],
    });
    expect(many).toEqual([{ role: 'user', content: 'x'.repeat(64 * 1024), omitted: 'rest of the text' }]);
  });

  test('names the types of other parts', () => {
    const image = { type: 'image_url', image_url: { url: 'x'.repeat(MIB) } };
    const call = { type: 'function_call', name: 'f', arguments: '{}' };
    expect(outlined({ messages: [user([image, { type: 'text', text: 'Look' }, image])], input: [call] })).toEqual([
      { role: 'user', content: 'Look', omitted: '2 image_url' },
      { role: 'unknown', content: '', omitted: 'function_call' },
    ]);
  });
});

describe('a recorded request above the limit', () => {
  const image = (bytes: number) => ({
    type: 'image_url',
    image_url: { url: `data:image/png;base64,${'A'.repeat(bytes)}` },
  });
  const recorded = (request: object) => {
    const text = `\ufeff${JSON.stringify(request)}`;
    return new RecordedExchanges().recordPlain({ request: text, splitAt: [1, 5e5, 1e6, 3e6] })?.request;
  };

  test('has an outline, which a smaller one does not need', () => {
    const messages = [{ role: 'user', content: [{ type: 'text', text: 'Look' }, image(6 * MIB)] }];
    const large = recorded({ messages });
    expect(large).toMatchObject({ truncated: true, body: { isJson: false }, outline: { isJson: true } });
    expect(JSON.parse(large?.outline?.bytes.toString() ?? '')).toEqual([
      { role: 'user', content: 'Look', omitted: 'image_url' },
    ]);
    const small = recorded({ messages: [{ role: 'user', content: [image(MIB)] }] });
    expect(small).toMatchObject({ truncated: false, body: { isJson: true } });
    expect(small?.outline).toBeUndefined();
  });
});
