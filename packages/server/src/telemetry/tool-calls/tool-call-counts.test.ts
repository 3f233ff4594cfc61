import type { ToolCallErrorCategory } from '@sluice/contract';
import { describe, expect, it } from 'vitest';
import { contentOfTexts, type EventDetails, type FailureOutcome } from './event.ts';
import { ToolCallCounts } from './events.ts';

const completed = (isError: boolean): EventDetails => ({
  type: 'COMPLETED',
  durationMs: 1,
  isError,
  content: contentOfTexts([]),
});
const failed = (category: ToolCallErrorCategory, outcome: FailureOutcome = 'failed'): EventDetails => ({
  type: 'FAILED',
  durationMs: 1,
  outcome,
  category,
  message: 'no',
});

describe('the counts of tool-call events', () => {
  it('are by transport, type and outcome, and by category of failures', () => {
    const counts = new ToolCallCounts();
    for (const isError of [true, false, true]) counts.add('mcp', completed(isError));
    counts.add('mcp', failed('UNKNOWN', 'canceled'));
    counts.add('mcp', failed('UNKNOWN'));
    for (const category of ['UNKNOWN', 'EXECUTION_ERROR', 'UNKNOWN'] as const) counts.add('code', failed(category));
    counts.add('grpc', {
      type: 'STARTED',
      summary: { argumentCount: 0, headerNames: [], code: false, argumentNames: [] },
    });
    expect(counts.all()).toEqual([
      { transport: 'mcp', type: 'STARTED', count: 0 },
      { transport: 'mcp', type: 'COMPLETED', outcome: 'completed', count: 1 },
      { transport: 'mcp', type: 'COMPLETED', outcome: 'tool_error', count: 2 },
      { transport: 'mcp', type: 'FAILED', outcome: 'canceled', category: 'UNKNOWN', count: 1 },
      { transport: 'mcp', type: 'FAILED', outcome: 'failed', category: 'UNKNOWN', count: 1 },
      { transport: 'grpc', type: 'STARTED', count: 1 },
      { transport: 'grpc', type: 'COMPLETED', outcome: 'completed', count: 0 },
      { transport: 'grpc', type: 'COMPLETED', outcome: 'tool_error', count: 0 },
      { transport: 'code', type: 'STARTED', count: 0 },
      { transport: 'code', type: 'COMPLETED', outcome: 'completed', count: 0 },
      { transport: 'code', type: 'COMPLETED', outcome: 'tool_error', count: 0 },
      { transport: 'code', type: 'FAILED', outcome: 'failed', category: 'UNKNOWN', count: 2 },
      { transport: 'code', type: 'FAILED', outcome: 'failed', category: 'EXECUTION_ERROR', count: 1 },
    ]);
  });
});
