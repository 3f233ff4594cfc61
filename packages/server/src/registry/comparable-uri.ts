import { domainToUnicode } from 'node:url';
import { decodeUnreserved } from '@sluice/protocol/mcp/uri-template';
import { decodeFully, uriForms } from './uri-forms.ts';

/** Rules are not applied to longer uris, which are hidden where there are rules. */
const MAX_CHARACTERS = 8_192;

/** A decoded form: with scheme, host and port normalized, and as written, for globs that begin with a wildcard. */
interface ComparableForm {
  readonly normalized: string;
  readonly decoded: string;
}

/** A uri as rules are applied to it. */
export class ComparableUri {
  /** Its forms, completely decoded. An allow rule has to match each. */
  readonly forms: readonly ComparableForm[];
  /** The same texts, and how servers read them beyond the standards. A deny rule or a disabled resource hides any of them. */
  readonly texts: ReadonlySet<string>;
  readonly #forms: ReadonlySet<string>;
  #segmented: ReadonlySet<string> | undefined;

  /** `forms`: those of the uri, which is the first. */
  constructor(forms: ReadonlySet<string>) {
    this.#forms = forms;
    const decodedForms = new Set<string>();
    // What an encoded form decodes to is among the others, except where a byte sequence is completed by another encoding.
    for (const form of forms) {
      if (decodedForms.size === 0) decodedForms.add(decodeFully(form));
      if (!ENCODED.test(form)) decodedForms.add(form);
    }
    const texts = new Set<string>();
    this.texts = texts;
    this.forms = [...decodedForms].map((decoded) => {
      const normalized = normalizeOrigin(decoded);
      for (const text of [normalized, decoded, ...lenientReadings(normalized)]) texts.add(literalText(text));
      return { normalized: literalText(normalized), decoded: literalText(decoded) };
    });
  }

  /** The texts to compare with templates: also those that are not decoded, since an encoded slash separates no segments. */
  get segmented(): ReadonlySet<string> {
    this.#segmented ??= new Set(
      [...this.#forms].flatMap((form) => {
        const normalized = normalizeOrigin(form);
        return ENCODED.test(form) ? [decodeUnreserved(normalized)] : [normalized, ...lenientReadings(normalized)];
      }),
    );
    return this.#segmented;
  }
}

const ENCODED = /%[\da-f]{2}/i;

/** Returns the forms of a uri for comparison. Undefined if it is too long or has too many, and so is hidden by any rule. */
export function comparableUri(uri: string): ComparableUri | undefined {
  if (uri.length > MAX_CHARACTERS) return undefined;
  const forms = isPlain(uri) ? new Set([uri]) : uriForms(uri);
  return forms && new ComparableUri(forms);
}

/**
 * Whether a uri has no other form than itself, as most have. Preparing the rules of 100,000 resources would take too long
 * otherwise.
 */
export function isPlain(uri: string): boolean {
  return PLAIN.test(uri);
}

const HOST = String.raw`[a-z]+(?:[.-][a-z]+)*(?::[1-9]\d{3,4})?`;
const SEGMENT = String.raw`(?!\.)[\w~!$&'()+,;=:@.\u00c0-\u167f\u3040-\ud7ff-]+`;
const PLAIN = new RegExp(
  String.raw`^(?:file://|https?://${HOST}|(?!(?:file|https?|wss?|ftp):)[a-z][a-z\d+.-]*://(?:${HOST})?)(?:/${SEGMENT})+$`,
);

const ORIGIN = /^([^:/\\#]*):(?:\/\/([^/\\?#]*))?/;
const DEFAULT_PORTS: ReadonlyMap<string, string> = new Map([
  ['http', ':80'],
  ['https', ':443'],
  ['ws', ':80'],
  ['wss', ':443'],
  ['ftp', ':21'],
]);

/**
 * Lower-cases scheme and host, removes a default port and the host `localhost` of `file:`, and returns `file:/x` as
 * `file:///x` and host names in Unicode (RFC 3986, 6.2.2 and 6.2.3; RFC 8089).
 */
export function normalizeOrigin(text: string): string {
  const match = ORIGIN.exec(text);
  if (!match) return text;
  const [origin, name = '', authority] = match;
  const scheme = name.toLowerCase();
  const rest = text.slice(origin.length);
  if (authority === undefined) return `${scheme}:${scheme === 'file' && rest.startsWith('/') ? '//' : ''}${rest}`;
  const user = authority.slice(0, authority.lastIndexOf('@') + 1);
  let host = authority.slice(user.length).toLowerCase();
  const port = DEFAULT_PORTS.get(scheme);
  if (port && host.endsWith(port)) host = host.slice(0, -port.length);
  if (scheme === 'file' && host === 'localhost') host = '';
  if (host.includes('xn--')) host = domainToUnicode(host) || host;
  return `${scheme}://${user}${host}${rest}`;
}

/**
 * How servers read a uri that is another one by the standards: without user information; of a `file:` uri only the path, with
 * or without what stands in place of the host, and without empty segments, query and fragment.
 */
function lenientReadings(text: string): readonly string[] {
  if (!text.startsWith('file:')) {
    const match = /^([^/]*:\/\/)[^/\\?#]*@/.exec(text);
    return match ? [match[1] + text.slice(match[0].length)] : [];
  }
  const [path = ''] = text.slice('file:'.length).split(/[?#]/, 1);
  const paths = path.startsWith('//') ? [path, path.slice(2).replace(/^[^/\\]*/, '')] : [path];
  return paths.map((one) => `file:///${fileSegments(one).join('/')}`);
}

function fileSegments(path: string): readonly string[] {
  const segments: string[] = [];
  for (const segment of path.split(/[/\\]/)) {
    if (segment === '..') segments.pop();
    else if (segment !== '' && segment !== '.') segments.push(segment);
  }
  return segments;
}

/** Characters of Unicode that no text contains: `*` and `?` of a uri, which are wildcards in a glob. */
const [ASTERISK, QUESTION_MARK] = ['\ufdd0', '\ufdd1'];

function literalText(text: string): string {
  return text.replaceAll('*', ASTERISK).replaceAll('?', QUESTION_MARK);
}

/**
 * Globs that match the forms of what a glob of an operator matches: an upstream may list `file:/x`, of which `file:///x` is a
 * form. `allows`: a glob with dot segments allows only what it matches as written.
 */
export function comparableGlobs(glob: string, allows: boolean): readonly string[] {
  const decoded = glob.split(/([*?])/).map((part, at) => (at % 2 === 0 ? literalText(decodeFully(part)) : part));
  const normalized = normalizeOrigin(decoded.join(''));
  if (isPlain(normalized.replaceAll(/[*?]/g, 'a'))) return [normalized];
  // A wildcard in the authority may stand for its end.
  const isOpen = /^[^/]*:\/\/[^/]*\?/.test(normalized) || /(?:^|[/\\:])\.\.?(?:[/\\;?#]|$)/.test(normalized);
  if (allows && isOpen) return [normalized];
  const forms = uriForms(normalized) ?? [];
  // What serialization has encoded is decoded again.
  return [...new Set([normalized, ...[...forms].map((form) => normalizeOrigin(decodeFully(form)))])];
}
