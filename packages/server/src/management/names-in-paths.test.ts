import { allOperations } from '@sluice/contract';
import { expect, test } from 'vitest';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startApi } from './api.fixture.ts';
import { bodyFor } from './operations.fixture.ts';

const NAMES = [
  'a/b',
  '/',
  '//x/',
  'a%2Fb',
  '100%',
  'a b',
  'a+b',
  'a;b:c@d&e=f',
  'a?b#c',
  "it's (a) {name}",
  'naïve-日本-😀',
  '😀'.repeat(256),
  '__proto__',
  'constructor',
  '...',
  '\\',
  '"',
];

const MAKERS = allOperations.filter(({ responses, body }) => responses[201] && body?.kind !== 'namespace');

test.for(MAKERS.map((operation) => [operation.path, operation] as const))(
  'of %s any name is found again where Location says, and under no other',
  async ([path, operation], context) => {
    const api = await startApi(context);
    const upstream = await startRawUpstream({ scripts: { 'tools/list': toolList(toolText('found')) } });
    context.onTestFinished(upstream.close);
    for (const [at, name] of NAMES.entries()) {
      const body = { ...bodyFor(operation, upstream.url), name, location: `x:${at}`, prefix: `p${at}` };
      const made = await api.call('POST', path, body);
      expect([made.status, made.data], name).toMatchObject([201, { name }]);
      expect(made.location.startsWith(`${path}/${encodeURIComponent(name)}`)).toBe(true);
      expect((await api.call('GET', made.location)).data).toEqual(made.data);
    }
    expect((await api.call('GET', path)).data).toMatchObject(NAMES.map((name) => ({ name })));

    const keeping = allOperations.filter(
      (other) =>
        other.path.startsWith(`${path}/{name}`) &&
        other.method !== 'DELETE' &&
        // There is no service for it.
        other.body?.kind !== 'provision',
    );
    for (const [at, name] of NAMES.entries()) {
      const one = `${path}/${encodeURIComponent(name)}`;
      for (const other of keeping) {
        const identity = other.method === 'PATCH' ? {} : { name, location: `x:${at}` };
        const body = other.body && { ...bodyFor(other), ...identity };
        const answer = await api.call(other.method, other.path.replace(`${path}/{name}`, one), body);
        // A history does not repeat the name.
        const found = other.path.endsWith('/history') ? name : Object(answer.data).name;
        expect([answer.status, found ?? Object(answer.data).refreshed], one).toEqual([200, name]);
      }
      expect((await api.call('DELETE', one)).data).toMatchObject({ removed: name });
      expect((await api.call('GET', one)).status).toBe(404);
      expect((await api.call('GET', path)).data).toHaveLength(NAMES.length - at - 1);
    }
  },
);
