import { afterAll, afterEach, beforeAll } from 'vitest';
import {
  legacyClient,
  modernClient,
  type RawClient,
  type RawResponse,
  reply,
} from '../../../test/fixtures/raw-client.ts';
import type { Era, ReceivedMessage } from '../../../test/fixtures/raw-upstream/message.ts';
import { textResultText, toolList, toolText } from '../../../test/fixtures/raw-upstream/texts.ts';
import { type RawUpstream, type RawUpstreamOptions, startRawUpstream } from '../../../test/fixtures/raw-upstream.ts';
import { startTestService, type TestService } from './service.ts';
import { type Streamer, startStreamer } from './streamer.ts';

/** Both eras, for tests that apply to each. */
export const eras: readonly Era[] = ['legacy', 'modern'];

/** Shared setup for tests of the relay: one service per file, and upstreams that end with their test. */
export interface RelayTests {
  readonly service: TestService;
  /** Registers an upstream in a separate namespace until the end of the test. Returns the URL of its MCP endpoint. */
  register(address: string, more?: object, on?: TestService): Promise<string>;
  /** Starts an upstream with the tools `a` and `grüße`, whose calls return `done`. */
  upstreamWith(scripts?: RawUpstreamOptions['scripts'], more?: RawUpstreamOptions): Promise<RawUpstream>;
  /** Starts an upstream whose responses the test writes. */
  streamer(): Promise<Streamer>;
  /** Runs a cleanup at the end of the test, in reverse order of registration. */
  onEnd(close: () => Promise<unknown>): void;
}

/** Call once, at the top of a test file; `start` starts its service. */
export function relayTests(start: () => Promise<TestService> = startTestService): RelayTests {
  let service: TestService | undefined;
  beforeAll(async () => {
    service = await start();
  });
  afterAll(() => service?.stop());

  const closers: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close();
  });
  const onEnd = (close: () => Promise<unknown>) => void closers.push(close);
  const shared = (): TestService => {
    if (!service) throw new Error('the service is not running');
    return service;
  };
  let namespaces = 0;
  return {
    get service() {
      return shared();
    },
    onEnd,
    async register(address, more = {}, on = shared()) {
      const namespace = `ns${++namespaces}`;
      await on.register('forwards', { name: namespace, address, namespace, ...more });
      onEnd(() => on.manage('DELETE', `/namespaces/${namespace}?cascade=true`));
      return on.url(namespace);
    },
    async upstreamWith(scripts = {}, more = {}) {
      const defaults = {
        'tools/list': toolList(toolText('a'), toolText('grüße')),
        'tools/call': textResultText('done'),
      };
      const upstream = await startRawUpstream({ ...more, scripts: { ...defaults, ...scripts } });
      onEnd(upstream.close);
      return upstream;
    },
    async streamer() {
      const started = await startStreamer();
      onEnd(started.close);
      return started;
    },
  };
}

/** A client of this era; `meta` is for a modern one's envelope. */
export async function client(era: Era, url: string, meta?: string): Promise<RawClient> {
  return era === 'legacy' ? legacyClient(url) : modernClient(url, '{}', meta);
}

/** The last request of this method that an upstream has received. */
export function lastCall(upstream: RawUpstream, method = 'tools/call'): ReceivedMessage {
  const call = upstream.seen.findLast((seen) => seen.method === method);
  if (!call) throw new Error(`no ${method} arrived`);
  return call;
}

/** The JSON-RPC error of a response, or of the last event of its stream. */
export function errorOf(response: RawResponse): { code: number; message: string; data?: unknown } {
  return JSON.parse(reply(response)).error;
}
