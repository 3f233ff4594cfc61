import { expect, it } from 'vitest';
import { NO_CLIENT } from '../upstreams/client-facts.ts';
import { ClientSink } from './client-sink.ts';
import { NullResponse } from './listener.ts';
import { ResponseWriter } from './response.ts';

it('reports the disconnect once the caller is ready', async () => {
  const received: string[] = [];
  const left = Promise.withResolvers<void>();
  new ClientSink(new ResponseWriter(new NullResponse(), [], '1'), NO_CLIENT).onDisconnect(() => {
    received.push('left');
    left.resolve();
  });
  received.push('ready');
  await left.promise;
  expect(received).toEqual(['ready', 'left']);
});

it('accepts any amount of output without ending', () => {
  const response = new ResponseWriter(new NullResponse(), [], '1');
  const stream = response.startStream();
  for (let at = 0; at < 100; at++) expect(stream.send('x'.repeat(100_000))).toBe(true);
  stream.end('{}');
  expect(response.stream).toBe(stream);
});
