import { mkdirSync, writeFileSync } from 'node:fs';
import { makeCaller } from './caller.ts';
import { type Child, startChild } from './child.ts';
import { freePort } from './port.ts';
import { childrenOf } from './usage.ts';

/** What nginx is to relay: answers at once, as it does by default, or event streams, whose pieces it must not hold back. */
export type Relayed = 'answers' | 'streams';

/** A running nginx with one worker. */
export interface Nginx extends AsyncDisposable {
  readonly child: Child;
  /** The process that relays. */
  readonly workerPid: number;
  /** Where it relays to the upstream of that name. */
  endpoint(name: string): URL;
}

/**
 * Starts nginx as a relay in front of named upstreams: one worker, no access log, kept-alive connections on both
 * sides, everything it writes inside `folder`.
 *
 * @throws Error with its own message when it does not start
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
    await child.until('it answered', 5_000, async () => {
      const answer = await caller.get(new URL(`http://127.0.0.1:${port}/ready`)).catch(() => undefined);
      return answer?.status === 204 || undefined;
    });
    const workerPid = await child.until('its worker ran', 5_000, () => childrenOf(child.pid)[0]);
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

function configurationText(
  folder: string,
  port: number,
  upstreams: Readonly<Record<string, URL>>,
  relayed: Relayed,
): string {
  const named = Object.entries(upstreams);
  // Each stream holds two connections.
  const [connections, kept] = relayed === 'streams' ? [4096, 1024] : [1024, 128];
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  // As root the worker would change to a user who cannot enter the temporary folder.
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
${named.map(([name, { host }]) => `  upstream ${name} { server ${host}; keepalive ${kept}; keepalive_requests 100000000; }`).join('\n')}
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
