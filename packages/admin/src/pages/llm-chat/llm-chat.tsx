import {
  Accordion,
  AccordionItem,
  Button,
  InlineLoading,
  InlineNotification,
  PasswordInput,
  Select,
  SelectItem,
  SkeletonText,
  TextArea,
} from '@carbon/react';
import { ApiError } from '@sluice/contract/client';
import { useEffect, useRef, useState } from 'react';
import { useApi } from '../../api/api.ts';
import { useApiQuery } from '../../api/queries.ts';
import { InertText, visibleText } from '../../ui/inert-text.tsx';
import { JsonEditor, tryParse } from '../../ui/json-editor.tsx';
import { ErrorNotice } from '../../ui/notices.tsx';
import { PageFrame } from '../../ui/page-frame.tsx';
import { type ChatMessage, type ChatRequest, listNames, requestChat } from './chat-api.ts';
import { ToolPicker } from './tool-picker.tsx';

/** `#/llmchat`: a conversation with a model of the legacy backend. The key is forgotten when the page is left. */
export default function LlmChat() {
  const api = useApi();
  const [llm, setLlm] = useState('');
  const [model, setModel] = useState('');
  const [apiKey, setApiKey] = useState('');
  const [systemPrompt, setSystemPrompt] = useState('');
  const [selectedTools, setSelectedTools] = useState<readonly string[]>([]);
  const [parameters, setParameters] = useState('{}');
  const llms = useApiQuery(['other', 'chat-llms'], (_client, signal) => listNames(api, '/llms', signal));
  const models = useApiQuery(['other', 'chat-models', llm], (_client, signal) =>
    llm === '' ? Promise.resolve([]) : listNames(api, `/${encodeURIComponent(llm)}/models`, signal),
  );
  const extraLlmParams = tryParse(parameters);
  const isObject = typeof extraLlmParams === 'object' && extraLlmParams !== null && !Array.isArray(extraLlmParams);
  const settings =
    llm !== '' && model !== '' && isObject
      ? { llm, model, apiKey, systemPrompt, selectedTools, extraLlmParams }
      : undefined;
  const isMissing = llms.error instanceof ApiError && llms.error.status === 503;
  return (
    <PageFrame
      title="LLM chat"
      description="A conversation with a model of the legacy backend, which may call the selected tools."
    >
      {isMissing && (
        <InlineNotification kind="info" lowContrast hideCloseButton title="No legacy backend">
          The chat is a function of the legacy backend. Set SERVICE_CLASSIC_URL to its address.
        </InlineNotification>
      )}
      {llms.error && !isMissing && (
        <ErrorNotice title="The models could not be loaded" error={llms.error} onRetry={() => void llms.refetch()} />
      )}
      {!llms.data && !llms.error && <SkeletonText paragraph lineCount={4} />}
      {llms.data && (
        <>
          <form className="modal-form" onSubmit={(event) => event.preventDefault()}>
            <div className="form-row">
              <Select
                id="chat-llm"
                labelText="Provider"
                value={llm}
                onChange={({ target }) => {
                  setLlm(target.value);
                  setModel('');
                }}
              >
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
              <PasswordInput
                id="chat-key"
                labelText="API key"
                autoComplete="off"
                value={apiKey}
                onChange={({ target }) => setApiKey(target.value)}
              />
            </div>
            {models.error && <ErrorNotice title="The models could not be loaded" error={models.error} />}
            <ToolPicker selected={selectedTools} onChange={setSelectedTools} />
            <Accordion>
              <AccordionItem title="System prompt and parameters">
                <TextArea
                  id="chat-system"
                  labelText="System prompt"
                  rows={2}
                  value={systemPrompt}
                  onChange={({ target }) => setSystemPrompt(target.value)}
                />
                <JsonEditor
                  id="chat-parameters"
                  label="Parameters of the model"
                  value={parameters}
                  onChange={setParameters}
                  helperText='JSON object, such as {"temperature": 0}'
                  error={isObject ? undefined : 'Must be a JSON object'}
                />
              </AccordionItem>
            </Accordion>
          </form>
          <Conversation settings={settings} />
        </>
      )}
    </PageFrame>
  );
}

interface ConversationProps {
  /** Undefined until provider and model are chosen and the parameters are valid. */
  readonly settings: Omit<ChatRequest, 'userPrompt' | 'chatHistory'> | undefined;
}

/** The messages so far, and the next one. */
function Conversation({ settings }: ConversationProps) {
  const api = useApi();
  const [userPrompt, setUserPrompt] = useState('');
  const [chatHistory, setHistory] = useState<readonly ChatMessage[]>([]);
  const [failure, setFailure] = useState<unknown>();
  const [isBusy, setBusy] = useState(false);
  const running = useRef<AbortController>(undefined);
  // The request ends with the page.
  useEffect(() => () => running.current?.abort(), []);
  const canSend = settings !== undefined && !isBusy && userPrompt.trim() !== '';
  const send = async (): Promise<void> => {
    if (!canSend) return;
    const controller = new AbortController();
    running.current = controller;
    setBusy(true);
    setFailure(undefined);
    try {
      const body: ChatRequest = { ...settings, userPrompt, chatHistory };
      const init = { method: 'POST', body: JSON.stringify(body), signal: controller.signal };
      const answer = await requestChat(api, '/completions', init);
      setHistory([...chatHistory, { role: 'user', content: userPrompt }, { role: 'assistant', content: answer }]);
      setUserPrompt('');
    } catch (error) {
      setFailure(controller.signal.aborted ? new Error('You canceled it.') : error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <ol className="messages" aria-label="Conversation" aria-live="polite">
        {chatHistory.map(({ role, content }, at) => (
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
        helperText="Ctrl+Enter sends it"
        rows={3}
        value={userPrompt}
        onChange={({ target }) => setUserPrompt(target.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void send();
        }}
      />
      {failure !== undefined && <ErrorNotice title="The message was not answered" error={failure} />}
      <div className="page-actions">
        <Button type="submit" disabled={!canSend}>
          Send
        </Button>
        {isBusy ? (
          <>
            <Button kind="danger--tertiary" onClick={() => running.current?.abort()}>
              Cancel
            </Button>
            <InlineLoading description="Waiting for the answer" />
          </>
        ) : (
          <Button kind="tertiary" disabled={chatHistory.length === 0} onClick={() => setHistory([])}>
            New conversation
          </Button>
        )}
      </div>
    </form>
  );
}
