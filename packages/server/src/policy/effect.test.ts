import { describe, expect, it } from 'vitest';
import { RequestContext } from '../http/context.ts';
import type { ActionResponse } from './sandbox/action.ts';
import { effectOf } from './verdict.ts';

/** What becomes of a response to a request of this method: the effect, the lines of the log, and what is set then. */
function carriedOut(response: ActionResponse, method = 'tools/call') {
  const context = new RequestContext('POST', '/default/mcp', {}, Buffer.alloc(0));
  context.metadata.set('mcp.method', method);
  const lines: object[] = [];
  const effect = effectOf(response, 'gate', context, { warn: (msg, fields) => void lines.push({ msg, ...fields }) });
  context.metadata.delete('mcp.method');
  return { effect, lines, metadata: Object.fromEntries(context.metadata), onlyTools: context.onlyTools };
}

const set = (key: string, value: string) => carriedOut({ kind: 'set_metadata', key, value });

describe('a filter of tools', () => {
  it('is for lists of tools; another request passes, and the log says so', () => {
    const listed = carriedOut({ kind: 'filter_tools', tools: ['a'] }, 'tools/list');
    expect(listed).toMatchObject({ effect: { kind: 'last', decision: 'filter_tools' }, lines: [] });
    expect(listed.onlyTools).toEqual(new Set(['a']));
    expect(carriedOut({ kind: 'filter_tools', tools: ['a'] })).toEqual({
      effect: { kind: 'next', decision: 'pass' },
      lines: [{ msg: 'an action filters tools of a request that lists none: it passes' }],
      metadata: {},
      onlyTools: undefined,
    });
  });
});

describe('metadata', () => {
  it('has keys of 64 bytes and values of 256 at most', () => {
    const [key, value] = ['é'.repeat(32), 'é'.repeat(128)];
    expect(set(key, value)).toMatchObject({ lines: [], metadata: { [key]: value } });
    for (const [longKey, longValue, problem] of [
      [`${key}x`, value, 'the key is longer than 64 bytes'],
      [key, `${value}x`, 'the value is longer than 256 bytes'],
    ] as const) {
      const { effect, lines, metadata } = set(longKey, longValue);
      expect(effect).toEqual({ kind: 'next', decision: 'set_metadata' });
      // The value is not told.
      expect([lines, metadata]).toEqual([[{ msg: 'metadata of an action is not set', key, problem }], {}]);
    }
  });

  it.each(['mcp.method', 'service.evaluator.gate.warning'])('has none of the service: %s', (key) => {
    const problem = 'keys beginning with mcp. or service. are those of the service';
    const { lines, metadata } = set(key, 'x');
    expect([lines, metadata]).toEqual([[{ msg: 'metadata of an action is not set', key, problem }], {}]);
  });

  it.each(['mcp', 'service', 'mcpx.a', 'a.mcp.b'])('may have others: %s', (key) => {
    expect(set(key, 'x').metadata).toEqual({ [key]: 'x' });
  });
});
