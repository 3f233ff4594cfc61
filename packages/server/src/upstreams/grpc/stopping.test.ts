import { expect, onTestFinished, test } from 'vitest';
import { type CodeService, startCodeService } from '../../../testing/code-service.ts';
import { startTestService, type TestService } from '../../../testing/service.ts';
import { Reading, sessionClient } from '../../../testing/session-client.ts';
import { startWorkingService, type WorkingService } from './fixtures/working-service.ts';

const STREAMS = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

/** A service with a tool and a code tool, each of a capability service that leaves its calls to the test. */
async function setUp() {
  const service = await startTestService();
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

async function underWay({
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
    new Reading(
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

/** What was told of the ends of tool calls, in the words of the log: `work completed`. */
function told({ log }: TestService): string[] {
  return log
    .map((line) => JSON.parse(line))
    .filter(({ msg }) => /^tool call (completed|failed)$/.test(msg))
    .map(({ tool, msg, error_category: category = '' }) => `${tool} ${msg.slice(10)} ${category}`.trim())
    .toSorted();
}

test('calls under way are finished when the service stops, and their ends are told', async () => {
  const parts = await setUp();
  const { work, run, execution } = await underWay(parts);
  const stopping = parts.service.stop(20_000);
  await expect.poll(() => fetch(parts.service.url()).then(String, () => 'closed')).toBe('closed');
  parts.worker.tools[0]?.reply(['in time']);
  execution.reply({ outputType: 'STDOUT', status: 'COMPLETED', content: ['in time'] });
  execution.end();
  expect(JSON.parse(await work.message(0)).result).toMatchObject({ isError: false, content: [{ text: 'in time' }] });
  expect(JSON.parse(await run.message(0)).result).toMatchObject({ isError: false, content: [{ text: 'in time' }] });
  await stopping;
  expect(told(parts.service)).toEqual(['code-execution/e/l completed', 'work completed']);
});

test('calls whose clients have left are finished too', async () => {
  const parts = await setUp();
  const { work, run, execution } = await underWay(parts);
  work.leave();
  run.leave();
  await Promise.all([work.over, run.over]);
  const stopping = parts.service.stop(20_000);
  await expect.poll(() => fetch(parts.service.url()).then(String, () => 'closed')).toBe('closed');
  parts.worker.tools[0]?.reply();
  execution.end();
  await stopping;
  expect(told(parts.service)).toEqual(['code-execution/e/l completed', 'work completed']);
});

test('calls that last longer than the grace are ended at their services, and that is told before the service is gone', async () => {
  const parts = await setUp();
  const { execution } = await underWay(parts);
  await parts.service.stop(200);
  await execution.cancelled;
  await expect.poll(() => parts.worker.tools[0]?.cancelled).toBe(true);
  expect(told(parts.service)).toEqual(['code-execution/e/l failed UNKNOWN', 'work failed UNKNOWN']);
  const stopped = parts.service.log.findIndex((line) => line.includes('"msg":"stopped"'));
  const last = parts.service.log.findLastIndex((line) => line.includes('tool call failed'));
  expect(last).toBeLessThan(stopped);
});
