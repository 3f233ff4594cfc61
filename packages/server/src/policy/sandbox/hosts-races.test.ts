import { afterEach, expect, it } from 'vitest';
import type { Action, ActionRun } from './action.ts';
import { injected } from './fixtures/injected.ts';
import { OrdinaryAnswers, ordinaryContext } from './fixtures/ordinary-answers.ts';
import { ActionHosts } from './pool.ts';

const echo = injected('say(ctx.llmResult)');
const made = new Set<ActionHosts>();
afterEach(async () => {
  await Promise.all([...made].map((hosts) => hosts.close()));
  made.clear();
});

const said = ({ response }: ActionRun): string => (response?.kind === 'block' ? response.reason : 'nothing');
function run(hosts: ActionHosts, action: Action, llmResult = ''): Promise<string> {
  return hosts.run(action, { ...ordinaryContext, llmResult }, new OrdinaryAnswers()).then(said);
}
function kill(pid: number | undefined): void {
  if (pid === undefined) throw new Error('there is no such process');
  process.kill(pid, 'SIGKILL');
}

it('a run is not blamed for an action that its host was taking in', async () => {
  const hosts = new ActionHosts({ size: 1, limits: { runMs: 30_000 } });
  made.add(hosts);
  const endless = { ...injected('endless'), glue: 'for (;;);' };
  hosts.keep([endless, echo]);
  await expect.poll(() => hosts.pids.length).toBe(2);
  const ended = run(hosts, echo, 'fine');
  kill(hosts.pids[0]);
  expect(await ended).toBe('fine');
});
