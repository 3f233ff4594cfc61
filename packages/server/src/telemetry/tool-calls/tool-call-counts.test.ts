import { describe, expect, it } from 'vitest';
import { type EventDetails, ToolCallCounts } from './events.ts';
import { contentOfTexts } from './report.ts';

const COMPLETED: EventDetails = { type: 'COMPLETED', durationMs: 1, isError: true, content: contentOfTexts([]) };
const failed = (category: 'UNKNOWN' | 'EXECUTION_ERROR'): EventDetails => ({
  type: 'FAILED',
  durationMs: 1,
  category,
  message: 'no',
});

describe('the counts of tool-call events', () => {
  it('are by transport and type, and by category of those that failed', () => {
    const counts = new ToolCallCounts();
    for (let time = 0; time < 2; time++) counts.add('mcp', COMPLETED);
    for (const category of ['UNKNOWN', 'EXECUTION_ERROR', 'UNKNOWN'] as const) counts.add('code', failed(category));
    counts.add('grpc', {
      type: 'STARTED',
      summary: { argumentCount: 0, headerNames: [], code: false, argumentNames: [] },
    });
    expect(counts.all()).toEqual([
      { transport: 'mcp', type: 'STARTED', count: 0 },
      { transport: 'mcp', type: 'COMPLETED', count: 2 },
      { transport: 'grpc', type: 'STARTED', count: 1 },
      { transport: 'grpc', type: 'COMPLETED', count: 0 },
      { transport: 'code', type: 'STARTED', count: 0 },
      { transport: 'code', type: 'COMPLETED', count: 0 },
      { transport: 'code', type: 'FAILED', category: 'UNKNOWN', count: 2 },
      { transport: 'code', type: 'FAILED', category: 'EXECUTION_ERROR', count: 1 },
    ]);
  });
});
