import { expect, it } from 'vitest';
import { acceptsEventStream, acceptsJson } from './accept.ts';

it.each<[string | undefined, 'both' | 'json' | 'stream']>([
  [undefined, 'both'],
  ['', 'both'],
  [' ', 'both'],
  ['*/*', 'both'],
  ['application/json, text/event-stream', 'both'],
  ['text/event-stream,application/json', 'both'],
  ['Application/JSON, Text/Event-Stream', 'both'],
  ['APPLICATION/JSON', 'json'],
  ['TEXT/EVENT-STREAM', 'stream'],
  ['application/*', 'json'],
  ['text/*', 'stream'],
  ['Text/*;q=0.2', 'stream'],
  ['application/json;charset=utf-8', 'json'],
  ['application/json ; charset="utf-8, text/event-stream"', 'json'],
  ['application/json;profile="a\\"b,text/event-stream"', 'json'],
  ['text/event-stream; q=0, application/json', 'json'],
  ['text/event-stream;q=0.0, */*', 'json'],
  ['text/event-stream;q=0.000,*/*;q=0.1', 'json'],
  ['application/json;Q=0, */*', 'stream'],
  ['application/json;q=0, text/event-stream;q=0.001', 'stream'],
  ['application/*;q=0, */*;q=0.5', 'stream'],
  ['application/json;q=1.0, application/*;q=0, text/event-stream;q=1', 'both'],
  ['text/event-stream;q="0"', 'stream'],
  ['text/event-stream;q=high', 'stream'],
  [', ,application/json,', 'json'],
  // Neither: JSON is sent all the same.
  ['text/html', 'json'],
  ['*/*;q=0', 'json'],
  ['application/json;q=0, text/event-stream;q=0', 'json'],
  ['application/jsonlines', 'json'],
  ['text/event-streams', 'json'],
  ['x-text/event-stream', 'json'],
])('%j accepts %s', (accept, expected) => {
  const accepted = { json: acceptsJson(accept), stream: acceptsEventStream(accept) };
  expect(accepted).toEqual({ json: expected !== 'stream', stream: expected !== 'json' });
});

it('takes linear time for a long header', () => {
  const started = performance.now();
  for (const part of ['"\\"', ',', ';', ';q', 'a/b;q=1,', '"']) acceptsEventStream(part.repeat(100_000));
  expect(performance.now() - started).toBeLessThan(5_000);
});
