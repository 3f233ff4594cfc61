/** Names of the cookies of a sign-in: browsers accept those with the prefix over https only, from this host and for all of it. */
const NAMES = ['__Host-sluice', '__Host-sluice-login', 'sluice', 'sluice-login'] as const;

/** Name of one of our cookies. */
export type OwnCookie = (typeof NAMES)[number];

const IS_OWN: ReadonlySet<string> = new Set(NAMES);

/** The value of a `Cookie` line, in two parts. */
export interface SplitCookies {
  /** Our cookies, as they were written. */
  readonly own: readonly string[];
  /** The value without them; undefined if nothing is left. */
  readonly others: string | undefined;
}

/**
 * Takes our cookies out of the value of a `Cookie` line, so that no other server gets them. Undefined if there are none, as in most
 * cases.
 */
export function splitCookies(value: string): SplitCookies | undefined {
  if (!value.includes('sluice')) return undefined;
  const pairs = value.split(';');
  const own = pairs.filter((pair) => IS_OWN.has(nameOf(pair)));
  if (own.length === 0) return undefined;
  const others = pairs.filter((pair) => !IS_OWN.has(nameOf(pair)));
  return { own, others: others.every((pair) => pair.trim() === '') ? undefined : others.join(';').trim() };
}

/** Returns the value of one of our cookies; undefined if it is missing, or was sent twice with different values. */
export function ownCookie(own: readonly string[] | undefined, name: OwnCookie): string | undefined {
  const values = new Set(
    own?.filter((pair) => nameOf(pair) === name).map((pair) => pair.slice(pair.indexOf('=') + 1).trim()),
  );
  const [value] = values;
  return values.size === 1 ? value : undefined;
}

/**
 * Whether the value of a `Set-Cookie` line sets one of our cookies: nobody else may. Browsers send a cookie without a name,
 * `=sluice=a`, as `sluice=a`.
 */
export function setsOwnCookie(value: string): boolean {
  return value.includes('sluice') && IS_OWN.has(nameOf(value.replace(/^[\s=]+/, '').split(';', 1)[0] ?? ''));
}

function nameOf(pair: string): string {
  const end = pair.indexOf('=');
  return (end === -1 ? pair : pair.slice(0, end)).trim();
}
