import { members } from '@sluice/protocol/json/text';
import { parseMessage, type RequestMessage } from '@sluice/protocol/mcp/message';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { propertyRuns } from '../../../../../../test/fixtures/seed.ts';
import { type TraceContext, traceParent } from '../../../telemetry/tracing/trace-context.ts';
import { MODERN_META, RETRY_PARAMS, RequestEdits } from './request-edits.ts';

// Whatever is in the `_meta` of a client: the trace is inserted once, and no other byte changes.

const TRACED = ['traceparent', 'tracestate'];
const space = fc.constantFrom('', ' ', '\n\t', '\r\n ');
const value = fc.oneof(
  fc.json({ maxDepth: 2 }),
  fc.constantFrom('12345678901234567890', '1.0', '{ }', '[ 1 ,2]', '"}"', '"\\u0022,\\u007d"', '{"traceparent":1}'),
);
/** JSON text of an object with these members and whitespace in all places. */
const objectOf = (given: fc.Arbitrary<readonly (readonly [string, string])[]>) =>
  fc
    .tuple(given, fc.array(space, { minLength: 4, maxLength: 4 }))
    .map(([pairs, [a = '', b = '', c = '', d = '']]) =>
      pairs.length === 0 ? `{${a}}` : `{${pairs.map(([key, text]) => `${a}${key}${b}:${c}${text}${d}`).join(',')}}`,
    );
const key = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('"traceparent"', '"tracestate"', '"tracepare\\u006et"', '"progressToken"') },
  {
    weight: 1,
    arbitrary: fc.constantFrom('"baggage"', '"__proto__"', '""', ...MODERN_META.map((each) => `"${each}"`)),
  },
  { weight: 1, arbitrary: fc.string().map((text) => JSON.stringify(text)) },
);
const meta = fc.oneof(
  // Duplicate members are rejected.
  {
    weight: 4,
    arbitrary: objectOf(
      fc.uniqueArray(fc.tuple(key, value), { maxLength: 6, selector: ([name]): unknown => JSON.parse(name) }),
    ),
  },
  { weight: 1, arbitrary: fc.constantFrom('null', '5', '[]', '"{}"') },
);
/** Params of a call in any order, with other members. */
const params = objectOf(
  fc
    .record(
      {
        '"arguments"': value,
        '"_meta"': meta,
        '"requestState"': fc.constant('"s"'),
        '"traceparent"': value,
        '"x"': value,
      },
      { requiredKeys: [] },
    )
    .map((given) => [['"name"', '"tool"'], ...Object.entries(given)] as [string, string][])
    .chain((pairs) => fc.shuffledSubarray(pairs, { minLength: pairs.length })),
);
const context: fc.Arbitrary<TraceContext> = fc.record({
  traceId: fc.constant('0af7651916cd43dd8448eb211c80319c'),
  spanId: fc.constant('b7ad6b7169203331'),
  sampled: fc.boolean(),
  state: fc.option(fc.constantFrom('a=1', 'a="\\"'), { nil: undefined }),
});

/** A request with these params; `undefined`: without any. */
function requestOf(text: string | undefined): RequestMessage {
  const whole = `{ "jsonrpc":"2.0","id":1,"method":"tools/call"${text === undefined ? '' : `,"params":${text}`} }`;
  const message = parseMessage(Buffer.from(whole));
  if (message.kind !== 'request') throw new Error(`a ${message.kind}`);
  return message;
}

/** Edits that insert this trace. */
function traced(message: RequestMessage, trace: TraceContext): RequestEdits {
  const edits = new RequestEdits(message, []);
  edits.setTrace(trace);
  return edits;
}

/** Id of the requests, and of the edited ones. */
const ID = 1;
const bodyOf = (edits: RequestEdits): string => String(edits.request(ID, []).body);

type Pairs = readonly (readonly [string, string])[];
/** Names and texts of the members of an object. */
const pairsOf = (text: string): Pairs =>
  [...members(text)].map(({ key: name, start, end }) => [name, text.slice(start, end)]);
const without = (pairs: Pairs, names: readonly string[]): Pairs => pairs.filter(([name]) => !names.includes(name));
const textOf = (pairs: Pairs, name: string): string => pairs.findLast(([each]) => each === name)?.[1] ?? '';

