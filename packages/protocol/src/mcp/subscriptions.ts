/**
 * What goes out on a `subscriptions/listen` stream, as JSON text (2026-07-28, "Subscriptions"). Each message names the
 * request that opened the stream, by the text of its id as the client spelled it.
 */
import { applyEdits, type Edit, removeEdits } from '@sluice/protocol/json/edit';
import { isJsonObject } from '@sluice/protocol/json/parse';
import { type Member, members } from '@sluice/protocol/json/scan';

/** `_meta` of every message on a stream of `subscriptions/listen`: the id of the request that opened it. */
const META_SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';

const UPDATED = 'notifications/resources/updated';

/** The first message on the stream: what of the request is granted. */
export function acknowledgement(idText: string, granted: ListenFilter): string {
  return notification('notifications/subscriptions/acknowledged', idText, `"notifications":${JSON.stringify(granted)}`);
}

/** A notification without parameters of its own, such as `notifications/tools/list_changed`. */
export function subscriptionNotice(idText: string, method: string): string {
  return notification(method, idText);
}

/** `notifications/resources/updated` of our own making. */
export function resourceUpdated(idText: string, uri: string): string {
  return notification(UPDATED, idText, `"uri":${JSON.stringify(uri)}`);
}

/** The same for a legacy client, which has no ids of subscriptions. */
export function legacyResourceUpdated(uri: string): string {
  return `{"jsonrpc":"2.0","method":"${UPDATED}","params":{"uri":${JSON.stringify(uri)}}}`;
}

/** The result of the request, which ends a stream from our side. */
export function listenResult(idText: string): string {
  return `{"resultType":"complete","_meta":${meta(idText)}}`;
}

/**
 * An upstream's notification, whose `params` are an object, with this id in place of the upstream's own; all else in it
 * stays as it was spelled.
 */
export function withSubscriptionId(text: string, idText: string): string {
  const params = lastMember(text, 'params', 0);
  if (!params) return text;
  const found = lastMember(text, '_meta', params.start);
  const edit =
    found && text[found.start] === '{'
      ? setMember(text, found.start, META_SUBSCRIPTION_ID, idText)
      : setMember(text, params.start, '_meta', meta(idText));
  return applyEdits(text, [edit]);
}

/** An upstream's notification without that id, as legacy clients know it; a `_meta` that held nothing else goes with it. */
export function withoutSubscriptionId(text: string): string {
  const params = lastMember(text, 'params', 0);
  const found = params && lastMember(text, '_meta', params.start);
  if (!params || !found || !lastMember(text, META_SUBSCRIPTION_ID, found.start)) return text;
  const isId = (key: string) => key === META_SUBSCRIPTION_ID;
  const alone = members(text, found.start).every(({ key }) => isId(key));
  return applyEdits(
    text,
    alone ? removeEdits(text, params.start, (key) => key === '_meta') : removeEdits(text, found.start, isId),
  );
}

function notification(method: string, idText: string, params?: string): string {
  const rest = params === undefined ? '' : `,${params}`;
  return `{"jsonrpc":"2.0","method":"${method}","params":{"_meta":${meta(idText)}${rest}}}`;
}

function meta(idText: string): string {
  return `{"${META_SUBSCRIPTION_ID}":${idText}}`;
}

/** Gives a member of the object at `start` this value; a new one comes first. */
function setMember(text: string, start: number, key: string, value: string): Edit {
  const member = lastMember(text, key, start);
  if (member) return { start: member.start, end: member.end, text: value };
  const [first] = members(text, start);
  return { start: start + 1, end: start + 1, text: `"${key}":${value}${first ? ',' : ''}` };
}

/** Of duplicates the last, which is the one that parsers keep. */
function lastMember(text: string, key: string, start: number): Member | undefined {
  let found: Member | undefined;
  for (const member of members(text, start)) if (member.key === key) found = member;
  return found;
}

/** What a `subscriptions/listen` request asks for, and what its acknowledgement grants (2026-07-28, "Subscriptions"). */
export interface ListenFilter {
  readonly toolsListChanged?: true;
  readonly promptsListChanged?: true;
  readonly resourcesListChanged?: true;
  /** Uris whose `notifications/resources/updated` are wanted; absent for none. */
  readonly resourceSubscriptions?: readonly string[];
}

/** Reads a filter; a flag that is not `true` counts as absent. As text: what is wrong with it. */
export function parseListenFilter(value: unknown): ListenFilter | string {
  if (!isJsonObject(value)) return 'parameter "notifications" must be an object';
  const { resourceSubscriptions: uris = [] } = value;
  if (!Array.isArray(uris) || !uris.every((uri) => typeof uri === 'string')) {
    return 'parameter "notifications.resourceSubscriptions" must be an array of strings';
  }
  return {
    ...(value.toolsListChanged === true && { toolsListChanged: true }),
    ...(value.promptsListChanged === true && { promptsListChanged: true }),
    ...(value.resourcesListChanged === true && { resourcesListChanged: true }),
    ...(uris.length > 0 && { resourceSubscriptions: [...new Set(uris)] }),
  };
}
