import { type Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { successResponse, toolCallEvent } from '../../packages/contract/src/index.ts';
import { callText } from './call-text.ts';
import type { Places } from './walk.ts';

const REST_MS = 10_000;

/** Calls a tool that the sample capability service carries out. */
export async function callSample(client: Client, { sample }: Places): Promise<string> {
  await client.connect(new StreamableHTTPClientTransport(new URL(sample)));
  const message = 'hello over gRPC';
  const text = await callText(client, 'echo', { message });
  if (!text.includes(message)) throw new Error(`tools/call echo answered ${JSON.stringify(text)}`);
  return `tools/call echo in the namespace sample, answered by the capability service: ${text}`;
}

/** Prints in steps, so that there is something to tell before it has ended. */
const CODE = `
for (const word of process.argv.slice(2)) {
  console.log(word);
  await new Promise((resolve) => setTimeout(resolve, 200));
}`;

/** Has it execute code, and hears of the output while the code runs. */
export async function runCode(client: Client): Promise<string> {
  const words = ['code', 'runs', 'elsewhere'];
  const told: string[] = [];
  const text = await callText(client, 'run-javascript', { code: CODE, arguments: words }, ({ message = '' }) =>
    // What came at once is told at once.
    told.push(...message.trim().split('\n')),
  );
  if (text.trim().split('\n').join() !== words.join()) throw new Error(`the code put out ${JSON.stringify(text)}`);
  if (told.length === 0) throw new Error('nothing was told of the code while it ran');
  return `tools/call run-javascript: ${told.join(', ')}, then its result`;
}

/** Reads what Sluice tells of both calls: four events, newest first. */
export async function readEvents({ management }: Places): Promise<string> {
  const response = await fetch(`${management}/api/v1/tool-calls?limit=4`, { signal: AbortSignal.timeout(REST_MS) });
  const { data } = successResponse(toolCallEvent.array()).parse(await response.json());
  const told = data.reverse().map((event) => {
    const took = event.eventType === 'STARTED' ? '' : ` (${Math.round(event.duration)} ms)`;
    return `${event.toolName} ${event.eventType}${took}`;
  });
  return `GET /api/v1/tool-calls: ${told.join(', ')}`;
}
