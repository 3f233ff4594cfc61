import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { allOperations, errorResponse, evaluatorInput, type Right } from '@sluice/contract';
import { openApiDocument } from '@sluice/contract/openapi';
import { request } from 'undici';
import { beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { responseParts, sendBytes } from '../../../../test/fixtures/raw-exchange.ts';
import { ANONYMOUS_CALLER, type Authenticate, authenticated } from '../identity/authenticator.ts';
import { createUser } from '../identity/principal.ts';
import { mayOf } from '../identity/roles.ts';
import { PrefixCompiler } from '../policy/fixtures/prefix-compiler.ts';
import { type ApiSettings, type SharedApi, startApi, startSharedApi } from './api.fixture.ts';
import { bodyFor, makeOneOfEach, pathOf } from './operations.fixture.ts';
import { Router } from './router.ts';

const RIGHTS = ['open', 'read', 'read_bodies', 'change_registry', 'administer'] as const;

/** The rights of callers: `none` is authenticated, without a role. */
const CALLERS: Readonly<Record<string, readonly Right[]>> = {
  anonymous: ['open'],
  none: ['open'],
  viewer: ['open', 'read'],
  operator: ['open', 'read', 'change_registry'],
  auditor: ['open', 'read', 'read_bodies'],
  admin: RIGHTS,
};

/** Believes who the caller claims to be: the name of one of {@link CALLERS}, which is its group, too. */
const authenticate: Authenticate = ({ headers: { 'x-caller': caller } }) => {
  if (caller === undefined || caller === 'anonymous') return ANONYMOUS_CALLER;
  if (caller === 'forged') return { kind: 'rejected', status: 401, reason: 'invalid token' };
  return authenticated({ ...createUser(String(caller), 'test'), groups: [String(caller)] });
};
const ROLES = { viewer: ['viewer'], operator: ['operator'], auditor: ['auditor'], admin: ['admin'] };
const SETTINGS = { authenticate, may: mayOf(ROLES, 'allow'), uiPath: import.meta.dirname } satisfies ApiSettings;

let api: SharedApi;
beforeAll(async () => {
  api = await startSharedApi(SETTINGS);
  return () => api.close();
});

interface Sent {
  readonly method: string;
  readonly path: string;
  readonly caller: string;
  readonly body?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Sends a request without reading a response that is allowed: it may be a stream. */
async function send({ method, path, caller, body = '', headers }: Sent) {
  const sent = { method, body: body === '' ? null : body, headers: { 'x-caller': caller, ...headers }, reset: true };
  const response = await request(api.url + path, sent);
  const { statusCode: status } = response;
  if (status === 401 || status === 403) return { status, headers: response.headers, text: await response.body.text() };
  response.body.on('error', () => undefined).destroy();
  return { status, headers: response.headers, text: '' };
}

/** Fails unless the request is answered as for a caller with, or without, the right. */
async function expectRight(right: Right, sent: Sent): Promise<void> {
  const { status, headers, text } = await send(sent);
  const where = `${sent.method} ${sent.path} of ${sent.caller}`;
  if (CALLERS[sent.caller]?.includes(right)) return expect([401, 403], where).not.toContain(status);
  const isAnonymous = sent.caller === 'anonymous';
  expect([status, headers['www-authenticate']], where).toEqual(isAnonymous ? [401, 'Bearer'] : [403, undefined]);
  expect(headers['access-control-allow-origin'], where).toBe('*');
  if (sent.method === 'HEAD') return expect(text, where).toBe('');
  expect(errorResponse.parse(JSON.parse(text)), where).toEqual({
    data: null,
    error: isAnonymous
      ? { code: 'UNAUTHORIZED', message: 'authentication required' }
      : { code: 'FORBIDDEN', message: `missing right "${right}": no role of the caller has it` },
  });
}

/** Rights that do not follow from the method: `read` for GET, `change_registry` for others. */
const OTHERS: Readonly<Partial<Record<Right, readonly string[]>>> = {
  open: ['getHealth', 'getHealthAlias', 'getReadiness', 'getSession', 'signOut'],
  read_bodies: [
    'listInteractions',
    'getActiveEvaluatorRevision',
    'getEvaluatorRevision',
    'getIdentity',
    'getIdentityStatus',
    'listIdentityRevisions',
    'getActiveIdentityRevision',
    'getIdentityRevision',
  ],
  administer: [
    'replaceEvaluators',
    'dryRunEvaluator',
    'bindNamespace',
    'unbindNamespace',
    'activateEvaluatorRevision',
    'replaceIdentity',
    'activateIdentityRevision',
    'cancelTask',
    'clearInteractions',
    'configureInference',
    'createBackup',
    'listSessions',
    'endSession',
  ],
};

test('operations read with GET, and change the registry with other methods, but for some', () => {
  for (const { id, method, right } of allOperations) {
    const [other] = Object.entries(OTHERS).find(([, ids]) => ids.includes(id)) ?? [];
    expect(right, id).toBe(other ?? (method === 'GET' ? 'read' : 'change_registry'));
  }
});

/** Paths that are no operations. */
const PATHS: readonly (readonly [Right, string, ...string[]])[] = [
  ['read', 'GET', '/metrics', '/metrics/', '/api/docs', '/api/docs/', '/api/docs/json', '/api/docs/yaml'],
  ['read', 'GET', '/api/docs/static/index.html', '/api/docs/static/index.css', '/api/docs/static/none'],
  ['read', 'HEAD', '/metrics', '/api/docs', '/openapi.json', '/api/v1/tools'],
  ['open', 'HEAD', '/healthz', '/admin/', '/'],
  [
    'open',
    'GET',
    '/',
    '/?x',
    '/admin',
    '/admin/',
    '/admin/tools',
    '/admin/assets/a.js',
    '/plugins/a/b.js',
    '/healthz/',
  ],
  // Denied like paths that exist.
  ['read', 'GET', '/nothing', '/admin-x', '/plugins', '/api/v1/none', '/api/v1//tools', '/API/v1/tools', '/%zz'],
  ['read', 'PUT', '/nothing', '/api/v1/tools', '/healthz', '/admin/', '/metrics', '/api/v1/tools/%zz'],
  ['read', 'QUERY', '/api/v1/tools', '/api/v1/state'],
  ['change_registry', 'GET', '/api/plugins', '/api/plugins/a/b', '/api/plugins/a/b/c?d'],
  ['change_registry', 'POST', '/api/plugins/a/b', '/api/v1/namespaces/default/mcp', '/api/v1/namespaces/x/mcp/'],
  ['change_registry', 'GET', '/api/v1/namespaces/default/mcp'],
  ['change_registry', 'DELETE', '/api/v1/namespaces/default/mcp'],
  ['change_registry', 'GET', '/api/v1/chat', '/api/v1/chat/x', '/api/v1/management/info', '/api/v2/tool-calls/x'],
  ['change_registry', 'POST', '/api/v1/chat/completions', '/api/v1/management/statistics', '/api/v1/data-store/x'],
  // Not of CORS: it is proxied.
  ['change_registry', 'OPTIONS', '/api/v1/chat'],
  ['open', 'OPTIONS', '/api/v1/tools', '/api/v1/backup', '/metrics', '/nothing', '/api/v1/namespaces/x/mcp'],
];

describe.for(Object.keys(CALLERS))('%s', (caller) => {
  test.for(allOperations)('$method $path', async (operation) => {
    // Invalid, so that it changes nothing. It is not even read for a caller without the right.
    const body = operation.body && '{';
    const path = pathOf(operation, '0');
    await expectRight(operation.right, { method: operation.method, path, caller, body });
  });

  test.for(PATHS)('%s is required by %s %s', async ([right, method, ...paths]) => {
    for (const path of paths) await expectRight(right, { method, path, caller });
  });

  test('sends a CORS preflight without a credential', async () => {
    const headers = { origin: api.url, 'access-control-request-method': 'POST' };
    for (const path of ['/api/v1/tools', '/api/v1/chat', '/api/plugins/a/b', '/api/v1/namespaces/x/mcp']) {
      expect((await send({ method: 'OPTIONS', path, caller, headers })).status, path).toBe(204);
    }
  });
});

/** `security` of an operation in the OpenAPI document. */
const secured = z.object({
  security: z.union([
    z.tuple([]),
    z.tuple([z.strictObject({}), z.strictObject({ bearer: z.tuple([z.enum(RIGHTS)]) })]),
  ]),
});

test('the OpenAPI document has the right that each of its paths requires', async () => {
  const { paths, components } = openApiDocument('0');
  for (const [path, item] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries('$ref' in item ? { ...components.pathItems.Proxied } : item)) {
      const { security } = secured.parse(operation);
      const right = security[1]?.bearer[0] ?? 'open';
      const sent = {
        method: method.toUpperCase(),
        path: path.replace(/\{\w+\}/, '0'),
        body: method === 'get' ? '' : '{',
      };
      for (const caller of ['anonymous', 'viewer', 'operator']) await expectRight(right, { ...sent, caller });
    }
  }
});

test('a denied request changes nothing', async (context) => {
  const own = await startApi(context, SETTINGS);
  const admin = { ...own, call: admined(own.call) };
  await makeOneOfEach(admin, 'http://127.0.0.1:9/mcp');
  const before = own.registry.current;
  const revision = own.evaluators.history.active;
  const tasks = (await admin.call('GET', '/api/v1/tasks?state=all')).text;
  for (const operation of allOperations.filter(({ method }) => method !== 'GET')) {
    for (const [caller, rights] of Object.entries(CALLERS)) {
      if (rights.includes(operation.right)) continue;
      const answer = await own.call(operation.method, pathOf(operation), bodyFor(operation), { 'x-caller': caller });
      expect([401, 403], `${operation.id} of ${caller}`).toContain(answer.status);
    }
  }
  expect(own.registry.current).toBe(before);
  expect(own.evaluators.history.active).toBe(revision);
  expect((await admin.call('GET', '/api/v1/evaluators/namespaces')).data).toEqual({});
  expect(own.inference.upstreamText).toBe('127.0.0.1:11434');
  expect((await admin.call('GET', '/api/v1/tasks?state=all')).text).toBe(tasks);
});

function admined(call: SharedApi['call']): SharedApi['call'] {
  return (method, path, body, headers) => call(method, path, body, { 'x-caller': 'admin', ...headers });
}

test('evaluators of a desired state require the right to administer, the rest does not', async (context) => {
  const own = await startApi(context, SETTINGS);
  const state = { namespaces: [{ name: 'x' }] };
  const apply = (caller: string, body: object, query = '') =>
    own.call('PUT', `/api/v1/state${query}`, body, { 'x-caller': caller });
  for (const query of ['', '?dry_run=true', '?prune=true']) {
    expect(await apply('operator', { ...state, evaluators: [] }, query)).toMatchObject({
      status: 403,
      error: { code: 'FORBIDDEN', message: expect.stringContaining('"administer"') },
    });
  }
  expect((await own.call('GET', '/api/v1/namespaces/x', undefined, { 'x-caller': 'viewer' })).status).toBe(404);
  expect((await apply('operator', state)).status).toBe(200);
  expect((await apply('admin', { ...state, evaluators: [] })).status).toBe(200);
});

describe('a credential that is not accepted', () => {
  test('is rejected where a right is required, and ignored elsewhere', async () => {
    const denied = await send({ method: 'GET', path: '/api/v1/tools', caller: 'forged' });
    expect([denied.status, denied.headers['www-authenticate']]).toEqual([401, 'Bearer']);
    expect(JSON.parse(denied.text)).toEqual({ data: null, error: { code: 'UNAUTHORIZED', message: 'invalid token' } });
    for (const path of ['/healthz', '/readyz', '/admin/x', '/', '/plugins/a/b']) {
      expect((await send({ method: 'GET', path, caller: 'forged' })).status, path).not.toBe(401);
    }
    expect((await send({ method: 'OPTIONS', path: '/api/v1/tools', caller: 'forged' })).status).toBe(204);
  });

  test('is rejected everywhere if there are no rights', async (context) => {
    const own = await startApi(context, { authenticate });
    expect((await own.call('GET', '/healthz', undefined, { 'x-caller': 'forged' })).status).toBe(401);
  });
});

test('a denied request is answered before its body arrives', async () => {
  for (const path of ['/api/v1/tools', '/api/v1/state', '/api/v1/chat', '/api/v1/namespaces/x/mcp', '/nothing']) {
    const head = `PUT ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{`;
    const { statusLine } = responseParts(await sendBytes(api.port, head));
    expect(statusLine, path).toBe('HTTP/1.1 401 Unauthorized');
  }
});

test('a path without a right does not compile', () => {
  const router = new Router();
  const handle = () => ({ status: 204, headers: {}, body: '' });
  // @ts-expect-error The right is missing.
  expect(() => router.addPath('/open', handle)).not.toThrow();
  // @ts-expect-error So it is here.
  router.add({ id: 'x', method: 'GET', path: '/x', tag: 'x', summary: '', responses: {}, errors: [] }, handle);
});

test('prompts of evaluators are bodies', async (context) => {
  const evaluator = {
    name: 'e',
    trigger: { method: 'm' },
    llm: { operation: 'classify', prompt: 'secret rules', connection: 'c' },
    processor: { path: 'p' },
  };
  const connections = [{ name: 'c', model: 'm', url: 'http://h' }];
  const configured = [evaluatorInput.parse(evaluator)];
  const baseFolder = await mkdtemp(join(tmpdir(), 'sluice-rights-'));
  context.onTestFinished(() => rm(baseFolder, { recursive: true }));
  await writeFile(join(baseFolder, 'p'), 'ok');
  const own = await startApi(context, {
    ...SETTINGS,
    evaluators: { connections, configured, compiling: new PrefixCompiler(), baseFolder },
  });
  const list = async (caller: string) =>
    (await own.call('GET', '/api/v1/evaluators', undefined, { 'x-caller': caller })).data as typeof configured;
  for (const caller of ['viewer', 'operator']) {
    const [listed] = await list(caller);
    expect(listed).toMatchObject({ name: 'e', llm: { operation: 'classify', connection: 'c' } });
    expect(listed?.llm).not.toHaveProperty('prompt');
  }
  for (const caller of ['auditor', 'admin']) expect((await list(caller))[0]?.llm.prompt).toBe('secret rules');
});

test('a namespace that is bound to a conversation is deleted by administrators only', async (context) => {
  const own = await startApi(context, SETTINGS);
  const call = (caller: string, method: string, path: string, body?: object) =>
    own.call(method, path, body, { 'x-caller': caller });
  for (const name of ['x', 'free']) await call('operator', 'POST', '/api/v1/namespaces', { name });
  await call('admin', 'PUT', '/api/v1/evaluators/namespaces/x', { conversation_id: 'c' });
  const prune = '/api/v1/state?prune=true';
  for (const query of ['', '?cascade=true'])
    expect((await call('operator', 'DELETE', `/api/v1/namespaces/x${query}`)).error).toEqual({
      code: 'FORBIDDEN',
      message: expect.stringMatching(/^missing right "administer".*; namespace "x" is bound to a conversation/),
    });
  expect((await call('operator', 'PUT', prune, { namespaces: [] })).status).toBe(403);
  expect((await call('operator', 'PUT', prune, { namespaces: [{ name: 'x' }] })).status).toBe(200);
  expect((await call('operator', 'GET', '/api/v1/namespaces/free')).status).toBe(404);
  expect((await call('admin', 'DELETE', '/api/v1/namespaces/x')).status).toBe(200);
  expect((await call('admin', 'GET', '/api/v1/evaluators/namespaces')).data).toEqual({});
});

test('what a caller gets is in no cache, unless the response says otherwise', async (context) => {
  const own = await startApi(context, SETTINGS);
  for (const path of ['/api/v1/tools', '/api/v1/session', '/api/v1/unknown'])
    expect((await own.call('GET', path, undefined, { 'x-caller': 'viewer' })).headers['cache-control'], path).toBe(
      'no-store',
    );
  const open = await startApi(context);
  expect((await open.call('GET', '/api/v1/tools')).headers['cache-control']).toBeUndefined();
});
