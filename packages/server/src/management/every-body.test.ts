import { connect, type Socket } from 'node:net';
import { allOperations, errorResponse, validationDetails } from '@sluice/contract';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { propertyRuns } from '../../../../test/fixtures/seed.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import { type SharedApi, startSharedApi } from './api.fixture.ts';
import { ServedDocument } from './document.fixture.ts';
import { bodyFor, named, pathOf, tagsOf } from './operations.fixture.ts';

const MIB = 1024 * 1024;

// Rejected requests have no effects, so one API and its document suffice.
let api: SharedApi;
let document: ServedDocument;
beforeAll(async () => {
  api = await startSharedApi();
  document = await ServedDocument.of(api);
  return () => api.close();
});

let before: Snapshot;
beforeEach(() => {
  before = api.registry.current;
});
afterEach(() => {
  expect(api.registry.current).toBe(before);
});

/** Head and body of the first response on the connection, which is then closed before the request is complete. */
async function firstAnswer(socket: Socket): Promise<string[]> {
  let read = '';
  for await (const chunk of socket) {
    read += chunk;
    const [head = '', body] = read.split('\r\n\r\n');
    const [, length] = /\r\ncontent-length: (\d+)/i.exec(head) ?? [];
    if (body !== undefined && Buffer.byteLength(body) === Number(length)) break;
  }
  return read.split('\r\n\r\n');
}

/** Values that are invalid in many places. */
const VALUES: readonly unknown[] = [
  null,
  5,
  1.5,
  true,
  'x',
  '',
  [],
  {},
  [5],
  [{}],
  [{ name: 5 }],
  { a: 1 },
  { a: null },
];

/** Path and reason of each rejected member in a response. */
function refused(answer: { readonly text: string }): Map<string, string> {
  const { code, details } = errorResponse.parse(JSON.parse(answer.text)).error;
  expect(code).toBe('BAD_REQUEST');
  return new Map(validationDetails.parse(details).map(({ path, message }) => [path, message]));
}

describe.for(named(allOperations.filter(({ body }) => body)))('%s', ([_name, operation]) => {
  const { method, body: { kind, optional } = { kind: '' } } = operation;
  const path = pathOf(operation);

  test('names the unparsable body and the reason', async () => {
    const invalid = `invalid ${kind} JSON: `;
    const none = [undefined, '', ' \r\n\t'].map((body) => [body, 'request body required'] as const);
    for (const [body, reason] of [
      ...(optional ? [] : none),
      ['{', invalid],
      ['{}}', invalid],
      ["{'name':1}", invalid],
      ['{"name":NaN}', invalid],
      [Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]), `${invalid}not valid UTF-8`],
      [Buffer.from('{"name":"x"}', 'utf16le'), invalid],
      ['{"name":"x","name":"y"}', `${invalid}duplicate key "name"`],
      ['{"x":[{"a":1,"\\u0061":2}]}', `${invalid}duplicate key "a"`],
      ['{"__proto__":1,"__proto__":2}', `${invalid}duplicate key "__proto__"`],
      ['null', `${invalid}not an object`],
      ['[]', `${invalid}not an object`],
      ['"x"', `${invalid}not an object`],
      ['9223372036854775807', `${invalid}not an object`],
    ] as const) {
      const answer = await api.call(method, path, body);
      expect([answer.status, answer.data], String(body)).toEqual([400, null]);
      const { code, message } = errorResponse.parse(JSON.parse(answer.text)).error;
      expect(code).toBe('BAD_REQUEST');
      // The parser's own text is arbitrary but not empty.
      if (reason === invalid) expect(message.length).toBeGreaterThan(reason.length);
      expect(message.slice(0, reason === invalid ? reason.length : undefined)).toBe(reason);
    }
  });

  test('names each missing required member', async () => {
    const { required = [] } = document.bodyOf(operation);
    for (const member of required) {
      const answer = await api.call(method, path, { ...bodyFor(operation), [member]: undefined });
      expect(answer.status, member).toBe(400);
      expect([...refused(answer)]).toEqual([[member, 'is required']]);
      expect(answer.error).toMatchObject({ message: `invalid ${kind}: ${member} is required` });
    }
    if (required.length > 1) {
      const answer = await api.call(method, path, {});
      expect(answer.status).toBe(400);
      for (const member of required) expect(refused(answer).get(member)).toBe('is required');
    }
  });

  test('names each member of the wrong type', async () => {
    const { properties = {} } = document.bodyOf(operation);
    expect(properties).not.toEqual({});
    for (const [member, schema] of Object.entries(properties)) {
      const wrong = VALUES.filter((value) => !document.accepts(schema, value));
      expect(wrong.length, member).toBeGreaterThan(3);
      for (const value of wrong.slice(0, propertyRuns(VALUES.length))) {
        const answer = await api.call(method, path, { ...bodyFor(operation), [member]: value });
        expect(answer.status, `${member}: ${JSON.stringify(value)}`).toBe(400);
        const paths = [...refused(answer).keys()];
        expect(paths.map((each) => each.split('.')[0])).toContain(member);
        expect(errorResponse.parse(JSON.parse(answer.text)).error.message).toMatch(new RegExp(`^invalid ${kind}: \\w`));
      }
    }
  });
});

describe.for(named(allOperations.filter(({ method }) => method !== 'GET')))('%s', ([_name, operation]) => {
  const { method, body } = operation;
  const limit = body?.maxBytes ?? MIB;
  const path = pathOf(operation);

  test(`rejects more than ${limit / MIB} MiB, with or without Content-Length`, {
    tags: tagsOf(operation),
  }, async (context) => {
    const whole = JSON.stringify({ ...bodyFor(operation), filling: 'x'.repeat(limit) });
    const sent = await api.call(method, path, whole);
    expect(sent).toMatchObject({ status: 413, data: null, error: { code: 'PAYLOAD_TOO_LARGE' } });

    for (const rest of [
      // The rejection does not wait for the announced body.
      `Content-Length: ${whole.length}\r\n\r\n`,
      `Transfer-Encoding: chunked\r\n\r\n${whole.length.toString(16)}\r\n${whole}\r\n0\r\n\r\n`,
    ]) {
      const socket = connect(api.port, '127.0.0.1');
      context.onTestFinished(() => {
        socket.destroy();
      });
      socket.write(`${method} ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n${rest}`);
      const [head = '', body = ''] = await firstAnswer(socket);
      expect(head).toMatch(/^HTTP\/1\.1 413 /);
      expect(head).toContain('access-control-allow-origin: *');
      expect(errorResponse.parse(JSON.parse(body)).error.code).toBe('PAYLOAD_TOO_LARGE');
    }
  });
});
