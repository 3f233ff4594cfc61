import { ApiError } from '@sluice/contract/client';
import { type Api, ServiceUnreachableError } from '../../api/api.ts';

/** Path of the chat of the legacy backend, which the service proxies. */
const CHAT = '/api/v1/chat';

/** One message of the conversation, as the backend expects it. */
export interface ChatMessage {
  readonly role: 'user' | 'assistant';
  readonly content: string;
}

/** Body of `POST /completions`. */
export interface ChatRequest {
  readonly llm: string;
  readonly model: string;
  readonly apiKey: string;
  readonly systemPrompt: string;
  readonly userPrompt: string;
  readonly chatHistory: readonly ChatMessage[];
  /** Names of the tools that the model may call. */
  readonly selectedTools: readonly string[];
  readonly extraLlmParams: object;
}

/** Sends a request to the chat; resolves with the text of the response. */
export async function requestChat({ base, connection }: Api, path: string, init: RequestInit): Promise<string> {
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
export async function listNames(api: Api, path: string, signal: AbortSignal): Promise<string[]> {
  const list: unknown = JSON.parse(await requestChat(api, path, { signal }));
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
