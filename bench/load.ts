import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { at, parseJson } from './json.ts';
import type { Message } from './messages.ts';
import { cpuSeconds } from './usage.ts';

/** Connections that the load generator keeps busy. */
export const connections = 64;

/** What one stretch of load came to. */
export interface Load {
  readonly requests: number;
  /** Answers per second of wall-clock time. */
  readonly perSecond: number;
  /** Answers per CPU-second of the watched process; NaN when none was watched. */
  readonly perCpuSecond: number;
}

const run = promisify(execFile);

/**
 * Loads an endpoint with `wrk`: one thread, 64 kept-alive connections, `messages` taken in turn.
 *
 * @param script file that takes the generated wrk script
 * @param pid process whose CPU time is watched meanwhile
 * @param leastBytes size of a right answer's body: smaller ones on average mean that errors were measured
 * @param pauseMs what each connection waits between an answer and its next request; 0 for as much load as there can be
 * @throws Error when connections broke or answers were not 2xx or too small
 */
export async function load(
  script: string,
  url: URL,
  messages: readonly Message[],
  seconds: number,
  leastBytes: number,
  pid?: number,
  pauseMs = 0,
): Promise<Load> {
  writeFileSync(script, scriptText(messages, pauseMs));
  const before = pid === undefined ? Number.NaN : cpuSeconds(pid);
  const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '10s', '-s', script, url.href];
  const { stdout } = await run('wrk', args);
  const used = pid === undefined ? Number.NaN : cpuSeconds(pid) - before;
  const line = /^RESULT (.*)$/m.exec(stdout)?.[1];
  const result = parseJson(line ?? '');
  const figure = (name: string) => Number(at(result, name));
  const requests = figure('requests');
  const failed = figure('failed');
  if (!(requests > 0) || failed !== 0) throw new Error(`load on ${url}: ${failed} of ${requests} requests failed`);
  const size = figure('bytes') / requests;
  if (size < leastBytes) {
    throw new Error(`load on ${url}: answers had ${size.toFixed(0)} bytes on average, right ones have ${leastBytes}`);
  }
  return { requests, perSecond: requests / (figure('microseconds') / 1e6), perCpuSecond: requests / used };
}

// A string of plain ASCII means the same in JSON and in Lua.
const lua = (text: string) => JSON.stringify(text);

function scriptText(messages: readonly Message[], pauseMs: number): string {
  const table = messages.map(({ headers, body }) => {
    const pairs = Object.entries(headers).map(([name, value]) => `[${lua(name)}]=${lua(value)}`);
    return `  {{${pairs.join(',')}}, ${lua(body)}},`;
  });
  return `local messages = {
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
