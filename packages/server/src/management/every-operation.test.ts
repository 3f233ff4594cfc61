import { allOperations, errorResponse } from '@sluice/contract';
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { type RawUpstream, startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { type CapabilityService, startCapabilityService, unaryHandler } from '../../testing/capability-service.ts';
import type { Snapshot } from '../registry/snapshot.ts';
import { type Api, type SharedApi, startApi, startSharedApi } from './api.fixture.ts';
import {
  bodyFor,
  isJsonOperation,
  makeOneOfEach,
  named,
  needsWhatItNames,
  pathOf,
  tagsOf,
  undo,
} from './operations.fixture.ts';

// Event streams, downloads and measurements have their own tests.
const ENDING = allOperations.filter(
  // The log has the lines of earlier requests, and nobody is signed in.
  (operation) =>
    isJsonOperation(operation) &&
    !['runDiagnostics', 'testForward', 'listLogLines', 'endSession'].includes(operation.id),
);
const READING = ENDING.filter(({ method }) => method === 'GET');
const WITH_NAME = allOperations.filter(({ path }) => path.includes('{'));
const PATHS = [...new Set(allOperations.map(({ path }) => path))];
/** Other requests to this path are for the legacy backend. */
const PASSED_ON = '/api/v1/management/statistics';
const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'PATCH'];

function methodsOf(path: string): string[] {
  return allOperations.filter((operation) => operation.path === path).map(({ method }) => method);
}

function addressOf(path: string): string {
  return path.replace(/\{\w+\}/, 'x');
}

/** Names as written in a path, with their decoded form. */
const NAMES = [
  ['a%2Fb', 'a/b'],
  ['100%25', '100%'],
  ['a%252Fb', 'a%2Fb'],
  ['a%20b', 'a b'],
  // `+` is a space in form data, but not in a path.
  ['a+b', 'a+b'],
  ['a;b:c', 'a;b:c'],
  ['a%3Fb%23c', 'a?b#c'],
  ['na%C3%AFve-%E6%97%A5%E6%9C%AC-%F0%9F%98%80', 'naïve-日本-😀'],
  ['%F0%9F%98%80'.repeat(256), '😀'.repeat(256)],
  ['__proto__', '__proto__'],
] as const;

// The record of a forward whose upstream is down would change with each retry.
let upstream: RawUpstream;
let provisioner: CapabilityService;
/** With one entry of each kind. No test changes it: successful changes use an API of their own. */
let api: SharedApi;
beforeAll(async () => {
  // Equal requests have equal responses: no step of a time series begins between them.
  vi.useFakeTimers({ toFake: ['Date'] });
  upstream = await startRawUpstream();
  provisioner = await startCapabilityService((server, protocols) =>
    server.addService(protocols.provisioner, { Provision: unaryHandler(() => ({})) }),
  );
  api = await startSharedApi();
  await makeAll(api);
  return async () => {
    await api.close();
    provisioner.close();
    await upstream.close();
    vi.useRealTimers();
  };
});

let before: Snapshot;
beforeEach(() => {
  before = api.registry.current;
});
afterEach(() => {
  expect(api.registry.current).toBe(before);
});

/** One entry of each kind; the service is running and supports provisioning. */
async function makeAll(of: Api): Promise<void> {
  await makeOneOfEach(of, upstream.url);
  const service = { name: 'x', address: provisioner.address, serviceType: 'tool-invoker' };
  expect((await of.call('POST', '/api/v1/services', service)).status).toBe(200);
}

/** Members that avoid a conflict of a new entry with existing ones. */
const FRESH = { name: 'y', location: 'y:1' };

/** The members that the body may have: some bodies allow no others. */
function freshOf(body: object): object {
  return Object.fromEntries(Object.entries(FRESH).filter(([member]) => Object.hasOwn(body, member)));
}

