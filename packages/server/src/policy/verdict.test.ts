import { describe, expect, it } from 'vitest';
import { exchangeParts } from '../http/exchange.fixture.ts';
import { McpExchange } from '../mcp/exchange.ts';
import type { ActionResponse } from './sandbox/action.ts';
import { applyResponse } from './verdict.ts';

/** Applies a response to a request with this method. */
function apply(response: ActionResponse, method = 'tools/call') {
  const exchange = new McpExchange(...exchangeParts());
  exchange.metadata.set('mcp.method', method);
  const lines: object[] = [];
  const verdict = applyResponse(response, 'gate', exchange, {
    warn: (msg, fields) => void lines.push({ msg, ...fields }),
  });
  exchange.metadata.delete('mcp.method');
  return { verdict, lines, metadata: Object.fromEntries(exchange.metadata), selection: exchange.selection };
}

const set = (key: string, value: string) => apply({ kind: 'set_metadata', key, value });

describe('a tool filter', () => {
  it('applies to tools/list; another request passes with a warning', () => {
    const listed = apply({ kind: 'filter_tools', tools: ['a'] }, 'tools/list');
    expect(listed).toMatchObject({ verdict: { kind: 'stop', decision: 'filter_tools' }, lines: [] });
    expect(listed.selection).toEqual(new Set(['a']));
    expect(apply({ kind: 'filter_tools', tools: ['a'] })).toEqual({
      verdict: { kind: 'continue', decision: 'pass' },
      lines: [{ msg: 'action filter ignored: the request does not list tools' }],
      metadata: {},
      selection: undefined,
    });
  });
});

describe('metadata', () => {
  it('has keys of at most 64 bytes and values of at most 256', () => {
    const [key, value] = ['é'.repeat(32), 'é'.repeat(128)];
    expect(set(key, value)).toMatchObject({ lines: [], metadata: { [key]: value } });
    for (const [longKey, longValue, problem] of [
      [`${key}x`, value, 'the key exceeds 64 bytes'],
      [key, `${value}x`, 'the value exceeds 256 bytes'],
    ] as const) {
      const { verdict, lines, metadata } = set(longKey, longValue);
      expect(verdict).toEqual({ kind: 'continue', decision: 'set_metadata' });
      // The value is not logged.
      expect([lines, metadata]).toEqual([[{ msg: 'action metadata ignored', key, problem }], {}]);
    }
  });

  it.each(['mcp.method', 'service.evaluator.gate.warning'])('has no reserved keys: %s', (key) => {
    const problem = 'keys starting with mcp. or service. are reserved';
    const { lines, metadata } = set(key, 'x');
    expect([lines, metadata]).toEqual([[{ msg: 'action metadata ignored', key, problem }], {}]);
  });

  it.each(['mcp', 'service', 'mcpx.a', 'a.mcp.b'])('may have other keys: %s', (key) => {
    expect(set(key, 'x').metadata).toEqual({ [key]: 'x' });
  });
});
