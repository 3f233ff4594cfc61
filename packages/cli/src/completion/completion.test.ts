import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Context } from '../context.ts';
import { run } from '../run.ts';
import { scriptedTerminal } from '../testing/scripted-terminal.ts';
import { fetchNames } from './completion.ts';

// Names come from a service, where any author of tools may have chosen them.

const servers: { close: () => void }[] = [];
/** Aborts a completion at a time chosen by the test. */
let timeout: AbortController;
beforeEach(() => {
  timeout = new AbortController();
  vi.spyOn(AbortSignal, 'timeout').mockReturnValue(timeout.signal);
});
afterEach(() => {
  vi.restoreAllMocks();
  for (const server of servers.splice(0)) server.close();
});

async function complete(listener: RequestListener, ...words: string[]): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  servers.push(server);
  await once(server, 'listening');
  const address = server.address();
  const host = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  const terminal = scriptedTerminal();
  expect(await run(['complete', 'zsh', '--', '--no-auth', '--host', host, ...words], terminal)).toBe(0);
  expect(terminal.err()).toBe('');
  return terminal.out();
}

const tools: RequestListener = (_request, response) => {
  const tool = {
    namespace: 'default',
    description: '',
    uri: 'http://a',
    toolType: 'mcp-forward',
    input_schema: {},
    labels: {},
    enabled: true,
  };
  const data = ['--host=http://evil.example', '-x', 'weather'].map((name) => ({ ...tool, name }));
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ data, error: null }));
};

it('does not suggest names that look like options', async () => {
  expect(await complete(tools, 'tools', 'show', '')).toBe('weather\n');
  expect(await complete(tools, 'tool-calls', '-f', '--tool', 'we')).toBe('weather\n');
  expect(await complete(tools, 'tools', 'show', '--', '')).toBe('--host=http://evil.example\n-x\nweather\n');
});

it('limits the lookup time', async () => {
  const context: Context = {
    terminal: scriptedTerminal(),
    options: () => {
      throw new Error('not needed');
    },
    connect: () => new Promise(() => undefined),
    output: () => {
      throw new Error('not needed');
    },
  };
  const requested = Promise.withResolvers<void>();
  const both = [complete(() => requested.resolve(), 'tools', 'show', ''), fetchNames('tool', context)];
  await requested.promise;
  expect(vi.mocked(AbortSignal.timeout).mock.calls).toEqual([[1_500], [1_500]]);
  timeout.abort();
  expect(await Promise.all(both)).toEqual(['', []]);
});
