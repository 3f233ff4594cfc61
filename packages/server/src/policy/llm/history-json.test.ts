import { describe, expect, test } from 'vitest';
import { recordedInteraction } from '../../inference/interaction.fixture.ts';
import type { Interaction, InteractionStore } from '../../inference/interaction-store.ts';
import { asking, talking } from './fixtures/talking.ts';
import { historyJson } from './history.ts';

const MIB = 1024 * 1024;
const waitedFor = new AbortController().signal;

async function said(store: InteractionStore, id = 'talk'): Promise<unknown> {
  return JSON.parse(await historyJson(store)(id, waitedFor));
}

/** Looks up `count` interactions with 2 MiB of body each, and says when one of them is looked at for the first time. */
function lookedAt(count: number, onLook: (at: number) => void): Pick<InteractionStore, 'history'> {
  const requestText = asking({ role: 'user', content: 'x'.repeat(2 * MIB) });
  const interaction = recordedInteraction({ requestText });
  const looked = new Set<number>();
  const one = (at: number): Interaction => ({
    ...interaction,
    get request() {
      if (!looked.has(at)) onLook(at);
      looked.add(at);
      return interaction.request;
    },
  });
  return { history: () => Array.from({ length: count }, (_, at) => one(at)) };
}

describe('the history of actions', () => {
  test('is all of a conversation, oldest first', async () => {
    const store = talking(...Array.from({ length: 15 }, (_, at) => asking({ role: 'user', content: String(at) })));
    expect(await said(store)).toEqual(Array.from({ length: 15 }, (_, at) => ({ role: 'user', content: String(at) })));
  });

  test('has nothing of interactions without messages', async () => {
    const store = talking(undefined, 'no JSON', asking({ role: 'user', content: 'kept' }), '{}');
    expect(await said(store)).toEqual([{ role: 'user', content: 'kept' }]);
  });

  test('is found by a completion too, and empty when nothing is known', async () => {
    const store = talking(asking({ role: 'user', content: 'x' }), asking({ role: 'user', content: 'y' }));
    expect(await said(store, 'c-0')).toEqual(await said(store));
    expect(await said(store, 'other')).toEqual([]);
    expect(await said(store, '')).toEqual([]);
  });

  test('is refused when it could not fit into an action', async () => {
    const around = JSON.stringify({ role: 'user', content: '' }).length;
    const large = asking({ role: 'user', content: 'x'.repeat(4 * MIB - around) });
    const store = talking(...Array.from({ length: 8 }, () => large));
    expect((await historyJson(store)('talk', waitedFor)).length).toBe(32 * MIB + '[,,,,,,,]'.length);
    const more = talking(...Array.from({ length: 8 }, () => large), asking({ role: 'user', content: 'x' }));
    await expect(said(more)).rejects.toMatchObject({ fault: 'memory' });
  });

  test('is refused to a run that has had 256 MiB of bodies read', async () => {
    // Not JSON, whatever it says of itself: there is nothing to be told of it.
    const body = { isJson: true, bytes: Buffer.alloc(64 * MIB) };
    const interaction: Interaction = { ...recordedInteraction({}), request: { body, truncated: false } };
    const byte = { ...body, bytes: Buffer.alloc(1) };
    const short: Interaction = { ...interaction, request: { body: byte, truncated: false } };
    const interactions = { history: (id: string) => (id === 'talk' ? [interaction, interaction] : [short]) };
    const history = historyJson(interactions);
    expect(await history('talk', waitedFor)).toBe('[]');
    expect(await history('talk', waitedFor)).toBe('[]');
    await expect(history('short', waitedFor)).rejects.toMatchObject({ fault: 'limit' });
    expect(await historyJson(interactions)('talk', waitedFor)).toBe('[]');
  });

  test('is read no further when nobody waits for it any more', async () => {
    const stop = new AbortController();
    const killed = new Error('the run was killed');
    const looks: number[] = [];
    const interactions = lookedAt(10, (at) => {
      looks.push(at);
      if (at === 3) setImmediate(() => stop.abort(killed));
    });
    await expect(historyJson(interactions)('talk', stop.signal)).rejects.toBe(killed);
    expect(looks).toEqual([0, 1, 2, 3]);
  });

  test('of large bodies lets others have their turn', async () => {
    const order: string[] = [];
    const interactions = lookedAt(3, (at) => {
      order.push(`body ${at}`);
      setImmediate(() => order.push('other'));
    });
    await historyJson(interactions)('talk', waitedFor);
    expect(order).toEqual(['body 0', 'other', 'body 1', 'other', 'body 2', 'other']);
  });
});
