import type { JsonObject } from '@sluice/protocol/json/parse';
import { freePort } from '../fixtures/free-port.ts';
import type { Era, Script } from '../fixtures/raw-upstream/message.ts';
import { LIST_END } from '../fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';
import { type Catalogue, NOTHING, type UpstreamState } from './state.ts';

/** What they speak, one after the other. */
const ERAS: readonly (readonly Era[])[] = [['legacy', 'modern'], ['modern'], ['legacy']];

/** How many upstreams there are. */
export const UPSTREAMS = ERAS.length;

const CAPABILITIES = '"capabilities":{"tools":{},"resources":{},"prompts":{}}';
const SERVER = '"serverInfo":{"name":"raw","version":"1"}';

/**
 * Real MCP servers whose catalogues the test changes. They announce no changes, so that what they offer is read when a
 * forward is registered, refreshed, retried, or found at a start, and at no other time.
 */
export class Upstreams {
  readonly #servers: readonly RawUpstream[];
  #states: UpstreamState[];

  static async start(): Promise<Upstreams> {
    const started = ERAS.map(async (eras) => startRawUpstream({ eras, port: await freePort() }));
    return new Upstreams(await Promise.all(started));
  }

  private constructor(servers: readonly RawUpstream[]) {
    this.#servers = servers;
    this.#states = servers.map(({ url }) => ({ address: url, mode: 'up', catalogue: NOTHING }));
    for (const [index, { scripts }] of servers.entries()) {
      const list =
        (member: string, from: keyof Catalogue): Script =>
        () => {
          const { mode, catalogue } = this.#states[index] ?? { mode: 'failing', catalogue: NOTHING };
          if (mode === 'failing') return { kind: 'error', text: '{"code":-32603,"message":"broken"}' };
          return `{"${member}":${JSON.stringify(catalogue[from] satisfies readonly JsonObject[])},${LIST_END}`;
        };
      scripts['tools/list'] = list('tools', 'tools');
      scripts['resources/list'] = list('resources', 'resources');
      scripts['resources/templates/list'] = list('resourceTemplates', 'templates');
      scripts['prompts/list'] = list('prompts', 'prompts');
      scripts.initialize = ({ params }) => `{"protocolVersion":"${params.protocolVersion}",${CAPABILITIES},${SERVER}}`;
      scripts['server/discover'] = `{"supportedVersions":["2026-07-28"],${CAPABILITIES},${SERVER},${LIST_END}`;
    }
  }

  get states(): readonly UpstreamState[] {
    return this.#states;
  }

  /** Makes one offer this from now on, or fail, or not listen; resolves when it does. */
  async set(index: number, change: Partial<Pick<UpstreamState, 'mode' | 'catalogue'>>): Promise<void> {
    const [server, before] = [this.#servers[index], this.#states[index]];
    if (!server || !before) throw new Error(`there is no upstream ${index}`);
    const after = { ...before, ...change };
    this.#states = this.#states.with(index, after);
    if (after.mode === 'down' && before.mode !== 'down') await server.down();
    if (after.mode !== 'down' && before.mode === 'down') await server.up();
  }

  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.close()));
  }
}
