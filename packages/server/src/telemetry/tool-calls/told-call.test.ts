import { expect, test } from 'vitest';
import { DEFAULT_LOG_FILTER } from '../../config/log-directives.ts';
import { createLogger } from '../log.ts';
import { contentOfTexts } from './event-content.ts';
import { identity } from './identities.fixture.ts';
import { codeSummary } from './request-summary.ts';
import { ToldCall } from './told-call.ts';
import { ToolCallEvents } from './tool-call-events.ts';

const BEFORE = identity({ serviceId: undefined, serviceAddress: '' });

/** What is told of a call that these things happen to. */
function told(...steps: ('begin' | 'completed' | 'failed')[]): string[] {
  const events = new ToolCallEvents(createLogger(DEFAULT_LOG_FILTER, () => {}));
  const call = new ToldCall(events, BEFORE);
  for (const step of steps) {
    if (step === 'begin') call.begin(codeSummary(0), identity());
    else if (step === 'completed') call.completed(false, contentOfTexts([]));
    else call.failed('UNKNOWN', '');
  }
  const records = events.recent({ limit: 9 }).reverse();
  expect(new Set(records.map(({ eventId }) => eventId)).size).toBe(Math.min(records.length, 1));
  return records.map(({ happening, identity: { serviceAddress } }) => `${happening.type} ${serviceAddress}`);
}

const { serviceAddress: at } = identity();

test('a call that fails before it begins has one FAILED event', () => {
  expect(told('failed')).toEqual(['FAILED ']);
  expect(told('failed', 'failed', 'begin', 'completed')).toEqual(['FAILED ']);
});

test('a call that begins has one event that ends it, with what is known from then on', () => {
  expect(told('begin', 'completed', 'failed')).toEqual([`STARTED ${at}`, `COMPLETED ${at}`]);
  expect(told('begin', 'begin', 'failed', 'completed')).toEqual([`STARTED ${at}`, `FAILED ${at}`]);
});
