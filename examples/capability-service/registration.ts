import { setTimeout as wait } from 'node:timers/promises';
import { LANGUAGE, runJavascript } from './code-process.ts';
import type { Settings } from './settings.ts';
import { Refused, SluiceApi } from './sluice-api.ts';
import type { ToolDefinition } from './tools.ts';

const RETRY_MS = 2_000;

/** What {@link register} registers. */
export interface Registration {
  /** Where Sluice is to call: `host:port`. */
  readonly address: string;
  /** What `InvokeTool` carries out. */
  readonly tools: readonly ToolDefinition[];
  /** Is told in a line when Sluice has to be waited for. */
  readonly report: (line: string) => void;
  /** Ends the waiting. */
  readonly signal: AbortSignal;
}

/** A tool, and the entry of the service that carries it out: by the type, Sluice finds that. */
interface Offer {
  readonly tool: ToolDefinition;
  readonly toolType: string;
}

/**
 * Registers the service and its tools over Sluice's management API. Once more is harmless: entries of the service are
 * replaced, its tools brought up to date. Waits until Sluice is there; rejects when it refuses.
 */
export async function register(
  { sluice, name, namespace }: Settings,
  { address, tools, report, signal }: Registration,
): Promise<void> {
  const api = new SluiceApi(sluice);
  const [toolType, codeType] = [`${name}-tools`, `${name}-code`];
  const offers = [...tools.map((tool) => ({ tool, toolType })), { tool: runJavascript(name), toolType: codeType }];
  for (;;) {
    try {
      // Before anything is changed: who ends because of a name has not put itself in the place of another copy.
      for (const offer of offers) await known(api, offer, namespace);
      // Services first: what agents are offered, somebody carries out.
      await api.send('POST', 'services', { name: toolType, serviceType: 'tool-invoker', address });
      const code = { serviceType: 'code-execution-engine', serviceSubType: name, languageName: LANGUAGE };
      await api.send('POST', 'services', { name: codeType, ...code, address });
      for (const offer of offers) await put(api, offer, namespace);
      return;
    } catch (error) {
      if (error instanceof Refused) throw error;
      // fetch says only that it failed, and keeps why.
      const reason = error instanceof TypeError ? error.cause : error;
      report(`Sluice at ${sluice.host} cannot be asked, trying again in ${RETRY_MS / 1000} s: ${reason}`);
    }
    await wait(RETRY_MS, undefined, { signal });
  }
}

function pathOf(tool: ToolDefinition, namespace: string): string {
  return `tools/${tool.name}?namespace=${encodeURIComponent(namespace)}`;
}

/** The tool as it is registered; undefined when there is none. Refused when it is somebody else's. */
async function known(api: SluiceApi, { tool, toolType }: Offer, namespace: string): Promise<object | undefined> {
  const found = await api.send('GET', pathOf(tool, namespace), undefined, 404);
  if (!found || ('toolType' in found && found.toolType === toolType)) return found;
  throw new Refused(
    `namespace ${namespace} has another tool ${tool.name}: choose another namespace by SAMPLE_NAMESPACE`,
  );
}

async function put(api: SluiceApi, offer: Offer, namespace: string): Promise<void> {
  const { name, description, uri, input_schema } = offer.tool;
  const tool = { name, description, uri, input_schema, toolType: offer.toolType, namespace };
  if (await api.send('POST', 'tools', tool, 409)) return;
  // What operators have added stays: labels, a title, the secret that the tool goes with.
  await api.send('PUT', pathOf(offer.tool, namespace), { ...(await known(api, offer, namespace)), ...tool });
}
