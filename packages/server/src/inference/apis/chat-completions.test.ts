import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { propertyRuns } from '../../../../../test/fixtures/seed.ts';
import { streamed } from '../stream.fixture.ts';

const assembled = (...chunks: readonly (object | string)[]) => streamed(chunks).answer;

/** Returns a chunk of the first choice with this delta. */
function delta(content: object, of: object = {}) {
  return { id: 'c-1', object: 'chat.completion.chunk', model: 'm', choices: [{ index: 0, delta: content, ...of }] };
}

/** Members of every assembled message. */
const PLAIN = { role: 'assistant', content: null, refusal: null };

/** Nonempty parts of a text. */
const pieces = fc.array(fc.string({ minLength: 1 }), { minLength: 1, maxLength: 5 });
const toolCalls = fc.array(fc.record({ id: fc.uuid(), name: fc.string({ minLength: 1 }), arguments: pieces }), {
  minLength: 1,
  maxLength: 3,
});
const choices = fc.array(
  fc.record({
    content: fc.option(pieces),
    refusal: fc.option(pieces),
    calls: fc.option(toolCalls),
    finish: fc.constantFrom('stop', 'length', 'tool_calls'),
  }),
  { minLength: 1, maxLength: 3 },
);

interface Piece {
  readonly index: number;
  readonly delta: object;
}

/** Returns the deltas of one choice: the parts of each text, one after the other. */
function deltasOf({ content, refusal, calls }: Choice, index: number): Piece[] {
  return [
    { role: 'assistant', content: content === null ? null : '' },
    ...(content ?? []).map((piece) => ({ content: piece })),
    ...(refusal ?? []).map((piece) => ({ refusal: piece })),
    ...(calls ?? []).flatMap((call, at) => [
      { tool_calls: [{ index: at, id: call.id, type: 'function', function: { name: call.name, arguments: '' } }] },
      ...call.arguments.map((piece) => ({ tool_calls: [{ index: at, function: { arguments: piece } }] })),
    ]),
  ].map((each) => ({ index, delta: each }));
}

type Choice = typeof choices extends fc.Arbitrary<(infer Each)[]> ? Each : never;

test('assembles any completion from its chunks with any interleaving of choices', () => {
  fc.assert(
    fc.property(choices, fc.infiniteStream(fc.nat()), (wanted, order) => {
      const queues = wanted.map(deltasOf);
      const chunks: object[] = [];
      const head = { id: 'c-1', object: 'chat.completion.chunk', created: 7, model: 'm', usage: null };
      while (queues.some((queue) => queue.length > 0)) {
        const waiting = queues.filter((queue) => queue.length > 0);
        const piece = waiting[order.next().value % waiting.length]?.shift();
        chunks.push({ ...head, choices: [{ ...piece, finish_reason: null, logprobs: null }] });
      }
      for (const [index, { finish }] of wanted.entries()) {
        chunks.push({ ...head, choices: [{ index, delta: {}, finish_reason: finish }] });
      }
      chunks.push({ ...head, choices: [], usage: { total_tokens: 9 } });
      expect(assembled(...chunks, '[DONE]')).toEqual({
        id: 'c-1',
        object: 'chat.completion',
        created: 7,
        model: 'm',
        usage: { total_tokens: 9 },
        choices: wanted.map(({ content, refusal, calls, finish }, index) => ({
          index,
          logprobs: null,
          finish_reason: finish,
          message: {
            role: 'assistant',
            content: content?.join('') ?? null,
            refusal: refusal?.join('') ?? null,
            ...(calls && {
              tool_calls: calls.map((call) => ({
                id: call.id,
                type: 'function',
                function: { name: call.name, arguments: call.arguments.join('') },
              })),
            }),
          },
        })),
      });
    }),
    { numRuns: propertyRuns(200) },
  );
});

