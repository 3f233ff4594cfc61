import { expect, test } from 'vitest';
import type { ToolCallRecord } from '../telemetry/tool-calls/event.ts';
import { identity } from '../telemetry/tool-calls/identities.fixture.ts';
import { EventTexts, toolCallText } from './tool-calls.ts';

test('the text of an event is serialized once for all streams', () => {
  const texts = new EventTexts(toolCallText);
  const record: ToolCallRecord = {
    eventId: 'e',
    at: 0,
    completionId: undefined,
    identity: identity(),
    details: { type: 'FAILED', durationMs: 1, outcome: 'failed', category: 'UNKNOWN', message: 'ä' },
  };
  const text = texts.of(record);
  expect(texts.of(record)).toBe(text);
  expect(texts.of({ ...record, eventId: 'other' })).not.toBe(text);
  expect(text.toString()).toMatch(/^event: FAILED\nid: e\ndata: \{.*"errorMessage":"ä"\}\n\n$/);
});
