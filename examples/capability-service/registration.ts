import { setTimeout as wait } from 'node:timers/promises';
import { LANGUAGE, runJavascript } from './code-process.ts';
import type { Settings } from './settings.ts';
import { RejectedError, SluiceApi } from './sluice-api.ts';
import type { ToolDefinition } from './tools.ts';

const RETRY_MS = 2_000;

/** Options of {@link register}. */
export interface Registration {
  /** Address of this service for Sluice: `host:port`. */
  readonly address: string;
  /** Tools of `InvokeTool`. */
  readonly tools: readonly ToolDefinition[];
  /** Logs failed attempts. */
  readonly log: (line: string) => void;
  /** Cancels the retries. */
  readonly signal: AbortSignal;
}

/** A tool, and its type, which is the name of the service entry. */
interface RegisteredTool {
  readonly tool: ToolDefinition;
  readonly toolType: string;
}

/**
 * Registers the service and its tools through Sluice's management API. Idempotent: service entries are replaced, tools
 * updated. Retries until Sluice is reachable; rejects if Sluice rejects the registration.
 */
export async function register(
  { sluice, name, namespace }: Settings,
  { address, tools, log, signal }: Registration,
): Promise<void> {
  const api = new SluiceApi(sluice);
  const [toolType, codeType] = [`${name}-tools`, `${name}-code`];
  const registered = [...tools.map((tool) => ({ tool, toolType })), { tool: runJavascript(name), toolType: codeType }];
  for (;;) {
    try {
      // Checks for name conflicts before anything is changed, so that another copy is not replaced.
      for (const tool of registered) await findOwnTool(api, tool, namespace);
      // Services first, so that listed tools can be called.
      await api.send('POST', 'services', { name: toolType, serviceType: 'tool-invoker', address });
      const code = { serviceType: 'code-execution-engine', serviceSubType: name, languageName: LANGUAGE };
      await api.send('POST', 'services', { name: codeType, ...code, address });
      for (const tool of registered) await registerTool(api, tool, namespace);
      return;
    } catch (error) {
      if (error instanceof RejectedError) throw error;
      // fetch puts the reason in the cause.
      const reason = error instanceof TypeError ? error.cause : error;
      log(`Sluice at ${sluice.host} is unreachable, retrying in ${RETRY_MS / 1000} s: ${reason}`);
    }
    await wait(RETRY_MS, undefined, { signal });
  }
}

function toolPath(tool: ToolDefinition, namespace: string): string {
  return `tools/${tool.name}?namespace=${encodeURIComponent(namespace)}`;
}

/** Returns the registered tool; undefined if there is none. Throws RejectedError if it belongs to another service. */
async function findOwnTool(
  api: SluiceApi,
  { tool, toolType }: RegisteredTool,
  namespace: string,
): Promise<object | undefined> {
  const found = await api.send('GET', toolPath(tool, namespace), undefined, 404);
  if (!found || ('toolType' in found && found.toolType === toolType)) return found;
  throw new RejectedError(
    `namespace ${namespace} already has another tool ${tool.name}: set SAMPLE_NAMESPACE to another namespace`,
  );
}

async function registerTool(api: SluiceApi, registered: RegisteredTool, namespace: string): Promise<void> {
  const { name, description, uri, input_schema } = registered.tool;
  const tool = { name, description, uri, input_schema, toolType: registered.toolType, namespace };
  if (await api.send('POST', 'tools', tool, 409)) return;
  // Keeps the members that operators have added, such as labels, title and secrets.
  await api.send('PUT', toolPath(registered.tool, namespace), {
    ...(await findOwnTool(api, registered, namespace)),
    ...tool,
  });
}
