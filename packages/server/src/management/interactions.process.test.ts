import { request } from 'undici';
import { expect, test } from 'vitest';
import { recordedInteraction } from '../inference/interaction.fixture.ts';
import { startApi } from './api.fixture.ts';

const PATH = '/api/v1/interactions';
const ASKED = '{"messages":[{"role":"user","content":"é"}]}';

test('responses of hundreds of MiB are sent while others are served, at the speed of their reader', async (context) => {
  const api = await startApi(context);
  const content = 'x'.repeat(1024 * 1024);
  for (let at = 0; at < 200; at++) {
    const isText = at % 2 === 0;
    const body = isText ? { responseText: `no JSON ${content}` } : { responseText: JSON.stringify(content) };
    api.interactions.add(recordedInteraction({ epochMs: at, requestText: ASKED, ...body }));
  }
  const before = process.memoryUsage().rss;
  const answer = await request(api.url + PATH, { reset: true });
  let bytes = 0;
  let others = 0;
  let most = 0;
  const pieces: Buffer[] = [];
  for await (const piece of answer.body) {
    const buffer = Buffer.from(piece);
    bytes += buffer.length;
    if (bytes > 20 * 1024 * 1024 * (others + 1)) {
      others++;
      expect((await api.call('GET', '/healthz')).status).toBe(200);
      most = Math.max(most, process.memoryUsage().rss - before);
    }
    if (bytes < 3 * 1024 * 1024) pieces.push(buffer);
  }
  expect(bytes).toBeGreaterThan(200 * 1024 * 1024);
  expect(bytes).toBeLessThan(202 * 1024 * 1024);
  expect(others).toBeGreaterThan(5);
  // Serialized at once it would need 400 MiB and block the process for half a second.
  expect(most).toBeLessThan(150 * 1024 * 1024);
  const start = Buffer.concat(pieces).toString();
  expect(start.slice(0, 200)).toContain(
    `{"data":[{"epoch_ms":0,"path":"/v1/chat/completions","request_body":${ASKED},`,
  );
  expect(start).toContain(`"status_code":200,"duration_ms":7},{"epoch_ms":1,`);
});
