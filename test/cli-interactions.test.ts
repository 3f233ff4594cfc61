import { beforeAll, expect, test } from 'vitest';
import { run } from '../packages/cli/src/run.ts';
import { scriptedTerminal } from '../packages/cli/src/testing/scripted-terminal.ts';
import { recordedInteraction } from '../packages/server/src/inference/interaction.fixture.ts';
import { type SharedApi, startSharedApi } from '../packages/server/src/management/api.fixture.ts';
import { cells } from './fixtures/command-line.ts';

const REQUEST = '{"messages":[],"seed":9223372036854775807}';

let api: SharedApi;
beforeAll(async () => {
  api = await startSharedApi();
  return () => api.close();
});

/** Records exactly two interactions. */
function record(): void {
  api.interactions.clear();
  const ids = { conversationId: 'talk', completionId: 'c-1', model: 'm\u001b[31m' };
  api.interactions.add(recordedInteraction({ epochMs: 0, requestText: REQUEST, responseText: '{"id":"c-1"}', ...ids }));
  api.interactions.add(recordedInteraction({ epochMs: 1_500, requestText: REQUEST, statusCode: 502 }));
}

async function sluice(...argv: string[]) {
  const terminal = scriptedTerminal();
  const code = await run(['--host', api.url, '--no-auth', 'interactions', ...argv], terminal);
  return { code, out: terminal.out(), err: terminal.err() };
}

test('interactions are listed, a row for each, oldest first', async () => {
  record();
  const { code, out } = await sluice('list');
  expect(code).toBe(0);
  expect(cells(out)).toEqual([
    ['TIME', 'STATUS', 'MS', 'MODEL', 'CONVERSATION', 'COMPLETION', 'PATH'],
    ['1970-01-01T00:00:00.000Z', '200', '7', 'm\\u001b[31m', 'talk', 'c-1', '/v1/chat/completions'],
    ['1970-01-01T00:00:01.500Z', '502', '7', '-', '-', '-', '/v1/chat/completions'],
  ]);
});

test('and can be filtered', async () => {
  record();
  for (const [argv, statuses] of [
    [['--conversation', 'talk'], ['200']],
    [['--completion', 'c-1'], ['200']],
    [['--limit', '1'], ['502']],
  ] as const) {
    const [, ...rows] = cells((await sluice('list', ...argv)).out);
    expect(rows.map(([, status]) => status)).toEqual(statuses);
  }
  expect(await sluice('list', '--conversation', 'none')).toEqual({ code: 0, out: '', err: 'no interactions\n' });
  expect(await sluice('list', '--limit', '0')).toMatchObject({ code: 1, err: expect.stringContaining('from 1') });
});

test('with --output json includes bodies with the exact text of numbers, or none with --no-bodies', async () => {
  record();
  const { out } = await sluice('list', '--output', 'json', '--limit', '1');
  expect(out).toContain('"seed": 9223372036854775807');
  const without: unknown = JSON.parse((await sluice('list', '--output', 'json', '--no-bodies')).out);
  const { request_body: _, response_body: __, ...rest } = JSON.parse(out)[0];
  expect(without).toEqual([expect.objectContaining({ completion_id: 'c-1' }), rest]);
});

test('they are cleared', async () => {
  record();
  expect(await sluice('clear')).toEqual({ code: 0, out: 'deleted all recorded interactions\n', err: '' });
  expect(api.interactions.list()).toEqual([]);
  expect(JSON.parse((await sluice('clear', '--output', 'json')).out)).toEqual({ cleared: true });
});
