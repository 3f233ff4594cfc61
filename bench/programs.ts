import { execFile, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { at, makeCaller, parseJson } from './caller.ts';
import { type Child, childrenOf, freePort, startChild, treeCpuSeconds } from './child.ts';
import type { Message } from './messages.ts';

/** Available external programs. */
export interface Programs {
  readonly nginx: boolean;
  readonly wrk: boolean;
}

const policy = '/usr/sbin/policy-rc.d';
const packageTool = 'apt-get';

/**
 * Looks for nginx and wrk and, as root on Debian, installs missing ones.
 *
 * @param log called for each missing program
 */
export function findPrograms(log: (line: string) => void): Programs {
  const missing = ['nginx', 'wrk'].filter((name) => !present(name));
  if (missing.length > 0 && process.getuid?.() === 0 && present(packageTool)) install(missing);
  for (const name of missing.filter((name) => !present(name))) {
    const omitted = name === 'wrk' ? 'requests per CPU-second' : 'figures and ratios of nginx';
    log(`${name} is not installed (${packageTool} install ${name}): omitting ${omitted}`);
  }
  return { nginx: present('nginx'), wrk: present('wrk') };
}

const present = (name: string) =>
  [
    '/usr/sbin',
    '/usr/bin',
    '/sbin',
    '/bin',
    '/usr/local/sbin',
    '/usr/local/bin',
    ...(process.env.PATH ?? '').split(':'),
  ]
    .map((folder) => `${folder}/${name}`)
    .some((path) => existsSync(path));

function install(names: readonly string[]): void {
  // This file keeps Debian from starting nginx as a service on port 80.
  const createPolicy = !existsSync(policy);
  if (createPolicy) writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  try {
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    const apt = (...args: string[]) =>
      spawnSync(packageTool, ['-qq', ...args], { stdio: ['ignore', 'ignore', 2], env });
    const installed = () => apt('install', '-y', '--no-install-recommends', ...names).status === 0;
    if (!installed()) {
      apt('update');
      installed();
    }
  } finally {
    if (createPolicy) rmSync(policy, { force: true });
  }
}

/** Mode of nginx: buffered responses (default), or unbuffered event streams. */
export type Relayed = 'answers' | 'streams';

/** A running nginx with one worker. */
export interface Nginx extends AsyncDisposable {
  readonly child: Child;
  /** Worker process. */
  readonly workerPid: number;
  /** Returns the URL that is proxied to the upstream of this name. */
  endpoint(name: string): URL;
}

/**
 * Starts nginx as a proxy in front of named upstreams: one worker, no access log, keep-alive on both sides, all files
 * inside `folder`.
 *
 * @throws Error with its output if it fails to start
 */
export async function startNginx(
  folder: string,
  upstreams: Readonly<Record<string, URL>>,
  relayed: Relayed,
): Promise<Nginx> {
  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  const configuration = `${folder}/nginx.conf`;
  writeFileSync(configuration, configurationText(folder, port, upstreams, relayed));
  const args = ['-p', folder, '-c', configuration, '-e', `${folder}/error.log`];
  const child = startChild('nginx', `${folder}/output.log`, 'nginx', args);
  try {
    using caller = makeCaller();
    await child.waitFor('it responded', 5_000, async () => {
      const response = await caller.get(new URL(`http://127.0.0.1:${port}/ready`)).catch(() => undefined);
      return response?.status === 204 || undefined;
    });
    const workerPid = await child.waitFor('its worker started', 5_000, () => childrenOf(child.pid)[0]);
    return {
      child,
      workerPid,
      endpoint: (name) => new URL(`http://127.0.0.1:${port}/${name}${upstreams[name]?.pathname}`),
      [Symbol.asyncDispose]: () => child.stop(2_000),
    };
  } catch (error) {
    await child.stop(0);
    throw error;
  }
}

/** Keeps requests and responses of 1 MB in memory. */
const largeBodies = `client_max_body_size 8m;
  client_body_buffer_size 2m;
  proxy_buffer_size 128k;
  proxy_buffers 16 128k;
  proxy_busy_buffers_size 256k;`;

function configurationText(
  folder: string,
  port: number,
  upstreams: Readonly<Record<string, URL>>,
  relayed: Relayed,
): string {
  const named = Object.entries(upstreams);
  // Each stream uses two connections.
  const [connections, stored] = relayed === 'streams' ? [4096, 1024] : [1024, 128];
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  // As root, the worker would switch to a user without access to the temporary folder.
  const user = process.getuid?.() === 0 ? 'user root;' : '';
  return `
${user}
daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log ${folder}/error.log;
events { worker_connections ${connections}; }
http {
  access_log off;
  ${temporary.map((name) => `${name}_temp_path ${folder}/${name};`).join('\n  ')}
  keepalive_requests 100000000;
  keepalive_timeout 300s;
  ${relayed === 'answers' ? largeBodies : ''}
${named.map(([name, { host }]) => `  upstream ${name} { server ${host}; keepalive ${stored}; keepalive_requests 100000000; }`).join('\n')}
  server {
    listen 127.0.0.1:${port};
    location = /ready { return 204; }
${named
  .map(
    ([name, { pathname }]) => `    location = /${name}${pathname} {
      proxy_pass http://${name}${pathname};
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering ${relayed === 'streams' ? 'off' : 'on'};
    }`,
  )
  .join('\n')}
  }
}
`;
}

/** Connections of the load generator, unless a load has others. */
export const connections = 64;

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
  readonly pid?: number | undefined;
  readonly connections?: number;
  /** Delay of each connection between requests in milliseconds. */
  readonly pauseMs?: number;
}

/** Result of a load measurement. */
export interface Load {
  readonly requests: number;
  /** Responses per second of wall-clock time. */
  readonly perSecond: number;
  /** Responses per CPU-second of the process; NaN without a process. */
  readonly perCpuSecond: number;
}

const run = promisify(execFile);

/**
 * Loads an endpoint with `wrk`: one thread and keep-alive connections.
 *
 * @throws Error if requests fail, or responses are not 2xx or too small
 */
export async function load(plan: LoadPlan, seconds: number): Promise<Load> {
  const { script, url, messages, answerBytes, pid, pauseMs = 0 } = plan;
  writeFileSync(script, scriptText(messages, pauseMs));
  const before = pid === undefined ? Number.NaN : treeCpuSeconds(pid);
  const count = plan.connections ?? connections;
  const args = ['-t1', `-c${count}`, `-d${seconds}s`, '--timeout', '10s', '-s', script, url.href];
  const { stdout } = await run('wrk', args);
  const used = pid === undefined ? Number.NaN : treeCpuSeconds(pid) - before;
  const line = /^RESULT (.*)$/m.exec(stdout)?.[1];
  const result = parseJson(line ?? '');
  const figure = (name: string) => Number(at(result, name));
  const requests = figure('requests');
  const failed = figure('failed');
  if (!(requests > 0) || failed !== 0) throw new Error(`load on ${url}: ${failed} of ${requests} requests failed`);
  const size = figure('bytes') / requests;
  if (size < answerBytes) {
    throw new Error(`load on ${url}: responses have ${size.toFixed(0)} bytes on average, expected ${answerBytes}`);
  }
  return { requests, perSecond: requests / (figure('microseconds') / 1e6), perCpuSecond: requests / used };
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
