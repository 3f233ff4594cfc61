import { ReconnectDelay } from '@sluice/protocol/timing';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { connect } from '../connection/connect.ts';
import type { Context } from '../context.ts';
import { createOutput } from '../output/output.ts';
import { type ScriptedTerminal, scriptedTerminal } from '../testing/scripted-terminal.ts';
import { startedEvent } from '../tool-calls/event.fixture.ts';
import { type Management, startManagement } from '../tool-calls/management.fixture.ts';
import { followServiceEvents } from './events.ts';

let management: Management;
let terminal: ScriptedTerminal;
let following: Promise<void> | undefined;
beforeEach(async () => {
  management = await startManagement();
  terminal = scriptedTerminal();
});
afterEach(async () => {
  terminal.interrupt();
  await following?.catch(() => undefined);
  management.close();
});

function begin(output: 'table' | 'json', topics?: string): Promise<void> {
  const options = { host: management.host, insecure: false, output, plain: false, verbose: false } as const;
  const auth = () => ({ kind: 'none' }) as const;
  const context: Context = {
    terminal,
    options: () => ({ ...options, auth: auth() }),
    connect: (how) => connect(context.options(), terminal, how),
    output: () => createOutput(context.options(), terminal),
  };
  following = followServiceEvents(context, topics, new ReconnectDelay({ firstMs: 1, maxMs: 1 }));
  following.catch(() => undefined);
  return following;
}

const TIMESTAMP = '2026-01-02T03:04:05.006Z';
const block = (topic: string, id: string, data: object) =>
  `id: ${id}\nevent: ${topic}\ndata: ${JSON.stringify(data)}\n\n`;
const rows = () =>
  terminal
    .out()
    .split('\n')
    .slice(1, -1)
    .map((line) => line.split(/ {2,}/));

it('prints a line for each event', async () => {
  begin('table', 'forwards,registry');
  const stream = await management.stream();
  const change = { kind: 'unavailable', timestamp: TIMESTAMP, reason: 'refused' };
  stream.write('id: o.0.0\n\n');
  stream.write(block('forwards', 'o.0.1', { name: 'crm', change }));
  stream.write(block('registry', 'o.0.2', { timestamp: TIMESTAMP, tools: ['default'] }));
  stream.write(block('tool-calls', 'o.1.2', startedEvent('echo')));
  await expect.poll(rows).toEqual([
    [TIMESTAMP, 'forwards', 'crm', 'unavailable', 'reason refused'],
    [TIMESTAMP, 'registry', '-', '-', 'tools ["default"]'],
    [expect.any(String), 'tool-calls', 'echo', 'STARTED'],
  ]);
  expect(management.opened).toEqual([{ url: '/api/v1/events?topics=forwards%2Cregistry', lastId: undefined }]);
});

it('resumes after the last event and reports missed ones', async () => {
  begin('json');
  const first = await management.stream();
  first.end(block('forwards', 'o.0.1', { name: 'crm' }));
  const second = await management.stream();
  second.write(block('missed', 'o.7.1', { topics: ['tool-calls'], count: 6 }));
  second.write(block('services', 'o.7.2', { name: 's', health: 'down' }));
  await expect
    .poll(() => terminal.out())
    .toBe('{"topic":"forwards","data":{"name":"crm"}}\n{"topic":"services","data":{"name":"s","health":"down"}}\n');
  expect(management.opened.map(({ lastId }) => lastId)).toEqual([undefined, 'o.0.1']);
  expect(terminal.err().replaceAll(management.host, 'HOST').split('\n')).toEqual([
    'sluice: following events at HOST; press Ctrl-C to stop',
    'sluice: HOST closed the stream (retrying)',
    'sluice: reconnected',
    'sluice: 6 events were missed (tool-calls)',
    '',
  ]);
});

it('fails for a service that is not the management API', async () => {
  const failed = begin('table');
  (await management.stream()).write('data: nonsense\n\n');
  await expect(failed).rejects.toThrow('is not the management API');
});
