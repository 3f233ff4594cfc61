/** A uri with more forms is hidden where there are rules. Ordinary ones have one or two. */
const MAX_FORMS = 64;
/** Total length of the forms, besides two for each byte of the uri: enough for an encoded uri and what it decodes to. */
const MAX_FORM_CHARACTERS = 5_120;

/**
 * Every form of a uri in which an upstream may read it: as sent, and whatever these steps make of a form, in any order and
 * number: percent-decoding once, removing dot segments, serializing as in the WHATWG URL Standard, ending it at U+0000, and removing
 * white space at the ends or tabs and line breaks. Servers decode once or twice, before or after they resolve a path, so a rule that
 * looks at one form only is evaded by another. Undefined if there are too many, or if the scheme is encoded, which no server
 * means.
 */
export function uriForms(uri: string): ReadonlySet<string> | undefined {
  if (hasEncodedScheme(uri)) return undefined;
  const forms = new Set([uri]);
  let remaining = MAX_FORM_CHARACTERS + 2 * Buffer.byteLength(uri) - uri.length;
  const isAdded = (form: string): boolean => {
    if (forms.has(form)) return true;
    remaining -= form.length;
    if (forms.size === MAX_FORMS || remaining < 0) return false;
    forms.add(form);
    return true;
  };
  if (!isAdded(withoutFileQuery(uri))) return undefined;
  // Includes those that are added meanwhile.
  for (const form of forms) if (!derivedForms(form).every(isAdded)) return undefined;
  return forms;
}

function hasEncodedScheme(uri: string): boolean {
  return uri.includes('%') && !SCHEME.test(uri) && SCHEME.test(decodeFully(uri));
}

const SCHEME = /^[a-z][a-z\d+.-]*:/i;

function derivedForms(form: string): readonly string[] {
  return [
    decodeOnce(form),
    trim(form),
    form.replaceAll(/[\t\n\r]+/g, ''),
    // Servers written in C end a text there.
    form.split('\0', 1)[0] ?? form,
    ...withoutDotSegments(form),
    URL.parse(form)?.href ?? form,
  ];
}

/**
 * A `file:` uri has no query (RFC 8089), and servers that read the path ignore what follows `?` or `#`: a rule for `*.md` does
 * not cover `file:///secret?.md`. An expression of a template is no query.
 */
function withoutFileQuery(uri: string): string {
  const end = uri.search(/(?<!\{)[?#]/);
  if (end === -1 || !/^file:/i.test(decodeFully(trim(uri.slice(0, end)).replaceAll(/[\t\n\r]+/g, '')))) return uri;
  return uri.slice(0, end);
}

function decodeOnce(text: string): string {
  if (!text.includes('%')) return text;
  const bytes = Buffer.from(text);
  let length = 0;
  for (let at = 0; at < bytes.length; at++) {
    const decoded = encodedAt(bytes, at);
    bytes[length++] = decoded ?? bytes[at] ?? 0;
    if (decoded !== undefined) at += 2;
  }
  return bytes.toString('utf8', 0, length);
}

/** Removes white space and control characters at the ends. */
function trim(text: string): string {
  let [start, end] = [0, text.length];
  while (start < end && isBlank(text.charCodeAt(start))) start++;
  while (end > start && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(start, end);
}

function isBlank(code: number): boolean {
  return code <= 0x20 || code === 0x85 || (code > 0x7f && String.fromCharCode(code).trim() === '');
}

/** Scheme and authority. */
const ORIGIN = /^(?:[^:/\\?#]*:)?(?:[/\\]{2}[^/\\?#]*)?/;
/** A dot segment, perhaps with parameters, or a backslash. */
const DOTTED = /\\|(?:^|[:/])\.\.?(?:[/;?#]|$)/;

/**
 * Removes dot segments (RFC 3986, 5.2.4), with `\` as `/`: in the path, and in everything after the authority, since `?` and
 * `#` may be decoded characters of a path. File systems ignore empty segments, so `a//..` is also `a/..`.
 */
function withoutDotSegments(uri: string): readonly string[] {
  if (!DOTTED.test(uri)) return [];
  const start = ORIGIN.exec(uri)?.[0].length ?? 0;
  const origin = uri.slice(0, start).replaceAll('\\', '/');
  const query = uri.slice(start).search(/[?#]/);
  const ends = query === -1 ? [uri.length] : [start + query, uri.length];
  return ends.flatMap((end) => {
    const path = uri.slice(start, end).replaceAll('\\', '/');
    const paths = path.includes('//') ? [path, path.replaceAll(/\/{2,}/g, '/')] : [path];
    return paths.map((one) => origin + resolvePath(one) + uri.slice(end));
  });
}

function resolvePath(path: string): string {
  const root = path.startsWith('/') ? '/' : '';
  const segments = path.slice(root.length).split('/');
  const resolved: string[] = [];
  let isFolder = false;
  for (const segment of segments) {
    isFolder = segment.startsWith('.') && DOT_SEGMENT.test(segment);
    if (!isFolder) resolved.push(segment);
    else if (segment.startsWith('..')) resolved.pop();
  }
  if (isFolder) resolved.push('');
  return root + resolved.join('/');
}

/** Some servers remove the parameters of a segment first. */
const DOT_SEGMENT = /^\.\.?(?:;|$)/;

const PERCENT = 0x25;

/**
 * Decodes percent-encoding until none is left, in linear time: a decoded byte that completes another encoded byte is
 * decoded with it.
 */
export function decodeFully(uri: string): string {
  if (!uri.includes('%')) return uri;
  const bytes = Buffer.from(uri);
  let length = 0;
  for (const byte of bytes) {
    bytes[length++] = byte;
    for (let decoded = encodedAt(bytes, length - 3); decoded !== undefined; decoded = encodedAt(bytes, length - 3)) {
      length -= 2;
      bytes[length - 1] = decoded;
    }
  }
  return bytes.toString('utf8', 0, length);
}

/** The byte that is percent-encoded at a position; undefined if there is none. */
function encodedAt(bytes: Buffer, at: number): number | undefined {
  if (at < 0 || bytes[at] !== PERCENT) return undefined;
  const [high, low] = [hexValue(bytes[at + 1]), hexValue(bytes[at + 2])];
  return high === undefined || low === undefined ? undefined : high * 16 + low;
}

function hexValue(byte: number | undefined): number | undefined {
  if (byte === undefined) return undefined;
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : undefined;
}
