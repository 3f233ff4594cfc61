import { expect, test } from 'vitest';
import type { ToolCallRecord } from '../telemetry/tool-calls/event.ts';
import { identity } from '../telemetry/tool-calls/identities.fixture.ts';
import { eventTexts, toolCallText } from './tool-calls.ts';

test('the text of an event is serialized once for all streams', () => {
  const textOf = eventTexts(toolCallText);
  const record: ToolCallRecord = {
    eventId: 'e',
    at: 0,
    completionId: undefined,
    identity: identity(),
    details: { type: 'FAILED', durationMs: 1, outcome: 'failed', category: 'UNKNOWN', message: 'ä' },
  };
  const text = textOf(record);
  expect(textOf(record)).toBe(text);
  expect(textOf({ ...record, eventId: 'other' })).not.toBe(text);
  expect(text.toString()).toMatch(/^event: FAILED\nid: e\ndata: \{.*"errorMessage":"ä"\}\n\n$/);
});
