import { isDeepStrictEqual } from 'node:util';

import { type Bench, startConnected } from './bench.ts';
import { at, type Caller, makeCaller, openSession, parseJson } from './caller.ts';
import { casesOf, crossings, loadedBound, type RequestCase } from './cases.ts';
import { type LoadPlan, loadWorkload } from './load.ts';
import { callMessage, content, listMessage, type Message, promptMessage, readMessage } from './messages.ts';
import { type MeasuredCase, makeLane, measureRounds, type Workload } from './rounds.ts';
import { costTable, type Report, type Table } from './tables.ts';
import { addOtherTools, gatewayTarget, startRelay, type Target } from './targets.ts';

/** Measures the selected cases of requests through the relay and the gateway. */
export async function measureRequests(bench: Bench): Promise<Report> {
  const { plan, folder, upstreams, log } = bench;
  const { parts } = bench.options;
  await using owned = new AsyncDisposableStack();
  const relay = await startRelay(folder, upstreams, owned);
  const gateway = gatewayTarget(await startConnected(bench, 'requests', owned));
  using caller = makeCaller();
  const prepare = async (measured: RequestCase, targets: readonly Target[], times = plan): Promise<MeasuredCase> => {
    const lanes = [];
    for (const target of targets) {
      lanes.push(makeLane(target.name, loadWorkload(await planLoad(caller, measured, target, folder), target, times)));
    }
    return { title: measured.title, bound: measured.bound, lanes };
  };
  // Small requests are measured together: the garbage of large bodies must not be collected in between.
  const small: MeasuredCase[] = [];
  for (const measured of casesOf('list', 'call', 'read').filter(({ part }) => parts.has(part))) {
    small.push(await prepare(measured, [relay, gateway]));
  }
  await measureRounds(small, plan, log);
  const loaded: MeasuredCase[] = [];
  if (parts.has('list') || parts.has('call')) {
    const other = await startConnected(bench, 'loaded', owned);
    await addOtherTools(other, folder, owned);
    const targets = [gateway, gatewayTarget(other, '10,000 other tools')];
    for (const measured of casesOf('list', 'call').filter(({ part, era }) => parts.has(part) && era === 'legacy')) {
      loaded.push(await prepare({ ...measured, bound: loadedBound }, targets));
    }
    await measureRounds(loaded, plan, log);
  }
  const large: MeasuredCase[] = [];
  for (const measured of casesOf('large').filter(({ part }) => parts.has(part))) {
    large.push(await prepare(measured, [relay, gateway], { ...plan, warmUpSeconds: plan.largeWarmUpSeconds }));
  }
  await measureRounds(large, plan, log);
  const tables: Table[] = [costTable('CPU µs per response', [...small, ...large])];
  if (loaded.length > 0) tables.push(costTable('CPU µs per response', loaded));
  return { block: 'requests', measured: `${plan.rounds} to ${plan.closeRounds} rounds of ${plan.seconds} s`, tables };
}

/** Measures calls across eras and within the era of the client, on one gateway. */
export async function measurePairings(bench: Bench): Promise<Report> {
  const { plan, folder, log } = bench;
  await using owned = new AsyncDisposableStack();
  const gateway = gatewayTarget(await startConnected(bench, 'pairings', owned));
  using caller = makeCaller();
  const cases: MeasuredCase[] = [];
  for (const crossing of crossings) {
    const workload = async (namespace: string): Promise<Workload> =>
      loadWorkload(await planLoad(caller, { ...crossing, namespace }, gateway, folder), gateway, plan);
    const lanes = [
      makeLane('same era', await workload(crossing.era)),
      makeLane('other era', await workload(crossing.namespace)),
    ];
    cases.push({ title: crossing.title, bound: crossing.bound, lanes });
  }
  await measureRounds(cases, plan, log);
  return {
    block: 'pairings',
    measured: `${plan.rounds} rounds of ${plan.seconds} s`,
    tables: [costTable('CPU µs per call', cases)],
  };
}

/**
 * Returns the load of a case on a target after a response was as expected.
 *
 * @throws Error if the response is not the expected one
 */
export async function planLoad(
  caller: Caller,
  measured: RequestCase,
  target: Target,
  folder: string,
): Promise<LoadPlan> {
  const url = target.endpoint(measured.namespace);
  // On all connections: wrk does not tell which connection a request is for, and each one of a real client has one session.
  const session = measured.era === 'legacy' && target.hasSessions ? await openSession(caller, url) : undefined;
  const message = caseMessage(measured, session);
  const answerBytes = await checkAnswer(caller, measured, url, message);
  const { connections } = measured;
  return { script: `${folder}/load.lua`, url, messages: [message], answerBytes, pid: target.pid, connections };
}

function caseMessage(measured: RequestCase, session: string | undefined): Message {
  const { era, method } = measured;
  switch (method) {
    case 'list':
      return listMessage(era, session);
    case 'read':
      return readMessage(era, session);
    case 'prompt':
      return promptMessage(era, session);
    case 'call':
      return callMessage(era, session, measured);
  }
}

/** Member of the result that must not be empty. */
const resultMembers = { list: 'tools', read: 'contents', prompt: 'messages', call: 'content' };

/** Sends a request and returns the size of the response in bytes. Throws if the response is not the expected one. */
async function checkAnswer(caller: Caller, measured: RequestCase, url: URL, message: Message): Promise<number> {
  const { status, body } = await caller.post(url, message);
  const response = parseJson(body);
  const result = at(response, 'result');
  const items = at(result, resultMembers[measured.method]);
  const isWhole =
    measured.answer === undefined
      ? Array.isArray(items) && items.length > 0
      : isDeepStrictEqual(at(items, 0, 'text') ?? at(result, 'structuredContent', 'rows'), content(measured.answer));
  if (status !== 200 || at(result, 'isError') === true || at(response, 'id') !== 1 || !isWhole) {
    throw new Error(`${measured.name} at ${url}: status ${status}, not the expected answer: ${body.slice(0, 300)}`);
  }
  return body.length;
}
