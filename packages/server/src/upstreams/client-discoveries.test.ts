import { describe, expect, it } from 'vitest';
import { modernClient, reply } from '../../../../test/fixtures/raw-client.ts';
import { toolList, toolText } from '../../../../test/fixtures/raw-upstream/texts.ts';
import { startRawUpstream } from '../../../../test/fixtures/raw-upstream.ts';
import { startTestService } from '../../testing/service.ts';
import { ANONYMOUS, createUser } from '../identity/principal.ts';
import { ClientDiscoveries } from './client-discoveries.ts';

const cause = (user: string | undefined, namespace = 'a', address?: string) => ({
  namespace: { name: namespace },
  principal: user === undefined ? ANONYMOUS : createUser(user, 'proxy'),
  head: { address },
});

/** Discoveries that end when the test ends them, in the order in which they started. */
function start(concurrent: number, perMinute: number) {
  const clock = { now: 0 };
  const discoveries = new ClientDiscoveries({ concurrent, perMinute }, () => clock.now);
  const started: string[] = [];
  const ends = new Map<string, () => void>();
  const run = (name: string, of: Parameters<ClientDiscoveries['run']>[0]) =>
    discoveries.run(of, () => {
      started.push(name);
      const { promise, resolve } = Promise.withResolvers<void>();
      ends.set(name, resolve);
      return promise;
    });
  return { clock, started, run, end: (name: string) => ends.get(name)?.() };
}

describe('discoveries for clients', () => {
  it('run a few at once, and the others in turns of namespaces and users', async () => {
    const { started, run, end } = start(2, 30);
    const all = [
      run('a-ann-1', cause('ann')),
      run('a-ann-2', cause('ann')),
      run('a-ann-3', cause('ann')),
      run('a-ann-4', cause('ann')),
      run('a-bob-1', cause('bob')),
      run('b-ann-1', cause('ann', 'b')),
    ];
    await expect.poll(() => started).toEqual(['a-ann-1', 'a-ann-2']);
    end('a-ann-1');
    await all[0];
    await expect.poll(() => started.at(-1)).toBe('b-ann-1');
    end('a-ann-2');
    await all[1];
    await expect.poll(() => started.at(-1)).toBe('a-bob-1');
    end('b-ann-1');
    await expect.poll(() => started.at(-1)).toBe('a-ann-3');
  });

  it('are limited per minute and namespace, of which one user can cause half', () => {
    const { clock, run } = start(100, 4);
    expect(run('1', cause('ann'))).toBeDefined();
    expect(run('2', cause('ann'))).toBeDefined();
    expect(run('3', cause('ann'))).toBeUndefined();
    expect(run('4', cause(undefined, 'a', '10.0.0.1'))).toBeDefined();
    expect(run('5', cause('bob'))).toBeDefined();
    expect(run('6', cause('cid'))).toBeUndefined();
    expect(run('7', cause('cid', 'b'))).toBeDefined();
    clock.now = 60_001;
    expect(run('8', cause('ann'))).toBeDefined();
  });
});

it('beyond the limit a client gets the entries for the most similar capabilities', async (context) => {
  const service = await startTestService({ SERVICE_CLIENT_DISCOVERIES_PER_MINUTE: '2' });
  // Lists a tool for each experiment of the client.
  const upstream = await startRawUpstream({
    scripts: {
      'tools/list': ({ params }) => {
        const { experimental } = Object(Object(params._meta)['io.modelcontextprotocol/clientCapabilities']);
        return toolList(toolText('always'), ...Object.keys(experimental ?? {}).map((name) => toolText(name)));
      },
    },
  });
  context.onTestFinished(async () => {
    await service.stop();
    await upstream.close();
  });
  await service.register('forwards', { name: 'f', address: upstream.url });
  const list = async (user: string, experiment: string) => {
    const client = modernClient(service.url(), `{"experimental":{"${experiment}":{}}}`);
    return reply(await client.call('tools/list', '{}', { 'x-forwarded-user': user }));
  };
  expect(await list('ann', 'one')).toContain('"name":"one"');
  const refused = await list('ann', 'two');
  expect(refused).toContain('"name":"always"');
  expect(refused).not.toContain('"name":"two"');
  expect(await list('bob', 'two')).toContain('"name":"two"');
  expect(await list('ann', 'two')).toContain('"name":"two"');
});
