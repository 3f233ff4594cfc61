import { LIST_END, textResultText, toolList } from '../fixtures/raw-upstream/texts.ts';
import { type RawUpstream, startRawUpstream } from '../fixtures/raw-upstream.ts';
import { type HiddenObject, idOf, type Kind } from './hidden-model.ts';

const LIST = '{"listChanged":true}';
const CAPABILITIES = `"capabilities":{"tools":${LIST},"prompts":${LIST},"resources":${LIST}},"serverInfo":{"name":"s","version":"1"}`;

/** Ids of the objects in a text. */
export function idsIn(text: string): string[] {
  return [...text.matchAll(/\[\[([^\]]*)\]\]/g)].map(([, id = '']) => id);
}

/** An upstream at two addresses. Whatever it returns of an object contains the object's id. */
export class HiddenUpstream {
  readonly forward: string;
  /** Objects in its lists; it answers requests about any. */
  readonly offered: Set<HiddenObject>;
  readonly servers: readonly RawUpstream[];
  #isUp = true;

  private constructor(forward: string, offered: Set<HiddenObject>, servers: readonly RawUpstream[]) {
    this.forward = forward;
    this.offered = offered;
    this.servers = servers;
  }

  static async start(forward: string, objects: readonly HiddenObject[]): Promise<HiddenUpstream> {
    const offered = new Set(objects);
    const list = (kind: Kind, item: (key: string, id: string) => string): string => {
      const items = [...offered].filter((object) => object.kind === kind);
      return items.map((object) => item(object.key, `[[${idOf(object)}]]`)).join(',');
    };
    const marker = (kind: Kind, key: unknown) => `[[${idOf({ forward, kind, key: String(key) })}]]`;
    const scripts = {
      initialize: `{"protocolVersion":"2025-11-25",${CAPABILITIES}}`,
      'server/discover': `{"supportedVersions":["2026-07-28"],${CAPABILITIES},${LIST_END}`,
      'tools/list': () =>
        toolList(list('tools', (key, id) => `{"name":"${key}","description":"${id}","inputSchema":{"type":"object"}}`)),
      'resources/list': () =>
        `{"resources":[${list('resources', (key, id) => `{"uri":"${key}","name":"${key}","description":"${id}"}`)}],${LIST_END}`,
      'resources/templates/list': `{"resourceTemplates":[{"uriTemplate":"${forward}://{+path}","name":"all"}],${LIST_END}`,
      'prompts/list': () =>
        `{"prompts":[${list('prompts', (key, id) => `{"name":"${key}","description":"${id}"}`)}],${LIST_END}`,
      'tools/call': ({ params }: { params: Readonly<Record<string, unknown>> }) =>
        textResultText(marker('tools', params.name)),
      'prompts/get': ({ params }: { params: Readonly<Record<string, unknown>> }) =>
        `{"messages":[],"description":"${marker('prompts', params.name)}","resultType":"complete"}`,
      'resources/read': ({ params }: { params: Readonly<Record<string, unknown>> }) =>
        `{"contents":[{"uri":"x","text":"${marker('resources', decoded(String(params.uri)))}"}],${LIST_END}`,
    };
    const servers = [await startRawUpstream({ scripts }), await startRawUpstream({ scripts })];
    return new HiddenUpstream(forward, offered, servers);
  }

  async setUp(isUp: boolean): Promise<void> {
    if (isUp === this.#isUp) return;
    this.#isUp = isUp;
    for (const server of this.servers) await (isUp ? server.up() : server.down());
  }

  async close(): Promise<void> {
    for (const server of this.servers) await server.close();
  }
}

/** As an upstream that decodes until nothing is left. */
function decoded(uri: string): string {
  const next = decodeURIComponent(uri);
  return next === uri ? uri : decoded(next);
}
