/**
 * True for an update of a watched resource and of a part of one: an upstream may name what exactly has changed (schema
 * of both eras, `ResourceUpdatedNotification`).
 */
export function concerns(watched: ReadonlySet<string>, uri: string): boolean {
  if (watched.has(uri)) return true;
  for (const whole of watched) if (uri.startsWith(whole) && isBelow(whole, uri)) return true;
  return false;
}

/** Whether what follows on the watched uri begins a part of it, and not another name: `/a` and `/a/b`, not `/ab`. */
function isBelow(watched: string, uri: string): boolean {
  return watched.endsWith('/') || '/?#'.includes(uri[watched.length] ?? '');
}