/** The kind of entry of a path: `tool` for `/api/v1/tools/{name}`. */
function kindOf(path: string): string {
  return /\/(\w+)s\/\{/.exec(path)?.[1] ?? '';
}

describe.for(named(READING))('%s', ([_name, operation]) => {
  test('answers HEAD with the same head and no body', async () => {
    const get = await api.call('GET', pathOf(operation));
    const head = await api.call('HEAD', pathOf(operation));
    expect([get.status, head.status]).toEqual([200, 200]);
    expect(get.text).not.toBe('');
    expect(head.text).toBe('');
    const { date: _, ...headers } = get.headers;
    expect(head.headers).toMatchObject(headers);
    const missing = await api.call('HEAD', pathOf(operation, 'none'));
    expect(missing.status).toBe(pathOf(operation, 'none') === operation.path ? 200 : 404);
    expect(missing.text).toBe('');
  });
});

describe.for(named(ENDING))('%s', ([_name, operation]) => {
  const { method } = operation;
  const tags = method === 'GET' ? [] : tagsOf(operation);

  test('ignores a trailing slash, unknown query parameters and credentials', { tags }, async (context) => {
    const own = method === 'GET' ? api : await startApi(context);
    if (own !== api) await makeAll(own);
    const sample = bodyFor(operation, upstream.url);
    const body = sample && operation.responses[201] ? { ...sample, ...freshOf(sample) } : sample;
    const answers = [];
    for (const [end, headers] of [
      ['', {}],
      ['/', {}],
      ['?unknown=1&other=0', {}],
      ['/?unknown', {}],
      ['', { authorization: 'Bearer nonsense' }],
    ] as const) {
      const answer = await own.call(method, pathOf(operation) + end, body, headers);
      const { status, text, location } = answer;
      answers.push({ status, text, location });
      await undo(own, operation, answer, upstream.url);
    }
    const [plain, ...others] = answers;
    expect(plain?.status).toBe(operation.responses[201] ? 201 : 200);
    expect(others).toEqual([plain, plain, plain, plain]);
  });

  test.each(['0', '-1', '1.5', '1e3', 'x', ''])('answers 400 to limit=%s', async (limit) => {
    const path = `${pathOf(operation)}?limit=${limit}`;
    const answer = await api.call(method, path, bodyFor(operation, upstream.url));
    const message = `invalid limit ${JSON.stringify(limit)}: expected a whole number from 1`;
    expect([answer.status, answer.error]).toEqual([400, { code: 'BAD_REQUEST', message }]);
  });

  test('rejects a foreign origin and a foreign host without any effect', async () => {
    for (const header of ['origin', 'host']) {
      const foreign = { [header]: header === 'host' ? 'evil.example' : 'https://evil.example' };
      const answer = await api.call(method, pathOf(operation), bodyFor(operation, upstream.url), foreign);
      expect(answer, header).toMatchObject({ status: 403, data: null, error: { code: 'FORBIDDEN' } });
    }
  });
});

describe.for(named(WITH_NAME))('%s', ([_name, operation]) => {
  const { method } = operation;

  test.runIf(needsWhatItNames(operation))('returns 404 for an unknown name, which it decodes', async () => {
    for (const [encoded, decoded] of NAMES) {
      const answer = await api.call(method, pathOf(operation, encoded), bodyFor(operation, upstream.url));
      const message = `${kindOf(operation.path)} not found: ${decoded}`;
      expect([answer.status, answer.error]).toEqual([404, { code: 'NOT_FOUND', message }]);
    }
  });

  test('returns 400 for a path that cannot be decoded', async () => {
    for (const name of ['%', '%2', '%zz', 'a%FF', '%C0%80', '%ED%A0%80']) {
      const answer = await api.call(method, pathOf(operation, name), bodyFor(operation, upstream.url));
      expect(answer, name).toMatchObject({ status: 400, data: null, error: { code: 'BAD_REQUEST' } });
      expect(JSON.stringify(answer.error)).toContain('percent-encoded');
    }
  });

  test('does not treat an unencoded slash as part of a name', async () => {
    expect((await api.call(method, pathOf(operation, 'a/b'), bodyFor(operation, upstream.url))).error).toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringMatching(/^path not found: /),
    });
  });
});

describe.for(PATHS)('%s', (path) => {
  test('answers OPTIONS with the methods of the API', async () => {
    for (const end of ['', '/']) {
      const answer = await api.call('OPTIONS', addressOf(path) + end);
      expect([answer.status, answer.text]).toEqual([204, '']);
      expect(answer.headers).toMatchObject({
        'access-control-allow-origin': '*',
        'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE, OPTIONS',
        'access-control-allow-headers': 'Content-Type, Accept, Authorization',
      });
    }
  });
});

/** There a name may stand as well: other methods are for the entry of that name. */
const ALSO_NAMES = PATHS.filter((path) => /\/(?:enabled|test)$/.test(path));

test.for(ALSO_NAMES)('%s also names an entry', async (path) => {
  const parent = path.slice(0, path.lastIndexOf('/'));
  const ofEntry = methodsOf(`${parent}/{name}`);
  for (const method of METHODS) {
    const { status, headers } = await api.call(method, path, method === 'GET' || method === 'DELETE' ? undefined : {});
    if (method === 'POST' || ofEntry.includes(method)) expect(status, method).not.toBe(405);
    else expect(headers.allow?.toString().split(', '), method).toEqual(expect.arrayContaining(['POST', ...ofEntry]));
  }
});

describe.for(PATHS.filter((path) => path !== PASSED_ON && !ALSO_NAMES.includes(path)))('%s', (path) => {
  const methods = methodsOf(path);
  const address = addressOf(path);

  test('rejects every other method and lists the allowed ones', async () => {
    const allowed = [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'].sort();
    const refused = METHODS.filter((method) => !methods.includes(method));
    expect(refused).toContain(methods.includes('PATCH') ? 'PUT' : 'PATCH');
    if (!methods.includes('GET')) refused.push('HEAD');
    for (const method of refused) {
      for (const end of ['', '/']) {
        const answer = await api.call(method, address + end, method === 'PATCH' ? {} : undefined);
        expect(answer.status, method).toBe(405);
        expect(String(answer.headers.allow).split(', ').sort(), method).toEqual(allowed);
        if (method !== 'HEAD')
          expect(errorResponse.parse(JSON.parse(answer.text)).error.code).toBe('METHOD_NOT_ALLOWED');
      }
    }
  });
});

test('methods that statistics do not support are proxied to the legacy backend', async () => {
  for (const method of METHODS.filter((each) => !methodsOf(PASSED_ON).includes(each))) {
    for (const end of ['', '/']) {
      const answer = await api.call(method, PASSED_ON + end, {});
      expect(answer, method).toMatchObject({ status: 503, data: null, error: { code: 'UNAVAILABLE' } });
      expect(JSON.stringify(answer.error)).toContain('SERVICE_CLASSIC_URL');
    }
  }
});
