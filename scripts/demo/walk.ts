import { Client, ProtocolError, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { forward, successResponse } from '../../packages/contract/src/index.ts';
import { callText } from './call-text.ts';
import { callSample, readEvents, runCode } from './sample.ts';

/** Where everything is: addresses with scheme. */
export interface Places {
  /** The management API. */
  readonly management: string;
  /** The MCP endpoint of namespace `default`. */
  readonly mcp: string;
  /** The MCP endpoint of namespace `sample`. */
  readonly sample: string;
  /** The upstream's own MCP endpoint. */
  readonly upstream: string;
}

/** Says how one step went. */
export type Report = (passed: boolean, step: string, what: string) => void;

/** Longer than registering waits for an upstream. */
const REST_MS = 40_000;

/**
 * Registers the upstream, which is the protocol's reference server, and goes the way of an agent through the service:
 * connect, list, call, be refused, call with progress. Then it has the capability service answer and run code, and looks
 * at what is told of that. Reports each step, ends at the first that fails, and resolves with whether all passed.
 */
export async function walk(places: Places, report: Report): Promise<boolean> {
  const client = new Client({ name: 'sluice-demo', version: '1.0.0' });
  const sampleClient = new Client({ name: 'sluice-demo', version: '1.0.0' });
  const steps: [name: string, run: () => Promise<string>][] = [
    ['register', () => register(places)],
    ['connect', () => connect(client, places)],
    ['list', () => list(client)],
    ['call', () => call(client)],
    ['refuse', () => refused(client)],
    ['progress', () => callWithProgress(client)],
    ['grpc', () => callSample(sampleClient, places)],
    ['code', () => runCode(sampleClient)],
    ['events', () => readEvents(places)],
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

async function register({ management, upstream }: Places): Promise<string> {
  const response = await fetch(`${management}/api/v1/forwards`, {
    method: 'POST',
    body: JSON.stringify({ name: 'everything', address: upstream }),
    signal: AbortSignal.timeout(REST_MS),
  });
  const text = await response.text();
  if (response.status !== 201) throw new Error(`POST /api/v1/forwards answered ${response.status}: ${text}`);
  const { data } = successResponse(forward).parse(JSON.parse(text));
  const { available, statusMessage, serverInfo, tools_discovered, resources_discovered, prompts_discovered } = data;
  if (!available) throw new Error(`forward everything: ${statusMessage}`);
  const found = `${tools_discovered} tools, ${resources_discovered} resources, ${prompts_discovered} prompts`;
  return `POST /api/v1/forwards: ${serverInfo?.serverName} has ${found}`;
}

async function connect(client: Client, { mcp }: Places): Promise<string> {
  await client.connect(new StreamableHTTPClientTransport(new URL(mcp)));
  const server = client.getServerVersion();
  return `an MCP client opened a session with ${server?.name} ${server?.version}, protocol ${client.getNegotiatedProtocolVersion()}`;
}

async function list(client: Client): Promise<string> {
  const { tools } = await client.listTools();
  const names = tools.map(({ name }) => name);
  if (!names.includes('echo')) throw new Error(`tools/list has no tool echo: ${names.join(', ')}`);
  return `tools/list, answered from the registry: ${names.length} tools that fit what this client can do, echo among them`;
}

async function call(client: Client): Promise<string> {
  const message = 'hello through Sluice';
  const text = await callText(client, 'echo', { message });
  if (!text.includes(message)) throw new Error(`tools/call echo answered ${JSON.stringify(text)}`);
  return `tools/call echo, answered by the upstream: ${JSON.stringify(text)}`;
}

/** What is not registered cannot be reached. */
async function refused(client: Client): Promise<string> {
  const name = 'not-registered';
  try {
    await client.callTool({ name });
  } catch (error) {
    if (error instanceof ProtocolError) return `tools/call ${name}: error ${error.code}, ${error.message}`;
    throw error;
  }
  throw new Error(`tools/call ${name} was answered`);
}

const PROGRESS_STEPS = 4;

async function callWithProgress(client: Client): Promise<string> {
  const name = 'trigger-long-running-operation';
  const seen: string[] = [];
  await callText(client, name, { duration: 1, steps: PROGRESS_STEPS }, ({ progress, total }) =>
    seen.push(`${progress}/${total}`),
  );
  if (seen.length !== PROGRESS_STEPS) throw new Error(`${name}: ${seen.length} of ${PROGRESS_STEPS} notices came`);
  return `tools/call ${name}: ${seen.join(' ')}, then its result`;
}
