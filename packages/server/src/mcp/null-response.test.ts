import { expect, it } from 'vitest';
import { NullResponse } from './listener.ts';
import { ResponseWriter } from './response.ts';

it('reports the disconnect once the caller is ready', async () => {
  const received: string[] = [];
  const left = Promise.withResolvers<void>();
  new ResponseWriter(new NullResponse(), [], '1').onDisconnect(() => {
    received.push('left');
    left.resolve();
  });
  received.push('ready');
  await left.promise;
  expect(received).toEqual(['ready', 'left']);
});

it('accepts any amount of output without ending', () => {
  const response = new ResponseWriter(new NullResponse(), [], '1');
  response.beginStream();
  for (let at = 0; at < 100; at++) expect(response.sendMessage('x'.repeat(100_000))).toBe(true);
  response.sendLastEvent('{}');
  expect(response.isStreaming).toBe(true);
});
