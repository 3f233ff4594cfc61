/**
 * Methods of the protocol and its official extensions: the only table of them (MCP 2024-11-05 to 2025-11-25 and 2026-07-28).
 */

import type { Era } from './constants.ts';

const SHARED_REQUESTS = [
  ...['tools/list', 'tools/call', 'prompts/list', 'prompts/get', 'completion/complete'],
  ...['resources/list', 'resources/templates/list', 'resources/read'],
];

/** Identifier of the tasks extension, in the capabilities of both sides. */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks';

/** Requests about tasks, which are a part of the legacy protocol, and an extension of the modern one. */
export const TASK_REQUESTS: Readonly<Record<Era, readonly string[]>> = {
  legacy: ['tasks/get', 'tasks/list', 'tasks/result', 'tasks/cancel'],
  modern: ['tasks/get', 'tasks/update', 'tasks/cancel'],
};

/** All of {@link TASK_REQUESTS}. */
export const TASK_METHODS: ReadonlySet<string> = new Set(Object.values(TASK_REQUESTS).flat());

/** Requests of clients by era. */
const CLIENT_REQUESTS = {
  legacy: [
    ...['initialize', 'ping', 'logging/setLevel', 'resources/subscribe', 'resources/unsubscribe'],
    ...SHARED_REQUESTS,
    ...TASK_REQUESTS.legacy,
  ],
  modern: ['server/discover', 'subscriptions/listen', ...SHARED_REQUESTS],
} as const;

/** Server requests; in the modern era they are part of a result. */
const SERVER_REQUESTS = ['ping', 'sampling/createMessage', 'elicitation/create', 'roots/list'] as const;

/** Notifications of both eras and sides. */
const NOTIFICATIONS = [
  ...['notifications/initialized', 'notifications/cancelled', 'notifications/progress', 'notifications/message'],
  ...['notifications/tools/list_changed', 'notifications/prompts/list_changed', 'notifications/roots/list_changed'],
  ...['notifications/resources/list_changed', 'notifications/resources/updated'],
  ...['notifications/elicitation/complete', 'notifications/subscriptions/acknowledged', 'notifications/tasks/status'],
  'notifications/tasks',
] as const;

/** Requests of official extensions by extension. */
const EXTENSION_REQUESTS: Readonly<Record<string, readonly string[]>> = {
  [TASKS_EXTENSION]: TASK_REQUESTS.modern,
  'io.modelcontextprotocol/skills': ['skills/list', 'skills/get'],
};

/** Methods that a client may send as a request, in either era or by an extension. */
export const CLIENT_METHODS: ReadonlySet<string> = new Set([
  ...Object.values(CLIENT_REQUESTS).flat(),
  ...Object.values(EXTENSION_REQUESTS).flat(),
]);

/** All methods of both eras, both sides and the extensions. */
export const KNOWN_METHODS: ReadonlySet<string> = new Set([...CLIENT_METHODS, ...SERVER_REQUESTS, ...NOTIFICATIONS]);

const TEXTS: ReadonlyMap<string, string> = new Map(KNOWN_METHODS.values().map((name) => [name, name]));

/** Returns the name of a method as one text for all messages, which is compared and looked up faster than one from a message. */
export function sharedMethodName(name: string): string {
  return TEXTS.get(name) ?? name;
}

/** Characters without a shape of their own: controls, format characters, blanks and other ignorable ones. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{White_Space}\p{Default_Ignorable_Code_Point}]/gu;

/** First segments of the protocol's own methods, folded. */
const OWN_SEGMENTS: ReadonlySet<string> = new Set(
  [...Object.values(CLIENT_REQUESTS).flat(), ...SERVER_REQUESTS, ...NOTIFICATIONS].map(foldedSegment),
);

/** Longer methods are not passed on: names have at most 256 characters. */
const MAX_METHOD_LENGTH = 256;

/**
 * Returns whether a request that the gateway itself does not handle may be passed on to an upstream. Methods of the protocol are
 * not, nor are methods that only look like one: an upstream might take `tools//call` or `Tools/Call` for `tools/call`, which
 * evaluators would not see. Methods of an extension in a segment of the protocol are passed on if `isDeclared` returns true for
 * the extension.
 */
export function isRelayable(method: string, isDeclared: (extension: string) => boolean): boolean {
  if (method.length > MAX_METHOD_LENGTH) return false;
  if (TASK_METHODS.has(method)) return false;
  if (!OWN_SEGMENTS.has(foldedSegment(method))) return true;
  return Object.entries(EXTENSION_REQUESTS).some(
    ([extension, methods]) => methods.includes(method) && isDeclared(extension),
  );
}

/** Returns the first segment that is not empty: normalized (NFKC), without invisible characters, in lower case. */
function foldedSegment(method: string): string {
  const folded = method.normalize('NFKC').replace(INVISIBLE, '').toUpperCase().toLowerCase();
  return folded.split('/').find((segment) => segment !== '') ?? '';
}
