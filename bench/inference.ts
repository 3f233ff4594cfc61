import { type Bench, startNamed } from './bench.ts';
import { at, makeCaller, parseJson } from './caller.ts';
import { completionCase } from './cases.ts';
import { startChild } from './child.ts';
import { type Gateway, type GatewayStart, readPort } from './gateway.ts';
import { completionMessage, type StreamSpec, streamToken } from './messages.ts';
import { startNginx } from './nginx.ts';
import { type MeasuredCase, makeLane, measureRounds, type Workload } from './rounds.ts';
import { type StreamLoad, streamCount, streamReport, streamWorkload } from './streams.ts';
import type { Report } from './tables.ts';
import { gatewayTarget } from './targets.ts';

/** Starts the chat-completions server and returns the URL of completions. */
export async function startCompletions(folder: string, owned: AsyncDisposableStack): Promise<URL> {
  const file = `${import.meta.dirname}/completions.ts`;
  const child = owned.use(startChild('completions', `${folder}/completions.log`, process.execPath, [file]));
  return new URL(`http://127.0.0.1:${await readPort(child)}/v1/chat/completions`);
}

/** Returns the start options of a gateway in front of the server. */
export const inferenceStart = ({ host }: URL): Partial<GatewayStart> => ({
  variables: { SERVICE_INFERENCE_UPSTREAM: host },
});

/** Measures streamed completions through nginx, without a proxy, and through the gateway, which records them. */
export async function measureInference(bench: Bench): Promise<Report> {
  const { folder, plan, log } = bench;
  await using owned = new AsyncDisposableStack();
  const upstream = await startCompletions(folder, owned);
  const nginx = owned.use(await startNginx(`${folder}/nginx-inference`, { completions: upstream }, false));
  const gateway = owned.use(await startNamed(bench, 'inference', inferenceStart(upstream)));
  const measured: MeasuredCase = {
    ...completionCase,
    lanes: [
      makeLane('nginx', completionStreams(nginx.endpoint('completions'), nginx, bench)),
      makeLane('direct', completionStreams(upstream, {}, bench)),
      makeLane('gateway', completionStreams(gateway.completions, gatewayTarget(gateway), bench)),
    ],
  };
  await measureRounds([measured], { rounds: plan.rounds }, log);
  await checkRecorded(gateway);
  return streamReport('inference', [measured], bench, gatewayTarget(gateway));
}

/** Returns the load of streamed completions on a target. */
export function completionStreams(
  url: URL,
  target: StreamLoad['target'],
  { folder, plan }: Pick<Bench, 'folder' | 'plan'>,
): Workload {
  const messages = ({ events, everyMs, together }: StreamSpec) =>
    Array.from({ length: streamCount }, (_, index) => completionMessage(streamToken(index), events, everyMs, together));
  return streamWorkload({ kind: 'completion', url, target, messages }, folder, plan);
}

/** Verifies that the gateway has recorded the latest completions whole. */
async function checkRecorded(gateway: Gateway): Promise<void> {
  using caller = makeCaller();
  const { body } = await caller.get(new URL('/api/v1/interactions', gateway.management));
  const recorded = at(parseJson(body), 'data');
  const isWhole = (interaction: unknown) =>
    at(interaction, 'response_body', 'choices', 0, 'finish_reason') === 'stop' &&
    at(interaction, 'response_truncated') === undefined;
  const whole = Array.isArray(recorded) ? recorded.filter(isWhole).length : 0;
  if (whole < streamCount)
    throw new Error(`${whole} whole interactions are recorded, expected at least ${streamCount}`);
}
