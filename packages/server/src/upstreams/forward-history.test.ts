import { Emitter } from '@sluice/protocol/emitter';
import { expect, onTestFinished, test } from 'vitest';
import { LIST_END, toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startTestService } from '../../testing/service.ts';
import { ForwardHistory } from './forward-history.ts';
import type { ChangedForward } from './forwards.ts';

test('the history of a forward has its discoveries and outages, newest first', async () => {
  const service = await startTestService();
  onTestFinished(() => service.stop());
  const upstream = await startRawUpstream({ scripts: { 'tools/list': () => toolList(toolText('a'), toolText('b')) } });
  onTestFinished(() => upstream.close());
  const history = () => service.manage('GET', '/forwards/up/history');
  expect(await history()).toMatchObject({ status: 404 });

  await service.register('forwards', { name: 'up', address: upstream.url });
  const timestamp = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:]+\.\d{3}Z$/);
  const duration = expect.any(Number);
  const found = { tools: 2, resources: 0, prompts: 0 };
  const first = [
    { kind: 'available', timestamp },
    { kind: 'discovered', timestamp, duration, eras: expect.arrayContaining(['modern']), ...found },
  ];
  expect(await history()).toMatchObject({ status: 200, data: first });

  await upstream.close();
  expect(await service.manage('POST', '/forwards/up/refreshes')).toMatchObject({ status: 502 });
  const reason = expect.stringMatching(/refused/);
  const { data } = await history();
  expect(data).toMatchObject([
    { kind: 'unavailable', timestamp, reason },
    { kind: 'discovery_failed', timestamp, duration, reason },
    ...first,
  ]);

  // A forward of the same name has a history of its own.
  expect(await service.manage('DELETE', '/forwards/up')).toMatchObject({ status: 200 });
  await service.register('forwards', { name: 'up', address: upstream.url });
  expect((await history()).data).toMatchObject([{ kind: 'unavailable' }, { kind: 'discovery_failed' }]);
});

test('reasons and notes are bounded and have no control characters', async () => {
  const service = await startTestService();
  onTestFinished(() => service.stop());
  const upstream = await startRawUpstream({
    eras: ['modern'],
    scripts: { 'tools/list': () => `{"tools":[{"name":"${'x'.repeat(2_000)}\\u001b[31m"}],${LIST_END}` },
  });
  onTestFinished(() => upstream.close());
  await service.register('forwards', { name: 'up', address: upstream.url });
  const { data } = await service.manage('GET', '/forwards/up/history');
  const notes: unknown[] = Array.isArray(data) ? data.map((change) => change.notes).filter(Boolean) : [];
  expect(notes).toHaveLength(1);
  expect(String(notes[0]).length).toBeLessThanOrEqual(500);
  expect(String(notes[0])).not.toContain('\u001b');
});

const CHANGE = { kind: 'available', timestamp: '2026-01-02T03:04:05.006Z' } as const;

function recorded() {
  const changed = new Emitter<ChangedForward>();
  return { changed, history: new ForwardHistory({ committed: new Emitter() }, { changed }) };
}

test('the history has at most 200 changes', () => {
  const { changed, history } = recorded();
  const stamped = (at: number) => ({ ...CHANGE, timestamp: `${at}` });
  for (let at = 0; at < 250; at++) changed.emit({ forward: 'a', change: stamped(at) });
  const changes = history.of('a');
  expect([changes.length, changes[0], changes[199]]).toEqual([200, stamped(249), stamped(50)]);
});

test('many forwards share the capacity', () => {
  const { changed, history } = recorded();
  for (let round = 0; round < 15; round++) {
    for (let at = 0; at < 2_000; at++) changed.emit({ forward: `${at}`, change: CHANGE });
  }
  expect(history.of('0').length).toBeLessThanOrEqual(15);
  for (let round = 0; round < 50; round++) changed.emit({ forward: '0', change: CHANGE });
  expect(history.of('0')).toHaveLength(10);
});
