import { Button, InlineNotification, PasswordInput, Select, SelectItem, TextArea } from '@carbon/react';
import { ApiError } from '@sluice/contract/client';
import { useState } from 'react';
import { type Api, ServiceUnreachableError, useApi } from '../../api/api.ts';
import { useApiQuery } from '../../api/queries.ts';
import { InertText, visibleText } from '../../ui/inert-text.tsx';
import { ErrorNotice } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';

/** Path of the chat of the legacy backend, which the service proxies (decisions 1.7). */
const CHAT = '/api/v1/chat';

/** One message of the conversation, as the backend expects it. */
interface ChatMessage {
  readonly role: 'user' | 'assistant';
  readonly content: string;
}

/** `#/llmchat`: a conversation with a model of the legacy backend. The key is forgotten when the page is left. */
export default function LlmChat() {
  const api = useApi();
  const [llm, setLlm] = useState('');
  const [model, setModel] = useState('');
  const [apiKey, setApiKey] = useState('');
  const [systemPrompt, setSystemPrompt] = useState('');
  const [userPrompt, setUserPrompt] = useState('');
  const [history, setHistory] = useState<readonly ChatMessage[]>([]);
  const [failure, setFailure] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  const llms = useApiQuery(['other', 'chat-llms'], (_client, signal) => names(api, '/llms', signal));
  const models = useApiQuery(['other', 'chat-models', llm], (_client, signal) =>
    llm === '' ? Promise.resolve([]) : names(api, `/${encodeURIComponent(llm)}/models`, signal),
  );
  const send = async (): Promise<void> => {
    setBusy(true);
    setFailure(undefined);
    try {
      const body = {
        llm,
        model,
        apiKey,
        systemPrompt,
        userPrompt,
        chatHistory: history,
        selectedTools: [],
        extraLlmParams: {},
      };
      const answer = await request(api, '/completions', { method: 'POST', body: JSON.stringify(body) });
      setHistory([...history, { role: 'user', content: userPrompt }, { role: 'assistant', content: answer }]);
      setUserPrompt('');
    } catch (error) {
      setFailure(error);
    } finally {
      setBusy(false);
    }
  };
  const isMissing = llms.error instanceof ApiError && llms.error.status === 503;
  return (
    <PageFrame title="LLM chat" description="A conversation with a model of the legacy backend.">
      {isMissing && (
        <InlineNotification kind="info" lowContrast hideCloseButton title="No legacy backend">
          The chat is a function of the legacy backend. Set SERVICE_CLASSIC_URL to its address.
        </InlineNotification>
      )}
      {llms.error && !isMissing && (
        <ErrorNotice title="The models could not be loaded" error={llms.error} onRetry={() => void llms.refetch()} />
      )}
      {llms.data && (
        <form
          className="modal-form"
          onSubmit={(event) => {
            event.preventDefault();
            void send();
          }}
        >
          <Select id="chat-llm" labelText="Provider" value={llm} onChange={({ target }) => setLlm(target.value)}>
            <SelectItem value="" text="Choose a provider" />
            {llms.data.map((name) => (
              <SelectItem key={name} value={name} text={visibleText(name, 80)} />
            ))}
          </Select>
          <Select id="chat-model" labelText="Model" value={model} onChange={({ target }) => setModel(target.value)}>
            <SelectItem value="" text="Choose a model" />
            {models.data?.map((name) => (
              <SelectItem key={name} value={name} text={visibleText(name, 80)} />
            ))}
          </Select>
          {models.error && <ErrorNotice title="The models could not be loaded" error={models.error} />}
          <PasswordInput
            id="chat-key"
            labelText="API key"
            autoComplete="off"
            value={apiKey}
            onChange={({ target }) => setApiKey(target.value)}
          />
          <TextArea
            id="chat-system"
            labelText="System prompt"
            rows={2}
            value={systemPrompt}
            onChange={({ target }) => setSystemPrompt(target.value)}
          />
          <ol className="messages" aria-label="Conversation">
            {history.map(({ role, content }, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: messages have no other identity
              <li key={at}>
                <strong>{role}</strong>
                <p className="text-content">
                  <InertText text={content} maxLength={50_000} />
                </p>
              </li>
            ))}
          </ol>
          <TextArea
            id="chat-prompt"
            labelText="Message"
            rows={3}
            value={userPrompt}
            onChange={({ target }) => setUserPrompt(target.value)}
          />
          {failure !== undefined && <ErrorNotice title="The message was not answered" error={failure} />}
          <Button type="submit" disabled={isBusy || llm === '' || model === '' || userPrompt.trim() === ''}>
            {isBusy ? 'Waiting …' : 'Send'}
          </Button>
        </form>
      )}
    </PageFrame>
  );
}

/** Sends a request to the chat; resolves with the text of the response. */
async function request({ base, connection }: Api, path: string, init: RequestInit): Promise<string> {
  const headers: Record<string, string> = init.body === undefined ? {} : { 'content-type': 'application/json' };
  const response = await fetch(`${base}${CHAT}${path}`, { ...init, headers, redirect: 'manual' }).catch(
    (error: unknown) => {
      throw new ServiceUnreachableError(error);
    },
  );
  if (response.type === 'opaqueredirect' || response.status === 401) connection.onLoginRequired();
  const text = await response.text();
  if (response.ok) return text;
  throw new ApiError(response, undefined, messageIn(text) ?? text);
}

/** The names in a list of the backend: texts, or objects with a name or id. */
async function names(api: Api, path: string, signal: AbortSignal): Promise<string[]> {
  const list: unknown = JSON.parse(await request(api, path, { signal }));
  const items = Array.isArray(list) ? list : memberOf(list, 'data');
  if (!Array.isArray(items)) return [];
  return items.flatMap((item) => {
    const name = typeof item === 'string' ? item : (memberOf(item, 'name') ?? memberOf(item, 'id'));
    return typeof name === 'string' ? [name] : [];
  });
}

function messageIn(text: string): string | undefined {
  try {
    const message = memberOf(memberOf(JSON.parse(text), 'error'), 'message');
    return typeof message === 'string' ? message : undefined;
  } catch {
    return undefined;
  }
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && name in value ? Reflect.get(value, name) : undefined;
}
