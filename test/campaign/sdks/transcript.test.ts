import { describe, expect, it } from 'vitest';
import { KNOWN_DIFFERENCES, knownDifference } from './differences.ts';
import { compareTranscripts, parseTranscript } from './transcript.ts';

const START = '{"step":"initialize","result":{"protocolVersion":"2025-11-25","capabilities":{}}}';
const MODERN_START = '{"step":"initialize","result":{"protocolVersion":"2026-07-28","capabilities":{}}}';

/** Steps that differ. */
function differing(direct: readonly string[], through: readonly string[]): readonly string[] {
  const [one, other] = [direct, through].map((lines) => parseTranscript(lines.join('\n')));
  return compareTranscripts(one ?? new Map(), other ?? new Map()).map(({ step }) => step);
}

describe('a comparison of transcripts', () => {
  it.each([
    [
      'capabilities and the identity of the server',
      START,
      '{"step":"initialize","result":{"serverInfo":{},"protocolVersion":"2025-11-25"}}',
    ],
    [
      'caching hints',
      '{"step":"a","result":{"ttlMs":1,"b":1}}',
      '{"step":"a","result":{"b":1,"cacheScope":"private"}}',
    ],
    ['an empty _meta', '{"step":"a","result":{"_meta":{}}}', '{"step":"a","result":{}}'],
    ['the order of members', '{"step":"a","result":{"b":1,"c":2}}', '{"step":"a","result":{"c":2,"b":1}}'],
  ])('ignores %s', (_what, direct, through) => {
    expect(differing([direct], [through])).toEqual([]);
  });

  it.each([
    ['a value', '{"step":"a","result":{"b":1}}', '{"step":"a","result":{"b":2}}'],
    ['a further member', '{"step":"a","result":{"b":1}}', '{"step":"a","result":{"b":1,"c":null}}'],
    ['an error in place of a result', '{"step":"a","result":1}', '{"step":"a","error":1}'],
    ['the order of items', '{"step":"a","result":[1,2]}', '{"step":"a","result":[2,1]}'],
    ['_meta', '{"step":"a","result":{"_meta":{"b":1}}}', '{"step":"a","result":{}}'],
  ])('reports %s', (_what, direct, through) => {
    expect(differing([direct], [through])).toEqual(['a']);
  });

  it('reports a step that only one client has reached', () => {
    expect(differing([START, '{"step":"a"}'], [START])).toEqual(['a']);
  });

  it('ignores resultType only if the clients use different eras', () => {
    const [legacy, modern] = ['{"step":"a","result":{}}', '{"step":"a","result":{"resultType":"complete"}}'];
    expect(differing([START, legacy], [START, modern])).toEqual(['a']);
    expect(differing([START, legacy], [MODERN_START, modern])).toEqual(['initialize']);
  });

  it('reports nothing but the discovery if that has failed', () => {
    expect(differing([START, '{"step":"a"}'], ['{"step":"discovery","error":"e"}'])).toEqual(['discovery']);
  });
});

describe('the list of known differences', () => {
  it('has at most ten entries', () => {
    expect(KNOWN_DIFFERENCES.length).toBeLessThanOrEqual(10);
  });

  it('allows a call that only works through Sluice, not the reverse', () => {
    const [error, result] = [{ error: { code: 404 } }, { result: { content: [{ text: 'again' }] } }];
    const step = 'echo after a restart';
    expect(knownDifference({ step, direct: error, through: result })).toBeDefined();
    expect(knownDifference({ step, direct: result, through: error })).toBeUndefined();
    expect(knownDifference({ step: 'echo', direct: error, through: result })).toBeUndefined();
  });
});
