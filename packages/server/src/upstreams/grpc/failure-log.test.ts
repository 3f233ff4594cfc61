import { Metadata, status } from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import { DEFAULT_LOG_FILTER } from '../../app/config/environment.ts';
import { createLogger } from '../../telemetry/log.ts';
import { logFailure, ServiceError } from './call.ts';
import { DEAD_PORT, workTests } from './fixtures/work-tests.ts';
import { entryAt } from './service-entry.fixture.ts';

const { serviceWith, address, work } = workTests();

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
])('of status %s its name is logged, what the system said, and none of the words: %s', (code, details, system) => {
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

it('what is no failure of a service is logged as an error, with its cause', () => {
  const error = new Error('no idea', { cause: new Error('none at all') });
  expect(logged(error).lines).toMatchObject([
    { level: 'error', called: 'work', error: { message: 'no idea', causes: ['none at all'] } },
  ]);
});

it('what the call is answered and told with is not said again', () => {
  expect(logged(new ServiceError('INVALID_ARGUMENTS', 'S3CRET')).lines).toEqual([]);
});

it('a service that is not there is found out about in the log, and answered without an empty note', async () => {
  const on = await serviceWith({ RUST_LOG: 'service::bridge=debug', SERVICE_BRIDGE_GRPC_MAX_RETRIES: '0' });
  await address('worker', DEAD_PORT, {}, on);
  const [isError, text] = await work(on);
  expect([isError, text]).toEqual([true, expect.stringMatching(`ECONNREFUSED 127.0.0.1:${DEAD_PORT}$`)]);
  const lines = on.log.map((line) => JSON.parse(line));
  const failed = lines.find(({ msg }) => msg === 'call failed');
  expect(failed).toMatchObject({ status: 'UNAVAILABLE', code: 'ECONNREFUSED', service: 'worker' });
  const told = lines.find(({ msg }) => msg === 'tool call failed');
  expect(told.service_request_id).toBe(failed.service_request_id);
});
