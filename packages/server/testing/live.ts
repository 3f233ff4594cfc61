import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type LiveUpstream, type LiveUpstreamOptions, startLiveUpstream } from './live-upstream.ts';
import { type RelayTests, relayTests } from './relay.ts';
import { startTestService, type TestService } from './service.ts';

/** What tests of sessions share: the service, and upstreams whose every answer the test writes. */
export interface LiveTests extends RelayTests {
  /** A service that keeps what it knows in a folder, and starts there again; clients find it at another address then. */
  kept(): Promise<{ readonly service: TestService; restart(): Promise<TestService> }>;
  /** Starts an upstream and registers it in a namespace of its own; `url` is that of the MCP endpoint. */
  live(options?: LiveUpstreamOptions, on?: TestService): Promise<{ upstream: LiveUpstream; url: string }>;
}

/** To be called once, at the top of a test file. */
export function liveTests(): LiveTests {
  const relay = relayTests();
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
    async kept() {
      const folder = await mkdtemp(join(tmpdir(), 'sluice-live-'));
      onEnd(() => rm(folder, { recursive: true, force: true }));
      const start = () => startTestService({ SERVICE_PERSIST_BACKEND: 'file', SERVICE_PERSIST_PATH: folder });
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
      // It ends with its service.
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

/** The client's answer to a question, as JSON text; `member` is `"result":…` or `"error":…`. */
export function answerTo(question: string, member = '"result":{}'): string {
  return `{"jsonrpc":"2.0","id":${JSON.stringify(JSON.parse(question).id)},${member}}`;
}

/** The address of the same namespace at another service. */
export function movedTo(service: TestService, url: string): string {
  return service.url(new URL(url).pathname.split('/')[1]);
}
