/**
 * Messages of a `subscriptions/listen` stream, as JSON text (2026-07-28, "Subscriptions"). Each one has the exact id of
 * the request that opened the stream.
 */
import { isJsonObject } from '../json/parse.ts';
import { applyEdits, type Edit, findMembers, members, removeAt } from '../json/text.ts';

/** `_meta` of every message on a stream of `subscriptions/listen`: the id of the request that opened it. */
const META_SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';

const UPDATED = 'notifications/resources/updated';

/** The first message of the stream: the granted part of the request. */
export function acknowledgment(idText: string, granted: ListenFilter): string {
  return notification('notifications/subscriptions/acknowledged', idText, `"notifications":${JSON.stringify(granted)}`);
}

/** A notification without parameters of its own, such as `notifications/tools/list_changed`. */
export function subscriptionNotification(idText: string, method: string): string {
  return notification(method, idText);
}

/** An own `notifications/resources/updated`. */
export function resourceUpdated(idText: string, uri: string): string {
  return notification(UPDATED, idText, `"uri":${JSON.stringify(uri)}`);
}

/** The same for a legacy client, without a subscription id. */
export function legacyResourceUpdated(uri: string): string {
  return `{"jsonrpc":"2.0","method":"${UPDATED}","params":{"uri":${JSON.stringify(uri)}}}`;
}

/** The result of the request, which ends the stream. */
export function listenResult(idText: string): string {
  return `{"resultType":"complete","_meta":${meta(idText)}}`;
}

/**
 * Replaces the subscription id of an upstream's notification, whose `params` are an object; the rest is unchanged.
 */
export function withSubscriptionId(text: string, idText: string): string {
  const params = findMembers(text, ['params']).at(-1);
  if (!params) return text;
  const found = findMembers(text, ['_meta'], params.start).at(-1);
  const edit =
    found && text[found.start] === '{'
      ? setMember(text, found.start, META_SUBSCRIPTION_ID, idText)
      : setMember(text, params.start, '_meta', meta(idText));
  return applyEdits(text, [edit]);
}

/** Removes the subscription id of an upstream's notification for legacy clients, and a `_meta` that becomes empty. */
export function withoutSubscriptionId(text: string): string {
  const without = removeAt(text, ['params', '_meta'], (key) => key === META_SUBSCRIPTION_ID);
  if (without === text) return text;
  const isEmpty = findMembers(without, ['params', '_meta']).every(({ start }) => members(without, start).next().done);
  return isEmpty ? removeAt(without, ['params'], (key) => key === '_meta') : without;
}

function notification(method: string, idText: string, params?: string): string {
  const rest = params === undefined ? '' : `,${params}`;
  return `{"jsonrpc":"2.0","method":"${method}","params":{"_meta":${meta(idText)}${rest}}}`;
}

function meta(idText: string): string {
  return `{"${META_SUBSCRIPTION_ID}":${idText}}`;
}

/** Sets a member of the object at `start`; a new one is added at the beginning. */
function setMember(text: string, start: number, key: string, value: string): Edit {
  const member = findMembers(text, [key], start).at(-1);
  if (member) return { start: member.start, end: member.end, text: value };
  const [first] = members(text, start);
  return { start: start + 1, end: start + 1, text: `"${key}":${value}${first ? ',' : ''}` };
}

/** The filter of a `subscriptions/listen` request and of its acknowledgment (2026-07-28, "Subscriptions"). */
export interface ListenFilter {
  readonly toolsListChanged?: true;
  readonly promptsListChanged?: true;
  readonly resourcesListChanged?: true;
  /** Uris to receive `notifications/resources/updated` for. */
  readonly resourceSubscriptions?: readonly string[];
  /** Ids of tasks to receive `notifications/tasks` for: of the tasks extension. */
  readonly taskIds?: readonly string[];
}

/** Parses a filter; a flag that is not `true` counts as absent. Returns the problem as text when it is invalid. */
export function parseListenFilter(value: unknown): ListenFilter | string {
  if (!isJsonObject(value)) return 'parameter "notifications" must be an object';
  const { resourceSubscriptions: uris = [], taskIds = [] } = value;
  if (!isStringArray(uris)) return 'parameter "notifications.resourceSubscriptions" must be an array of strings';
  if (!isStringArray(taskIds)) return 'parameter "notifications.taskIds" must be an array of strings';
  return {
    ...(value.toolsListChanged === true && { toolsListChanged: true }),
    ...(value.promptsListChanged === true && { promptsListChanged: true }),
    ...(value.resourcesListChanged === true && { resourcesListChanged: true }),
    ...(uris.length > 0 && { resourceSubscriptions: [...new Set(uris)] }),
    ...(taskIds.length > 0 && { taskIds: [...new Set(taskIds)] }),
  };
}

function isStringArray(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((element) => typeof element === 'string');
}
