import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { responseParts, sendBytes } from '../../../../test/fixtures/raw-exchange.ts';
import { startTappedBackend, type TappedBackend } from '../../../../test/fixtures/tapped-backend.ts';
import { startTestService, type TestService } from '../../testing/service.ts';

let backend: TappedBackend;
let service: TestService;
beforeAll(async () => {
  backend = await startTappedBackend();
  service = await startTestService({ SERVICE_INFERENCE_UPSTREAM: `127.0.0.1:${backend.port}` });
});
beforeEach(() => backend.clear());
afterAll(async () => {
  await service.stop(0);
  backend.close();
});

const LISTENERS = ['mcp', 'inference', 'management'];
const HOST = 'Host: localhost\r\n';
const CLOSE = `${HOST}Connection: close\r\n`;
const SLASH = 'invalid request target: expected a path that begins with a slash';

/** The response of a listener to a request, and its access log line. */
async function exchange(listener: string, line: string, headers: string) {
  const before = service.log.length;
  const response = await sendBytes(Number(service.addresses[listener]?.split(':').at(-1)), `${line}\r\n${headers}\r\n`);
  const { statusLine, body } = responseParts(response);
  const access = await vi.waitFor(() => {
    const lines = service.log.slice(before).map((text): Record<string, unknown> => JSON.parse(text));
    const found = lines.find(({ target }) => String(target).endsWith('::access'));
    if (!found) throw new Error(`no line of ${line} in ${service.log.slice(before)}`);
    return found;
  }, 20_000);
  return { status: Number(statusLine.split(' ')[1]), body: body.toString(), access };
}

describe.each(LISTENERS)('on the listener %s', (listener) => {
  test.each([
    ['an absolute target', 'GET http://other/x HTTP/1.1', CLOSE, SLASH],
    ['an asterisk target', 'GET * HTTP/1.1', CLOSE, SLASH],
    ['a fragment in the target', 'GET /x#y HTTP/1.1', CLOSE, 'invalid request target: encode # as %23'],
    ['two Host headers', 'GET /x HTTP/1.1', `${CLOSE}${HOST}`, 'duplicate Host header'],
    ['no Host', 'GET /x HTTP/1.1', 'Connection: close\r\n', 'a Host header is required'],
    ['an unknown transfer coding', 'GET /x HTTP/1.1', `${CLOSE}Transfer-Encoding: x, chunked\r\n`, 'Transfer-Encoding'],
  ])('rejects %s with a reason and closes the connection', async (_name, line, headers, reason) => {
    const { status, body, access } = await exchange(listener, line, headers.replace('Connection: close\r\n', ''));
    expect([status, access.status, access.handled]).toEqual([400, 400, 'rejected']);
    expect(body).toContain(reason);
    expect(backend.requests).toEqual([]);
  });

  test('ignores an unknown expectation', async () => {
    const path = listener === 'mcp' ? '/.well-known/x' : '/api/v1/namespaces';
    const plain = await exchange(listener, `GET ${path} HTTP/1.1`, CLOSE);
    const expecting = await exchange(listener, `GET ${path} HTTP/1.1`, `${CLOSE}Expect: a-wonder\r\n`);
    expect([expecting.status, expecting.access.status]).toEqual([plain.status, plain.status]);
    expect(plain.status).toBe(listener === 'mcp' ? 404 : 200);
    expect(backend.received).not.toContain('a-wonder');
  });
});
