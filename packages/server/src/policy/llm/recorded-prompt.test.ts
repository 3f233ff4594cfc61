import { expect, test } from 'vitest';
import { ANSWERS, type ApiAnswers, encodeStream } from '../../inference/apis/answers.fixture.ts';
import { MIB, RecordedExchanges } from '../../inference/exchange.fixture.ts';
import { ConversationCache, historyReader } from './history.ts';
import { buildUserPrompt } from './prompt.ts';

const CALL = { method: 'tools/call', namespace: 'finance', toolName: 'transfer', arguments: [] };
const IMAGE_MIB = [0, 1, 6];

/** A question with an image of this size, in the parts of the API. */
function question(path: string, mib: number): unknown {
  const data = 'A'.repeat(mib * MIB);
  const text = 'What is in the picture?';
  if (path === '/v1/responses') {
    return [
      { type: 'input_text', text },
      { type: 'input_image', image_url: data },
    ];
  }
  const image =
    path === '/v1/messages'
      ? { type: 'image', source: { type: 'base64', data } }
      : { type: 'image_url', image_url: { url: data } };
  return [{ type: 'text', text }, image];
}

/** The request of an API after twelve earlier messages. */
function requestOf({ path, request }: ApiAnswers, mib: number): object {
  const earlier = Array.from({ length: 12 }, (_, at) => ({
    role: at % 2 === 0 ? 'user' : 'assistant',
    content: `message ${at + 1}`,
  }));
  const isText = 'prompt' in request;
  if (isText) return { ...request, prompt: 'Complete this', images: ['A'.repeat(mib * MIB)] };
  const isOllama = path === '/api/chat';
  const last = isOllama
    ? { role: 'user', content: 'What is in the picture?', images: ['A'.repeat(mib * MIB)] }
    : { role: 'user', content: mib === 0 ? 'What is in the picture?' : question(path, mib) };
  const conversation = [...earlier, last];
  return 'input' in request ? { ...request, input: conversation } : { ...request, messages: conversation };
}

const PROMPTS = Object.entries(ANSWERS).flatMap(([name, api]) =>
  IMAGE_MIB.flatMap((mib) => (['JSON', 'stream'] as const).map((form) => ({ name, api, mib, form }))),
);

test('the prompt of a classifier has the conversation of every API and form, and names what was left out', async () => {
  const exchanges = new RecordedExchanges();
  const prompts = new Map<string, string[]>();
  for (const { name, api, mib, form } of PROMPTS) {
    const response = form === 'JSON' ? JSON.stringify(api.json) : encodeStream(api, [...api.events, ...api.end]);
    exchanges.store.clear();
    exchanges.replay({
      target: api.path,
      headers: { 'x-conversation-id': 'talk' },
      request: JSON.stringify(requestOf(api, mib)),
      response,
    });
    const { id = 'talk' } = api.content({ ...api.json });
    const conversation = await new ConversationCache(exchanges.store).latest(id);
    const prompt = buildUserPrompt({ request: CALL, conversation, tools: undefined });
    const label = `${name}, ${form}${mib === 0 ? '' : `, beside an image of ${mib} MiB`}`;
    const [section = ''] = prompt.split('\n\n# Request');
    prompts.getOrInsertComputed(section, () => []).push(label);
    const history: unknown = JSON.parse(await historyReader(exchanges.store)(id, new AbortController().signal));
    expect(history).toContainEqual({ role: 'user', content: expect.stringMatching(/picture|Complete/) });
  }
  const text = Array.from(
    prompts,
    ([prompt, labels]) => `${labels.map((label) => `## ${label}\n`).join('')}\n${prompt}\n`,
  );
  await expect(text.join('\n')).toMatchFileSnapshot('recorded-prompt.snapshot.txt');
});