describe('an assembled completion', () => {
  test('of an incomplete stream has what has arrived, and no finish reason', () => {
    expect(assembled(delta({ role: 'assistant', content: 'Hel' }), delta({ content: 'lo' }))).toEqual({
      id: 'c-1',
      object: 'chat.completion',
      model: 'm',
      choices: [{ index: 0, message: { ...PLAIN, content: 'Hello' }, logprobs: null, finish_reason: null }],
    });
  });

  test('has the first id and model that are not empty, and the last value of other members', () => {
    const first = { id: '', choices: [], prompt_filter_results: [1], system_fingerprint: null };
    const second = { id: 'a', choices: [], model: 'm', created: 5, service_tier: 'default', system_fingerprint: 'fp' };
    const third = { id: 'b', choices: [], model: 'n', created: 0, service_tier: null, usage: null };
    const fourth = { id: '', choices: [], model: '', created: 0, service_tier: '' };
    const whole = assembled(first, second, third, fourth);
    expect(whole).toEqual({
      id: 'a',
      object: 'chat.completion',
      created: 5,
      model: 'm',
      service_tier: 'default',
      system_fingerprint: 'fp',
      prompt_filter_results: [1],
      usage: null,
      choices: [],
    });
  });

  test('concatenates log probabilities', () => {
    const of = (token: string) => ({ logprobs: { content: [{ token }], refusal: null } });
    expect(assembled(delta({}, of('a')), delta({}, of('b')), delta({}, { logprobs: null }))).toMatchObject({
      choices: [{ logprobs: { content: [{ token: 'a' }, { token: 'b' }], refusal: null } }],
    });
  });

  test('concatenates the arguments of a deprecated function call', () => {
    const whole = assembled(
      delta({ function_call: { name: 'f', arguments: '{"a"' } }),
      delta({ function_call: { arguments: ':1}' } }, { finish_reason: 'function_call' }),
    );
    expect(whole).toMatchObject({
      choices: [{ message: { function_call: { name: 'f', arguments: '{"a":1}' } }, finish_reason: 'function_call' }],
    });
  });

  test('orders tool calls by index; without an index, each new id starts a call', () => {
    const call = (of: object) => delta({ tool_calls: [of] });
    const f = (name: string, args: string) => ({ function: { name, arguments: args } });
    const byIndex = assembled(call({ index: 5, id: 'b', ...f('g', '2') }), call({ index: 1, id: 'a', ...f('f', '1') }));
    const byId = assembled(
      call({ id: 'a', ...f('f', '') }),
      call({ ...f('', '1') }),
      call({ id: 'b', ...f('g', '') }),
      call({ id: 'b', ...f('', '2') }),
    );
    const wanted = [
      { id: 'a', function: { name: 'f', arguments: '1' } },
      { id: 'b', function: { name: 'g', arguments: '2' } },
    ];
    expect(byIndex).toMatchObject({ choices: [{ message: { tool_calls: wanted } }] });
    expect(byId).toMatchObject({ choices: [{ message: { tool_calls: wanted } }] });
  });

  const call = (of: object) => delta({ tool_calls: [of] });
  const f = (name: string, args: unknown) => ({ function: { name, arguments: args } });
  const callsOf = (...chunks: readonly object[]) => {
    const whole = assembled(...chunks);
    return Object(whole).choices[0].message.tool_calls;
  };

  test('has tool calls with the same index and different ids as separate calls', () => {
    const path = (name: string) => JSON.stringify({ path: name });
    const wanted = ['a', 'b', 'c'].map((name, at) => ({
      id: `c${at + 1}`,
      type: 'function',
      ...f('read', path(name)),
    }));
    const whole = (index?: number) => wanted.map((each) => call({ ...(index !== undefined && { index }), ...each }));
    expect(callsOf(...whole(0))).toEqual(wanted);
    expect(callsOf(...whole())).toEqual(wanted);
    const inOne = delta({ tool_calls: wanted.map((each) => ({ index: 0, ...each })) });
    expect(callsOf(inOne)).toEqual(wanted);
    // Their pieces may be interleaved.
    const begun = wanted.map(({ id, type }) => call({ index: 0, id, type, ...f('read', '') }));
    const continued = wanted.map(({ id, function: called }) => call({ index: 0, id, ...f('', called.arguments) }));
    expect(callsOf(...begun, ...continued)).toEqual(wanted);
  });

  test('has one tool call if each piece has an id of its own, but no name', () => {
    const pieces = [call({ index: 0, id: 'a', ...f('read', '{"x"') }), call({ index: 0, id: 'b', ...f('', ':1}') })];
    expect(callsOf(...pieces)).toEqual([{ id: 'b', ...f('read', '{"x":1}') }]);
  });

  test('has arguments that are an object as JSON', () => {
    expect(callsOf(call({ index: 0, id: 'a', ...f('read', { path: 'a.txt' }) }))).toEqual([
      { id: 'a', ...f('read', '{"path":"a.txt"}') },
    ]);
    const deep = `{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":${'['.repeat(20_000)}${']'.repeat(20_000)}}}]}}]}`;
    expect(streamed([deep])).toMatchObject({ isTruncated: true });
  });

  test('appends content in lists, and joins the pieces of audio', () => {
    const part = (text: string) => ({ type: 'text', text });
    const contentOf = (...chunks: readonly object[]) => Object(assembled(...chunks)).choices[0].message.content;
    expect(contentOf(delta({ content: [part('a')] }), delta({ content: [part('b')] }))).toEqual([part('a'), part('b')]);
    expect(contentOf(delta({ content: 'a' }), delta({ content: [part('b')] }), delta({ content: 'c' }))).toEqual(
      ['a', 'b', 'c'].map(part),
    );
    const audio = [
      { id: 'x', transcript: 'He' },
      { id: '', transcript: 'y', data: 'QUJD' },
      { data: 'REVG', expires_at: 9 },
    ];
    expect(assembled(...audio.map((each) => delta({ audio: each })))).toMatchObject({
      choices: [{ message: { audio: { id: 'x', transcript: 'Hey', data: 'QUJDREVG', expires_at: 9 } } }],
    });
  });

  test('concatenates reasoning, and has the last value of other additional members', () => {
    expect(
      assembled(
        delta({ reasoning_content: 'I ', annotations: null }, { content_filter: { a: 1 } }),
        delta({ reasoning_content: 'think', annotations: [1] }, { content_filter: { a: 2 } }),
      ),
    ).toMatchObject({
      choices: [{ message: { reasoning_content: 'I think', annotations: [1] }, content_filter: { a: 2 } }],
    });
  });

  test('has an error of the stream', () => {
    expect(assembled(delta({ content: 'a' }), { error: { message: 'overloaded' } })).toMatchObject({
      error: { message: 'overloaded' },
      choices: [{ message: { content: 'a' }, finish_reason: null }],
    });
  });

  test('ignores invalid JSON and events after the end', () => {
    const whole = assembled('nonsense', delta({ content: 'a' }), '{"choices":', '[DONE]', delta({ content: 'b' }));
    expect(whole).toMatchObject({ choices: [{ message: { content: 'a' } }] });
  });
});

test('any JSON can be added', () => {
  const odd = fc.dictionary(
    fc.constantFrom('index', 'delta', 'finish_reason', 'logprobs', 'tool_calls', 'function', 'content', '__proto__'),
    fc.jsonValue(),
  );
  fc.assert(
    fc.property(fc.array(fc.oneof(odd, fc.record({ choices: fc.array(fc.record({ delta: odd })) }))), (chunks) => {
      expect(() => assembled({ choices: [] }, ...chunks)).not.toThrow();
      expect(Reflect.get({}, 'content')).toBeUndefined();
    }),
  );
});