/** Returns the params; checks that they are valid JSON and that nothing else in the message changed. */
function paramsOf(message: RequestMessage, edited: string): Pairs {
  JSON.parse(edited);
  expect(without(pairsOf(edited), ['params'])).toEqual(without(pairsOf(message.text), ['params']));
  return pairsOf(textOf(pairsOf(edited), 'params'));
}

/** The trace context, as members of `_meta`. */
function output(trace: TraceContext): Pairs {
  const parent = ['traceparent', JSON.stringify(traceParent(trace))] as const;
  return trace.state === undefined ? [parent] : [parent, ['tracestate', JSON.stringify(trace.state)]];
}

/** Members of the client that must not change, with our progress token. */
function stored({ text }: RequestMessage, names: readonly string[]): Pairs {
  const own = textOf(pairsOf(textOf(pairsOf(text), 'params')), '_meta');
  if (!own.startsWith('{')) return [];
  return without(pairsOf(own), names).map(([name, json]) => [name, name === 'progressToken' ? String(ID) : json]);
}

describe('the trace context of a call', () => {
  it('replaces the one in its _meta', () => {
    fc.assert(
      fc.property(params, context, fc.boolean(), (given, trace, renamed) => {
        const message = requestOf(given);
        const edits = traced(message, trace);
        edits.rename(renamed ? 'renamed "tool"' : 'tool');
        const sent = paramsOf(message, bodyOf(edits));
        const before = pairsOf(given);
        expect(without(sent, ['_meta', 'name'])).toEqual(without(before, ['_meta', 'name']));
        expect(sent.filter(([name]) => name === 'name')).toEqual([
          ['name', renamed ? '"renamed \\"tool\\""' : '"tool"'],
        ]);
        expect(sent.filter(([name]) => name === '_meta')).toHaveLength(1);
        const metadata = pairsOf(textOf(sent, '_meta'));
        expect(metadata).toEqual([...output(trace), ...stored(message, TRACED)]);
      }),
      { numRuns: propertyRuns(500) },
    );
  });

  it('is sent to an upstream of the other era', () => {
    const facts = { clientInfo: { name: 'c' }, capabilities: {}, logLevel: undefined };
    fc.assert(
      fc.property(params, context, (given, trace) => {
        const message = requestOf(given);
        const removed = [...TRACED, ...MODERN_META];
        const before = without(pairsOf(given), ['_meta', ...RETRY_PARAMS]);

        const legacy = paramsOf(message, bodyOf(traced(message, trace).toLegacy()));
        expect(without(legacy, ['_meta'])).toEqual(before);
        expect(legacy).toHaveLength(before.length + 1);
        expect(pairsOf(textOf(legacy, '_meta'))).toEqual([...output(trace), ...stored(message, removed)]);

        const modern = paramsOf(message, bodyOf(traced(message, trace).toModern(facts)));
        expect(without(modern, ['_meta'])).toEqual(before);
        expect(modern).toHaveLength(before.length + 1);
        const metadata = pairsOf(textOf(modern, '_meta'));
        expect(without(metadata, MODERN_META)).toEqual([...output(trace), ...stored(message, removed)]);
        expect(new Set(metadata.slice(0, 3).map(([name]) => name))).toEqual(new Set(MODERN_META.slice(0, 3)));
      }),
      { numRuns: propertyRuns(500) },
    );
  });

  it('is added to a call without params', () => {
    const message = requestOf(undefined);
    const trace = {
      traceId: '0af7651916cd43dd8448eb211c80319c',
      spanId: 'b7ad6b7169203331',
      sampled: true,
      state: 'a=1',
    };
    for (const edits of [traced(message, trace), traced(message, trace).toLegacy()]) {
      expect(JSON.parse(bodyOf(edits)).params).toEqual({
        _meta: { traceparent: traceParent(trace), tracestate: 'a=1' },
      });
    }
    expect(bodyOf(new RequestEdits(message, []).toLegacy())).toBe(message.text);
  });

  it('replaces the client’s headers', () => {
    const trace = {
      traceId: '0af7651916cd43dd8448eb211c80319c',
      spanId: 'b7ad6b7169203331',
      sampled: false,
      state: undefined,
    };
    const own = ['x-a', 'traceparent', 'traceparent', 'a', 'tracestate', 'b', 'baggage', 'c'];
    const headers = ['x-a', 'traceparent', 'baggage', 'c', 'traceparent', traceParent(trace)];
    const edits = new RequestEdits(requestOf(undefined), own);
    edits.setTrace(trace);
    expect(edits.request(ID, []).headers).toEqual(headers);
  });
});
