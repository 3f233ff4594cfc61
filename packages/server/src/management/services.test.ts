import { service as serviceOutput } from '@sluice/contract';
import { expect, test } from 'vitest';
import { startApi } from './api.fixture.ts';

const PATH = '/api/v1/services';
const SERVICE = { name: 'files', address: '10.0.0.7:50051', serviceType: 'tool-invoker' };
const SHOWN = { ...SERVICE, host: '10.0.0.7', port: 50_051, labels: {}, health: 'pending' };

test('a new entry is 201 with Location, all three forms of its address, and pending health', async (context) => {
  const api = await startApi(context);
  expect((await api.call('GET', PATH)).data).toEqual([]);
  const made = await api.call('POST', PATH, SERVICE);
  expect(made.status).toBe(201);
  expect(made.location).toBe('/api/v1/services/files?serviceType=tool-invoker');
  expect(made.data).toEqual(SHOWN);
  expect(serviceOutput.parse(made.data)).toEqual(SHOWN);
  expect((await api.call('GET', made.location)).data).toEqual(SHOWN);
  expect((await api.call('GET', `${PATH}/files`)).data).toEqual(SHOWN);
  expect((await api.call('GET', PATH)).data).toEqual([SHOWN]);
});

test('known members are stored, aliases are replaced, and unknown members are dropped', async (context) => {
  const api = await startApi(context);
  const made = await api.call('POST', PATH, {
    serviceName: ' py ',
    host: 'code.internal',
    port: 7,
    service_type: 'code-execution-engine',
    serviceSubType: 'docker',
    languageName: 'python',
    labels: { team: 'a' },
    id: '0042',
    health: 'healthy',
    vendor: true,
  });
  expect(made.data).toEqual({
    name: 'py',
    host: 'code.internal',
    port: 7,
    address: 'code.internal:7',
    serviceType: 'code-execution-engine',
    serviceSubType: 'docker',
    languageName: 'python',
    labels: { team: 'a' },
    id: '0042',
    health: 'pending',
  });
});

test('the canonical name takes precedence over its alias', async (context) => {
  const api = await startApi(context);
  const body = { ...SERVICE, serviceName: 'other', service_type: 'resource-provider' };
  expect((await api.call('POST', PATH, body)).data).toEqual(SHOWN);
});

test('an existing key is 200: the entry is replaced, except for its position', async (context) => {
  const api = await startApi(context);
  for (const name of ['a', 'b', 'c']) {
    await api.call('POST', PATH, { ...SERVICE, name, labels: { old: '1' }, id: 'old' });
  }
  const replaced = await api.call('POST', PATH, { ...SERVICE, name: 'b', address: 'elsewhere:1' });
  expect(replaced.status).toBe(200);
  expect(replaced.location).toBe('');
  const b = { ...SHOWN, name: 'b', host: 'elsewhere', port: 1, address: 'elsewhere:1' };
  expect(replaced.data).toEqual(b);
  expect((await api.call('GET', PATH)).data).toEqual([
    { ...SHOWN, name: 'a', labels: { old: '1' }, id: 'old' },
    b,
    { ...SHOWN, name: 'c', labels: { old: '1' }, id: 'old' },
  ]);
});

test('one of several concurrent requests for a key creates the entry, the others replace it', async (context) => {
  const api = await startApi(context);
  const answers = await Promise.all(Array.from({ length: 6 }, () => api.call('POST', PATH, SERVICE)));
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 200, 200, 200, 200, 201]);
  expect((await api.call('GET', PATH)).data).toEqual([SHOWN]);
});

test('name, type, engine and language are the key, and the name returns the first entry with all of them', async (context) => {
  const api = await startApi(context);
  const engine = { ...SERVICE, name: 'run', serviceType: 'code-execution-engine' };
  const variants = [
    { ...SERVICE, name: 'run' },
    engine,
    { ...engine, serviceSubType: 'docker' },
    { ...engine, languageName: 'docker' },
    { ...engine, serviceSubType: 'docker', languageName: 'python' },
    { ...engine, serviceSubType: 'Docker', languageName: 'python' },
    { ...engine, serviceSubType: 'dockerpython', languageName: '' },
  ];
  for (const variant of variants) expect((await api.call('POST', PATH, variant)).status).toBe(201);
  await api.call('POST', PATH, { ...SERVICE, name: 'runner' });
  for (const variant of variants) expect((await api.call('POST', PATH, variant)).status).toBe(200);

  const shown = variants.map((variant) => ({ ...SHOWN, ...variant }));
  expect((await api.call('GET', `${PATH}/run`)).data).toEqual({ ...shown[0], entries: shown });
  expect((await api.call('GET', `${PATH}/run?serviceType=tool-invoker`)).data).toEqual(shown[0]);
  expect((await api.call('GET', `${PATH}/run?serviceType=code-execution-engine`)).data).toEqual({
    ...shown[1],
    entries: shown.slice(1),
  });
  expect((await api.call('GET', PATH)).data).toHaveLength(8);
});

test('deleting removes all entries of the name, or those of one type, and returns their number', async (context) => {
  const api = await startApi(context);
  for (const serviceType of ['tool-invoker', 'resource-provider', 'multi-capability']) {
    await api.call('POST', PATH, { ...SERVICE, serviceType });
    await api.call('POST', PATH, { ...SERVICE, serviceType, languageName: 'l' });
  }
  await api.call('POST', PATH, { ...SERVICE, name: 'file' });
  expect((await api.call('DELETE', `${PATH}/files?serviceType=resource-provider`)).data).toEqual({
    removed: 'files',
    count: 2,
  });
  expect((await api.call('GET', `${PATH}/files?serviceType=resource-provider`)).status).toBe(404);
  expect((await api.call('DELETE', `${PATH}/files`)).data).toEqual({ removed: 'files', count: 4 });
  expect((await api.call('GET', PATH)).data).toMatchObject([{ name: 'file' }]);
  // The next service with this name is last.
  await api.call('POST', PATH, SERVICE);
  expect((await api.call('GET', PATH)).data).toMatchObject([{ name: 'file' }, { name: 'files' }]);
});

