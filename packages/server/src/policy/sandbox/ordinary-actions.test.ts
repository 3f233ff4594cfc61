import { describe, expect, it } from 'vitest';
import { type Action, ActionFailure } from './action.ts';
import { actionTests } from './fixtures/action-tests.ts';
import { ordinaryCases, type Toolchain, toolchainNames, toolchains } from './fixtures/ordinary-actions.ts';
import { OrdinaryAnswers } from './fixtures/ordinary-answers.ts';

const { compiler, run, reason } = actionTests();

const actions = new Map<Toolchain, Promise<Action>>();

/** The action of a toolchain, compiled once: that takes a second and more. */
function actionOf(name: Toolchain): Promise<Action> {
  const action = actions.get(name) ?? toolchains[name]().then((file) => compiler.compile(file));
  actions.set(name, action);
  return action;
}

describe.each(toolchainNames)('an action made with %s', (name) => {
  const cases = ordinaryCases.filter(({ simple }) => simple || name !== 'wat');

  it.each(cases)('$llmResult', async ({ llmResult, response, ignored = 0, logged = [], copies = [] }) => {
    const answers = new OrdinaryAnswers();
    const ended = run(await actionOf(name), llmResult, {}, answers);
    if (response === 'trap') {
      await expect(ended).rejects.toBeInstanceOf(ActionFailure);
      await expect(ended).rejects.toMatchObject({ fault: 'trap' });
    } else {
      const { response: given, ignoredResponses, durationMs } = await ended;
      expect([given, ignoredResponses]).toEqual([response, ignored]);
      expect(durationMs).toBeGreaterThan(0);
      // What an engine writes to its output streams is at `debug`.
      expect(answers.logged.filter(([level]) => level !== 'debug')).toEqual(logged);
    }
    expect(answers.copies).toEqual(copies);
  });

  it('takes texts as long as they come', async () => {
    const long = 'ü😀'.repeat(50_000);
    expect(await reason(await actionOf(name), 'argument', { arguments: [['long', long]] })).toBe(long);
  });
});

it.each(toolchainNames.filter((name) => name !== 'wat'))(
  'an action made with %s sees that a tool, a conversation and arguments are not there',
  async (name) => {
    const action = await actionOf(name);
    const bare = { method: 'tools/list', namespace: 'default', arguments: [] };
    const context = { ...bare, toolName: undefined, conversationId: undefined };
    expect(await reason(action, 'context', context)).toBe('tools/list/default/none//none');
  },
);
