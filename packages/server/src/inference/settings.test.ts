import { expect, test } from 'vitest';
import { httpUpstream } from '../http/address.ts';
import { InteractionStore } from './interaction-store.ts';
import { CurrentInferenceSettings } from './settings.ts';

function settings(upstream = '127.0.0.1:11434') {
  const store = new InteractionStore(1_000);
  return { store, settings: new CurrentInferenceSettings(httpUpstream.parse(upstream), store) };
}

test.for([
  ['127.0.0.1:11434', '127.0.0.1:11434'],
  ['http://[::1]', '[::1]:80'],
  ['http://models/v1/', 'http://models:80/v1'],
  ['https://models', 'https://models:443'],
] as const)('the upstream %s is formatted as %s, which parses to the same', ([given, wanted]) => {
  const { upstreamText, upstream } = settings(given).settings;
  expect(upstreamText).toBe(wanted);
  expect(httpUpstream.parse(upstreamText)).toEqual(upstream);
});

test('a change applies at once, notifies listeners and leaves other settings unchanged', () => {
  const { store, settings: current } = settings();
  const notified: string[] = [];
  const unsubscribe = current.onUpstream(({ host }) => notified.push(host));
  current.set({ upstream: 'https://models.example/v1' });
  expect(current).toMatchObject({
    upstream: { scheme: 'https', host: 'models.example', port: 443, path: '/v1' },
    upstreamText: 'https://models.example/v1',
    capacity: 1_000,
  });
  current.set({ capacity: 5 });
  expect([current.capacity, store.capacity, current.upstreamText]).toEqual([5, 5, 'https://models.example/v1']);
  unsubscribe();
  current.set({ upstream: 'other:80', capacity: 6 });
  expect(notified).toEqual(['models.example']);
});

test('an invalid upstream changes nothing', () => {
  const { settings: current } = settings();
  expect(() => current.set({ upstream: 'models.example', capacity: 5 })).toThrow('has no port');
  expect(current).toMatchObject({ upstreamText: '127.0.0.1:11434', capacity: 1_000 });
});
