import { createServer } from 'node:http';
import { expect, it } from 'vitest';
import { listen } from '../../../../test/fixtures/http-server.ts';
import { UnavailableStoreError } from '../registry/store/store.ts';
import { createLogger } from '../telemetry/log.ts';
import { DEFAULT_LOG_FILTER } from './config/environment.ts';
import { untilReachable } from './waiting.ts';

it('all processes that share their ports wait for the database', async () => {
  const server = createServer();
  const port = await listen(server, 0);
  server.close();
  let isReachable = false;
  const open = async () => {
    if (!isReachable) throw new UnavailableStoreError('connection refused');
  };
  const config = { mgmtListen: { host: '127.0.0.1', port }, sharesPorts: true, pipeline: { listeners: [] } };
  const log = createLogger(DEFAULT_LOG_FILTER, () => undefined).target('service');
  const waiting = Promise.all([1, 2].map(() => untilReachable(open, config, log)));
  waiting.catch(() => undefined);
  const status = (path: string) => fetch(`http://127.0.0.1:${port}${path}`).then((response) => response.status);
  await expect.poll(() => status('/healthz').catch(() => 0)).toBe(200);
  expect(await status('/readyz')).toBe(503);
  isReachable = true;
  await waiting;
});
