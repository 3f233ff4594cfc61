import { mkdirSync, writeFileSync } from 'node:fs';
import { makeCaller } from './caller.ts';
import { childrenOf, freePort, startChild } from './child.ts';
import type { Target } from './targets.ts';

/** A running nginx with one worker, whose process is measured. */
export interface Nginx extends Target, AsyncDisposable {}

/**
 * Starts nginx as a proxy in front of named upstreams: one worker, no access log, keep-alive on both sides, all files
 * inside `folder`.
 *
 * @param isBuffered false for event streams
 * @throws Error with its output if it fails to start
 */
export async function startNginx(
  folder: string,
  upstreams: Readonly<Record<string, URL>>,
  isBuffered: boolean,
): Promise<Nginx> {
  mkdirSync(folder, { recursive: true });
  const port = await freePort();
  const configuration = `${folder}/nginx.conf`;
  writeFileSync(configuration, configurationText(folder, port, upstreams, isBuffered));
  const args = ['-p', folder, '-c', configuration, '-e', `${folder}/error.log`];
  const child = startChild('nginx', `${folder}/output.log`, 'nginx', args);
  try {
    using caller = makeCaller();
    await child.waitFor('it responded', 5_000, async () => {
      const response = await caller.get(new URL(`http://127.0.0.1:${port}/ready`)).catch(() => undefined);
      return response?.status === 204 || undefined;
    });
    return {
      name: 'nginx',
      pid: await child.waitFor('its worker started', 5_000, () => childrenOf(child.pid)[0]),
      endpoint: (name) => new URL(`http://127.0.0.1:${port}/${name}${upstreams[name]?.pathname}`),
      [Symbol.asyncDispose]: () => child.stop(2_000),
    };
  } catch (error) {
    await child.stop(0);
    throw error;
  }
}

function configurationText(
  folder: string,
  port: number,
  upstreams: Readonly<Record<string, URL>>,
  isBuffered: boolean,
): string {
  const named = Object.entries(upstreams);
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  // As root, the worker would switch to a user without access to the temporary folder.
  const user = process.getuid?.() === 0 ? 'user root;' : '';
  return `
${user}
daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log ${folder}/error.log;
# Each stream uses two connections.
events { worker_connections 4096; }
http {
  access_log off;
  ${temporary.map((name) => `${name}_temp_path ${folder}/${name};`).join('\n  ')}
  keepalive_requests 100000000;
  keepalive_timeout 300s;
${named.map(([name, { host }]) => `  upstream ${name} { server ${host}; keepalive 1024; keepalive_requests 100000000; }`).join('\n')}
  server {
    listen 127.0.0.1:${port};
    location = /ready { return 204; }
${named
  .map(
    ([name, { pathname }]) => `    location = /${name}${pathname} {
      proxy_pass http://${name}${pathname};
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering ${isBuffered ? 'on' : 'off'};
    }`,
  )
  .join('\n')}
  }
}
`;
}
