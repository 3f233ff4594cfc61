import { expect, it } from 'vitest';
import { NullResponse } from './listener.ts';
import { ResponseWriter } from './response.ts';

it('who asks when the client leaves is told that it has, once they are ready for it', async () => {
  const told: string[] = [];
  const left = Promise.withResolvers<void>();
  new ResponseWriter(new NullResponse(), [], '1').onLeave(() => {
    told.push('left');
    left.resolve();
  });
  told.push('ready');
  await left.promise;
  expect(told).toEqual(['ready', 'left']);
});

it('what is written is taken without an end of its own, however much it is', () => {
  const answer = new ResponseWriter(new NullResponse(), [], '1');
  answer.beginStream();
  for (let at = 0; at < 100; at++) expect(answer.event('x'.repeat(100_000))).toBe(true);
  answer.lastEvent('{}');
  expect(answer.streaming).toBe(true);
});
