import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type LiveUpstream, type LiveUpstreamOptions, startLiveUpstream } from './live-upstream.ts';
import { type RelayTests, relayTests } from './relay.ts';
import { startTestService, type TestService } from './service.ts';

/** Shared setup for tests of sessions: the service, and upstreams whose responses are written by the test. */
export interface LiveTests extends RelayTests {
  /** A service that stores its state in a folder, and is restarted there; clients find it at another address then. */
  persistent(): Promise<{ readonly service: TestService; restart(): Promise<TestService> }>;
  /** Starts an upstream and registers it in a separate namespace; `url` is that of the MCP endpoint. */
  live(options?: LiveUpstreamOptions, on?: TestService): Promise<{ upstream: LiveUpstream; url: string }>;
}

/** Call once, at the top of a test file. */
export function liveTests(startService = startTestService): LiveTests {
  const relay = relayTests(startService);
  let namespaces = 0;
  const { register, upstreamWith, streamer, onEnd } = relay;
  return {
    get service() {
      return relay.service;
    },
    register,
    upstreamWith,
    streamer,
    onEnd,
    async persistent() {
      const folder = await mkdtemp(join(tmpdir(), 'sluice-live-'));
      onEnd(() => rm(folder, { recursive: true, force: true }));
      const start = () => startService({ SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: folder });
      let running = await start();
      onEnd(() => running.stop(0));
      return {
        service: running,
        async restart() {
          await running.stop(0);
          running = await start();
          return running;
        },
      };
    },
    async live(options, on) {
      const upstream = await startLiveUpstream(options);
      onEnd(upstream.close);
      if (!on) return { upstream, url: await register(upstream.url) };
      // It is closed with its service.
      const namespace = `live${++namespaces}`;
      await on.register('forwards', { name: namespace, address: upstream.url, namespace });
      return { upstream, url: on.url(namespace) };
    },
  };
}

/** The JSON text of a notification; `params` is JSON text. */
export function notification(method: string, params = '{}'): string {
  return `{"jsonrpc":"2.0","method":"notifications/${method}","params":${params}}`;
}

/** The client's response to a server request, as JSON text; `member` is `"result":…` or `"error":…`. */
export function responseTo(request: string, member = '"result":{}'): string {
  return `{"jsonrpc":"2.0","id":${JSON.stringify(JSON.parse(request).id)},${member}}`;
}

/** The address of the same namespace at another service. */
export function atService(service: TestService, url: string): string {
  return service.url(new URL(url).pathname.split('/')[1]);
}
