import { describe, expect, it } from 'vitest';
import { requestedLevel } from './capabilities.ts';
import { outlineOf, parseMessage } from './message.ts';

const KEY = 'io.modelcontextprotocol/logLevel';

describe('the outline of a request', () => {
  it.each([
    [
      `{"_meta":{"progressToken":"t\\u00e4","x":1,"${KEY}":"info"},"name":"n"}`,
      `{"progressToken":"t\\u00e4","${KEY}":"info"}`,
    ],
    ['{"name":"n","_meta":{"progressToken":9223372036854775807}}', '{"progressToken":9223372036854775807}'],
    ['{"name":"n","arguments":{"_meta":{"progressToken":1}}}', '{}'],
  ])('of params %s has of them %s', (params, meta) => {
    const text = `{ "id" : "ä\\u0022", "params":${params},"method":"tools/call","jsonrpc":"2.0"}`;
    const message = parseMessage(Buffer.from(text));
    if (message.kind !== 'request') throw new Error('no request');
    const outline = outlineOf(message);
    expect(outline.text).toBe(`{"jsonrpc":"2.0","id":"ä\\u0022","method":"tools/call","params":{"_meta":${meta}}}`);
    expect(parseMessage(Buffer.from(outline.text))).toEqual({ ...outline, params: expect.anything() });
    expect(requestedLevel(outline)).toBe(requestedLevel(message));
  });
});
