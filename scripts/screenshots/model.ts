import { createServer, type Server } from 'node:http';
import { listen, readBody } from '../../test/fixtures/http-server.ts';

/** A request of the chat-completions API, as far as the answers depend on it. */
interface CompletionRequest {
  readonly model: string;
  readonly messages: readonly { readonly role: string; readonly content: string }[];
}

/** Amount from which the ledger's policy blocks a transfer. */
const MAX_AMOUNT = 1_000;

let completions = 0;

/** A model behind the chat-completions API: it judges calls for evaluators, and answers agents. */
export async function startModel(): Promise<{ url: string; close: () => void }> {
  const server = createServer(async (request, response) => {
    const { model, messages }: CompletionRequest = JSON.parse(await readBody(request));
    const id = `chatcmpl-${(++completions).toString().padStart(5, '0')}`;
    const question = messages.at(-1)?.content ?? '';
    const isJudging = messages[0]?.content.startsWith('You review tool calls') === true;
    const message = isJudging ? { role: 'assistant', content: judge(question) } : answer(question);
    const choices = [{ index: 0, message, finish_reason: 'tool_calls' in message ? 'tool_calls' : 'stop' }];
    const usage = { prompt_tokens: 180 + question.length, completion_tokens: 34, total_tokens: 214 + question.length };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ id, object: 'chat.completion', model, choices, usage }));
  });
  const port = await listen(server, 0);
  return { url: `http://127.0.0.1:${port}`, close: () => close(server) };
}

function judge(question: string): string {
  const amount = Number(/"amount":\s*([\d.]+)/.exec(question)?.[1] ?? 0);
  return amount > MAX_AMOUNT
    ? JSON.stringify({ verdict: 'block', reason: `Transfers above ${MAX_AMOUNT} EUR need an approval.` })
    : JSON.stringify({ verdict: 'allow' });
}

function answer(question: string): object {
  if (!question.includes('printer')) return { role: 'assistant', content: 'There is nothing left to do.' };
  const call = { name: 'search', arguments: JSON.stringify({ query: 'label printer', state: 'open' }) };
  return { role: 'assistant', content: null, tool_calls: [{ id: 'call_1', type: 'function', function: call }] };
}

/** The chat of the legacy backend. */
export async function startChatBackend(): Promise<{ url: string; close: () => void }> {
  const server = createServer(async (request, response) => {
    const path = new URL(request.url ?? '', 'http://localhost').pathname;
    if (path.endsWith('/llms')) return void response.end('["local","hosted"]');
    if (path.endsWith('/models')) return void response.end('["small-8b","large-70b"]');
    await readBody(request);
    response.end(
      'Ticket 5102 is open: the label printer at dock 3 has been offline since 07:40. 412 labels are in stock there.',
    );
  });
  const port = await listen(server, 0);
  return { url: `http://127.0.0.1:${port}`, close: () => close(server) };
}

function close(server: Server): void {
  server.close().closeAllConnections();
}
