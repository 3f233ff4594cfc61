import { Client, ProtocolError, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { forward, successResponse, toolCallEvent } from '../../packages/contract/src/index.ts';
import { counted } from '../../packages/protocol/src/text.ts';

/** Receives the progress of a call. */
export type OnProgress = (progress: {
  progress: number;
  total?: number | undefined;
  message?: string | undefined;
}) => void;

/** Calls a tool and returns the text of its result. Throws if the result is an error. */
async function callText(
  client: Client,
  name: string,
  args: Record<string, unknown>,
  onprogress?: OnProgress,
): Promise<string> {
  const result = await client.callTool({ name, arguments: args }, onprogress && { onprogress });
  const text = result.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
  if (result.isError === true) throw new Error(`tools/call ${name}: ${text}`);
  return text;
}

const EVENTS_TIMEOUT_MS = 10_000;

/** Calls a tool of the sample capability service. */
async function callSample(client: Client, { sample }: Endpoints): Promise<string> {
  await client.connect(new StreamableHTTPClientTransport(new URL(sample)));
  const message = 'hello over gRPC';
  const text = await callText(client, 'echo', { message });
  if (!text.includes(message)) throw new Error(`tools/call echo: unexpected result ${JSON.stringify(text)}`);
  return `tools/call echo in namespace sample, answered by the capability service: ${text}`;
}

/** Prints with pauses, so that output arrives before the end. */
const CODE = `
for (const word of process.argv.slice(2)) {
  console.log(word);
  await new Promise((resolve) => setTimeout(resolve, 200));
}`;

/** Runs code and receives its output as progress. */
async function runCode(client: Client): Promise<string> {
  const words = ['code', 'runs', 'elsewhere'];
  const progress: string[] = [];
  const text = await callText(client, 'run-javascript', { code: CODE, arguments: words }, ({ message = '' }) =>
    // Output that is written together arrives in one message.
    progress.push(...message.trim().split('\n')),
  );
  if (text.trim().split('\n').join() !== words.join())
    throw new Error(`run-javascript: unexpected output ${JSON.stringify(text)}`);
  if (progress.length === 0) throw new Error('run-javascript: no progress before the result');
  return `tools/call run-javascript: ${progress.join(', ')}, then the result`;
}

/** Reads the tool-call events of both calls: four events, newest first. */
async function readEvents({ management }: Endpoints): Promise<string> {
  const response = await fetch(`${management}/api/v1/tool-calls?limit=4`, {
    signal: AbortSignal.timeout(EVENTS_TIMEOUT_MS),
  });
  const { data } = successResponse(toolCallEvent.array()).parse(await response.json());
  const events = data.reverse().map((event) => {
    const duration = event.eventType === 'STARTED' ? '' : ` (${Math.round(event.duration)} ms)`;
    return `${event.toolName} ${event.eventType}${duration}`;
  });
  return `GET /api/v1/tool-calls: ${events.join(', ')}`;
}

/** URLs of the demo's services. */
export interface Endpoints {
  /** Management API. */
  readonly management: string;
  /** MCP endpoint of the namespace `default`. */
  readonly mcp: string;
  /** MCP endpoint of the namespace `sample`. */
  readonly sample: string;
  /** MCP endpoint of the upstream. */
  readonly upstream: string;
}

/** Reports the result of a step. */
export type Report = (passed: boolean, step: string, what: string) => void;

/** Longer than the registration of a forward may take. */
const REQUEST_TIMEOUT_MS = 40_000;

/**
 * Registers the upstream and acts as an agent: connect, list, call, call an unknown tool, call with progress. Then calls
 * the capability service, runs code in it, and reads the tool-call events. Reports each step and stops at the first
 * failure. Resolves to true if all steps passed.
 */
export async function walk(endpoints: Endpoints, report: Report): Promise<boolean> {
  const client = new Client({ name: 'sluice-demo', version: '1.0.0' });
  const sampleClient = new Client({ name: 'sluice-demo', version: '1.0.0' });
  const steps: [name: string, run: () => Promise<string>][] = [
    ['register', () => register(endpoints)],
    ['connect', () => connect(client, endpoints)],
    ['list', () => list(client)],
    ['call', () => call(client)],
    ['reject', () => callUnknownTool(client)],
    ['progress', () => callWithProgress(client)],
    ['grpc', () => callSample(sampleClient, endpoints)],
    ['code', () => runCode(sampleClient)],
    ['events', () => readEvents(endpoints)],
  ];
  try {
    for (const [name, run] of steps) {
      try {
        report(true, name, await run());
      } catch (error) {
        report(false, name, error instanceof Error ? error.message : String(error));
        return false;
      }
    }
    return true;
  } finally {
    await Promise.all([client.close(), sampleClient.close()]);
  }
}

async function register({ management, upstream }: Endpoints): Promise<string> {
  const response = await fetch(`${management}/api/v1/forwards`, {
    method: 'POST',
    body: JSON.stringify({ name: 'everything', address: upstream }),
    signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
  });
  const text = await response.text();
  if (response.status !== 201) throw new Error(`POST /api/v1/forwards answered ${response.status}: ${text}`);
  const { data } = successResponse(forward).parse(JSON.parse(text));
  const { available, statusMessage, serverInfo, tools_discovered, resources_discovered, prompts_discovered } = data;
  if (!available) throw new Error(`forward everything: ${statusMessage}`);
  const found = [
    counted(tools_discovered, 'tool'),
    counted(resources_discovered, 'resource'),
    counted(prompts_discovered, 'prompt'),
  ].join(', ');
  return `POST /api/v1/forwards: ${serverInfo?.serverName} has ${found}`;
}

async function connect(client: Client, { mcp }: Endpoints): Promise<string> {
  await client.connect(new StreamableHTTPClientTransport(new URL(mcp)));
  const server = client.getServerVersion();
  return `MCP session with ${server?.name} ${server?.version}, protocol ${client.getNegotiatedProtocolVersion()}`;
}

async function list(client: Client): Promise<string> {
  const { tools } = await client.listTools();
  const names = tools.map(({ name }) => name);
  if (!names.includes('echo')) throw new Error(`tools/list has no tool echo: ${names.join(', ')}`);
  return `tools/list, answered from the registry: ${counted(names.length, 'tool')}, including echo`;
}

async function call(client: Client): Promise<string> {
  const message = 'hello through Sluice';
  const text = await callText(client, 'echo', { message });
  if (!text.includes(message)) throw new Error(`tools/call echo: unexpected result ${JSON.stringify(text)}`);
  return `tools/call echo, answered by the upstream: ${JSON.stringify(text)}`;
}

async function callUnknownTool(client: Client): Promise<string> {
  const name = 'not-registered';
  try {
    await client.callTool({ name });
  } catch (error) {
    if (error instanceof ProtocolError) return `tools/call ${name}: error ${error.code}, ${error.message}`;
    throw error;
  }
  throw new Error(`tools/call ${name}: expected an error`);
}

const PROGRESS_STEPS = 4;

async function callWithProgress(client: Client): Promise<string> {
  const name = 'trigger-long-running-operation';
  const seen: string[] = [];
  await callText(client, name, { duration: 1, steps: PROGRESS_STEPS }, ({ progress, total }) =>
    seen.push(`${progress}/${total}`),
  );
  if (seen.length !== PROGRESS_STEPS)
    throw new Error(`${name}: ${seen.length} of ${PROGRESS_STEPS} progress notifications received`);
  return `tools/call ${name}: ${seen.join(' ')}, then the result`;
}
