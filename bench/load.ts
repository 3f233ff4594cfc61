import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { at, parseJson } from './caller.ts';
import { treeCpuSeconds } from './child.ts';
import type { Message } from './messages.ts';
import type { Plan } from './options.ts';
import type { Workload } from './rounds.ts';
import type { Target } from './targets.ts';

/** Connections of the load generator, unless a load has others. */
export const CONNECTIONS = 64;

/** Load on an endpoint. */
export interface LoadPlan {
  /** Path of the generated wrk script. */
  readonly script: string;
  readonly url: URL;
  /** Requests, sent in turn. */
  readonly messages: readonly Message[];
  /** Expected body size: a smaller average indicates error responses. */
  readonly answerBytes: number;
  /** Process whose CPU time, with that of its descendants, is measured. */
  readonly pid: number;
  readonly connections?: number;
  /** Delay of each connection between requests in milliseconds. */
  readonly pauseMs?: number;
}

/** Result of a load measurement. */
interface Load {
  readonly requests: number;
  /** Responses per second of wall-clock time. */
  readonly perSecond: number;
  /** CPU time of the process per response, in microseconds. */
  readonly cpuUs: number;
}

const run = promisify(execFile);

/**
 * Loads an endpoint with `wrk`: one thread and keep-alive connections.
 *
 * @throws Error if requests fail, or responses are not 2xx or too small
 */
export async function load(plan: LoadPlan, seconds: number): Promise<Load> {
  const { script, url, messages, answerBytes, pid, pauseMs = 0, connections = CONNECTIONS } = plan;
  writeFileSync(script, scriptText(messages, pauseMs));
  const before = treeCpuSeconds(pid);
  const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '10s', '-s', script, url.href];
  const { stdout } = await run('wrk', args);
  const used = treeCpuSeconds(pid) - before;
  const line = /^RESULT (.*)$/m.exec(stdout)?.[1];
  const result = parseJson(line ?? '');
  const figure = (name: string) => Number(at(result, name));
  const requests = figure('requests');
  const failed = figure('failed');
  if (Number.isNaN(requests) || failed !== 0)
    throw new Error(`load on ${url}: ${failed} of ${requests} requests failed`);
  const size = figure('bytes') / requests;
  if (size < answerBytes) {
    throw new Error(`load on ${url}: responses have ${size.toFixed(0)} bytes on average, expected ${answerBytes}`);
  }
  return { requests, perSecond: requests / (figure('microseconds') / 1e6), cpuUs: (used * 1e6) / requests };
}

/** Duration of measurements and warm-ups. */
type LoadTimes = Pick<Plan, 'seconds' | 'warmUpSeconds'>;

/** Requests after which a warm-up ends. */
const WARM_UP_REQUESTS = 150_000;

/**
 * Returns the load on a target. Its warm-up lasts until the CPU time per response has not fallen by 3 % for two seconds: the
 * first 60,000 calls cost about twice as much; on a busy machine these take long.
 */
export function loadWorkload(plan: LoadPlan, target: Target, { seconds, warmUpSeconds }: LoadTimes): Workload {
  const loaded = async (duration: number) => {
    const result = await load(plan, duration);
    target.clearOutput?.();
    return result;
  };
  return {
    async warmUp() {
      let requests = 0;
      let best = Number.POSITIVE_INFINITY;
      let steadySeconds = 0;
      for (let second = 0; second < warmUpSeconds && requests < WARM_UP_REQUESTS && steadySeconds < 2; second++) {
        const sample = await loaded(1);
        requests += sample.requests;
        steadySeconds = sample.cpuUs * 1.03 < best ? 0 : steadySeconds + 1;
        best = Math.min(best, sample.cpuUs);
      }
      return requests;
    },
    async measure() {
      const sample = await loaded(seconds);
      if (sample.requests === 0) throw new Error(`load on ${plan.url}: no response in ${seconds} s`);
      return sample;
    },
  };
}

// An ASCII string has the same syntax in JSON and Lua.
const lua = (text: string) => JSON.stringify(text);

function scriptText(messages: readonly Message[], pauseMs: number): string {
  // Sessions have the same bodies, which may be large.
  const bodies = [...new Set(messages.map(({ body }) => body))];
  const table = messages.map(({ headers, body }) => {
    const pairs = Object.entries(headers).map(([name, value]) => `[${lua(name)}]=${lua(value)}`);
    return `  {{${pairs.join(',')}}, bodies[${bodies.indexOf(body) + 1}]},`;
  });
  return `local bodies = {
${bodies.map((body) => `  ${lua(body)},`).join('\n')}
}
local messages = {
${table.join('\n')}
}
local requests, last = {}, 0
function init()
  for i, m in ipairs(messages) do requests[i] = wrk.format("POST", nil, m[1], m[2]) end
end
function request()
  last = last % #requests + 1
  return requests[last]
end
${pauseMs > 0 ? `function delay() return ${pauseMs} end` : ''}
function done(s)
  local e = s.errors
  io.write(string.format('\\nRESULT {"requests":%d,"microseconds":%d,"bytes":%d,"failed":%d}\\n',
    s.requests, s.duration, s.bytes, e.connect + e.read + e.write + e.status + e.timeout))
end
`;
}