test('a missing name or type is 404', async (context) => {
  const api = await startApi(context);
  await api.call('POST', PATH, SERVICE);
  for (const [path, name] of [
    ['none', 'none'],
    ['Files', 'Files'],
    ['files?serviceType=resource-provider', 'files'],
  ]) {
    for (const method of ['GET', 'DELETE']) {
      const answer = await api.call(method, `${PATH}/${path}`);
      expect([answer.status, answer.error], `${method} ${path}`).toEqual([
        404,
        { code: 'NOT_FOUND', message: `service not found: ${name}` },
      ]);
    }
  }
  expect((await api.call('GET', PATH)).data).toEqual([SHOWN]);
});

test.for([
  ['h:1', 'h', 1, 'h:1'],
  ['crm.svc.cluster.local:65535', 'crm.svc.cluster.local', 65_535, 'crm.svc.cluster.local:65535'],
  ['[2001:db8::1]:50051', '2001:db8::1', 50_051, '[2001:db8::1]:50051'],
  [' h:0080 ', 'h', 80, 'h:80'],
] as const)(
  'the address %s is taken apart, and can be given back in all three forms',
  async ([address, host, port, shown], context) => {
    const api = await startApi(context);
    const made = await api.call('POST', PATH, { ...SERVICE, address });
    expect(made.data).toMatchObject({ host, port, address: shown });
    for (const place of [
      { host, port },
      { host, port, address: shown },
      { address: shown, port },
      { address: shown, host },
    ]) {
      const again = await api.call('POST', PATH, { ...SERVICE, address: undefined, ...place });
      expect([again.status, again.data]).toEqual([200, made.data]);
    }
    expect((await api.call('POST', PATH, { ...Object(made.data) })).data).toEqual(made.data);
  },
);

test.for([
  ['address', {}],
  ['address', { port: 7 }],
  ['port', { host: 'h' }],
  ['address', { address: 'h' }],
  ['address', { address: 'h:0' }],
  ['address', { address: 'h:65536' }],
  ['address', { address: '::1:7' }],
  ['address', { address: 'http://h:7' }],
  ['address', { address: 5 }],
  ['host', { host: '[::1]', port: 7 }],
  ['host', { host: 'h:7', port: 7 }],
  ['host', { host: '', port: 7 }],
  ['port', { host: 'h', port: 0 }],
  ['port', { host: 'h', port: 65_536 }],
  ['port', { host: 'h', port: 1.5 }],
  ['port', { host: 'h', port: '7' }],
  ['host', { address: 'h:7', host: 'g' }],
  ['port', { address: 'h:7', port: 8 }],
  ['serviceType', { address: 'h:7', serviceType: 'tool' }],
  ['serviceType', { address: 'h:7', serviceType: undefined }],
  ['serviceType', { address: 'h:7', serviceType: undefined, service_type: 'Tool-Invoker' }],
  ['name', { address: 'h:7', name: undefined }],
  ['name', { address: 'h:7', name: ' ' }],
  ['name', { address: 'h:7', name: undefined, serviceName: 'x'.repeat(257) }],
  ['labels.a', { address: 'h:7', labels: { a: 1 } }],
] as const)(
  'what is missing, mistyped or contradicts itself is 400 and named: %s of %j',
  async ([member, change], context) => {
    const api = await startApi(context);
    const answer = await api.call('POST', PATH, { ...SERVICE, address: undefined, ...change });
    expect(answer).toMatchObject({ status: 400, error: { code: 'BAD_REQUEST', details: [{ path: member }] } });
    expect(answer.error).toMatchObject({ message: expect.stringMatching(`^invalid service: ${member} `) });
    expect((await api.call('GET', PATH)).data).toEqual([]);
  },
);

test('the response to an unknown type lists the known ones', async (context) => {
  const api = await startApi(context);
  const answer = await api.call('POST', PATH, { ...SERVICE, serviceType: 'tool' });
  for (const type of ['tool-invoker', 'resource-provider', 'multi-capability', 'code-execution-engine']) {
    expect(answer.text).toContain(type);
    expect((await api.call('POST', PATH, { ...SERVICE, serviceType: type })).status).toBe(201);
  }
});

test('a port is a number in any notation, and is returned as one', async (context) => {
  const api = await startApi(context);
  const made = await api.call('POST', PATH, '{"name":"n","host":"h","port":50051.0,"serviceType":"tool-invoker"}');
  expect(made.text).toContain('"port":50051,');
});

test('PUT is not supported, neither on the list nor on an entry', async (context) => {
  const api = await startApi(context);
  await api.call('POST', PATH, SERVICE);
  const onEntry = await api.call('PUT', `${PATH}/files`, SERVICE);
  expect([onEntry.status, onEntry.headers.allow]).toEqual([405, 'GET, HEAD, DELETE, OPTIONS']);
  const onList = await api.call('PUT', PATH, SERVICE);
  expect([onList.status, onList.headers.allow]).toEqual([405, 'GET, HEAD, POST, OPTIONS']);
});
