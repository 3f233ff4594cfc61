import { isJsonObject } from '@sluice/json/lossless';

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
