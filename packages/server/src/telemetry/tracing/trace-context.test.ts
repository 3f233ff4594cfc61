import { describe, expect, it } from 'vitest';
import { traceContextOf, traceHeaders, traceMembers, traceParent } from './trace-context.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';
const PARENT = `00-${TRACE}-${SPAN}-01`;
const context = { traceId: TRACE, spanId: SPAN, sampled: true, state: undefined };

describe('a traceparent', () => {
  it.each([
    ['is read', PARENT, context],
    ['with blanks around it is read', ` ${PARENT}\t`, context],
    ['says that nothing is recorded', `00-${TRACE}-${SPAN}-00`, { ...context, sampled: false }],
    ['may have flags that nobody knows yet', `00-${TRACE}-${SPAN}-fe`, { ...context, sampled: false }],
    ['may be of a later version', `cc-${TRACE}-${SPAN}-01`, context],
    ['may have more at its end in a later version', `01-${TRACE}-${SPAN}-01-what-comes`, context],
  ])('%s', (_, traceparent, expected) => {
    expect(traceContextOf({ traceparent })).toEqual(expected);
    expect(traceContextOf({}, { traceparent })).toEqual(expected);
  });

  it.each([
    ['empty', ''],
    ['in upper case', PARENT.toUpperCase()],
    ['with a trace of zeros', `00-${'0'.repeat(32)}-${SPAN}-01`],
    ['with a span of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
    ['of version ff', `ff-${TRACE}-${SPAN}-01`],
    ['of version 00 with more at its end', `${PARENT}-more`],
    ['with less', `00-${TRACE}-${SPAN}`],
    ['with more digits', `00-${TRACE}0-${SPAN}-01`],
    ['of a later version that goes on without a dash', `01-${TRACE}-${SPAN}-01x`],
    ['with a line break', `01-${TRACE}-${SPAN}-01-a\nb`],
    ['twice', `${PARENT}, ${PARENT}`],
    ['of 10 kB', '0'.repeat(10_000)],
    ['of 10 kB that begins well', `00-${TRACE}-${SPAN}-01${' 1'.repeat(5_000)}`],
  ])('%s is ignored', (_, traceparent) => {
    expect(traceContextOf({ traceparent, tracestate: 'a=1' })).toBeUndefined();
    expect(traceContextOf({ traceparent: PARENT }, { traceparent })).toEqual(context);
  });

  it.each([[null], [5], [{}], [[PARENT]], [true]])('that is %j is ignored', (traceparent) => {
    expect(traceContextOf({ traceparent: PARENT }, { traceparent })).toEqual(context);
  });
});

describe('a tracestate', () => {
  it.each([
    ['goes along', 'a=1,b@c=2', 'a=1,b@c=2'],
    ['of 512 characters goes along', `a=${'x'.repeat(510)}`, `a=${'x'.repeat(510)}`],
    ['that is empty does not', '', undefined],
    ['of 513 characters does not', `a=${'x'.repeat(511)}`, undefined],
    ['that no header can carry does not', 'a=1\r\nX-Injected: 1', undefined],
    ['in other letters does not', 'a=ü', undefined],
  ])('%s', (_, tracestate, expected) => {
    expect(traceContextOf({}, { traceparent: PARENT, tracestate })?.state).toBe(expected);
  });

  it('is taken from the source of the traceparent', () => {
    const headers = { traceparent: PARENT, tracestate: 'outer=1' };
    expect(traceContextOf(headers, { tracestate: 'inner=1' })?.state).toBe('outer=1');
    expect(traceContextOf(headers, { traceparent: PARENT })?.state).toBeUndefined();
  });
});

it('is formatted as it was parsed', () => {
  for (const sampled of [true, false]) {
    for (const state of [undefined, 'a="\\",b=2']) {
      const given = { ...context, sampled, state };
      const [, traceparent, , tracestate] = traceHeaders(given);
      expect(traceparent).toBe(traceParent(given));
      expect(traceContextOf({ traceparent, tracestate })).toEqual(given);
      expect(traceContextOf({}, JSON.parse(`{${traceMembers(given)}}`))).toEqual(given);
    }
  }
});
