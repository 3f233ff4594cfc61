import { describe, expect, it } from 'vitest';
import { actionTests } from './fixtures/action-tests.ts';
import { coreAction } from './fixtures/hostile/core-action.ts';
import { curious } from './fixtures/hostile/state.ts';
import { quickjsComponent } from './fixtures/quickjs-component.ts';
import { statefulAction } from './fixtures/stateful-action.ts';

const { compiler, end, reason, withRunLimit } = actionTests();

describe('an invocation', () => {
  it.each([['quickjs, small', () => quickjsComponent(statefulAction, 'small')]])(
    'has no state of the previous one: %s',
    async (_name, file) => {
      const action = await compiler.compile(await file());
      for (let time = 0; time < 3; time++) expect(await reason(action, 'a secret')).toBe('nothing,,');
    },
  );

  it.each(curious)('finds no data with $name, however often', async ({ file, outcomes }) => {
    const action = await compiler.compile(await file());
    for (let time = 0; time < 3; time++) {
      const [decided] = outcomes;
      expect({ stage: 'run', ...(await end(action, 'a secret')) }).toEqual(decided);
    }
  });

  it.each([
    ['completed', '', { response: undefined }, 30_000],
    ['trapped', '(unreachable)', { fault: 'trap' }, 30_000],
    ['was killed', '(loop $forever (br $forever))', { fault: 'timeout' }, 700],
  ])('finds no data in memory of another action that %s', { tags: ['slow'] }, async (_how, ending, ended, runMs) => {
    // Fills 62 MiB with a secret.
    const filler = await compiler.compile(
      await coreAction({
        memory: '1000',
        evaluate: `(memory.fill (i32.const 0) (i32.const 0x73) (i32.const 65536000)) ${ending}`,
      }),
    );
    const [, searcher] = curious;
    const search = await compiler.compile((await searcher?.file()) ?? new Uint8Array());
    for (let time = 0; time < 3; time++) {
      expect(await withRunLimit(runMs, () => end(filler, 'a secret'))).toEqual(ended);
      expect(await reason(search, '')).toBe('clean');
    }
  });
});
