const JSON_TYPE = 'application/json';
const STREAM_TYPE = 'text/event-stream';

/** What official clients send with a POST. In a set, which is asked faster for a part of a head than that is compared. */
const BOTH: ReadonlySet<string> = new Set(['application/json, text/event-stream']);

/** A media range of an `Accept` header: in lower case, without parameters. */
interface MediaRange {
  readonly type: string;
  /** False with a weight of 0. */
  readonly isAccepted: boolean;
}

/** True if this `Accept` header allows event streams, or is missing (RFC 9110, 12.5.1). */
export function acceptsEventStream(accept: string | undefined): boolean {
  return accept === undefined || BOTH.has(accept) || accepts(accept, STREAM_TYPE);
}

/** True if this `Accept` header allows JSON, is missing, or allows neither JSON nor event streams: something has to be sent. */
export function acceptsJson(accept: string | undefined): boolean {
  if (accept === undefined || BOTH.has(accept)) return true;
  return accepts(accept, JSON_TYPE) || !accepts(accept, STREAM_TYPE);
}

/** The most specific range that matches a type decides. An empty header allows everything. */
function accepts(accept: string, type: string): boolean {
  if (accept.trim() === '') return true;
  const ranges = splitUnquoted(accept, ',').map(mediaRange);
  for (const level of [type, `${type.slice(0, type.indexOf('/'))}/*`, '*/*']) {
    const matching = ranges.filter((range) => range.type === level);
    if (matching.length > 0) return matching.some(({ isAccepted }) => isAccepted);
  }
  return false;
}

function mediaRange(text: string): MediaRange {
  const [type = '', ...parameters] = splitUnquoted(text, ';');
  const weight = parameters
    .map((parameter) => /^\s*q\s*=\s*([\d.]+)\s*$/i.exec(parameter)?.[1])
    .find((q) => q !== undefined);
  return { type: type.trim().toLowerCase(), isAccepted: weight === undefined || Number(weight) !== 0 };
}

/** Splits a header value at a separator outside of quoted strings. */
function splitUnquoted(text: string, separator: string): string[] {
  const parts: string[] = [];
  let start = 0;
  let isQuoted = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '"') isQuoted = !isQuoted;
    else if (isQuoted && character === '\\') at++;
    else if (!isQuoted && character === separator) {
      parts.push(text.slice(start, at));
      start = at + 1;
    }
  }
  parts.push(text.slice(start));
  return parts;
}
