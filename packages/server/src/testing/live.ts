import { type LiveUpstream, type LiveUpstreamOptions, startLiveUpstream } from './live-upstream.ts';
import { type RelayTests, relayTests } from './relay.ts';
import type { TestService } from './service.ts';

/** What tests of sessions share: the service, and upstreams whose every answer the test writes. */
export interface LiveTests extends RelayTests {
  /** Starts an upstream and registers it in a namespace of its own; `url` is that of the MCP endpoint. */
  live(options?: LiveUpstreamOptions, on?: TestService): Promise<{ upstream: LiveUpstream; url: string }>;
}

/** To be called once, at the top of a test file. */
export function liveTests(): LiveTests {
  const relay = relayTests();
  const { register, upstreamWith, streamer, onEnd } = relay;
  return {
    get service() {
      return relay.service;
    },
    register,
    upstreamWith,
    streamer,
    onEnd,
    async live(options, on) {
      const upstream = await startLiveUpstream(options);
      onEnd(upstream.close);
      return { upstream, url: await register(upstream.url, {}, on) };
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
