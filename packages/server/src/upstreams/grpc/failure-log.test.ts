import { Metadata, status } from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import { DEFAULT_LOG_FILTER } from '../../app/config/environment.ts';
import { createLogger } from '../../telemetry/log.ts';
import { CallError } from '../operation.ts';
import { operationTests, UNUSED_PORT } from './fixtures/operation-tests.ts';
import { entryAt } from './service-entry.fixture.ts';
import { logFailure } from './service-error.ts';

const { serviceWith, address, work } = operationTests();

const statusError = (code: status, details: string) =>
  Object.assign(new Error(`${code} ${details}`), { code, details, metadata: new Metadata() });

function logged(error: unknown): { text: string; lines: Record<string, unknown>[] } {
  const lines: string[] = [];
  const filter = { ...DEFAULT_LOG_FILTER, 'service::bridge': 'debug' } as const;
  const log = createLogger(filter, (line) => lines.push(line)).target('service::bridge');
  logFailure(log, { name: 'work', service: entryAt(7), requestId: 'r' }, error);
  return { text: lines.join(''), lines: lines.map((line) => JSON.parse(line)) };
}

it.each([
  [
    status.UNAVAILABLE,
    'No connection established. Last error: Error: connect ECONNREFUSED 127.0.0.1:7',
    'ECONNREFUSED',
  ],
  [status.UNAVAILABLE, 'Name resolution failed: getaddrinfo ENOTFOUND nowhere', 'ENOTFOUND'],
  [status.INVALID_ARGUMENT, 'what is S3CRET, and ES3CRET, and ESECRET?', undefined],
])('of status %s contains its name and the system error, but none of the text: %s', (code, details, system) => {
  const { text, lines } = logged(statusError(code, details));
  expect(lines).toMatchObject([
    {
      level: 'debug',
      msg: 'call failed',
      called: 'work',
      service: 'weather',
      service_address: '127.0.0.1:7',
      service_request_id: 'r',
      status: status[code],
    },
  ]);
  expect(lines[0]?.code).toBe(system);
  expect(text).not.toMatch(/S3CRET|ESECRET|nowhere/);
});

it('an internal error is logged as an error, with its cause', () => {
  const error = new Error('no idea', { cause: new Error('none at all') });
  expect(logged(error).lines).toMatchObject([
    { level: 'error', called: 'work', error: { message: 'no idea', causes: ['none at all'] } },
  ]);
});

it('a CallError, reported by response and event, is not logged', () => {
  expect(logged(new CallError('INVALID_ARGUMENTS', 'S3CRET')).lines).toEqual([]);
});

it('of an unreachable service is written, and the response has no empty note', async () => {
  const on = await serviceWith({ RUST_LOG: 'service::bridge=debug', SERVICE_BRIDGE_GRPC_MAX_RETRIES: '0' });
  await address('worker', UNUSED_PORT, {}, on);
  const [isError, text] = await work(on);
  expect([isError, text]).toEqual([true, expect.stringMatching(`ECONNREFUSED 127.0.0.1:${UNUSED_PORT}$`)]);
  const lines = on.log.map((line) => JSON.parse(line));
  const failed = lines.find(({ msg }) => msg === 'call failed');
  expect(failed).toMatchObject({ status: 'UNAVAILABLE', code: 'ECONNREFUSED', service: 'worker' });
  const line = lines.find(({ msg }) => msg === 'tool call failed');
  expect(line.service_request_id).toBe(failed.service_request_id);
});
