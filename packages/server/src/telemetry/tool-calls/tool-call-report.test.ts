import { expect, test } from 'vitest';
import { DEFAULT_LOG_FILTER } from '../../app/config/environment.ts';
import { createLogger } from '../log.ts';
import { ToolCallEvents } from './events.ts';
import { identity } from './identities.fixture.ts';
import { codeSummary, contentOfTexts } from './report.ts';

/** What is told of a call that these things are said of; all under one id. */
function told(...said: ('begin' | 'completed' | 'failed')[]): string[] {
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

test('a call that fails before it begins has one FAILED event, whatever is said of it then', () => {
  expect(told('failed')).toEqual(['FAILED']);
  expect(told('failed', 'failed', 'begin', 'completed')).toEqual(['FAILED']);
});

test('a call that has not begun cannot be completed', () => {
  expect(told('completed')).toEqual([]);
  expect(told('completed', 'begin', 'completed')).toEqual(['STARTED', 'COMPLETED']);
});

test('a call that begins has one event that ends it: what was said first', () => {
  expect(told('begin', 'completed', 'failed')).toEqual(['STARTED', 'COMPLETED']);
  expect(told('begin', 'begin', 'failed', 'completed')).toEqual(['STARTED', 'FAILED']);
  expect(told('begin', 'completed', 'completed')).toEqual(['STARTED', 'COMPLETED']);
  expect(told('begin', 'failed', 'failed', 'begin')).toEqual(['STARTED', 'FAILED']);
});
