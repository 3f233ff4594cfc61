import { setTimeout as wait } from 'node:timers/promises';
import { ENGINE, LANGUAGE, runJavascript } from './code-process.ts';
import type { Settings } from './settings.ts';
import { Refused, SluiceApi } from './sluice-api.ts';
import type { ToolDefinition } from './tools.ts';

/** The names of the two entries. Each is also the type of its tools: by that, Sluice finds who carries them out. */
const TOOLS = 'sample-tools';
const CODE = 'sample-code';

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

/**
 * Registers the service and its tools over Sluice's management API. Once more is harmless: entries of the service are
 * replaced, its tools brought up to date. Waits until Sluice is there; rejects when it refuses.
 */
export async function register(
  { sluice, namespace }: Settings,
  { address, tools, report, signal }: Registration,
): Promise<void> {
  const api = new SluiceApi(sluice);
  for (;;) {
    try {
      // Services first: what agents are offered, somebody carries out.
      await api.send('POST', 'services', { name: TOOLS, serviceType: 'tool-invoker', address });
      const code = { serviceType: 'code-execution-engine', serviceSubType: ENGINE, languageName: LANGUAGE };
      await api.send('POST', 'services', { name: CODE, ...code, address });
      for (const tool of tools) await offer(api, tool, TOOLS, namespace);
      return await offer(api, runJavascript, CODE, namespace);
    } catch (error) {
      if (error instanceof Refused) throw error;
      // fetch says only that it failed, and keeps why.
      const reason = error instanceof TypeError ? error.cause : error;
      report(`Sluice at ${sluice.host} cannot be asked, trying again in ${RETRY_MS / 1000} s: ${reason}`);
    }
    await wait(RETRY_MS, undefined, { signal });
  }
}

async function offer(
  api: SluiceApi,
  { name, description, uri, input_schema }: ToolDefinition,
  toolType: string,
  namespace: string,
): Promise<void> {
  const tool = { name, description, uri, input_schema, toolType, namespace };
  if (await api.send('POST', 'tools', tool, 409)) return;
  const path = `tools/${name}?namespace=${encodeURIComponent(namespace)}`;
  const known = await api.send('GET', path, undefined, 404);
  if (!known || !('toolType' in known) || known.toolType !== toolType) {
    throw new Refused(`namespace ${namespace} has another tool ${name}: choose another namespace by SAMPLE_NAMESPACE`);
  }
  // What operators have added stays: labels, a title, the secret that the tool goes with.
  await api.send('PUT', path, { ...known, ...tool });
}
