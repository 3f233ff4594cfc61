import { expect, onTestFinished, test } from 'vitest';
import { type CodeService, startCodeService } from '../../../testing/code-service.ts';
import { startTestService, type TestService } from '../../../testing/service.ts';
import { ResponseReader, sessionClient } from '../../../testing/session-client.ts';
import { startWorkingService, type WorkingService } from './fixtures/working-service.ts';

const STREAMS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

/** A service with a tool and a code tool, whose capability services are controlled by the test. */
async function setUp() {
  // The events are logged at level debug.
  const service = await startTestService({ RUST_LOG: 'info,service::bridge=debug' });
  onTestFinished(() => service.stop(0));
  const worker = await startWorkingService({ tool: () => undefined });
  onTestFinished(() => worker.close());
  const engine = await startCodeService();
  onTestFinished(() => engine.close());
  const runner = { serviceType: 'code-execution-engine', serviceSubType: 'e', languageName: 'l' };
  await service.manage('POST', '/services', { name: 'run', address: `127.0.0.1:${engine.port}`, ...runner });
  await service.manage('POST', '/services', { name: 'work', address: worker.address, serviceType: 'tool-invoker' });
  const tool = { description: '', input_schema: { type: 'object' } };
  await service.register('tools', { name: 'run', toolType: 'run', uri: 'code-execution-engine://e/l', ...tool });
  await service.register('tools', { name: 'work', toolType: 'work', uri: 'work://', ...tool });
  return { service, worker, engine };
}

async function startCalls({
  service,
  worker,
  engine,
}: {
  service: TestService;
  worker: WorkingService;
  engine: CodeService;
}) {
  const { headers } = await sessionClient(service.url());
  const call = (name: string) =>
    new ResponseReader(
      service.url(),
      'POST',
      { ...STREAMS, ...headers },
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${name}","arguments":{"code":"x"}}}`,
    );
  const [work, run] = [call('work'), call('run')];
  const execution = await engine.next();
  await expect.poll(() => worker.tools.length).toBe(1);
  return { work, run, execution };
}

/** Final events of tool calls, as logged: `work completed`. */
function eventsOf({ log }: TestService): string[] {
  return log
    .map((line) => JSON.parse(line))
    .filter(({ msg }) => /^tool call (completed|failed)$/.test(msg))
    .map(({ tool, msg, error_category: category = '' }) => `${tool} ${msg.slice(10)} ${category}`.trim())
    .toSorted();
}

test('calls in progress finish when the service stops, with their events', async () => {
  const parts = await setUp();
  const { work, run, execution } = await startCalls(parts);
  const stopping = parts.service.stop(20_000);
  await expect.poll(() => fetch(parts.service.url()).then(String, () => 'closed')).toBe('closed');
  parts.worker.tools[0]?.reply(['in time']);
  execution.reply({ outputType: 'STDOUT', status: 'COMPLETED', content: ['in time'] });
  execution.end();
  expect(JSON.parse(await work.message(0)).result).toMatchObject({ isError: false, content: [{ text: 'in time' }] });
  expect(JSON.parse(await run.message(0)).result).toMatchObject({ isError: false, content: [{ text: 'in time' }] });
  await stopping;
  expect(eventsOf(parts.service)).toEqual(['code-execution/e/l completed', 'work completed']);
});

test('calls of disconnected clients finish too', async () => {
  const parts = await setUp();
  const { work, run, execution } = await startCalls(parts);
  work.disconnect();
  run.disconnect();
  await Promise.all([work.ended, run.ended]);
  const stopping = parts.service.stop(20_000);
  await expect.poll(() => fetch(parts.service.url()).then(String, () => 'closed')).toBe('closed');
  parts.worker.tools[0]?.reply();
  execution.end();
  await stopping;
  expect(eventsOf(parts.service)).toEqual(['code-execution/e/l completed', 'work completed']);
});

test('calls longer than the grace period are canceled at their services, with their events', async () => {
  const parts = await setUp();
  const { execution } = await startCalls(parts);
  await parts.service.stop(200);
  await execution.canceled;
  await expect.poll(() => parts.worker.tools[0]?.canceled).toBe(true);
  expect(eventsOf(parts.service)).toEqual([
    'code-execution/e/l failed SERVICE_UNAVAILABLE',
    'work failed SERVICE_UNAVAILABLE',
  ]);
  const stopped = parts.service.log.findIndex((line) => line.includes('"msg":"stopped"'));
  const last = parts.service.log.findLastIndex((line) => line.includes('tool call failed'));
  expect(last).toBeLessThan(stopped);
});
