import { describe, expect, test } from 'vitest';
import type { StreamedResponse } from '../http/peers.ts';
import { recordedInteraction } from '../inference/interaction.fixture.ts';
import type { Interaction } from '../inference/interaction-store.ts';
import { interactionFrames, mergedInteractions } from './merged-interactions.ts';

const serialize = ({ epochMs, completionId }: Interaction) => [JSON.stringify(`${completionId}${epochMs}`)];
const of = (name: string, ...times: number[]) =>
  times.map((epochMs) => recordedInteraction({ epochMs, completionId: name }));

/** The answer of a replica, in chunks of `size` bytes, of which the last `lost` bytes do not arrive. */
function answerOf(replica: string, found: readonly Interaction[], { size = 5, lost = 0 } = {}) {
  const bytes = Buffer.concat([...interactionFrames(found, serialize)]);
  const arrived = bytes.subarray(0, bytes.length - lost);
  const state = { isClosed: false };
  async function* body() {
    for (let at = 0; at < arrived.length; at += size) yield arrived.subarray(at, at + size);
    if (lost > 0) throw new Error('the connection is broken');
  }
  const answer: StreamedResponse = {
    replica,
    body: body(),
    close: () => {
      state.isClosed = true;
    },
  };
  return { answer, state };
}

async function merged(
  own: readonly Interaction[],
  responses: readonly StreamedResponse[],
  limit?: number,
  missingReplicas: readonly string[] = [],
) {
  const chunks = await Array.fromAsync(mergedInteractions(own, { responses, missingReplicas }, serialize, limit));
  return JSON.parse(Buffer.concat(chunks).toString());
}

describe('interactions of several replicas', () => {
  test('are in order of arrival, whatever the chunks are', async () => {
    for (const size of [1, 3, 1_000]) {
      const { answer: b } = answerOf('B', of('b', 2, 5, 6), { size });
      const { answer: c } = answerOf('C', of('c', 1, 6), { size });
      expect(await merged(of('a', 3, 4), [b, c])).toEqual({
        data: ['c1', 'b2', 'a3', 'a4', 'b5', 'b6', 'c6'],
        error: null,
      });
    }
  });

  test('are the newest ones with a limit', async () => {
    const { answer } = answerOf('B', of('b', 2, 4));
    expect((await merged(of('a', 1, 3, 5), [answer], 3)).data).toEqual(['a3', 'b4', 'a5']);
    expect((await merged(of('a', 1), [answerOf('B', []).answer], 3)).data).toEqual(['a1']);
  });

  test('lack those that a replica has not sent, which is named', async () => {
    const whole = answerOf('B', of('b', 1, 4));
    const broken = answerOf('C', of('c', 2, 3), { lost: 4 });
    const silent = answerOf('D', of('d', 9), { lost: 1_000 });
    const found = await merged(of('a', 5), [whole.answer, broken.answer, silent.answer], undefined, ['E']);
    expect(found).toEqual({ data: ['b1', 'c2', 'b4', 'a5'], error: null, unanswered: ['C', 'D', 'E'] });
    for (const { state } of [whole, broken, silent]) expect(state.isClosed).toBe(true);
  });

  test('are skipped in several turns of the event loop', async () => {
    const long = 'x'.repeat(10_000);
    const serializeLong = () => [JSON.stringify(long)];
    let turns = 0;
    const count = () => {
      turns++;
      timer = setImmediate(count);
    };
    let timer = setImmediate(count);
    const own = of('a', ...Array(200).keys());
    await Array.fromAsync(mergedInteractions(own, { responses: [], missingReplicas: [] }, serializeLong, 1));
    clearImmediate(timer);
    // 2 MB, of which 128 kB in each.
    expect(turns).toBeGreaterThan(10);
  });

  test('are no longer read when the client has gone', async () => {
    const { answer, state } = answerOf('B', of('b', 1));
    const response = mergedInteractions([], { responses: [answer], missingReplicas: [] }, serialize, undefined);
    await response.next();
    await response.return(undefined);
    expect(state.isClosed).toBe(true);
  });
});
