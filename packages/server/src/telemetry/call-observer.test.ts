import { expect, test } from 'vitest';
import { DEFAULT_LOG_FILTER } from '../app/config/environment.ts';
import { createLogger } from './log.ts';
import { codeSummary, contentOfTexts } from './tool-calls/event.ts';
import { ToolCallEvents } from './tool-calls/events.ts';
import { identity } from './tool-calls/identities.fixture.ts';

/** Events recorded for a call with these reports, all with the same id. */
function recorded(...said: ('begin' | 'completed' | 'failed')[]): string[] {
  const events = new ToolCallEvents(createLogger(DEFAULT_LOG_FILTER, () => {}));
  const report = events.of(identity());
  for (const what of said) {
    if (what === 'begin') report.begin(codeSummary(0));
    else if (what === 'completed') report.completed(false, contentOfTexts([]));
    else report.failed('UNKNOWN', '');
  }
  const records = events.recent({ limit: 9 }).reverse();
  for (const { eventId } of records) expect(eventId).toBe(report.eventId);
  return records.map(({ details }) => details.type);
}

test('reports one FAILED event for a call that fails before its start', () => {
  expect(recorded('failed')).toEqual(['FAILED']);
  expect(recorded('failed', 'failed', 'begin', 'completed')).toEqual(['FAILED']);
});

test('ignores the completion of a call that has not started', () => {
  expect(recorded('completed')).toEqual([]);
  expect(recorded('completed', 'begin', 'completed')).toEqual(['STARTED', 'COMPLETED']);
});

test('reports only the first end of a call', () => {
  expect(recorded('begin', 'completed', 'failed')).toEqual(['STARTED', 'COMPLETED']);
  expect(recorded('begin', 'begin', 'failed', 'completed')).toEqual(['STARTED', 'FAILED']);
  expect(recorded('begin', 'completed', 'completed')).toEqual(['STARTED', 'COMPLETED']);
  expect(recorded('begin', 'failed', 'failed', 'begin')).toEqual(['STARTED', 'FAILED']);
});
