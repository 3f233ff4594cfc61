import type { JsonObject } from '@sluice/protocol/json/parse';
import { freePort } from '../fixtures/free-port.ts';
import type { Era, Script } from '../fixtures/raw-upstream/message.ts';
import { LIST_END } from '../fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';
import { type Catalog, EMPTY_CATALOG, type UpstreamState } from './state.ts';

/** Their eras, in turn. */
const ERAS: readonly (readonly Era[])[] = [['legacy', 'modern'], ['modern'], ['legacy']];

/** Number of upstreams. */
export const UPSTREAMS = ERAS.length;

const CAPABILITIES = '"capabilities":{"tools":{},"resources":{},"prompts":{}}';
const SERVER = '"serverInfo":{"name":"raw","version":"1"}';

/**
 * Real MCP servers whose catalogs the test changes. They send no list changes, so their catalogs are read only when a
 * forward is registered, refreshed, retried, or discovered at a start.
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
    this.#states = servers.map(({ url }) => ({ address: url, mode: 'up', catalog: EMPTY_CATALOG }));
    for (const [index, { scripts }] of servers.entries()) {
      const list =
        (member: string, from: keyof Catalog): Script =>
        () => {
          const { mode, catalog } = this.#states[index] ?? { mode: 'failing', catalog: EMPTY_CATALOG };
          if (mode === 'failing') return { kind: 'error', text: '{"code":-32603,"message":"broken"}' };
          return `{"${member}":${JSON.stringify(catalog[from] satisfies readonly JsonObject[])},${LIST_END}`;
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
  async set(index: number, change: Partial<Pick<UpstreamState, 'mode' | 'catalog'>>): Promise<void> {
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
